"""A provider that answers with a redirect gets no request of litellm's repeated at another host."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import aiohttp
import httpx
import pytest
import requests
import zeus_plugins
from zeus_plugins.embeddings.litellm_embeddings.embedder import LitellmEmbedder
from zeus_plugins.embeddings.litellm_embeddings.options import Options as EmbeddingOptions
from zeus_plugins.models.litellm import by_litellm
from zeus_plugins.models.litellm.credentials import credentials, litellms_provider
from zeus_plugins.models.litellm.library import library
from zeus_plugins.models.litellm.options import Options
from zeus_plugins.models.litellm.redirects import unredirected
from zeus_plugins.models.litellm.timeouts import Timeouts

from tests.plugins_bundled.models.test_own_keys import providers
from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.embedding import Calibration
from zeus_runtime.plugin.model import ModelError

# One worker imports litellm, and once: it takes seconds.
pytestmark = [
    pytest.mark.xdist_group("litellm"),
    pytest.mark.filterwarnings("ignore:Item:UserWarning"),  # pydantic about litellm's types
]

BASE: Final = "the address"
NEEDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "azure": {"extra": {"api_version": "2024-10-21"}},
    "bedrock": {"model": "bedrock/anthropic.claude-3-haiku-20240307-v1:0"},
    "clarifai": {"model": "clarifai/a.b.c"},
    "nlp_cloud": {"path": "/x/"},
    "ragflow": {"model": "ragflow/chat/x/y"},
    "sagemaker": {"extra": {"sagemaker_base_url": BASE}},
    "sagemaker_chat": {"extra": {"sagemaker_base_url": BASE}},
    "sagemaker_nova": {"extra": {"sagemaker_base_url": BASE}},
    "triton": {"path": "/generate"},
    "watsonx": {"extra": {"project_id": "x"}},
    "watsonx_text": {"extra": {"project_id": "x"}},
}
"""What litellm needs, besides a key and an address, before it sends anything."""

ENVIRON: Final = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_REGION_NAME": "us-east-1",
    "PREDIBASE_TENANT_ID": "x",
    "WATSONX_TOKEN": "x",
}

UNTRIED: Final[Mapping[str, str]] = {
    "bytez": "litellm sends to an address of its own",
    "fal_ai": "its models take no text",
    "gdc": "google-auth is not installed",
    "gigachat": "litellm asks an address of its own first",
    "gradient_ai": "litellm refuses max_retries for it, and so each call",
    "oci": "needs the private key of an account",
    "replicate": "litellm sends to an address of its own",
    "sap": "needs the service key of an account",
    "vertex_ai": "google-auth is not installed",
    "vertex_ai_beta": "google-auth is not installed",
    "vllm": "it runs in this process, and is not installed",
}
"""The providers whose models are not called here."""

UNTRIED_EMBEDDINGS: Final[Mapping[str, str]] = {
    "huggingface": "litellm asks huggingface.co first",
    "ragflow": "litellm knows no embedding model of it",
    "sagemaker": "boto3 sends, which follows no redirect, to an address of its own",
}

EMBEDDING_NEEDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bedrock": {"model": "bedrock/amazon.titan-embed-text-v1"},
    "watsonx": {"extra": {"project_id": "x"}},
}

PLAIN_STREAMS: Final = {"text-completion-inception", "text-completion-openai"}
"""litellm's stream of these has no finish reason, which is an ``AttributeError`` for any failure."""


class Hosts:
    """Two hosts on the loopback: the first answers every request with a redirect to the second."""

    def __init__(self, first: str, second: str, counts: dict[str, int]) -> None:
        self.first, self.second, self._counts = first, second, counts
        self.status = 307
        self.told = f"the provider answered with a redirect to {second}/elsewhere"

    def counted(self) -> tuple[int, int]:
        """The requests at the first and at the second host since the last question."""
        found = self._counts["first"], self._counts["second"]
        self._counts.update(first=0, second=0)
        return found


@contextmanager
def hosts() -> Iterator[Hosts]:
    counts = {"first": 0, "second": 0}

    def host(name: str, reply: Callable[[], tuple[int, str]]) -> ThreadingHTTPServer:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                counts[name] += 1
                status, location = reply()
                self.send_response(status)
                self.send_header("location", location)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def address(server: ThreadingHTTPServer) -> str:
        return f"http://127.0.0.1:{server.server_address[1]}"

    second = host("second", lambda: (200, ""))
    first = host("first", lambda: (made.status, f"{made.second}/elsewhere"))
    made = Hosts(address(first), address(second), counts)
    try:
        yield made
    finally:
        for server in (first, second):
            server.shutdown()
            server.server_close()


