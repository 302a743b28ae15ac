"""Questions at a terminal: what a call would do, and the keys that decide."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import can_ask, columns_of, complain
from zeus_runtime.cli.typed_lines import typed_line_async
from zeus_runtime.escaping import json_shown
from zeus_runtime.strict_json import persons_json
from zeus_runtime.tools.approval import Decision
from zeus_runtime.tools.question import StyledLine, fields_of, folded, question_lines, tool_label

if TYPE_CHECKING:
    from zeus_runtime.tools.approval import PendingApproval

_HELP: Final = """\
  y [TEXT]  run it once; TEXT is told the model besides
  a         run it, and never ask this user again about the tool with these options, in this workspace
  c [JSON]  run it with these arguments instead
  n [TEXT]  do not run it; TEXT tells the model why
  v         show all of it: long values, and the arguments behind a diff
  l         decide later: the run ends, and `zeus resume` continues it (so does Ctrl-D)"""

_ANSWER_HELP: Final = """\
  c [JSON]  answer with this; without JSON you are asked field by field
  y         answer with what has a default, and nothing else
  n [TEXT]  do not answer
  v         show all of it
  l         decide later: the run ends, and `zeus resume` continues it (so does Ctrl-D)"""

YES_NOTICE: Final = "--yes: calls that need approval run without asking in this run; `deny` rules hold."

ReadLine = Callable[[str], Awaitable[str | None]]
"""Asks for a line with a prompt; None at the end of input."""


class Asking(Protocol):
    """Asks the user of a run, and shows the question after the view has shown all earlier events."""

    async def ask(self, pending: PendingApproval) -> Decision | None: ...

    def waits(self, name: str) -> bool: ...

    async def answer(self, name: str) -> None: ...


@dataclass(frozen=True)
class Instead:
    """The text to show for a line that decides nothing."""

    text: str


class TerminalApprovals:
    """Asks the user one question after the other; ``answer`` shows it after the view has shown all earlier events.

    Args:
        read: reads a line.
    """

    def __init__(self, read: ReadLine | None = None) -> None:
        self._read = read or typed_line_async
        self._open: dict[str, tuple[PendingApproval, asyncio.Future[Decision | None]]] = {}

    async def ask(self, pending: PendingApproval) -> Decision | None:
        """Wait for ``answer``."""
        future: asyncio.Future[Decision | None] = asyncio.get_running_loop().create_future()
        self._open[pending.id] = pending, future
        try:
            return await future
        finally:
            del self._open[pending.id]

    def waits(self, name: str) -> bool:
        """Whether a question waits to be put to the user."""
        return name in self._open

    async def answer(self, name: str) -> None:
        """Put a question that waits to the user; a run that is stopped meanwhile takes it back."""
        pending, future = self._open[name]
        asking = asyncio.create_task(self._decided(pending))
        try:
            await asyncio.wait({asking, future}, return_when=asyncio.FIRST_COMPLETED)
            # A stopped run may have cancelled the future in the same moment: it would refuse the answer.
            if asking.done() and not future.done():
                future.set_result(asking.result())
        finally:
            if not asking.done():
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
                complain("")

    async def _decided(self, pending: PendingApproval) -> Decision | None:
        _show(pending)
        keys = f"y, {', '.join([*_keys_offered(pending), 'n, v, l or ?'])}"
        deed = "answer" if pending.is_question else "approve"
        while True:
            line = await self._read(f"{deed} {tool_label(pending.tool)}? [{keys}] ")
            if line is None:
                return None
            if line.strip().lower() in ("v", "view"):
                _show(pending, whole=True)
                continue
            if line.strip().lower() in ("c", "change"):
                given = await self._asked_for(pending)
                if given is None:
                    return None
                line = f"c {given}"
            outcome = read_answer(line, pending)
            if not isinstance(outcome, Instead):
                return outcome
            for each in outcome.text.split("\n"):
                for piece in folded(StyledLine(each), columns_of(sys.stderr)):
                    complain(piece.text, laid_out=True)

    async def _asked_for(self, pending: PendingApproval) -> str | None:
        """Arguments, or the answer to a question field by field, as JSON; None at the end of input."""
        if not pending.is_question:
            return await self._read("arguments as JSON: ")
        given = {}
        for field in fields_of(pending):
            # The question showed all of it; a prompt that wraps would begin a server's words at the margin.
            shown, *more = folded(StyledLine(field.line), columns_of(sys.stderr) - len("  ...: "))
            line = await self._read(f"  {shown.text}{'…' if more else ''}: ")
            if line is None:
                return None
            if line.strip():
                given[field.name] = field.value(line)
        return as_json(given, indent=None)


class YesApprovals:
    """Approves every call (``--yes``); a question in the middle of a call needs an answer, which yes is not.

    Args:
        terminal: asks the user questions, and about what only a person may approve. None: questions are left open, and
            such calls are refused, except after another call was begun or approved in their place: then they are left
            open.
    """

    def __init__(self, terminal: TerminalApprovals | None) -> None:
        self._terminal = terminal

    async def ask(self, pending: PendingApproval) -> Decision | None:
        """Yes, or what the user answers."""
        if self._terminal is not None and (pending.is_question or pending.needs_person):
            return await self._terminal.ask(pending)
        # Only a person can say what is to follow on a call with other arguments that was begun or approved.
        is_left = pending.is_question or pending.begun_with or pending.approved_with is not None
        return None if is_left else Decision("approve", by="automatic")

    def waits(self, name: str) -> bool:
        """Whether a question waits to be put to the user."""
        return self._terminal is not None and self._terminal.waits(name)

    async def answer(self, name: str) -> None:
        """Put a question that waits to the user."""
        assert self._terminal is not None, "without a terminal no question waits"
        await self._terminal.answer(name)


def _show(pending: PendingApproval, *, whole: bool = False) -> None:
    for line in question_lines(pending, whole=whole, names_agent=False, width=columns_of(sys.stderr)):
        complain(line.text, line.style, laid_out=True)


def read_answer(line: str, pending: PendingApproval) -> Decision | Instead | None:
    """The decision in a line of the user's; None: later."""
    key, _, text = line.strip().partition(" ")
    text = text.strip()
    match key.lower():
        case "y" | "yes":
            decision = Decision("approve", instruction=text)
            problem = pending.problem_with(decision)
            return decision if problem is None else Instead(f"{problem}\nType c to give them.")
        case "a" | "always" if pending.may_remember and not text:
            return Decision("approve", always=True)
        case "n" | "no":
            return Decision("reject", reason=text)
        case "c" | "change":
            arguments = changed_arguments(text, pending)
            return (
                Instead(arguments) if isinstance(arguments, str) else Decision("approve", arguments=arguments)
            )
        case "l" | "later" if not text:
            return None
        case _:
            if pending.is_question:
                return Instead(_ANSWER_HELP)
            offered = ("  y", "  n", "  v", "  l", *(f"  {each}" for each in _keys_offered(pending)))
            return Instead("\n".join(each for each in _HELP.splitlines() if each.startswith(offered)))


