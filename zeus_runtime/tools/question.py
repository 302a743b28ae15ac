"""A question as it is shown to the user: every argument exactly, a change as a diff. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.columns import TAB_COLUMNS, Style, cut_line
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER, WRITTEN
from zeus_runtime.escaping import (
    CONTINUED,
    exact,
    exact_blanks,
    exact_json,
    exact_label,
    exact_line,
    has_blank_signs,
    json_label,
    json_shown,
    needs_quotes,
    terminal_text,
    word,
)
from zeus_runtime.strict_json import persons_json, texts_of, with_texts
from zeus_runtime.tools.diff import Diff, DiffGap, DiffLine, cut_diff, difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.tools.approval import PendingApproval
    from zeus_runtime.tools.kept_changes import KeptChange
    from zeus_runtime.tools.preview import Change

MOST_CHARACTERS: Final = 4_000
MOST_LINES: Final = 40
"""Of an argument or a diff, unless all of it is wanted; also so many arguments, changes and parts of an answer."""
MOST_NAME: Final = 200
"""Characters of an argument's name, unless all of it is wanted."""

_LONGEST_NAME: Final = 64
"""As long as a tool's name may be; a model may call one that is longer."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]+")
_PLAIN_PERSON: Final = re.compile(r"[A-Za-z0-9_.:@-]+")
"""Without a slash, which only a sub-agent's name has."""


_STYLES: Final[Mapping[str, Style]] = {"-": "red", "+": "green", "@": "dim", " ": "plain"}
_OWN: Final = frozenset({"answer", "because", "until"})
"""Words that lines of ours begin with."""
_BLOCK: Final = "    │ "
_GOES_ON: Final = f"    {CONTINUED} "
_LEAST_COLUMNS: Final = 12


class StyledLine(NamedTuple):
    """A line to write, and how it looks.

    Args:
        moment: the part of the text that is a moment, which a reader elsewhere may write in its own zone.
        at_ms: that moment, UTC milliseconds.
    """

    text: str
    style: Style = "plain"
    moment: str = ""
    at_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """The line as the API sends it."""
        told = {"text": self.text, "style": self.style}
        return {**told, "moment": {"text": self.moment, "at_ms": self.at_ms}} if self.moment else told


@dataclass(frozen=True)
class AnswerField:
    """A part of the answer to a question.

    Args:
        schema: what it may be.
        required: whether the answer needs it.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def line(self) -> str:
        """The field in one line: all that its schema says, exactly."""
        rest = dict(self.schema)
        about = [word(rest.pop("type", None) or "any")]
        if isinstance(rest.get("enum"), list):
            about = ["one of " + " | ".join(map(word, rest.pop("enum")))]
        if "default" in rest:
            about.append(f"else {json_shown(rest.pop('default'))}")
        elif self.required:
            about.append("required")
        text = rest.pop("description", None) or rest.pop("title", None)
        if rest:
            about.append(json_shown(rest))
        return f"{named(self.name)} ({', '.join(about)}){f': {json_shown(text)}' if text else ''}"

    @property
    def form(self) -> dict[str, Any]:
        """The field's texts for a form of a browser, exactly; two choices never look the same.

        ``title``; ``about`` and ``default`` if there are any; ``choices`` in the order of the schema's.
        """
        about, default = self.schema.get("description"), self.schema.get("default")
        items = self.schema.get("items")
        many = items if self.schema.get("type") == "array" and isinstance(items, dict) else {}
        return {
            "title": _label(self.schema.get("title") or self.name),
            **({"about": _label(about)} if about else {}),
            **({"default": json_label(default)} if "default" in self.schema else {}),
            "choices": _choices(self.schema) or _choices(many),
        }

    def value(self, line: str) -> Any:
        """What was typed: text where a text is wanted, else JSON."""
        kind, choices, bare = self.schema.get("type"), self.schema.get("enum"), line.strip()
        if kind == "boolean" and bare.lower() in ("y", "yes", "n", "no"):
            return bare.lower().startswith("y")
        # Blanks at the ends belong to a text, but to no choice that has none.
        text = bare if isinstance(choices, list) and line not in choices else line
        if kind == "string":
            return text
        try:
            return persons_json(line)
        except ValueError:
            return text


def _label(value: Any) -> str:
    return exact_label(value) if isinstance(value, str) else json_label(value)


def _choices(schema: Mapping[str, Any]) -> list[str]:
    """The titles of a schema's choices, all with their values if one could be taken for another."""
    named = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(schema.get("enum"), list):
        values, names = schema["enum"], schema.get("enumNames")
        titles = [*names[: len(values)], *values[len(names) :]] if isinstance(names, list) else values
    elif isinstance(named, list) and all(isinstance(each, dict) and "const" in each for each in named):
        values = [each["const"] for each in named]
        titles = [each.get("title") or each["const"] for each in named]
    elif schema.get("type") == "boolean":
        values = titles = [True, False]
    else:
        return []
    said = [
        _value_label(value) if title is value else _label(title)
        for value, title in zip(values, titles, strict=True)
    ]
    own = [{_value_label(each), _label(each)} for each in values]
    is_clear = all(
        text != said[other] and text not in own[other]
        for place, text in enumerate(said)
        for other in range(len(said))
        if other != place
    )
    if is_clear:
        return said
    return [
        json_label(value) if title is value else f"{text}: {json_label(value)}"
        for value, title, text in zip(values, titles, said, strict=True)
    ]


