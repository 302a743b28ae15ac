"""A needle comes back: a fact that compaction took out of what the model is sent is read again, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.models.content import whole_text
from zeus_runtime.testing.evals.laws import asserted, compactions, paths_in, short
from zeus_runtime.testing.evals.report import Check, EvaluationFinding
from zeus_runtime.testing.evals.subject import Subject, running
from zeus_runtime.testing.evals.work import FULL, Desk, Part, ShownTexts, forgetful, survey, working
from zeus_runtime.testing.scripted_model import calling

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.testing.evals.provider import Script, Sent

_SIZES: Final = (600, 1_200, 2_500, 5_000, 9_000, 14_000, 24_000, 40_000)
_MOST_TURNS: Final = 40
_MOST_PAGES: Final = 100
_MOST_PATHS: Final = 3
_MOST_FINDS: Final = 3
_NO_ROOM: Final = ("overflow", "run-failed")
"""The findings if a policy alone does not leave enough room."""

_NUMBERED: Final = re.compile(r"^(\d+)\t(.*)$", re.MULTILINE)


@dataclass
class Needle:
    """A fact and its place in the conversation.

    Args:
        query: the part of it that the model remembers.
        place: the argument of the call that returned it.
        line: the fact itself.
        original: the whole text that contains it.
        call: the name and arguments of the call whose result or argument is that text; None for a user's message.
        gone: whether a request did not show it.
        findings: why it could not be read back.
        ways: by which of ``recall`` and ``read_file`` it was tried.
    """

    query: str
    line: str
    place: str
    original: str = ""
    call: tuple[str, str] | None = None
    gone: bool = False
    findings: list[EvaluationFinding] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)


def new_needle(desk: Desk) -> Needle:
    """A needle that stands nowhere else."""
    query = f"code of vault {desk.token()}"
    return Needle(query, f"The {query} is {desk.token()}{desk.token()}.", f"place {desk.token()}")


_WAYS_BACK: Final = ("read_file", "recall")

Planting = Callable[[Needle, Desk, "Sent"], Part]


def large_result(needle: Needle, desk: Desk, sent: Sent) -> Part:
    """Results of growing size, until one is not shown whole."""
    shown = ShownTexts()
    for size in _SIZES:
        if sent.tokens + size > FULL * desk.window_tokens:
            break
        one = new_needle(desk)
        text = desk.texts[one.place] = desk.text(size, one.line)
        sent = yield survey(one.place)
        if not shown(sent.messages, one.line):
            needle.query, needle.line, needle.place = one.query, one.line, one.place
            needle.original, needle.call = text, ("eval_survey", one.place)
            break
    return sent


def long_argument(needle: Needle, desk: Desk, sent: Sent) -> Part:
    """A report with the needle in it, and work on top."""
    needle.original = desk.text(min(3_000, desk.window_tokens // 5), needle.line)
    needle.call = ("eval_report", needle.place)
    sent = yield calling(("eval_report", {"title": needle.place, "body": needle.original}))
    return (yield from _buried(needle, desk, sent))


def read_twice(needle: Needle, desk: Desk, sent: Sent) -> Part:
    """A place that is looked at, changes, and is looked at again, and work on top."""
    tokens = min(4_000, desk.window_tokens // 10)
    needle.original = desk.texts[needle.place] = desk.text(tokens, needle.line)
    needle.call = ("eval_look", needle.place)
    sent = yield calling(("eval_look", {"place": needle.place}))
    sent = yield survey("between")
    desk.texts[needle.place] = desk.text(tokens)
    sent = yield calling(("eval_look", {"place": needle.place}))
    return (yield from _buried(needle, desk, sent))


def old_result(needle: Needle, desk: Desk, sent: Sent) -> Part:
    """A small result at the start, and work on top."""
    needle.original = desk.texts[needle.place] = desk.text(desk.filler_tokens, needle.line)
    needle.call = ("eval_survey", needle.place)
    sent = yield survey(needle.place)
    return (yield from _buried(needle, desk, sent))


def earlier_turn(needle: Needle, desk: Desk, sent: Sent) -> Part:
    """What the user said in a turn long ago; the driver takes the turns."""
    needle.original = needle.line
    shown = ShownTexts()
    for _ in range(_MOST_TURNS):
        if not shown(sent.messages, needle.line):
            break
        sent = yield "Noted."
    return sent


CASES: Final[Mapping[str, Planting]] = {
    "large result": large_result,
    "long argument": long_argument,
    "read twice": read_twice,
    "earlier turn": earlier_turn,
    "old result": old_result,
}

OWN_CASE: Final[Mapping[str, tuple[str, ...]]] = {
    "eviction": ("large result",),
    "truncation": ("long argument",),
    "dedupe": ("read twice",),
    "history": ("earlier turn",),
    "summarization": ("old result",),
}
"""The cases that each bundled policy removes from the view by itself; other policies are tried with every case."""


def _buried(needle: Needle, desk: Desk, sent: Sent) -> Part:
    shown = ShownTexts()
    return (yield from working(sent, desk, lambda each: not shown(each.messages, needle.line)))


def script(needle: Needle, desk: Desk, planting: Planting) -> Script:
    """Greet, lose the needle, and get it back by every way there is."""
    sent = yield "waiting"
    sent = yield "Hello."
    sent = yield from planting(needle, desk, sent)
    needle.gone = bool(needle.original) and not ShownTexts()(sent.messages, needle.line)
    if needle.gone:
        yield from recovered(needle, sent)
    while True:
        yield "The end."


def recovered(needle: Needle, sent: Sent) -> Part:
    """Try ``recall`` and ``read_file``, as far as the model has them, with what it is shown."""
    names = [tool.name for tool in sent.request.tools]
    paths = pointers(needle, sent.messages)
    if "recall" in names:
        needle.ways.append("recall")
        sent = yield from _recalled(needle, sent)
    if "read_file" in names and paths:
        needle.ways.append("read_file")
        sent = yield from _read(needle, sent, paths, names)
    if not needle.ways:
        why = "no path of it is shown" if "read_file" in names else "there is no read_file"
        needle.findings.append(
            _unrecovered("it left, there is no recall, and " + why, shown_at(sent.messages))
        )
    return sent


def shown_at(messages: Sequence[BaseMessage]) -> str:
    return whole_text(messages[0]) if messages else ""


def pointers(needle: Needle, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the paths in the text that replaced the needle: its own message if that is shown, else a user message."""
    call_id = ""
    for message in messages:
        for call in getattr(message, "tool_calls", ()):
            if (
                needle.call is not None
                and (call["name"], next(iter(call["args"].values()), "")) == needle.call
            ):
                call_id = call_id or str(call["id"])
    own = [
        whole_text(message)
        for message in messages
        if call_id
        and (
            getattr(message, "tool_call_id", "") == call_id
            or any(call["id"] == call_id for call in getattr(message, "tool_calls", ()))
        )
    ]
    texts = own or [whole_text(message) for message in messages if message.type == "human"]
    return list(dict.fromkeys(path for text in texts for path in paths_in(text)))[:_MOST_PATHS]


