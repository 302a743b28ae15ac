"""The requests of runs to one server, and the server's questions to their users; a failure becomes the result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.elicitation_routing import Askers
from zeus_plugins.tools.mcp.failures import explained
from zeus_plugins.tools.mcp.rate_limit import Pace
from zeus_plugins.tools.mcp.results import is_short, resource_result, tool_result
from zeus_runtime.plugin.tool import ToolResult

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.connection import Link
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.tool import ToolRun

_PROGRESS: Final = (20, 0.1)
"""Progress messages of one call that are reported at once, and the seconds until one more."""


class Calls:
    """The calls of one server.

    Args:
        link: the connection to the server.
        files: the workspace, where binary data from the server is saved.
    """

    def __init__(self, link: Link, files: WorkspaceFiles) -> None:
        self._link = link
        self._server = link.server
        self._files = files
        self._askers = Askers()
        self._repeatable: list[ToolRun] = []

    async def call(
        self, name: str, arguments: Mapping[str, Any], run: ToolRun, *, repeatable: bool
    ) -> ToolResult:
        """Call one of the server's tools; a failure becomes the result.

        Args:
            name: the server's own name for the tool.
            repeatable: whether a second call has no further effect, so that the call may be repeated once the user has
                answered a question.
        """
        pace = Pace(*_PROGRESS)

        async def tell_progress(progress: float, total: float | None, message: str | None) -> None:
            if pace.wait_seconds(asyncio.get_running_loop().time()) == 0:
                run.progress(message or "", progress, total)

        client = await self._link.connected()
        if client is None:
            return ToolResult(self._link.absent("Nothing was done."), is_error=True)
        if repeatable:
            self._repeatable.append(run)
        try:
            with self._askers.running(run):
                answer = await client.call_tool(name, dict(arguments), progress_callback=tell_progress)
        except Exception as error:  # noqa: BLE001 - any failure of a server is its tool's result
            return self._failed(error, "Whether the call took effect is unknown.")
        # The time limit of a call cancels it; over SSE a lost stream shows itself only so.
        except asyncio.CancelledError:
            self._link.doubt()
            raise
        finally:
            if repeatable:
                self._repeatable.remove(run)
        self._link.answered()
        convert = partial(tool_result, answer, self._files, run.secrets)
        result = convert() if is_short(answer.content) else await asyncio.to_thread(convert)
        return _with_questions(result, run.unanswered)

    async def read_resource(self, uri: str, run: ToolRun) -> ToolResult:
        """The contents of one of the server's resources."""
        client = await self._link.connected()
        if client is None:
            return ToolResult(self._link.absent(), is_error=True)
        try:
            answer = await client.read_resource(uri)
        except Exception as error:  # noqa: BLE001 - as for a call
            return self._failed(error)
        convert = partial(resource_result, answer.contents, self._files, run.secrets)
        return convert() if is_short(answer.contents) else await asyncio.to_thread(convert)

    async def resources(self) -> str:
        """A list of the server's resources and resource templates."""
        client = await self._link.connected()
        if client is None:
            return self._link.absent()
        from zeus_plugins.tools.mcp.capabilities import list_resources

        try:
            return await list_resources(client)
        except Exception as error:  # noqa: BLE001 - as for a call
            return self._failed(error).content

    async def elicit(self, context: Any, params: Any) -> Any:
        """The user's answer to the server's question, as the SDK's type."""
        from zeus_plugins.tools.mcp.eliciting import elicited

        # The questions of other calls may have to wait for this answer, so the time limits of all calls are paused.
        with ExitStack() as waits:
            for each in self._askers.all:
                waits.enter_context(each.waiting())
            async with self._askers.asker() as run:
                may_wait = any(each is run for each in self._repeatable)
                return await elicited(self._server.name, params, run, self._link.tell, may_wait=may_wait)

    def _failed(self, error: Exception, more: str = "") -> ToolResult:
        failure = explained(error)
        unauthorized = self._link.noticed(failure)
        if unauthorized is not None:
            return ToolResult(str(unauthorized), is_error=True)
        if failure.connection_lost:
            text = f"stopped or cannot be reached: {failure.message}. {more}"
        else:
            text = f"refused: {self._link.why_of(failure)}"
        return ToolResult(f"The MCP server {self._server.name!r} {text}".strip(), is_error=True)


def _with_questions(result: ToolResult, unanswered: Sequence[str]) -> ToolResult:
    """A result with a note for each unanswered question: the call was made, and is not repeated automatically."""
    if not unanswered:
        return result
    from zeus_plugins.tools.mcp.eliciting import repeated

    notes = "\n".join(
        f"[{repeated(question)} No user was there to answer, so the question was cancelled. The call was made once and"
        " is not repeated; call the tool again only if the user wants it.]"
        for question in unanswered
    )
    return replace(result, content=f"{result.content}\n\n{notes}")