def _keys_offered(pending: PendingApproval) -> list[str]:
    """Those of the keys a and c that the user may answer with."""
    offered = {"a": pending.may_remember, "c": pending.schema is not None}
    return [key for key, is_offered in offered.items() if is_offered]


def changed_arguments(text: str, pending: PendingApproval) -> Mapping[str, Any] | str:
    """The arguments that JSON text gives, or what is wrong with it."""
    try:
        given = given_arguments(text)
    except ValueError as error:
        return f"this is not JSON: {error}"
    if given is None:
        return f"arguments are a JSON object, such as {json_shown(dict(pending.arguments))}"
    return pending.problem_of(given) or given


def given_arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a user wrote, exactly; None for JSON that is not an object.

    Raises:
        ValueError: it is not JSON, or it has a number or a key that would not run as written.
    """
    given = persons_json(text)
    return given if isinstance(given, dict) else None


def _terminal() -> TerminalApprovals | None:
    """A way to ask, if a user is at standard input and sees standard error."""
    return TerminalApprovals() if can_ask() else None


def asking_for(*, yes: bool, at_terminal: bool = True) -> Asking | None:
    """The way in which a run asks its user; None if no user is there.

    Args:
        yes: approve every call; only questions that need an answer are still put to the user.
        at_terminal: whether the user may be asked at the terminal.
    """
    terminal = _terminal() if at_terminal else None
    return YesApprovals(terminal) if yes else terminal
