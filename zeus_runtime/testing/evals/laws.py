"""What must hold of every run, whatever its policies do: pure checks over what was sent and what was stored."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.archive import HISTORY_ROUTE, read_archive
from zeus_runtime.context.view import View
from zeus_runtime.models.content import whole_text
from zeus_runtime.models.messages import to_payload
from zeus_runtime.testing.evals.report import EvaluationFinding
from zeus_runtime.tools import WorkspaceError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.testing.evals.provider import ExactProvider, Sent
    from zeus_runtime.tools import WorkspaceFiles

_PATH: Final = re.compile(r"(?<![<\w])(?:/[\w.\-]+)+")
_MAX_BYTES: Final = 1 << 30
_EVIDENCE: Final = 120


def paths_in(text: str) -> list[str]:
    """The absolute paths that a text names, in order, each once."""
    return list(dict.fromkeys(path.rstrip(".") for path in _PATH.findall(text)))


def shown_text(messages: Sequence[BaseMessage]) -> str:
    """All that a model reads of a request's messages."""
    return "\n".join(map(whole_text, messages))


def short(text: str) -> str:
    """``text`` on one line, as evidence."""
    line = " ".join(text.split())
    return line if len(line) <= _EVIDENCE else f"{line[:_EVIDENCE]}..."


def compactions(turns: Sequence[Sent]) -> list[int]:
    """The steps, from 1, whose request does not begin with all that the request before it had sent."""
    found = []
    for step, (before, after) in enumerate(itertools.pairwise(turns), start=2):
        old, new = before.messages, after.messages
        if len(new) < len(old) or any(not _same(new[place], old[place]) for place in range(len(old))):
            found.append(step)
    return found


def changed(turns: Sequence[Sent]) -> int:
    """How many messages the last request does not show as they were said."""
    view = turns[-1].messages if turns else ()
    if not isinstance(view, View):
        return 0
    seqs = range(1, view.upto + 1)
    return sum(not view.shown(seq) or view.item_of(seq).message is not view.original(seq) for seq in seqs)


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    # A new run reads the log anew, so that equal messages need not be the same object.
    return one is other or to_payload(one) == to_payload(other)


def orphans(messages: Sequence[BaseMessage], step: int = 0) -> Iterator[EvaluationFinding]:
    """Tool calls without their results directly after them, and results without their call."""
    open_calls: list[str] = []
    for message in messages:
        if message.type == "tool":
            call_id = str(getattr(message, "tool_call_id", ""))
            if call_id not in open_calls:
                yield EvaluationFinding("orphan", step, "a tool result was sent without its call", call_id)
            else:
                open_calls.remove(call_id)
            continue
        yield from _unanswered(open_calls, step)
        calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
        open_calls = [str(call["id"]) for call in calls]
    yield from _unanswered(open_calls, step)


def _unanswered(open_calls: Sequence[str], step: int) -> Iterator[EvaluationFinding]:
    for call_id in open_calls:
        yield EvaluationFinding("orphan", step, "a tool call was sent without its result", call_id)


def pins(turns: Sequence[Sent]) -> Iterator[EvaluationFinding]:
    """Pinned messages that a later request does not show, or does not show byte for byte."""
    pinned: set[int] = set()
    for step, sent in enumerate(turns, start=1):
        view = sent.messages
        if not isinstance(view, View):
            continue
        pinned |= view.pinned
        for seq in sorted(pinned):
            shown = view.item_of(seq).message if view.shown(seq) else None
            if shown is None or to_payload(shown) != to_payload(view.original(seq)):
                how = "is gone" if shown is None else "was changed"
                yield EvaluationFinding(
                    "pin-broken",
                    step,
                    f"the pinned message {seq} {how}",
                    short(whole_text(view.original(seq))),
                )


def overflows(provider: ExactProvider) -> Iterator[EvaluationFinding]:
    """Requests that the provider had to refuse."""
    for tokens in provider.refused:
        yield EvaluationFinding("overflow", 0, f"a request of {tokens:,} tokens did not fit the window")


def recoverable(
    history: Sequence[BaseMessage], view: View, files: WorkspaceFiles, session: str
) -> Iterator[EvaluationFinding]:
    """Messages that ``view`` does not show whole and whose original cannot be read back byte for byte.

    The original of a message that left is read from the session's file of the history route. The original of a
    shortened message is read from a path that the shown text names.

    Args:
        history: the stored messages.
        view: what was sent last.
        files: the workspace with its routes.
        session: the thread's id.
    """
    archived, problems = read_archive(_read(files, f"{HISTORY_ROUTE}{session}.md") or b"")
    for problem in problems:
        yield EvaluationFinding("archive-broken", 0, "a part of the archive cannot be read", problem)
    kept = {each.seq: to_payload(each.message) for each in archived}
    for seq in range(1, view.upto + 1):
        original = history[seq - 1]
        if not view.shown(seq):
            if kept.get(seq) != to_payload(original):
                yield EvaluationFinding(
                    "original-lost", 0, f"message {seq} left and is not archived", short(whole_text(original))
                )
            continue
        shown = view.item_of(seq).message
        if to_payload(shown) == to_payload(original):
            continue
        kept_files = [_read(files, path) for path in paths_in(whole_text(shown))]
        if original.content != shown.content and str(original.content).encode() not in kept_files:
            yield _shortened(seq, str(original.content))
        for text in _cut_arguments(original, shown):
            if not any(data is not None and text.encode() in data for data in kept_files):
                yield _shortened(seq, text)


def _shortened(seq: int, text: str) -> EvaluationFinding:
    why = f"message {seq} is shown shortened, and no path that it names has the original byte for byte"
    return EvaluationFinding("original-lost", 0, why, short(text))


def _cut_arguments(original: BaseMessage, shown: BaseMessage) -> Iterator[str]:
    calls = zip(getattr(original, "tool_calls", ()), getattr(shown, "tool_calls", ()), strict=True)
    for before, after in calls:
        for name, value in before["args"].items():
            if after["args"].get(name) != value:
                yield str(value)


def _read(files: WorkspaceFiles, path: str) -> bytes | None:
    try:
        return files.runtime.read(path, max_bytes=_MAX_BYTES)
    except WorkspaceError:
        return None


def asserted(
    provider: ExactProvider,
    history: Sequence[BaseMessage],
    files: WorkspaceFiles,
    session: str,
) -> tuple[EvaluationFinding, ...]:
    """Every law, for one finished session."""
    turns = provider.turns
    found = [*pins(turns), *overflows(provider)]
    for step, sent in enumerate(turns, start=1):
        found += orphans(sent.messages, step)
    last = turns[-1].messages if turns else ()
    if isinstance(last, View):
        found += recoverable(history, last, files, session)
    return tuple(found)