async def chat(litellm: Any, base: str, provider: str, *, stream: bool) -> None:
    needs = dict(NEEDS.get(provider, {}))
    base += needs.pop("path", "")
    extra = {name: base if value == BASE else value for name, value in needs.pop("extra", {}).items()}
    values = {"model": f"{provider}/x", "api_base": base, "api_key": Secret("sk-test"), **needs}
    options = Options(**values, extra=extra, stream=stream)
    request = {"messages": [{"role": "user", "content": "hi"}], **options.extra, "stream": stream}
    found = credentials(litellms_provider(litellm, options), options, dict(os.environ))
    async for _ in by_litellm.chunks(litellm, options, found, request, Timeouts(options)):
        pass


async def embed(base: str, provider: str) -> None:
    needs = {"model": f"{provider}/x", **EMBEDDING_NEEDS.get(provider, {})}
    options = EmbeddingOptions(**needs, api_base=base, ask_dimension=False)
    calibration = Calibration(cosine_zero=0.0, cosine_one=1.0, trust=1.0)
    made = LitellmEmbedder(options, model="x", dimension=8, calibration=calibration, api_key="sk-test")
    await made.embed(["hi"], purpose="memory")


async def outcome(awaitable: Awaitable[None]) -> BaseException | None:
    (found,) = await asyncio.gather(awaitable, return_exceptions=True)
    return found


def is_unserved(error: object) -> bool:
    """Whether litellm has no such models of the provider: it is one for pictures, search or speech."""
    return "Unmapped LLM provider" in str(error)


@pytest.fixture
async def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """litellm, without its record of each failure, which takes a third of the time."""

    async def record(*_: object) -> None:
        pass

    made = await library()
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    logging = "litellm.litellm_core_utils.litellm_logging.Logging"
    monkeypatch.setattr(f"{logging}.failure_handler", lambda *_: None)
    monkeypatch.setattr(f"{logging}.async_failure_handler", record)
    # litellm keeps one session for aiohttp_openai, also when its event loop is closed.
    monkeypatch.setattr(made.main.base_llm_aiohttp_handler, "client_session", None)
    return made


async def test_no_model_follows_a_redirect(litellm: Any) -> None:
    known = set(await providers(litellm))
    assert {*UNTRIED, *NEEDS, *PLAIN_STREAMS} <= known
    tried, wrong = set(), []
    with hosts() as found:
        for provider in sorted(known - set(UNTRIED)):
            for stream, found.status in ((False, 302), (True, 307)):
                error = await outcome(chat(litellm, found.first, provider, stream=stream))
                counts = found.counted()
                if counts == (0, 0) and is_unserved(error):
                    break
                is_told = found.told in str(error) or (stream and provider in PLAIN_STREAMS)
                if counts != (1, 0) or not is_told:
                    wrong.append((provider, stream, counts, error))
                tried.add(provider)
    assert wrong == []
    assert len(tried) > 90


async def test_no_embedding_model_follows_a_redirect(litellm: Any) -> None:
    known = set(await providers(litellm))
    assert {*UNTRIED_EMBEDDINGS, *EMBEDDING_NEEDS} <= known
    tried, wrong = set(), []
    with hosts() as found:
        for number, provider in enumerate(sorted(known - set(UNTRIED) - set(UNTRIED_EMBEDDINGS))):
            found.status = (302, 307)[number % 2]
            error = await outcome(embed(found.first, provider))
            counts = found.counted()
            if counts == (0, 0) and is_unserved(error):
                continue
            if counts != (1, 0) or found.told not in str(error):
                wrong.append((provider, counts, error))
            tried.add(provider)
    assert wrong == []
    assert len(tried) > 30


async def by_httpx(url: str) -> None:
    async with httpx.AsyncClient(follow_redirects=True) as client:
        await client.post(url)


async def by_hand(url: str) -> None:
    async with httpx.AsyncClient() as client:
        response = await client.post(url)
        assert response.next_request is not None
        await client.send(response.next_request)


async def by_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(url):
        pass


async def in_a_thread(url: str) -> None:
    def send() -> None:
        with httpx.Client(follow_redirects=True) as client:
            client.post(url)

    await asyncio.to_thread(send)


async def by_requests(url: str) -> None:
    await asyncio.to_thread(requests.post, url, timeout=60)


@pytest.mark.parametrize("send", [by_httpx, by_hand, by_aiohttp, in_a_thread, by_requests])
async def test_only_the_requests_of_litellms_calls_are_not_redirected(
    send: Callable[[str], Awaitable[None]],
) -> None:
    await library()
    with hosts() as found:
        with pytest.raises(ModelError) as told:
            await unredirected(send(found.first))
        assert found.counted() == (1, 0)
        assert (told.value.kind, found.told in str(told.value)) == ("bad_request", True)
        await send(found.first)
        assert found.counted() == (1, 1)


def test_every_call_of_litellm_that_sends_is_in_the_guard() -> None:
    for file in Path(zeus_plugins.__file__).parent.rglob("*.py"):
        text = re.sub(r"\s", "", file.read_text())
        for call in re.finditer(
            r"\blitellm\.a?(?:completion|embedding|rerank|responses|transcription)\(", text
        ):
            assert text[: call.start()].endswith("unredirected("), file
