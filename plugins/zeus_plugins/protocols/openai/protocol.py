"""The routes of OpenAI's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from zeus_plugins.protocols.openai import chat, parameters, responses
from zeus_plugins.protocols.openai.answer import MOST_DIGITS, TurnAnswer, begun, found
from zeus_plugins.protocols.openai.errors import BadRequestError, body_of, response_of
from zeus_plugins.protocols.openai.options import Options
from zeus_runtime.plugin import ZeusError
from zeus_runtime.plugin.protocol import NotFoundError, ServedProtocol
from zeus_runtime.plugin.tool import json_problem

if TYPE_CHECKING:
    from starlette.types import Receive

    from zeus_runtime.plugin.protocol import ProtocolService

T = TypeVar("T")
_STREAM: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_Endpoint = Callable[[Request], Awaitable[Response]]


_OWN: Final = (
    "/v1/models",
    "/v1/chat/",
    "/v1/completions",
    "/v1/responses",
    "/v1/conversations",
    "/v1/embeddings",
)
"""The paths that OpenAI's clients ask for, also those that are not served."""


def create(options: Options, service: ProtocolService) -> ServedProtocol:
    """The protocol of a service."""
    return OpenAI(options, service)


class OpenAI(ServedProtocol):
    """Chat completions and responses; each agent is a model."""

    def __init__(self, options: Options, service: ProtocolService) -> None:
        self._options = options
        self._service = service
        self._cancelling: set[asyncio.Task[Any]] = set()

    def routes(self) -> Sequence[BaseRoute]:
        def route(path: str, endpoint: _Endpoint, method: str) -> Route:
            return Route(path, self._told(endpoint), methods=[method])

        return [
            route("/v1/models", self._models, "GET"),
            route("/v1/models/{model:path}", self._model, "GET"),
            route("/v1/chat/completions", self._chat, "POST"),
            route("/v1/responses", self._respond, "POST"),
            route("/v1/responses/{name}", self._response, "GET"),
            route("/v1/responses/{name}/cancel", self._cancel, "POST"),
            route("/v1/conversations", self._begin_conversation, "POST"),
            route("/v1/conversations/{name}", self._conversation, "GET"),
            route("/v1/conversations/{name}", self._delete_conversation, "DELETE"),
        ]

    def refusal(self, path: str, status: int, code: str, message: str) -> Response | None:
        if not path.startswith(_OWN):
            return None
        body = body_of(message, status, code=code)
        return JSONResponse(body, status_code=status, headers={"x-should-retry": "false"})

    def _told(self, endpoint: _Endpoint) -> _Endpoint:
        """An endpoint with errors in OpenAI's form."""

        async def told(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ZeusError as error:
                return response_of(error, self._service.mask)

        return told

    async def _models(self, request: Request) -> Response:
        caller = await self._service.caller(request, "read")
        return JSONResponse({"object": "list", "data": [_model(each.name) for each in caller.agents()]})

    async def _model(self, request: Request) -> Response:
        caller = await self._service.caller(request, "read")
        name = request.path_params["model"]
        if all(each.name != name for each in caller.agents()):
            raise NotFoundError(f"there is no model {name!r}")
        return JSONResponse(_model(name))

    async def _chat(self, request: Request) -> Response:
        caller = await self._service.caller(request, "run")
        body = await _body(request)
        asked, has_approval = chat.request_of(body, self._options)
        with_usage = chat.wants_usage(body)
        is_streamed = parameters.flag(body, "stream")
        answer = await begun(caller, asked)
        if is_streamed:
            events = chat.streamed(answer, has_approval=has_approval, with_usage=with_usage)
            return self._stream(answer, events)
        work = chat.whole(answer, has_approval=has_approval)
        value, status = await self._unless_gone(request, answer, work)
        # A failed turn is not repeated by a client on its own.
        headers = {} if status == 200 else {"x-should-retry": "false"}
        return JSONResponse(value, status_code=status, headers=headers)

    async def _respond(self, request: Request) -> Response:
        caller = await self._service.caller(request, "run")
        body = await _body(request)
        asked, has_approval = await responses.request_of(body, self._options, caller)
        is_background = parameters.flag(body, "background")
        is_streamed = parameters.flag(body, "stream")
        answer = await begun(caller, asked)
        if is_streamed:
            events = responses.streamed(answer, has_approval=has_approval)
            return self._stream(answer, events, may_cancel=not is_background)
        if is_background:
            return JSONResponse(responses.response(answer))
        work = responses.whole(answer, has_approval=has_approval)
        return JSONResponse(await self._unless_gone(request, answer, work))

    async def _response(self, request: Request) -> Response:
        caller = await self._service.caller(request, "read")
        answer = await found(caller, _name(request, responses.PREFIX))
        if request.query_params.get("stream") == "true":
            after = request.query_params.get("starting_after", "-1")
            if not after.removeprefix("-").isdecimal() or len(after) > MOST_DIGITS:
                raise BadRequestError("starting_after must be a number", param="starting_after")
            events = responses.streamed(answer, has_approval=False, after=int(after))
            return self._stream(answer, events, may_cancel=False)
        return JSONResponse(await responses.whole(answer, has_approval=False, follow=False))

    async def _cancel(self, request: Request) -> Response:
        caller = await self._service.caller(request, "run")
        answer = await found(caller, _name(request, responses.PREFIX))
        await caller.cancel(answer.turn.run)
        return JSONResponse(await responses.whole(answer, has_approval=False))

    async def _begin_conversation(self, request: Request) -> Response:
        caller = await self._service.caller(request, "run")
        body = await _body(request)
        if body.get("items"):
            raise BadRequestError("a conversation begins empty; send the items as input", param="items")
        metadata = body.get("metadata") or {}
        agent = metadata.get("model") if isinstance(metadata, Mapping) else None
        if agent is None and len(caller.agents()) != 1:
            raise BadRequestError(
                'a conversation belongs to one model: send "metadata": {"model": NAME}', param="metadata"
            )
        return JSONResponse(await self._shown(request, await caller.begin_session(agent)))

    async def _conversation(self, request: Request) -> Response:
        return JSONResponse(await self._shown(request, request.path_params["name"]))

    async def _shown(self, request: Request, session: str) -> Mapping[str, Any]:
        caller = await self._service.caller(request, "read")
        info = await caller.session(session)
        return {
            "id": session,
            "object": "conversation",
            "created_at": info.created_ms // 1000,
            "metadata": {"model": info.agent},
        }

    async def _delete_conversation(self, request: Request) -> Response:
        caller = await self._service.caller(request, "run")
        name = request.path_params["name"]
        await caller.delete_session(name)
        return JSONResponse({"id": name, "object": "conversation.deleted", "deleted": True})

    def _stream(
        self, answer: TurnAnswer, events: AsyncGenerator[bytes, None], *, may_cancel: bool = True
    ) -> Response:
        async def sent() -> AsyncGenerator[bytes, None]:
            is_told = False
            try:
                async for each in events:
                    if each:
                        yield each
            except ZeusError as error:
                # A client closes its connection as soon as it reads this; it waits for nothing more.
                is_told = True
                body = bytes(response_of(error, self._service.mask).body).decode()
                yield f"data: {body}\n\n".encode()
            finally:
                if may_cancel and response.is_gone and not is_told:
                    self._left(answer)

        # `sent` names it already, and is not run before the first piece is sent.
        response = _Stream(sent(), media_type="text/event-stream", headers=_STREAM)
        return response

    async def _unless_gone(self, request: Request, answer: TurnAnswer, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. If the client closes its connection before, the turn is cancelled."""
        working = asyncio.create_task(work)
        watching = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise NotFoundError("the client closed its connection")
            return working.result()
        finally:
            # Nothing is lost by it: the turn runs on without its reader, and `_left` decides whether it should.
            working.cancel()
            if watching.done():
                self._left(answer)
            watching.cancel()

    def _left(self, answer: TurnAnswer) -> None:
        """Cancel the turn of a client that did not wait for its answer's end."""
        if answer.ending is None and self._options.cancel_on_disconnect:
            # In a new task: the current one is being cancelled.
            task = asyncio.create_task(_cancelled(answer))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)


class _Stream(StreamingResponse):
    """A stream that knows why it ends early.

    Attributes:
        is_gone: whether the client closed it. A service that stops ends it too, and the next one resumes the turn.
    """

    is_gone = False

    # Starlette calls this only below ASGI 2.4 (uvicorn says 2.3); above, `send` raises OSError instead.
    async def listen_for_disconnect(self, receive: Receive) -> None:
        await super().listen_for_disconnect(receive)
        self.is_gone = True


async def _cancelled(answer: TurnAnswer) -> None:
    await answer.caller.cancel(answer.turn.run)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(await request.body() or b"{}")
        problem = json_problem(body, finite=False)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if problem is not None:
        raise BadRequestError(f"the body is not JSON: {problem}")
    if not isinstance(body, dict):
        raise BadRequestError("the body must be a JSON object")
    return body


def _name(request: Request, prefix: str) -> str:
    name = str(request.path_params["name"])
    if not name.startswith(prefix):
        raise NotFoundError(f"there is no response with the id {name!r}")
    return name.removeprefix(prefix)


def _model(name: str) -> Mapping[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "zeus"}
