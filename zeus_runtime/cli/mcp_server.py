"""An agent in the words of MCP: a tool that runs it, and its sessions as resources. Imported only to serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from zeus_runtime import __version__
from zeus_runtime.agent.agent import Agent
from zeus_runtime.errors import ZeusError
from zeus_runtime.events import Event, RunCompleted, RunFailed, ToolCallStarted, ToolProgress
from zeus_runtime.tools import Ask

SESSIONS = "zeus://sessions"


def server_of(agent: Agent) -> MCPServer[Any]:
    """The server of ``agent``, which its caller closes."""
    config = agent.plan.config
    about = config.description or f"The agent {config.name!r}."
    app: MCPServer[Any] = MCPServer(config.name, version=__version__, instructions=about, log_level="ERROR")

    async def run(
        prompt: Annotated[str, Field(description="What the agent is to do or answer.")],
        ctx: Context[Any, Any],
        session: Annotated[
            str | None, Field(description="A session to go on with; a new one without.")
        ] = None,
    ) -> CallToolResult:
        try:
            ending = await _run(agent, prompt, session, ctx)
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
        return _json([asdict(each) for each in await agent.sessions()])

    @app.resource(
        f"{SESSIONS}/{{session}}", name="session", description="One session's messages.", mime_type=_JSON
    )
    async def session(session: str) -> str:
        from zeus_runtime.models.messages import to_payload

        return _json([to_payload(message) for message in await agent.history(session)])

    return app


_JSON = "application/json"


async def _run(agent: Agent, prompt: str, session: str | None, ctx: Context[Any, Any]) -> Event:
    ending: Event | None = None
    told = 0
    async with aclosing(agent.stream(prompt, session=session, ask=_asking(ctx))) as events:
        async for event in events:
            ending = event
            if isinstance(event, ToolCallStarted | ToolProgress):
                told += 1
                message = getattr(event, "message", "")
                await ctx.report_progress(told, None, event.tool_name + (f": {message}" if message else ""))
    assert ending is not None
    return ending


def _asking(ctx: Context[Any, Any]) -> Ask | None:
    """A way to the client's user; None where the client has none."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return None

    async def ask(question: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            answer = await ctx.session.elicit_form(question, dict(schema), ctx.request_id)
        except MCPError:  # the connection has no way back to the client
            return None
        return answer.content if answer.action == "accept" else None

    return ask


def _result(ending: Event) -> CallToolResult:
    if isinstance(ending, RunCompleted):
        facts = {
            "session": ending.session,
            "answer": ending.answer,
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
        structured_content={"session": ending.session, "error": ending.code, "message": ending.message},
        is_error=True,
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