def _value_label(value: Any) -> str:
    return exact_label(value) if isinstance(value, str) and not needs_quotes(value) else json_label(value)


def fields_of(pending: PendingApproval) -> Sequence[AnswerField]:
    """The parts of the answer to a question that a tool asks; none for a call."""
    schema = (pending.schema or {}) if pending.is_question else {}
    required = schema.get("required") or ()
    return [
        AnswerField(name, each if isinstance(each, dict) else {}, name in required)
        for name, each in (schema.get("properties") or {}).items()
    ]


def shown_texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Every text in the arguments that a question shows whole, without a further key."""
    for value in list(arguments.values())[:MOST_LINES]:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if _cut(text) == text:
            yield from texts_of(value)


def tool_label(name: str | None) -> str:
    """A tool's name, quoted unless it is plain: a model may write anything as one, also the words of our own lines."""
    if not name:
        return "(no name)"
    return cut_line(name if _PLAIN_NAME.fullmatch(name) else json_shown(name), _LONGEST_NAME)


def caller_label(agent: str, tool: str) -> str:
    """A tool's name, and before it the sub-agent that calls it, whose files may be others."""
    return f"{exact_line(agent)} → {tool_label(tool)}" if agent else tool_label(tool)


def caller_text(agent: str, subagent: str = "", user: str = "", project: str = "") -> str:
    """Who calls: ``prod``, ``prod/helper``, ``lead/helper of prod``, with ``for ann in argo`` in a service.

    Two different callers never look the same: any other name than a plain one is quoted.

    Args:
        agent: the outermost agent.
        subagent: ``PendingApproval.agent``, which begins with the agent above it.
    """
    parts = [subagent if _PLAIN_NAME.fullmatch(subagent) else json_shown(subagent)] if subagent else []
    if agent and subagent.partition("/")[0] != agent:
        parts += [*(["of"] if parts else []), _person(agent)]
    if user:
        parts += ["for", _person(user)]
    if project:
        parts += ["in", _person(project)]
    return " ".join(parts)


def _person(name: str) -> str:
    return name if _PLAIN_PERSON.fullmatch(name) else json_shown(name)


