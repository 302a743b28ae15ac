"""Protocols as a kind of plugin: chosen, refused, and kept behind one door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from tests.serving.test_http_keys import URL, bearer, made
from tests.support.agents import script, write_agent
from tests.support.serving import service_of, serving
from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.plugin import Component, dataclass
from zeus_runtime.plugin.protocol import ProtocolService, ServedProtocol
from zeus_runtime.registry import Registry, discover
from zeus_runtime.registry.plugin import Plugin
from zeus_runtime.registry.registry import Registered
from zeus_runtime.serving.http.protocols import protocols_of
from zeus_runtime.serving.http.settings import ServiceLimits, Settings
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.testing import ProtocolConformance


@dataclass(frozen=True)
class Options:
    path: str = "/names"


class Names(ServedProtocol):
    """As in the hook's example."""

    def __init__(self, service: ProtocolService, path: str = "/names") -> None:
        self._service = service
        self._path = path

    def routes(self) -> Sequence[BaseRoute]:
        return [Route(self._path, self._names)]

    async def _names(self, request: Any) -> JSONResponse:
        caller = await self._service.caller(request, "read")
        return JSONResponse([each.name for each in caller.agents()])


class TestNames(ProtocolConformance):
    def protocol(self, service: ProtocolService) -> ServedProtocol:
        return Names(service)


class TestOpenAI(ProtocolConformance):
    def protocol(self, service: ProtocolService) -> ServedProtocol:
        from zeus_plugins.protocols.openai.options import Options
        from zeus_plugins.protocols.openai.protocol import create

        return create(Options(), service)


def registry(*components: Component) -> Registry:
    plugin = Plugin("acme", distribution="acme", version="1", source="acme:plugin")
    return Registry(
        components={("protocol", each.name): (Registered("protocol", each, plugin),) for each in components}
    )


NAMES = Component("names", create=lambda options, service: Names(service, options.path), options=Options)
SAME = Component("same", create=lambda options, service: Names(service))
BROKEN = Component("broken", create=lambda options, service: 1 / 0)
OTHER = Component("other", create=lambda options, service: "text")


async def test_a_protocol_answers_beside_the_service(tmp_path: Path) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("x"))
    served = protocols_of(registry(NAMES), [Ref("names", {"path": "/who"})], service)
    async with serving(service, protocols=served) as client:
        assert (await client.get("/who")).json() == ["test"]
        assert (await client.get("/names")).status_code == 404
        refused = await client.get("/who", headers={"Authorization": "Bearer wrong"})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


async def test_a_request_that_asks_for_its_caller_twice_counts_once(tmp_path: Path) -> None:
    write_agent(tmp_path)
    database = Database(URL, directory=tmp_path)
    await ready(database)
    limits = ServiceLimits(open_requests=1, requests_per_minute=1, burst=4)
    service = replace(service_of(tmp_path, script("x")), settings=Settings(limits=limits), database=database)
    served = protocols_of(discover(environ={}), [Ref("openai"), Ref("mcp")], service)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"Accept": "application/json, text/event-stream"}
    async with serving(service, protocols=served) as client:
        client.headers.update(bearer(await made(database)))
        for _ in range(2):
            assert (await client.post("/v1/conversations", json={})).status_code == 200
            assert (await client.post("/mcp", json=listing, headers=accepted)).status_code != 429
        assert (await client.post("/v1/conversations", json={})).status_code == 429, "the fifth"
    assert not service.limits._open


@pytest.mark.parametrize(
    ("named", "error", "words"),
    [
        ([Ref("nmes")], MissingError, "no plugin registers the protocol 'nmes'"),
        ([Ref("names"), Ref("names")], UsageError, "twice"),
        ([Ref("names", {"path": 3})], UsageError, "--protocol names.path"),
        ([Ref("same", {"path": "/x"})], UsageError, "it takes no options"),
        ([Ref("broken")], MissingError, "raised ZeroDivisionError"),
        ([Ref("other")], MissingError, "is no ServedProtocol"),
        ([Ref("names"), Ref("same")], MissingError, "both serve /names"),
    ],
)
def test_a_protocol_that_cannot_be_served_is_refused(
    tmp_path: Path, named: list[Ref], error: type[Exception], words: str
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("x"))
    with pytest.raises(error, match=words):
        protocols_of(registry(NAMES, SAME, BROKEN, OTHER), named, service)