def _recalled(needle: Needle, sent: Sent) -> Part:
    sent = yield calling(("recall", {"query": needle.query}))
    found = last_text(sent)
    number = next(
        (
            match[1]
            for entry in found.split("\n\n")
            if (match := re.match(r"#(\d+) ", entry)) and needle.query in " ".join(entry.split())
        ),
        None,
    )
    if number is None:
        needle.findings.append(_unrecovered("recall does not find it", found))
        return sent
    whole, pages, page = "", 1, 1
    while page <= min(pages, _MOST_PAGES):
        sent = yield calling(("recall", {"item": number, "page": page}))
        head, _, body = last_text(sent).partition("\n\n")
        told = re.search(r"page \d+ of (\d+)", head)
        if told is None:
            needle.findings.append(_unrecovered(f"page {page} of recall is not shown", last_text(sent)))
            return sent
        pages, whole, page = int(told[1]), whole + body, page + 1
    if needle.original not in whole:
        needle.findings.append(_unrecovered("recall gives another text than was there", whole))
    return sent


def _read(needle: Needle, sent: Sent, paths: Sequence[str], names: Sequence[str]) -> Part:
    seen = ""
    above = needle.original[: needle.original.index(needle.line)].count("\n")
    wanted = needle.original.count("\n") + 1 if "grep" in names else None
    for path in paths:
        starts = [1]
        if "grep" in names:
            sent = yield calling(("grep", {"pattern": needle.query, "path": path, "literal": True}))
            seen = last_text(sent)
            found = re.findall(rf"^(\d+):.*{re.escape(needle.query)}", seen, re.MULTILINE)
            starts = [max(1, int(line) - above) for line in found[:_MOST_FINDS]]
        for first in starts:
            sent, text = yield from _pages(sent, path, first, wanted)
            if needle.original in text:
                return sent
            seen = text or last_text(sent)
    needle.findings.append(_unrecovered(f"read_file does not give it back from {', '.join(paths)}", seen))
    return sent


