"""The terminal's view: the answer grows as rich Markdown, block by block; the rest is one dim line each."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import takewhile
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text as RichText

from zeus_runtime.cli.event_lines import progress_line, subagent_line
from zeus_runtime.cli.views import Journal
from zeus_runtime.escaping import TerminalStream, terminal_text
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    ModelChanged,
    ModelRetry,
    Notice,
    Reasoning,
    RunCompleted,
    RunFailed,
    RunStarted,
    SubAgentEvent,
    Text,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStarted,
    ToolProgress,
)
from zeus_runtime.tools.question import tool_label

TAIL_LINES: Final = 12
TAIL_CHARACTERS: Final = 4000
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


class TerminalView:
    """Finished Markdown blocks are printed for good; the block that still grows is redrawn beneath them.

    Args:
        quiet: no journal but errors.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._journal = Journal(quiet=quiet)
        self._console = Console(file=sys.stdout, highlight=False)
        self._live: Live | None = None
        self._growing = ""
        self._aside = ""
        self._printed = False

    def show(self, event: Event) -> None:
        if isinstance(event, Text):
            self._aside = ""
            self._grow(event.text)
            self._redraw()
        elif isinstance(event, Reasoning):
            self._aside += event.text
            self._redraw()
        elif isinstance(event, ToolCallChunk):
            self._aside = (
                f"writing a call of {tool_label(event.tool_name)} …" if event.tool_name else self._aside
            )
            self._redraw()
        elif isinstance(event, ToolProgress):
            if not self._quiet:
                self._aside = progress_line(event, self._console.width)
                self._redraw()
        elif isinstance(event, RunStarted):
            self._wait()
        elif isinstance(event, ModelRetry | ModelChanged):
            # The text of this call so far is void. Text already printed stays, and the line says so.
            self._growing = ""
            self._tell(event)
        elif isinstance(
            event, ToolCallStarted | Notice | ApprovalRequested | ApprovalDecided | RunCompleted | RunFailed
        ):
            self._settle()
            self._tell(event)
        elif isinstance(event, ToolCallResult) or (
            isinstance(event, SubAgentEvent) and subagent_line(event, self._console.width)
        ):
            self._tell(event)
            self._wait()
        else:
            self._journal.show(event)

    def close(self) -> None:
        """Print what has grown and show the cursor again."""
        self._settle()

    def _grow(self, text: str) -> None:
        # A block ends where a line begins: looking at every piece would take a long block's length squared.
        may_end = "\n" in text or self._growing.endswith("\n")
        self._growing += text
        if may_end:
            blocks, self._growing = split_blocks(self._growing)
            for block in blocks:
                self._print(block)

    def _tell(self, event: Event) -> None:
        self._still()
        self._aside = ""
        self._printed = False
        self._journal.show(event)

    def _wait(self) -> None:
        self._aside = "…"
        self._redraw()

    def _print(self, block: str) -> None:
        console = self._live.console if self._live else self._console
        if self._printed:
            console.print()
        text = terminal_text(block)
        shown = _Shown(_markdown(text))
        console.print(RichText(text.rstrip("\n")) if _loses(text, shown, console) else shown)
        self._printed = True

    def _redraw(self) -> None:
        # Shown as a whole: what belongs together may come in two pieces.
        text = terminal_text((self._growing or self._aside)[-TAIL_CHARACTERS:])
        if not text:
            self._still()
            return
        if self._live is None:
            # No automatic refresh: rich would draw in a thread, in the middle of another line.
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        # A tail that is higher than the screen could not be taken back: its first lines would have scrolled away.
        most = max(1, min(TAIL_LINES, self._console.height - 2))
        style = "" if self._growing else "dim italic"
        lines = RichText(text, style=style).wrap(self._console, self._console.width)[-most:]
        self._live.update(RichText("\n").join(lines), refresh=True)

    def _still(self) -> None:
        """Take the growing block off the screen, so that a line can be written where it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _settle(self) -> None:
        """Print what has grown so far for good."""
        self._still()
        self._aside = ""
        block, self._growing = self._growing, ""
        if block.strip():
            self._print(block)


def _markdown(text: str) -> Markdown:
    # A link with its address: the text of a link may name another place.
    shown = Markdown("", hyperlinks=False)
    shown.parsed = _parser().parse(text)
    return shown


def _parser() -> MarkdownIt:
    # Rich shows no HTML, no definition of a link and no address of a picture; as text all of it is shown.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["image", "reference", "autolink"])


_ESCAPE: Final = re.compile(r"\\[!-/:-@\[-`{-~]")
_WORD: Final = re.compile(r"\w[!-/:-@\[-`{-~]+\Z|\\\Z")
_BEFORE: Final = 100
"""Characters before a backslash that tell whether it is behind a word."""


def _has_backslash_in_word(text: str) -> bool:
    """Whether Markdown would drop a backslash behind a word, or one of two: it makes ``C:_old`` of ``C:\\_old``."""

    def find(state: StateInline, silent: bool) -> bool:
        before = state.src[max(0, state.pos - _BEFORE) : state.pos]
        if _ESCAPE.match(state.src, state.pos) and _WORD.search(f"{before}{state.src[state.pos + 1]}"):
            state.env["found"] = True
        return False

    parser, env = _parser(), dict[str, bool]()
    parser.inline.ruler.before("escape", "backslash_in_word", find)
    parser.parse(text, env)
    return bool(env)


def _loses(text: str, shown: _Shown, console: Console) -> bool:
    """Whether a character of ``text`` is not in its rendering: a link's title, a long table cell, or one too many.

    Of the signs of Markdown itself, only backslashes of a word count.

    Both sides are compared without what only the rendering writes: bullets, numbers of lists, frames.
    """
    if "\\" in text and _has_backslash_in_word(text):
        return True
    places = range(len(shown.tokens))
    if any(_has_more_cells(at, shown.tokens, text) or _is_renumbered(at, shown.tokens) for at in places):
        return True
    tokens = [each for token in shown.tokens for each in (token, *(token.children or ()))]
    wanted = terminal_text("\n".join(part for token in tokens for part in _content(token)))
    lines = console.render_lines(_Shown(_unnumbered(shown.tokens)), pad=False)
    rendered = "".join(segment.text for line in lines for segment in line)
    # Blanks and line ends are laid out anew.
    return any(not char.isspace() for char in Counter(wanted) - Counter(rendered))


def _content(token: Token) -> Iterator[str]:
    if token.type in ("text", "code_inline", "fence", "code_block"):
        yield token.content
    if token.type == "link_open":
        yield from (str(token.attrs.get(name, "")) for name in ("href", "title"))
    # Rich colours code by its language and does not name it.
    if token.type == "fence" and not _LANGUAGE.fullmatch(token.info.strip()):
        yield token.info


_LANGUAGE: Final = re.compile(r"[\w+#.-]{0,20}")


def _unnumbered(tokens: Sequence[Token]) -> Markdown:
    """The tokens as Markdown with bullets for numbers: a list is numbered anew when it is rendered."""
    shown = Markdown("", hyperlinks=False)
    shown.parsed = [copy(token) for token in tokens]
    for token in shown.parsed:
        if token.type in ("ordered_list_open", "ordered_list_close"):
            token.type = token.type.replace("ordered", "bullet")
    return shown


def _has_more_cells(place: int, tokens: Sequence[Token], text: str) -> bool:
    """Whether a table's row begins at ``place`` and has more cells than its heading; the parser drops those."""
    row = tokens[place]
    if row.type != "tr_open" or row.map is None:
        return False
    end = next(index for index in range(place, len(tokens)) if tokens[index].type == "tr_close")
    cells = sum(token.type in ("th_open", "td_open") for token in tokens[place:end])
    line = text.split("\n")[row.map[0]].strip(" \t>")
    return len(_BAR.findall(line.removeprefix("|"))) - line.endswith("|") >= cells


