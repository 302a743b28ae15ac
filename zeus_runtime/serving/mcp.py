"""An agent in the words of MCP: a tool that runs it, and its sessions as resources. Imported only to serve."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from zeus_runtime import __version__
from zeus_runtime.agent.agent import Agent
from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.escaping import printable
from zeus_runtime.events import Event, RunCompleted, RunFailed, ToolCallStarted, ToolProgress
from zeus_runtime.serving.mcp_answers import VisibleErrors, visible_answers
from zeus_runtime.serving.visible_results import visible_text
from zeus_runtime.tools.approval_form import decision_of, question_and_form

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from zeus_runtime.tools.approval import ApprovalChannel, Decision, PendingApproval

SESSIONS = "zeus://sessions"

Whole: TypeAlias = "Callable[[str], str] | None"
"""Gives the command that shows a request in full, by the request's id; None if there is no such command."""


async def serve_stdio(agent: Agent, *, whole: Whole = None) -> None:
    """Serve ``agent`` on standard input and output, until the client closes them.

    Args:
        whole: as of ``server_of``.
    """
    async with stdio_server() as (read, write):
        await serve(agent, read, write, whole=whole)


async def serve(
    agent: Agent,
    read: ReadStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
    *,
    whole: Whole = None,
) -> None:
    """Serve ``agent`` on a client's messages, until there are no more.

    Args:
        whole: as of ``server_of``.
    """
    # The SDK's own way to standard output leaves no place for a stream of ours.
    server = server_of(agent, whole=whole)._lowlevel_server
    await server.run(read, VisibleErrors(write, agent.masked), server.create_initialization_options())


def server_of(agent: Agent, *, whole: Whole = None) -> MCPServer[Any]:
    """The server of ``agent``, which its caller closes; ``serve`` masks its errors.

    Args:
        whole: takes a request's id and gives the command that shows it in full. Without one, requests are not cut.
    """
    config = agent.plan.config
    about = config.description or f"The agent {config.name!r}."

    app: MCPServer[Any] = MCPServer(
        config.name,
        version=__version__,
        instructions=about,
        log_level="ERROR",
        middleware=[visible_answers(agent.masked, agent.masked)],
    )

    async def run(
        prompt: Annotated[str, Field(description="What the agent is to do or answer.")],
        ctx: Context[Any, Any],
        session: Annotated[str | None, Field(description="A session to continue; a new one without.")] = None,
    ) -> CallToolResult:
        try:
            if session:  # models fill in every parameter they know
                await _require_own(agent, session)
            ending = await _run(agent, prompt, session or None, ctx, whole)
        except ZeusError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        return _result(ending)

    app.add_tool(
        run,
        name="run",
        description=f"{about}\nGive it a task; it works with tools of its own and answers when it is done.",
    )

    @app.resource(
        SESSIONS, name="sessions", description="The agent's sessions, last used first.", mime_type=_JSON
    )
    async def sessions() -> str:
        return _json([asdict(each) for each in await agent.sessions(every_agent=False)])

    @app.resource(
        f"{SESSIONS}/{{session}}", name="session", description="One session's messages.", mime_type=_JSON
    )
    async def session(session: str) -> str:
        from mcp.server.mcpserver.exceptions import ResourceNotFoundError

        from zeus_runtime.models.messages import to_payload

        try:
            await _require_own(agent, session)
            return _json([to_payload(message) for message in await agent.history(session)])
        except ZeusError as error:
            raise ResourceNotFoundError(str(error)) from None

    return app


_JSON = "application/json"


async def _require_own(agent: Agent, session: str) -> None:
    """Ensure that a session is the agent's: others in the database may hold what its rules deny.

    Raises:
        UsageError: it is not, or does not exist.
    """
    name = agent.plan.config.name
    if await (await agent.log()).agent_of(session) != name:
        raise UsageError(f"there is no session {session!r} of the agent {name!r}")


async def _run(agent: Agent, prompt: str, session: str | None, ctx: Context[Any, Any], whole: Whole) -> Event:
    ending: Event | None = None
    told = 0
    async with aclosing(agent.stream(prompt, session=session, approvals=_channel(ctx, whole))) as events:
        async for event in events:
            ending = event
            if isinstance(event, ToolCallStarted | ToolProgress):
                told += 1
                message = getattr(event, "message", "")
                shown = printable(event.tool_name + (f": {message}" if message else ""))
                await ctx.report_progress(told, None, shown)
    assert ending is not None
    return ending


def _channel(ctx: Context[Any, Any], whole: Whole) -> ApprovalChannel | None:
    """A way to the client's user; None where the client has none."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return None
    return _Client(ctx, whole)


class _Client:
    """The client's user, asked by elicitation: whether a call may be made, or what a tool wants to know."""

    def __init__(self, ctx: Context[Any, Any], whole: Whole) -> None:
        self._ctx = ctx
        self._whole = whole

    async def ask(self, pending: PendingApproval) -> Decision | None:
        rest = "" if self._whole is None else f"`{self._whole(pending.id)}` shows all"
        question, form = question_and_form(pending, rest=rest)
        try:
            answer = await self._ctx.session.elicit_form(question, dict(form), self._ctx.request_id)
        except MCPError:  # the connection has no way back to the client
            return None
        return decision_of(pending, answer.action, answer.content)


def _result(ending: Event) -> CallToolResult:
    if isinstance(ending, RunCompleted):
        facts = {
            "session": ending.session,
            "answer": ending.answer,
            **({} if ending.output is None else {"output": ending.output}),
            "steps": ending.steps,
            "cost_usd": ending.cost_usd,
        }
        return CallToolResult(
            content=[TextContent(text=ending.answer), TextContent(text=f"session: {ending.session}")],
            structured_content=facts,
        )
    assert isinstance(ending, RunFailed)
    return CallToolResult(
        content=[TextContent(text=f"{ending.code}: {ending.message}\nsession: {ending.session}")],
        structured_content={
            "session": ending.session,
            "error": ending.code,
            "message": visible_text(ending.message),
        },
        is_error=True,
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
