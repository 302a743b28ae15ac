"""The log records of HTTP libraries hold no secret that this process knows."""

from __future__ import annotations

import json
import logging
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from tests.support.provider import Provider, Reply
from zeus_runtime import Agent
from zeus_runtime.client import ServiceClient
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.library_records import mask_library_records

KEY = "Dv7hT2pLq9VwZ3nB8mCs"


@pytest.fixture(autouse=True)
def _records_are_made(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once another test has imported litellm, it lets these log warnings alone, and changes their records itself.
    for name in ("httpx", "httpx2"):
        caplog.set_level(logging.DEBUG, logger=name)
        monkeypatch.setattr(logging.getLogger(name), "filters", [])


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize(
    "address", ["http://far.example/mcp?exaApiKey={}", "http://far.example/s/{}/mcp?a=%20"]
)
def test_a_key_in_an_address_is_not_logged(
    library: Any, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    transport = library.MockTransport(lambda request: library.Response(200))
    with caplog.at_level(logging.DEBUG), library.Client(transport=transport) as client:
        client.get(address.format(KEY))
        client.get("http://own.example/a")
        client.get(f"http://app:{KEY}@far.example")
    assert KEY not in caplog.text
    assert address.format("<secret:EXA_API_KEY>") in caplog.text
    # A record without a secret keeps its arguments.
    assert [bool(each.args) for each in caplog.records] == [False, True, False]


class Unsound:
    def __str__(self) -> str:
        raise RuntimeError(KEY)


@pytest.mark.parametrize("argument", [KEY, Unsound()])
def test_a_record_that_does_not_fit_its_format_ends_no_call_and_shows_no_key(
    argument: object, caplog: pytest.LogCaptureFixture
) -> None:
    mask_library_records()
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("httpx").info("%d of %s", argument)
    assert caplog.messages == ["httpx: a record that does not fit its format"]


def test_the_traceback_of_a_record_shows_no_key(caplog: pytest.LogCaptureFixture) -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    with caplog.at_level(logging.DEBUG):
        for text in (f"no answer from http://far.example/?key={KEY}", "another error"):
            try:
                raise ValueError(text)
            except ValueError:
                logging.getLogger("httpx").debug("It failed.", exc_info=True)
    assert KEY not in caplog.text
    assert "ValueError: no answer from http://far.example/?key=<secret:EXA_API_KEY>" in caplog.text
    assert "ValueError: another error" in caplog.text
    # A record without a secret keeps its error.
    assert [bool(each.exc_info) for each in caplog.records] == [False, True]


@pytest.mark.parametrize("library", ["httpx", "httpx2", "httpcore", "httpcore2"])
def test_each_logger_of_these_libraries_is_masked(library: str) -> None:
    mask_library_records()
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin
    sources = [each.read_text() for each in Path(spec.origin).parent.rglob("*.py")]
    names = {name for source in sources for name in re.findall(r'getLogger\("([\w.]+)"', source)}
    assert names
    assert {name for name in names if not logging.getLogger(name).filters} == set()


async def test_a_key_in_the_address_of_a_model_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Provider(Reply("done"), Reply("done")) as provider:
        settings = {
            "model": "openai/gpt-4o",
            "wire": "native",
            "api_key": "sk-loopback-000000",
            "api_base": provider.openai.replace("/v1", f"/{KEY}/v1"),
        }
        config = tmp_path / "zeus.yaml"
        config.write_text(json.dumps({"version": 1, "name": "a", "model": {"litellm": settings}}))
        with caplog.at_level(logging.DEBUG):
            async with Agent.from_config(config, directory=tmp_path, environ={}, trust="all") as agent:
                await agent.run("hello")
        assert any(KEY in each.path for each in provider.requests)
    assert any(each.name == "httpx" for each in caplog.records)
    assert KEY not in caplog.text


def test_a_password_in_the_address_of_a_service_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"http://app:{KEY}@far.example"
    with ServiceClient(url, "token"), caplog.at_level(logging.INFO):
        logging.getLogger("httpx").info("HTTP Request: GET %s", url)
    assert "app:<secret:url>@far.example" in caplog.text
