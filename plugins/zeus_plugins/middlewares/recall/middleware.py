"""The recall tool: searches and reads messages that left the model's view, from the stored history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from zeus_plugins.middlewares.recall.absent import Absent, absent, at, seq_of, source_of, whole_text
from zeus_plugins.middlewares.recall.searching import excerpt, search
from zeus_runtime.plugin import Minimum
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_plugins.middlewares.recall.options import Options
    from zeus_plugins.middlewares.recall.searching import Find
    from zeus_runtime.plugin import PlanContext, RunContext
    from zeus_runtime.plugin.context import View
    from zeus_runtime.plugin.middleware import CallModel
    from zeus_runtime.plugin.model import ModelRequest, ModelResponse
    from zeus_runtime.plugin.tool import Tool


class Recall(Middleware):
    """Remembers the view of the last model call for its tool; changes no request.

    Args:
        context: the archive's handles.

    Attributes:
        history_handle: where the history is kept.
        view: what the last model call was sent; None before the first.
    """

    judges = False

    def __init__(self, _options: Options, context: RunContext) -> None:
        self.history_handle = context.archive.history_handle
        self.view: View | None = None

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        from zeus_runtime.plugin.context import View

        if isinstance(request.messages, View):
            self.view = request.messages
        return await call_next(request)

    @classmethod
    def tools(cls, options: Options, context: PlanContext) -> Sequence[Tool]:
        return [_recall(options)]


def _recall(options: Options) -> Tool:
    @tool(category="builtin", access="read", replayable_result=True)
    def recall(
        run: ToolRun, query: str = "", item: str = "", page: Annotated[int, Minimum(1)] = 1
    ) -> ToolResult:
        """Search what is no longer in this conversation's window, or read one item of it in full.

        Earlier messages, tool results and long arguments may have been summarized, moved to files or shortened; nothing
        of them is lost. With words, it returns an excerpt of each message that has them; with an item, its whole text
        by pages; with neither, a list of everything that left.

        Args:
            query: Words to find.
            item: Number of a message (as in #12), or a path that a notice in the conversation names.
            page: Which page, from 1.
        """
        middleware = run.middleware(Recall)
        view = middleware.view
        if view is None:
            return ToolResult("Nothing has left the window.")
        wanted = item.strip()
        # A summary names this path as the place of the originals, so models ask for it.
        if wanted in ("", middleware.history_handle):
            return _list(view, query, page, options)
        return _read(view, wanted, page, options)

    return recall


def _list(view: View, query: str, page: int, options: Options) -> ToolResult:
    finds = search(absent(view), query)
    asked = f" that has {query!r}" if query.strip() else ""
    if not finds:
        return ToolResult(f"There is nothing outside the window{asked}.")
    pages = -(-len(finds) // options.results_per_page)
    if page > pages:
        return ToolResult(f"There are {pages} pages; page {page} does not exist.", is_error=True)
    start = (page - 1) * options.results_per_page
    shown = finds[start : start + options.results_per_page]
    more = f"; continue with page={page + 1}" if page < pages else ""
    head = (
        f"{len(finds)} outside the window{asked}; {start + 1}-{start + len(shown)}, page {page} of {pages}{more}."
        " Read one whole with item=NUMBER."
    )
    return ToolResult("\n\n".join([head, *(_entry(view, find, options) for find in shown)]))


def _entry(view: View, find: Find, options: Options) -> str:
    text = find.item.text
    return f"{_title(view, find.item)}\n{excerpt(text, find.place, options.excerpt_chars)}"


def _title(view: View, item: Absent) -> str:
    return f"#{item.seq} · {_date(view, item.seq)}{item.source} · {item.how} · {len(item.text):,} characters"


def _date(view: View, seq: int) -> str:
    written_ms = view.written_ms(seq)
    if written_ms is None:
        return ""
    return f"{datetime.fromtimestamp(written_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC · "


def _read(view: View, item: str, page: int, options: Options) -> ToolResult:
    number = re.fullmatch(r"(?:#|message )?([0-9]{1,18})", item)
    if number is None:
        seq = seq_of(view, item)
        if seq is None:
            return ToolResult(
                f"Nothing of this conversation is kept under {item!r}. Give the number of a message, or a path as a"
                " notice in the conversation names it; recall without arguments lists all items.",
                is_error=True,
            )
    else:
        seq = int(number[1])
    if not 1 <= seq <= view.upto:
        return ToolResult(f"There is no message {seq}; the last is {view.upto}.", is_error=True)
    message = view.original(seq)
    found = at(view, seq) or Absent(seq, source_of(message), "in the window", whole_text(message))
    pages = max(1, -(-len(found.text) // options.page_chars))
    if page > pages:
        return ToolResult(f"#{seq} has {pages} pages; page {page} does not exist.", is_error=True)
    part = found.text[(page - 1) * options.page_chars : page * options.page_chars]
    more = f"; continue with page={page + 1}" if page < pages else ""
    return ToolResult(f"{_title(view, found)} · page {page} of {pages}{more}\n\n{part}")
