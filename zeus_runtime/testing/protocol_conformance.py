"""What every ``ServedProtocol`` must do, as tests that an author of a protocol inherits.

    class TestMyProtocol(ProtocolConformance):
        def protocol(self, service):
            return MyProtocol(service)

The tests need pytest and the extra `serve`: each runs its own event loop.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import httpx

    from zeus_runtime.serving.http.protocols import ProtocolService, ServedProtocol
    from zeus_runtime.serving.http.service import Service

_CONFIG: Final = "version: 1\nname: assistant\nmodel: gpt-4o\n"


class ProtocolConformance:
    """Inherit it and say how to get the protocol; each ``test_`` method is one thing a protocol must do."""

    def protocol(self, service: ProtocolService) -> ServedProtocol:
        """The protocol of a service."""
        raise NotImplementedError

    def test_every_route_refuses_a_caller_without_a_token(self) -> None:
        async def work(service: Service, client: httpx.AsyncClient) -> None:
            told = await asyncio.gather(
                *(client.request(method, path, json={}) for method, path in self._requests(service))
            )
            assert told, "the protocol has no routes"
            open_to_all = [str(each.request.url) for each in told if each.status_code not in (401, 403)]
            assert not open_to_all, f"these answer without a token: {open_to_all}"

        self._run(work)

    def test_no_route_has_a_path_of_the_service(self) -> None:
        async def work(service: Service, _: httpx.AsyncClient) -> None:
            from zeus_runtime.serving.http.app import app_of

            own = {getattr(each, "path", "") for each in app_of(service).routes}
            taken = own & {getattr(each, "path", "") for each in self._made(service).routes()}
            assert not taken, f"the service itself answers there: {sorted(taken)}"

        self._run(work)

    def test_a_wrong_body_is_refused_without_a_traceback(self) -> None:
        async def work(service: Service, client: httpx.AsyncClient) -> None:
            assert service.token is not None
            head = {"Authorization": f"Bearer {service.token.text}", "Content-Type": "application/json"}
            for method, path in self._requests(service):
                if method == "POST":
                    answer = await client.request(method, path, content=b"\xff{", headers=head)
                    assert 400 <= answer.status_code < 500, f"{method} {path}: {answer.status_code}"

        self._run(work)

    def _requests(self, service: Service) -> Iterator[tuple[str, str]]:
        for each in self._made(service).routes():
            path = re.sub(r"\{[^}]*\}", "x", getattr(each, "path", ""))
            for method in getattr(each, "methods", None) or ("GET", "POST"):
                if method != "HEAD":
                    yield method, path

    def _made(self, service: Service) -> ServedProtocol:
        from zeus_runtime.serving.http.protocols import ProtocolService

        return self.protocol(ProtocolService(service))

    def _run(self, work: Callable[[Service, httpx.AsyncClient], Awaitable[None]]) -> None:
        async def all_of_it(folder: Path) -> None:
            async with _served(folder, self._made) as (service, client):
                await work(service, client)

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(all_of_it(Path(folder)))


@asynccontextmanager
async def _served(
    folder: Path, made: Callable[[Service], Any]
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    import httpx

    from zeus_runtime.plan.validated import check
    from zeus_runtime.serving.http.app import app_of
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.hub import Hub
    from zeus_runtime.serving.http.principals import LocalToken
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.testing.scripted_model import ScriptedModel

    file = folder / "zeus.yaml"
    file.write_text(_CONFIG)
    hub = Hub()
    hosted = HostedAgent(
        lambda sets, _edited=None: check(file, sets=sets, directory=folder, environ={}),
        hub.stored,
        ScriptedModel([]),
    )
    service = Service(Hosting([hosted]), LocalToken(), hub)
    app = app_of(service, [made(service)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield service, client