def _pages(
    sent: Sent, path: str, first: int, wanted: int | None
) -> Generator[AIMessage | str, Sent, tuple[Sent, str]]:
    """``wanted`` lines of a file from line ``first`` on, or all: the last request and the text."""
    lines: list[str] = []
    while wanted is None or len(lines) < wanted:
        left = 1_000 if wanted is None else wanted - len(lines)
        sent = yield calling(("read_file", {"path": path, "offset": first + len(lines), "limit": left}))
        page = [line for _, line in _NUMBERED.findall(last_text(sent))]
        lines += page
        if not page:
            break
    return sent, "\n".join(lines)


def last_text(sent: Sent) -> str:
    """What the last message says."""
    return str(sent.messages[-1].content)


def _unrecovered(message: str, evidence: str) -> EvaluationFinding:
    return EvaluationFinding("needle-lost", 0, message, short(evidence))


async def needle(subject: Subject, folder: Path, seed: int, case: str) -> Check:
    """Whether the needle of one case is recovered by ``recall`` and by ``read_file``, as far as the config has them."""
    desk = Desk(subject.plan(folder).profile.max_input_tokens, seed)
    lost = new_needle(desk)
    async with running(subject, folder, script(lost, desk, CASES[case]), forgetful, desk.tools()) as bench:
        found: list[EvaluationFinding] = []
        session: str | None = None
        for prompt in _prompts(lost, case):
            session, ending = await bench.run(prompt, session)
            found += ending
            if ending or lost.gone:
                break
        provider = bench.provider
        assert session is not None
        history = await bench.agent.history(session)
        crowded = subject.name != "all" and lost.gone and moved_away(provider.turns, history)
        found += [] if found or crowded else lost.findings
        found += asserted(provider, history, bench.files, session)
    cramped = subject.name != "all" and lost.gone and not lost.findings and bool(provider.refused)
    if cramped:
        found = list(but_for_room(found))
    steps, shed = len(provider.turns), len(compactions(provider.turns))
    skipped = "" if lost.gone or found else "nothing took it out of the window"
    if (cramped or crowded) and not found:
        skipped = "with this policy alone there is no room to read it back"
    return Check("needle", subject.name, case, tuple(found), skipped, steps, shed)


def but_for_room(findings: Sequence[EvaluationFinding]) -> Iterator[EvaluationFinding]:
    """Return the findings that a small window does not excuse: a broken law is still broken."""
    return (each for each in findings if each.kind not in _NO_ROOM)


def moved_away(turns: Sequence[Sent], history: Sequence[BaseMessage]) -> bool:
    """Whether a page that the model requested was removed for lack of room before it was shown."""
    pages = {
        str(message.tool_call_id): message.content  # type: ignore[attr-defined]
        for message in history
        if message.type == "tool" and message.name in _WAYS_BACK
    }
    arrived = (turn.messages[-1] for turn in turns if turn.messages and turn.messages[-1].type == "tool")
    return any(
        pages.get(str(message.tool_call_id), message.content) != message.content  # type: ignore[attr-defined]
        for message in arrived
    )


def _prompts(lost: Needle, case: str) -> Iterator[str]:
    yield "Hello."
    if case != "earlier turn":
        yield "Begin, and go on until the end."
        return
    yield lost.line
    for number in range(_MOST_TURNS):
        yield f"Number {number} is {number * number}."
