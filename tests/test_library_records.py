"""The log records of libraries hold no secret that this process knows."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai.resources.realtime.realtime  # noqa: F401 - it makes a logger
import pytest
import urllib3.poolmanager  # noqa: F401 - it makes a logger

from tests.support.provider import Provider, Reply
from zeus_runtime import Agent
from zeus_runtime.client import ServiceClient
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.library_records import mask_library_records

KEY = "Dv7hT2pLq9VwZ3nB8mCs"
LIBRARY = httpx.__file__


@pytest.fixture(autouse=True)
def _records_are_made(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Once another test has imported litellm, it lets these log warnings alone, and changes their records itself.
    for name in ("httpx", "httpx2"):
        caplog.set_level(logging.DEBUG, logger=name)
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    yield
    logging.setLogRecordFactory(factory)


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


def made(name: str, file: str, error: BaseException | None = None) -> logging.LogRecord:
    """A record with the key in its arguments, as a logger makes it for the code in ``file``."""
    info = None if error is None else (type(error), error, None)
    return logging.getLogger(name).makeRecord(
        name, logging.INFO, file, 1, "to %s", (KEY,), info, sinfo=f"Stack: {KEY}"
    )


def shown(record: logging.LogRecord) -> str:
    return logging.Formatter().format(record) + repr(record.__dict__)


def test_each_logger_of_a_library_is_masked() -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    names = set(logging.root.manager.loggerDict)
    assert names > {"urllib3.poolmanager", "openai.resources.realtime.realtime", "asyncio"}
    records = {name: made(name, LIBRARY, ValueError(f"at {KEY}")) for name in names}
    assert {name for name, record in records.items() if KEY in shown(record)} == set()
    # Of Python, and of Zeus, which is no installed code here.
    assert KEY not in shown(made("asyncio", logging.__file__))
    for name in ("zeus_runtime.run.connections", "zeus_plugins.vector_stores.chroma.store"):
        assert KEY not in shown(made(name, __file__))


@pytest.mark.parametrize("package", ["httpx", "urllib3", "primp", "openai", "opentelemetry"])
def test_a_library_that_names_no_file_of_this_machine_is_masked(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    monkeypatch.delitem(sys.modules, package, raising=False)
    assert KEY not in shown(made(f"{package}.client", "/build/src/client.rs"))


def test_a_record_of_the_program_stays_as_it_is() -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    error = ValueError(KEY)
    for name in ("shop", "shop.httpx", "root", "queue", __name__, ""):
        record = made(name, __file__, error)
        assert (record.args, record.exc_info) == ((KEY,), (ValueError, error, None))
        assert record.stack_info == f"Stack: {KEY}"
    assert logging.makeLogRecord({"msg": KEY}).msg == KEY


def test_a_folder_of_distributions_holds_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    installed, own = tmp_path / "lib", tmp_path / "library"
    (installed / "far-1.0.dist-info").mkdir(parents=True)
    own.mkdir()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "not-there"), str(installed), str(own), *sys.path])
    assert KEY not in shown(made("a", str(installed / "far" / "client.py")))
    assert KEY in shown(made("a", str(own / "client.py")))


def test_each_error_of_a_large_group_is_masked() -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)
    mask_library_records()
    errors = [ValueError(f"error {number}") for number in range(20)]
    assert made("httpx", LIBRARY, ExceptionGroup("all", errors)).exc_info
    record = made("httpx", LIBRARY, ExceptionGroup("all", [*errors, ValueError(KEY)]))
    assert KEY not in shown(record)
    assert "error 19" in (record.exc_text or "")


def test_the_record_factory_of_a_program_makes_the_records() -> None:
    known = secrets_of_environment({"EXA_API_KEY": KEY})
    mask_before_cutting(known)

    class Numbered(logging.LogRecord):
        number = 7

    logging.setLogRecordFactory(Numbered)
    mask_library_records()
    first = logging.getLogRecordFactory()
    mask_library_records()
    assert logging.getLogRecordFactory() is first
    assert isinstance(made("httpx", LIBRARY), Numbered)
    assert KEY not in shown(made("httpx", LIBRARY))
    # A program sets one later, which does not call the former one: the next agent or client masks again.
    logging.setLogRecordFactory(Numbered)
    assert KEY in shown(made("httpx", LIBRARY))
    mask_library_records()
    assert isinstance(made("httpx", LIBRARY), Numbered)
    assert KEY not in shown(made("httpx", LIBRARY))


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
