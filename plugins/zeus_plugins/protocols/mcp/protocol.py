"""The MCP server of a service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from sse_starlette.sse import AppStatus
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from zeus_plugins.protocols.mcp.calls import AgentCall, tool_of
from zeus_plugins.protocols.mcp.options import Options
from zeus_runtime import __version__
from zeus_runtime.plugin import ZeusError
from zeus_runtime.plugin.protocol import STATUS, ServedProtocol, visible_answers, visible_errors, visible_text

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import (
        CallToolRequestParams,
        InputRequiredResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
    )
    from starlette.types import Message, Receive, Scope, Send

    from zeus_runtime.plugin.protocol import ProtocolCaller, ProtocolService

SESSIONS: Final = "zeus://sessions"
_JSON: Final = "application/json"
_WIRE: Final = "zeus.wire"


def create(options: Options, service: ProtocolService) -> ServedProtocol:
    """The protocol of a service."""
    return McpProtocol(options, service)


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error of a request whose id is not known, as JSON-RPC has it."""
    error = {"code": INVALID_REQUEST, "message": visible_text(message), "data": {"code": code}}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)


class McpProtocol(ServedProtocol):
    """Each agent is a tool, and its sessions are resources."""

    def __init__(self, options: Options, service: ProtocolService) -> None:
        self._options = options
        self._service = service
        self._manager: StreamableHTTPSessionManager | None = None
        self._is_stopping = False
        self._cancelling: set[asyncio.Task[Any]] = set()
        self._server: Server[Any] = Server(
            "zeus",
            version=__version__,
            instructions="Agents of Zeus runtime, each a tool.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self._server.middleware.append(visible_answers(service.mask))

    def routes(self) -> Sequence[BaseRoute]:
        return [Route(self._options.path, _Endpoint(self), methods=["GET", "POST", "DELETE"])]

    def refusal(self, path: str, status: int, code: str, message: str) -> Response | None:
        own = self._options.path.rstrip("/")
        return _error(status, code, message) if path == own or path.startswith(f"{own}/") else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._manager = StreamableHTTPSessionManager(self._server)
        async with self._manager.run():
            # It would end streams within half a second of SIGTERM, perhaps before their answer, which tells that the
            # service stops, is written. The service ends streams itself.
            AppStatus.enable_automatic_graceful_drain = False
            try:
                yield
            finally:
                AppStatus.enable_automatic_graceful_drain = True
                # Before the manager ends, which cancels requests: `_call_tool` must not think that clients did.
                self._is_stopping = True

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, if its caller may run agents."""
        assert self._manager is not None, "the protocol serves while it runs"
        request = Request(scope, receive)
        try:
            caller = await self._service.caller(request, "run")
        except ZeusError as error:
            status = STATUS.get(error.code, 500)
            head = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            answer = _error(status, error.code, self._service.mask(error.message), head)
            await answer(scope, receive, send)
            return
        # The SDK keeps a session to the caller who began it.
        token = AccessToken(token="", client_id=caller.name, scopes=[])
        # In the scope `_is_gone` finds it again: a handler's context has only the request.
        wire = _Wire(receive, send)
        scope = {**scope, "user": AuthenticatedUser(token), _WIRE: wire}
        await self._manager.handle_request(scope, wire.receive, visible_errors(wire.send, self._service.mask))
        if not wire.has_begun:
            # The client is gone, but Starlette's middlewares wait for a response.
            await Response(status_code=499)(scope, receive, send)

    async def _caller(self, ctx: ServerRequestContext[Any, Any], scope: Any = "read") -> ProtocolCaller:
        assert isinstance(ctx.request, Request), "the transport is HTTP"
        try:
            return await self._service.caller(ctx.request, scope)
        except ZeusError as error:
            raise MCPError(INVALID_PARAMS, error.message) from None

    async def _list_tools(
        self, ctx: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        caller = await self._caller(ctx)
        return ListToolsResult(tools=[tool_of(each) for each in caller.agents()])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        caller = await self._caller(ctx, "run")
        if all(each.name != params.name for each in caller.agents()):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        call = AgentCall(caller, ctx)
        try:
            return await call.result(params)
        except ZeusError as error:
            told = [self._service.mask(str(error))]
            if call.turn is not None:
                # The turn may go on, such as after an answer that came too late.
                told.append(f"session: {call.turn.session}")
            return CallToolResult(content=[TextContent(text="\n".join(told))], is_error=True)
        except asyncio.CancelledError:
            # A service that stops cancels requests too; their turns are resumed by the next process.
            is_client = not self._is_stopping and (not call.is_stateless or _is_gone(ctx))
            if call.turn is not None and is_client:
                self._later(_cancelled(caller, call.turn.run))
            raise

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Work in a new task, because the current one is being cancelled."""
        task = asyncio.create_task(work)
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _list_resources(
        self, ctx: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        await self._caller(ctx)
        about = "The sessions of the agents, last used first."
        return ListResourcesResult(
            resources=[Resource(uri=SESSIONS, name="sessions", description=about, mime_type=_JSON)]
        )

    async def _list_templates(
        self, ctx: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        await self._caller(ctx)
        template = ResourceTemplate(
            uri_template=f"{SESSIONS}/{{session}}",
            name="session",
            description="One session's messages.",
            mime_type=_JSON,
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        caller = await self._caller(ctx)
        uri = str(params.uri)
        unread: Sequence[str] = ()
        try:
            if uri == SESSIONS:
                listed, unread = await _sessions(caller)
                value: Any = [asdict(each) for each in sorted(listed, key=lambda each: -each.updated_ms)]
            elif uri.startswith(f"{SESSIONS}/"):
                value = await caller.messages(uri.removeprefix(f"{SESSIONS}/"))
            else:
                raise MCPError(INVALID_PARAMS, f"Unknown resource: {uri}")
        except ZeusError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
        contents = [TextResourceContents(uri=uri, mime_type=_JSON, text=text)]
        if unread:
            told = f"The sessions of these agents could not be read: {', '.join(unread)}."
            contents.append(TextResourceContents(uri=uri, mime_type="text/plain", text=told))
        return ReadResourceResult(contents=list(contents))


async def _sessions(caller: ProtocolCaller) -> tuple[Sequence[Any], Sequence[str]]:
    """The caller's sessions of all agents, and the agents whose sessions could not be read.

    Raises:
        ZeusError: no agent's could.
    """
    found: list[Any] = []
    failed: dict[str, ZeusError] = {}
    agents = caller.agents()
    for each in agents:
        try:
            found += await caller.sessions(each.name)
        except ZeusError as error:
            failed[each.name] = error
    if failed and len(failed) == len(agents):
        raise next(iter(failed.values()))
    return found, list(failed)


class _Endpoint:
    """The server as an ASGI app: a route takes a class's instance as it is."""

    def __init__(self, server: McpProtocol) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.serve(scope, receive, send)


class _Wire:
    """A request's connection, watched.

    Attributes:
        has_begun: whether a response has begun.
        is_gone: whether the client has closed it.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.has_begun = False
        self.is_gone = False

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_gone = self.is_gone or message["type"] == "http.disconnect"
        return message

    async def send(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


def _is_gone(ctx: ServerRequestContext[Any, Any]) -> bool:
    wire = ctx.request.scope.get(_WIRE) if isinstance(ctx.request, Request) else None
    return isinstance(wire, _Wire) and wire.is_gone


async def _cancelled(caller: ProtocolCaller, run: str) -> None:
    await caller.cancel(run)