def _is_renumbered(place: int, tokens: Sequence[Token]) -> bool:
    """Whether a list begins at ``place`` whose written numbers do not rise by one; it would be drawn with others."""
    opened = tokens[place]
    if opened.type != "ordered_list_open":
        return False
    within = takewhile(
        lambda each: each.level > opened.level, (tokens[at] for at in range(place + 1, len(tokens)))
    )
    written = [
        each.info for each in within if each.type == "list_item_open" and each.level == opened.level + 1
    ]
    start = int(opened.attrs.get("start", 1))
    return written != [str(start + index) for index in range(len(written))]


_BAR: Final = re.compile(r"(?<!\\)\|")


class _Shown:
    """Rendered text with escapes for what cannot be seen: Markdown makes such characters of entities (``&#x202e;``)."""

    def __init__(self, inner: Markdown) -> None:
        self._inner = inner
        self.tokens: Sequence[Token] = inner.parsed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        # Emphasis parts a text into segments, so marks on one character may come in several.
        escaped = TerminalStream()
        for segment in console.render(self._inner, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def split_blocks(text: str) -> tuple[list[str], str]:
    """Markdown that ended, and what may still grow: blocks end at a blank line outside a fence.

    Joined again, the parts are ``text``.
    """
    blocks: list[str] = []
    block: list[str] = []
    fence = ""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        block.append(line)
        match = _FENCE.match(line)
        # CommonMark: a fence ends with at least as many of the same characters, and nothing behind them.
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not line.strip() and not fence and line.endswith("\n") and _begins_anew(lines[index + 1 :]):
            blocks.append("".join(block))
            block = []
    return blocks, "".join(block)


def _begins_anew(rest: list[str]) -> bool:
    """Whether the next line, complete or partial, belongs to a new block: a list continues over blank lines."""
    return bool(rest) and bool(rest[0].strip()) and not rest[0].startswith((" ", "\t"))