def question_lines(
    pending: PendingApproval,
    *,
    whole: bool = False,
    names_agent: bool = True,
    width: int | None = None,
    rest: str = "v shows all",
) -> list[StyledLine]:
    """The action, the reason for the question, and its deadline.

    Two different calls never look the same, and no line of a value looks like a line of Zeus's. Values of several lines
    follow a bar, and a line that is longer than ``width`` continues after a dotted bar. Signs replace blanks that end a
    line or could be mistaken for others.

    Args:
        whole: long values and diffs in full, and the arguments that a diff stands for.
        names_agent: whether to name the session's agent and user, whom a person in that session knows. A sub-agent is
            always named.
        width: columns of a line; None for no limit.
        rest: how to see the part that is cut.
    """
    # The files and the sandbox are the caller's.
    caller = caller_text(pending.session_agent, pending.agent, pending.user, pending.project)
    if not names_agent:
        caller = caller_text("", pending.agent)
    shown = _lines(pending, caller, None if whole else rest)
    return [part for line in shown for part in folded(line, width)]


def _lines(pending: PendingApproval, caller: str, rest: str | None) -> Iterator[StyledLine]:
    waits = "asks" if pending.is_question else "waits for approval"
    calls = f"; the {'sub-agent' if pending.agent else 'agent'} {caller} calls it" if caller else ""
    yield StyledLine(f"{tool_label(pending.tool)} {waits} ({exact_line(pending.id)}){calls}", "yellow")
    preview = pending.preview
    changes = preview.changes[: _most(rest)] if preview is not None else ()
    found = [difference(each.before or "", each.after) for each in changes]
    says_all = bool(found) and all(
        each.is_compared and (rest is None or _says_something(each.lines)) for each in found
    )
    diffed = () if preview is None else preview.stands_for
    # All of a new file is in its diff, which then needs no second copy.
    hides = says_all and (rest is not None or all(each.before is None for each in changes))
    given = pending.arguments if pending.told is None else pending.told
    arguments = [
        (str(name), _as_in(changes, value) if name in diffed else value)
        for name, value in given.items()
        if not (hides and name in diffed)
    ]
    for name, value in arguments[: _most(rest)]:
        yield from _argument(name, value, rest)
    yield from _left(len(arguments), "argument", rest)
    for each in (*pending.facts, *(() if preview is None else preview.facts)):
        yield StyledLine(f"  {exact_line(each)}")
    if preview is not None:
        for change, compared in zip(changes, found, strict=True):
            yield from _change(change, compared, rest)
        yield from _left(len(preview.changes), "change", rest)
        if preview.problem:
            yield StyledLine(f"  no diff: {exact_line(preview.problem)}")
    answers = [field.line for field in fields_of(pending)]
    for each in answers[: _most(rest)]:
        kept = each if rest is None else _cut(each)
        yield StyledLine(f"  answer: {kept}")
        yield from _unshown(each, kept, rest)
    yield from _left(len(answers), "field", rest)
    if pending.reason and not pending.is_question:
        yield StyledLine(f"  because: {exact_line(pending.reason)}")
    if pending.approved_with is not None:
        settings = f"under other settings or parameters of {tool_label(pending.tool)}"
        told = f"A person approved it with other arguments, {settings}: that approval does not hold."
        yield StyledLine(f"  {told}", "yellow")
        yield from _arguments("approved with", pending.approved_with, rest)
    elif pending.approved_before:
        settings = f"under other settings of {tool_label(pending.tool)}"
        yield StyledLine(f"  It was approved before, {settings}: that approval does not hold.", "yellow")
    if pending.outdated:
        yield StyledLine(f"  {OUTDATED}: its approval will not hold.", "yellow")
    if pending.interrupted:
        how = ", with the arguments below," if pending.begun_with else ""
        yield StyledLine(
            f"  It was begun before{how} and did not finish: whether it took effect is unknown.", "yellow"
        )
        for begun in pending.begun_with:
            yield from _arguments("begun with", begun, rest)
    if pending.expires_ms is not None:
        moment = local_moment(pending.expires_ms)
        text = f"  until {deadline(pending.expires_ms, pending.on_timeout)}"
        yield StyledLine(text, moment=moment, at_ms=pending.expires_ms)


