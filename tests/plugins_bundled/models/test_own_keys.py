"""No provider gets the key of another one, whatever model a config names."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import httpx
import pytest
from zeus_plugins.embeddings.litellm_embeddings.embedder import create
from zeus_plugins.embeddings.litellm_embeddings.known import _KEYS, known
from zeus_plugins.embeddings.litellm_embeddings.options import Options as EmbeddingOptions
from zeus_plugins.models.litellm import by_litellm
from zeus_plugins.models.litellm.credentials import _require_asked, credentials, litellms_provider
from zeus_plugins.models.litellm.library import library
from zeus_plugins.models.litellm.native.servers import SERVERS, ModelServer
from zeus_plugins.models.litellm.options import Options
from zeus_plugins.models.litellm.timeouts import Timeouts

from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.model import ModelError

# One worker imports litellm, and once: it takes seconds.
pytestmark = [
    pytest.mark.xdist_group("litellm"),
    pytest.mark.filterwarnings("ignore:Item:UserWarning"),  # pydantic about litellm's types
]

OPENAI = {"openai", "custom_openai", "aiohttp_openai", "text-completion-openai"}
SIGN_IN_AT_ONCE = {"github_copilot", "chatgpt"}
"""litellm asks a person to sign in when it is asked about these."""


class Sent:
    """What would have been sent: pairs of a host and the variable whose canary goes there."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []
        self.count = 0

    def note(self, url: str, headers: Any, body: bytes) -> None:
        self.count += 1
        text = f"{url} {dict(headers)} {body!r}"
        host = urlsplit(url).hostname or ""
        self.keys += [(host, piece.partition("~")[0]) for piece in text.split("canary~")[1:]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    for name in os.environ:
        if name.endswith(("KEY", "TOKEN", "SECRET", "_BASE", "_URL", "PROXY", "proxy")):
            monkeypatch.delenv(name)
    found = Sent()

    async def by_httpx(_: object, request: httpx.Request, **__: object) -> httpx.Response:
        found.note(str(request.url), request.headers, await request.aread())
        raise httpx.ConnectError("not sent")

    def by_sync_httpx(_: object, request: httpx.Request, **__: object) -> httpx.Response:
        found.note(str(request.url), request.headers, request.read())
        raise httpx.ConnectError("not sent")

    async def by_aiohttp(_: object, __: str, url: object, **given: Any) -> None:
        found.note(
            str(url), given.get("headers") or {}, repr(given.get("json") or given.get("data")).encode()
        )
        raise aiohttp.ClientError("not sent")

    async def wait(*_: object, **__: object) -> None:
        """The openai library waits before it tries again."""

    monkeypatch.setattr(httpx.AsyncClient, "send", by_httpx)
    monkeypatch.setattr(httpx.Client, "send", by_sync_httpx)
    monkeypatch.setattr(aiohttp.ClientSession, "_request", by_aiohttp)
    monkeypatch.setattr("openai._base_client.AsyncAPIClient._sleep_for_retry", wait)
    return found


def variables(litellm: Any) -> set[str]:
    """Every variable whose name litellm's source has and that may hold a key."""
    found: set[str] = set()
    for file in Path(litellm.__file__).parent.rglob("*.py"):
        if "proxy" not in file.parts and "integrations" not in file.parts:
            found |= set(re.findall(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b", file.read_text()))
    return found


async def providers(litellm: Any) -> list[str]:
    from litellm.llms.openai_like.json_loader import JSONProviderRegistry

    known = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    return sorted((known | set(JSONProviderRegistry.list_providers())) - SIGN_IN_AT_ONCE)


async def chat(litellm: Any, options: Options) -> None:
    # Whatever litellm raises: only what it would have sent counts.
    with suppress(Exception):
        found = credentials(litellms_provider(litellm, options), options, dict(os.environ))
        request = {"messages": [{"role": "user", "content": "hi"}], **options.extra, "stream": True}
        async for _ in by_litellm.chunks(litellm, options, found, request, Timeouts(options)):
            pass


async def embed(model: str) -> None:
    with suppress(Exception):
        await create(
            EmbeddingOptions(model, dimension=8), cast(Any, SimpleNamespace(environ=os.environ))
        ).embed(["hi"], purpose="memory")


async def test_the_key_of_openai_goes_to_no_other_provider(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary~OPENAI_API_KEY~0123456789")
    litellm = await library()
    for provider in await providers(litellm):
        await chat(litellm, Options(f"{provider}/x"))
        assert provider in OPENAI or {host for host, _ in sent.keys} <= {"api.openai.com"}, provider
        sent.keys.clear()
    assert sent.count > 20, "the providers without a key, such as ollama, are called"


@pytest.mark.parametrize(
    "options",
    [
        Options("baseten/x", extra={"client_id": "x"}),
        Options("clarifai/a.b.c"),
        Options("cometapi/ft:gpt-3.5-turbo"),
        Options("minimax/ft:babbage-002"),
        Options("ollama/ft:babbage-002"),
        Options("openrouter/responses/x"),
        Options("poe/x", api_base="https://proxy.example"),
        Options("scaleway/x", extra={"tenant_id": "x"}),
        Options("azure_ai/x", extra={"client_id": "x"}, api_base="https://proxy.example"),
    ],
    ids=lambda options: str(options.model),
)
async def test_neither_a_models_name_nor_a_sign_in_sends_openais_key(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary~OPENAI_API_KEY~0123456789")
    await chat(await library(), options)
    assert sent.keys == []


@pytest.mark.parametrize(
    "model", ["azure_ai/x", "litellm_proxy/x", "mistral/x", "nvidia_nim/x", "wandb/x", "zai/x"]
)
async def test_an_embedding_model_gets_no_other_providers_key(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary~OPENAI_API_KEY~0123456789")
    await embed(model)
    assert sent.keys == []


async def test_an_embedding_model_without_an_address_of_its_own_sends_no_key_to_openai(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_AI_API_KEY", "canary~AZURE_AI_API_KEY~0123456789")
    await embed("azure_ai/x")
    assert sent.keys == []


@pytest.mark.parametrize("server", SERVERS.values(), ids=list(SERVERS))
def test_the_keys_of_a_server_without_litellm_are_those_that_a_plan_tells(server: ModelServer) -> None:
    assert {*server.keys} <= {*Options(f"{server.provider}/x").default_keys()}


@pytest.mark.parametrize("provider", _KEYS)
def test_the_keys_of_an_embedding_model_are_those_that_a_plan_tells(provider: str) -> None:
    model = f"{provider}/x"
    assert {*known(model).keys} <= {*EmbeddingOptions(model).default_keys()}
    assert EmbeddingOptions(model, api_key=Secret("k")).default_keys() == ()


async def test_a_key_that_a_plan_did_not_tell_does_not_go_to_an_address_in_the_yaml(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm knows from its lists that this name is one of AI21's."""
    monkeypatch.setenv("AI21_API_KEY", "canary~AI21_API_KEY~0123456789")
    litellm = await library()
    options = Options("jamba-1.5", api_base="https://own.example/v1")
    with pytest.raises(ModelError, match="so your AI21_API_KEY would go to the address"):
        credentials(litellms_provider(litellm, options), options, {})
    given = replace(options, api_key=Secret("k"))
    assert credentials(litellms_provider(litellm, given), given, {})["api_key"] == "k"
    account = replace(options, model="amazon.nova-pro-v1:0")
    with pytest.raises(ModelError, match="so your account at AWS would go"):
        _require_asked("bedrock", account, {})
    _require_asked("bedrock", replace(account, model="bedrock/amazon.nova-pro-v1:0"), {})
    named = replace(options, model="ai21_chat/jamba-1.5")
    await chat(litellm, named)
    assert {name for _, name in sent.keys} == {"AI21_API_KEY"}


async def test_each_key_goes_to_one_host(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = await library()
    for name in variables(litellm):
        monkeypatch.setenv(name, f"canary~{name}~0123456789")
    hosts = defaultdict(set)
    for provider in await providers(litellm):
        await chat(litellm, Options(f"{provider}/x"))
        for host, variable in sent.keys:
            hosts[variable].add(host)
        told = Options(f"{provider}/x").default_keys()
        assert {variable for _, variable in sent.keys} <= {*told}, provider
        if not sent.keys:  # it needs an address in the YAML
            await chat(litellm, Options(f"{provider}/x", api_base="https://own.example/v1"))
            assert {variable for _, variable in sent.keys} <= {*told}, provider
        sent.keys.clear()
    assert {name: found for name, found in hosts.items() if len(found) > 1} == {}
    assert {name for name, found in hosts.items() if "api.openai.com" in found} == {"OPENAI_API_KEY"}
    assert len(hosts) > 60
