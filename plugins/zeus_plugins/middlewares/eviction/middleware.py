"""The eviction policy: moves messages that are too large to a file; the model sees a preview and the path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_plugins.middlewares.eviction.choice import instead_of_summary, too_large, too_much
from zeus_plugins.middlewares.eviction.preview import preview
from zeus_runtime.plugin.context import Evict, arrivals
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.model import pictures_of

if TYPE_CHECKING:
    from zeus_plugins.middlewares.eviction.choice import Choice
    from zeus_plugins.middlewares.eviction.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, Item, View


class Eviction(Middleware):
    """Looks at each message once, before the first model call that would send it.

    Args:
        options: the limits and the size of the preview.
        context: the archive's handles, and the tools that can read them.
    """

    proposes = (Evict,)

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._seen = 0

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        if budget.room_before:
            return [self._edit(each) for each in instead_of_summary(view, budget, self._options)]
        new = arrivals(view, self._seen)
        self._seen = max(self._seen, view.upto)
        chosen = list(too_large(new, view, budget, self._options))
        # Only if no message exceeds its own limit: these make room, and the planner asks again.
        if not chosen:
            chosen = list(too_much(view, budget, self._options))
        return [self._edit(each) for each in sorted(chosen, key=lambda each: each.item.seq)]

    def _edit(self, choice: Choice) -> Evict:
        item = choice.item
        handle = self._handle(item)
        return Evict(
            policy="eviction",
            reason=choice.reason,
            seq=item.seq,
            content=self._shown(choice, handle),
            handle=handle,
        )

    def _handle(self, item: Item) -> str:
        call_id = getattr(item.message, "tool_call_id", "")
        archive = self._context.archive
        return archive.result_handle(call_id) if call_id else archive.message_handle(item.seq)

    def _shown(self, choice: Choice, handle: str) -> str:
        item = choice.item
        text = str(item.message.content)
        start, shown, lines = self._start(text, choice.limit_tokens // 4)
        kind, _, tool = item.source.partition(":")
        what = f"The result of {tool}" if kind == "tool" else "The user's message"
        head = f"[{what} has {item.tokens:,} tokens in {lines:,} lines and is kept whole in {handle}{self._ways()}."
        if gone := [picture.path for picture in pictures_of(item.message)]:
            head += f" Its pictures are no longer shown: {', '.join(gone)}."
        return f"{head} Its first {shown} lines:]\n{start}" if shown else f"{head}]"

    def _start(self, text: str, max_tokens: int) -> tuple[str, int, int]:
        """Return a preview of about ``max_tokens`` tokens, the lines that it shows, and the lines of ``text``."""
        options, counter = self._options, self._context.counter
        # Four bytes a token, as of English prose; the count below corrects it for other texts.
        size = 4 * max_tokens
        shown = preview(text, options.preview_lines, options.preview_line_chars, max_bytes=size)
        tokens = counter.text(shown[0])
        if tokens > max_tokens:  # dense: Chinese, base64, minified code
            size = len(shown[0].encode(errors="surrogatepass")) * max_tokens // tokens
            shown = preview(text, options.preview_lines, options.preview_line_chars, max_bytes=size)
        return shown

    def _ways(self) -> str:
        readers = [name for name in ("read_file", "recall") if name in self._context.tools]
        return f"; read it with {' or '.join(readers)}" if readers else ""