def _arguments(name: str, arguments: Mapping[str, Any], rest: str | None) -> Iterator[StyledLine]:
    text = json.dumps(arguments, ensure_ascii=False, default=str)
    kept = text if rest is None else _cut(text)
    yield StyledLine(f"  {name}: {exact_json(kept)}")
    yield from _unshown(text, kept, rest)


def _as_in(changes: Sequence[Change], value: Any) -> Any:
    """An argument behind a diff, in which a text that only looks like a placeholder is what the diff says it is.

    A tool may put a secret in the place of its placeholder, so the arguments alone do not tell.
    """
    texts = [text for each in changes for text in (each.before or "", each.after)]

    def has(part: str) -> bool:
        return any(part in each for each in texts)

    def told(found: re.Match[str]) -> str:
        marked = f"<not the {found[1]}"
        is_secret = PLACEHOLDER.fullmatch(found[0]) and has(found[0])
        return found[0] if is_secret or not has(marked) else marked

    return with_texts(value, lambda text: WRITTEN.sub(told, text))


OUTDATED: Final = "It was asked under other settings of the tool, or in another workspace"


def deadline(expires_ms: int, on_timeout: str) -> str:
    """When a call is decided without a person, and how: ``2026-11-30 03:54:26 UTC, then: reject``."""
    return f"{local_moment(expires_ms)}, then: {exact_line(on_timeout)}"


def local_moment(at_ms: int) -> str:
    """A moment, in UTC milliseconds, as a text that names its zone: that of this process."""
    # The text may be read elsewhere: this process may be a service, or in a container whose zone is UTC.
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S} {timezone(at.utcoffset() or timedelta())}"


def _most(rest: str | None) -> int | None:
    return None if rest is None else MOST_LINES


def _left(count: int, noun: str, rest: str | None) -> Iterator[StyledLine]:
    if rest is not None and (left := count - MOST_LINES) > 0:
        yield StyledLine(f"  … {left:,} more {noun}{'s' if left > 1 else ''}; {rest}", "yellow")


def _unshown(text: str, kept: str, rest: str | None) -> Iterator[StyledLine]:
    if left := len(text) - len(kept):
        yield StyledLine(f"    … {left:,} more characters; {rest}", "yellow")


def _argument(name: str, value: Any, rest: str | None) -> Iterator[StyledLine]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    kept = text if rest is None else _cut(text)
    name = _short_name(name, rest)
    if isinstance(value, str) and "\n" in text:
        yield StyledLine(f"  {name}:")
        yield from (StyledLine(f"{_BLOCK}{exact_blanks(line)}") for line in kept.split("\n"))
    elif isinstance(value, str):
        quoted = needs_quotes(text)
        shown = json_shown(kept) if quoted else exact(kept)
        yield StyledLine(f"  {name}: {shown}")
    else:
        yield StyledLine(f"  {name}: {exact_json(kept)}")
    yield from _unshown(text, kept, rest)


def _short_name(name: str, rest: str | None) -> str:
    left = 0 if rest is None else len(name) - MOST_NAME
    return f"{named(name[:MOST_NAME])} … {left:,} more characters" if left > 0 else named(name)


def named(name: str) -> str:
    """The name of an argument or a field, quoted where it could be taken for more than a name."""
    return json_shown(name) if name in _OWN else word(name)


def _cut(text: str) -> str:
    return "\n".join(text[:MOST_CHARACTERS].split("\n")[:MOST_LINES])


def _change(change: Change, found: Diff, rest: str | None) -> Iterator[StyledLine]:
    removed, added = (sum(each.kind == kind for each in found.lines) for kind in "-+")
    yield _heading(change.path, removed, added, is_new=change.before is None, is_compared=found.is_compared)
    for each in [*found.lines] if rest is None else cut_diff(found.lines, MOST_LINES, MOST_CHARACTERS):
        yield from _diff_line(each) if isinstance(each, DiffLine) else _diff_gap(each, rest or "")


def change_lines(changes: Iterable[KeptChange]) -> list[StyledLine]:
    """The changes that a call made, in the lines in which a question shows those that a call would make."""
    return [line for each in changes for line in _made(each)]


def _made(change: KeptChange) -> Iterator[StyledLine]:
    yield _heading(
        change.path,
        change.removed,
        change.added,
        is_new=change.is_new,
        is_compared=change.is_compared,
        uncompared=change.uncompared,
    )
    for each in change.lines:
        yield from _diff_line(each) if isinstance(each, DiffLine) else _diff_gap(each, "not kept")


def _heading(
    path: str, removed: int, added: int, *, is_new: bool, is_compared: bool, uncompared: int = 0
) -> StyledLine:
    if is_new:
        did = f"new file, {added:,} {'line' if added == 1 else 'lines'}"
    else:
        did = f"{removed:,} removed, {added:,} added" if removed or added else "no line changes"
    if not is_compared:
        did = f"{did if uncompared else f'at most {did}'}, too different to compare"
    elif uncompared:
        did = f"at least {removed:,} removed, {added:,} added"
    if uncompared:
        did += f"; {uncompared:,} {'line' if uncompared == 1 else 'lines'} not compared"
    return StyledLine(f"  {exact_line(path)}: {did}", "bold")


def _diff_gap(gap: DiffGap, rest: str) -> Iterator[StyledLine]:
    noun = "removed lines" if gap.is_removed else "lines"
    yield StyledLine(f"    … {gap.lines:,} more {noun} ({gap.characters:,} characters); {rest}", "yellow")


def _says_something(found: Sequence[DiffLine]) -> bool:
    """Whether a cut diff shows any of its changed lines: a line that does not fit is left out whole."""
    shown = cut_diff(found, MOST_LINES, MOST_CHARACTERS)
    return not found or any(isinstance(each, DiffLine) and each.kind in "-+" for each in shown)


def _diff_line(line: DiffLine) -> Iterator[StyledLine]:
    if line.kind == "@":
        yield StyledLine(f"    @@ line {line.text}", "dim")
        return
    text = line.text.removesuffix("\n")
    yield StyledLine(f"    {line.kind} {exact_blanks(text)}", _STYLES[line.kind])
    if text == line.text:
        yield StyledLine("    \\ no newline at the end", "dim")


def folded(line: StyledLine, width: int | None) -> Iterator[StyledLine]:
    """A line in pieces that fit, so that no terminal begins a part of a value where our own lines begin."""
    text = terminal_text(line.text)
    room = None if width is None else max(_LEAST_COLUMNS, width - 1)
    if room is None or _columns(text) <= room:
        yield line._replace(text=text)
        return
    *pieces, last = _pieces(text, room - 1)
    yield from (StyledLine(_ended(piece), line.style) for piece in pieces)
    yield StyledLine(last, line.style)


def _ended(piece: str) -> str:
    """A piece with a visible end: a space there could not be seen."""
    if not has_blank_signs():
        return f"{piece}:"
    return f"{piece[:-1]}␠" if piece[-1] == " " else piece


def _pieces(text: str, room: int) -> Iterator[str]:
    begin, used, head = 0, 0, ""
    goes_on = terminal_text(_GOES_ON)
    for place, char in enumerate(text):
        used += _columns(char)
        if used > room:
            yield head + text[begin:place]
            begin, head = place, goes_on
            used = _columns(head + char)
    yield head + text[begin:]


def _columns(text: str) -> int:
    """At most so many: terminals and versions of Unicode disagree on all but ASCII."""
    return len(text.replace("\t", " " * TAB_COLUMNS)) + sum(char > "\x7f" for char in text)
