"""What a config would execute, shown to its user, and their permission."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

from zeus_runtime.cli.options import ConfigArgs, read_config
from zeus_runtime.cli.output import folded_lines, padded
from zeus_runtime.cli.streams import can_ask, complain, terminal_columns
from zeus_runtime.columns import columns
from zeus_runtime.escaping import terminal_line
from zeus_runtime.proc_files import opened
from zeus_runtime.trust.decision import UntrustedError

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.cli.process import Process
    from zeus_runtime.config import Document
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.serving.http.settings import ReadSettings
    from zeus_runtime.testing.cases.reading import ReadEvaluation
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part
    from zeus_runtime.trust.records import Record

Answer: TypeAlias = Literal["yes", "no", "view"]
_Range: TypeAlias = tuple[int, int]

_LONGEST: Final = 300
"""Characters of a value that are shown before it is cut."""
_AROUND: Final = 60
"""Characters that are shown before and after a difference."""
_LABEL: Final = 9
"""Columns of the labels, at least."""
_ANSWERS: Final[dict[str, Answer]] = {
    "y": "yes", "yes": "yes", "n": "no", "no": "no", "": "no", "v": "view", "view": "view",
}  # fmt: skip


def read_trusted(
    process: Process, which: ConfigArgs, *, may_ask: bool = True, trust: Trust | None = None
) -> Checked:
    """The checked config; the user has allowed everything it executes, before or now at the terminal.

    Args:
        trust: as in ``read_config``.

    Raises:
        ConfigError: with every problem.
        UntrustedError: the user has not allowed a part, and said no or cannot be asked.
    """
    from zeus_runtime.plan.parts_with_subagents import all_parts

    try:
        checked = read_config(process, which, trust=trust)
        checked.trust.require(all_parts(checked))
    except UntrustedError as refusal:
        if not (may_ask and which.config != "-" and can_ask()):
            raise
        found = examined(process, which, trust=trust)
        allow_parts(found, all_parts(found), refusal)
        checked = read_config(process, which, trust=trust)
        # The user has not seen changes made since the question.
        checked.trust.require(all_parts(checked))
    return checked


def examined(process: Process, which: ConfigArgs, *, trust: Trust | None = None) -> Checked:
    """The config, looked at without executing anything of it that is not trusted.

    Args:
        trust: as in ``read_config``.

    Raises:
        ConfigError: with every problem that can be found so.
    """
    from zeus_runtime.plan.validated import examine_config

    found = examine_config(
        which.config,
        env=which.env,
        sets=which.sets,
        directory=process.directory,
        environ=process.environ,
        trust=trust,
    )
    process.learn(found.document.redactor)
    return found


def read_trusted_evaluation(process: Process, file: Path, *, may_ask: bool = True) -> ReadEvaluation:
    """The evaluation file; the user has allowed all files and machines elsewhere that it names.

    Raises:
        ConfigError: with every problem.
        UntrustedError: the user has not allowed a part, and said no or cannot be asked.
    """
    from zeus_runtime.testing.cases.reading import read_evaluation

    def read() -> ReadEvaluation:
        return read_evaluation(file, directory=process.directory, environ=process.environ)

    found = _read_asking(read, lambda: examined_evaluation(process, file), may_ask=may_ask)
    process.learn(found.document.redactor)
    return found


def read_trusted_settings(process: Process, file: Path | None, *, may_ask: bool = True) -> ReadSettings:
    """The settings of a service; the user has allowed all machines, files and databases that they name.

    Args:
        file: None for ``zeus-serve.yaml`` in the working directory, if there is one.

    Raises:
        ConfigError: with every problem.
        UntrustedError: the user has not allowed a part, and said no or cannot be asked.
    """
    from zeus_runtime.serving.http.settings import read_settings

    def read() -> ReadSettings:
        return read_settings(file, directory=process.directory, environ=process.environ)

    found = _read_asking(read, lambda: examined_settings(process, file), may_ask=may_ask)
    process.learn(found.document.redactor)
    return found


_Found = TypeVar("_Found")


def _read_asking(read: Callable[[], _Found], examine: Callable[[], _HasParts], *, may_ask: bool) -> _Found:
    """What ``read`` reads, after a question about the parts of what ``examine`` finds, if it may be asked.

    Raises:
        UntrustedError: the user has not allowed a part, and said no or cannot be asked.
    """
    try:
        return read()
    except UntrustedError as refusal:
        if not (may_ask and can_ask()):
            raise
        found = examine()
        allow_parts(found, found.parts(), refusal)
        return read()


def examined_settings(process: Process, file: Path | None) -> ReadSettings:
    """The settings of a service; nothing that they name is opened.

    Raises:
        ConfigError: with every problem that can be found so.
    """
    from zeus_runtime.serving.http.settings import examine_settings

    found = examine_settings(file, directory=process.directory, environ=process.environ)
    process.learn(found.document.redactor)
    return found


def examined_evaluation(process: Process, file: Path) -> ReadEvaluation:
    """The evaluation file; no file that it names is opened.

    Raises:
        ConfigError: with every problem that can be found so.
    """
    from zeus_runtime.testing.cases.reading import examine_evaluation

    found = examine_evaluation(file, directory=process.directory, environ=process.environ)
    process.learn(found.document.redactor)
    return found


class Examined(Protocol):
    """A config, an evaluation file, or the settings of a service."""

    @property
    def document(self) -> Document: ...

    @property
    def trust(self) -> Trust: ...


class _HasParts(Examined, Protocol):
    def parts(self) -> Sequence[Part]: ...


def allow_parts(found: Examined, parts: Sequence[Part], refusal: UntrustedError | None = None) -> int:
    """Ask the user about the parts that are not allowed yet, and record it; how many that were.

    Raises:
        UntrustedError: the answer was no.
    """
    trust = found.trust
    missing = [part for part in parts if not trust.allows(part)]
    if missing and not _is_allowed(found, missing):
        raise refusal or trust.refusal(missing)
    record(found, missing)
    return len(missing)


def record(found: Examined, parts: Iterable[Part]) -> None:
    """Record that the user allows ``parts`` of a config or an evaluation file.

    Raises:
        MissingError: neither HOME nor XDG_STATE_HOME is set, or the folder cannot be written.
    """
    from zeus_runtime.errors import MissingError
    from zeus_runtime.trust.databases import adopt
    from zeus_runtime.trust.records import add

    trust = found.trust
    for part in parts:
        if trust.records is None:
            raise MissingError(
                "what you allow cannot be recorded: neither HOME nor XDG_STATE_HOME is set",
                remedy="set one of them, or set ZEUS_TRUST",
            )
        if part.kind == "database":
            # The database gets a new mark with this: another file with the former mark stays forbidden.
            adopt(trust.records, part, trust.file)
        else:
            add(trust.records, trust.file, _recorded(part, found.document.redactor))


def shown(
    parts: Sequence[Part],
    known: Sequence[Record] = (),
    mask: Callable[[str], str] = str,
    *,
    whole: bool = False,
) -> Iterator[str]:
    """The parts for a person, line by line, with what changed since they were allowed.

    Args:
        known: what was allowed before, the newest last.
        mask: masks every secret, as in ``known``.
        whole: values are not cut.
    """
    from zeus_runtime.trust.parts import one_line
    from zeus_runtime.trust.records import short_seal

    for part in parts:
        former = next(
            (each for each in reversed(known) if (each.kind, each.name) == (part.kind, part.name)), None
        )
        if former is not None and former.digest == part.digest:
            former = None
        where = f"  ({one_line(part.where)})" if part.where else ""
        yield f"{part}{where}{', changed since you allowed it' if former is not None else ''}"
        if former is None:
            width = _label_width(part.lines)
            yield from (_line(" ", *line, width=width, whole=whole) for line in part.lines)
            continue
        kept = _recorded(part, mask)
        now = [
            (*line, short_seal(former.salt, seal)) for line, seal in zip(kept.lines, kept.seals, strict=True)
        ]
        marked = [*_marked(former.sealed_lines(), now, part.lines)]
        note = _CHANGED if former.salt else _MAY_HAVE_CHANGED
        width = _label_width([line for _, line, _ in marked])
        ranges = _differing([(mark, *line) for mark, line, _ in marked])
        for (mark, line, hides), differing in zip(marked, ranges, strict=True):
            yield _line(mark, *line, note if hides else "", width=width, whole=whole, differing=differing)
        if all(mark == " " for mark, _, _ in marked):
            yield f"    {_UNSHOWN}"
        yield from _data_hint(part, former)


_CHANGED: Final = "  (the masked value changed)"
_MAY_HAVE_CHANGED: Final = "  (the masked value may have changed: an earlier Zeus recorded it)"
_UNSHOWN: Final = "no line above changed; the working directory did, or something else that is not shown"


def _marked(
    before: Sequence[tuple[str, str, str]],
    now: Sequence[tuple[str, str, str]],
    shown: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, tuple[str, str], bool]]:
    """The lines as a diff: ``-`` for one that is gone, ``+`` for a new one, a space for one that stays in its place.

    With each line comes whether its mask hides the change.

    Args:
        before, now: as a record keeps them, with their seals.
        shown: those of ``now`` as a person sees them.
    """
    from difflib import SequenceMatcher

    same_text = {(label, value) for label, value, _ in before}
    for kind, start, end, first, last in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((" ", line, False) for line in shown[first:last])
        else:
            yield from (("-", (label, value), False) for label, value, _ in before[start:end])
            for line, sealed in zip(shown[first:last], now[first:last], strict=True):
                yield "+", line, line in same_text and sealed not in before


def _recorded(part: Part, mask: Callable[[str], str]) -> Part:
    """A part as a record keeps it, without the secrets that a person must see before they allow them."""
    from dataclasses import replace

    from zeus_runtime.trust.parts import seal_of

    lines = tuple((label, mask(value)) for label, value in part.lines)
    seals = tuple(
        seal or ("" if line == kept else seal_of(line[1]))
        for line, kept, seal in zip(part.lines, lines, part.seals or ("",) * len(lines), strict=True)
    )
    return replace(part, lines=lines, seals=seals)


def _data_hint(part: Part, former: Record) -> Iterator[str]:
    """Which key exempts the files of a server that changed, if it is the server that changes them."""
    if part.kind == "server":
        files = [
            [value.rpartition(": ")[0] for label, value in each if label == "file"]
            for each in (set(part.lines) - set(former.lines), set(former.lines) - set(part.lines))
        ]
        names = ", ".join(sorted((set(files[0]) & set(files[1])) - set(part.started)))
        if names:
            key = f"mcpServers.{part.name}.data"
            text = f"if the server itself changes {names}, list it under {key} (docs/explanation/trust.md)"
            yield f"    {terminal_line(text)}"


def complain_lines(lines: Iterable[str]) -> None:
    """Write lines to standard error, each of them folded; ``trust/masking`` says which secrets a person must see."""
    for line in folded_lines(lines, terminal_columns(sys.stderr)):
        complain(line, as_is=True, laid_out=True)


def _label_width(lines: Sequence[tuple[str, str]]) -> int:
    return max(_LABEL, *(columns(label) for label, _ in lines)) if lines else _LABEL


def _line(
    mark: str,
    label: str,
    value: str,
    note: str = "",
    *,
    width: int,
    whole: bool,
    differing: _Range | None = None,
) -> str:
    text = _value(value)
    if not whole and len(text) > _LONGEST:
        text = _cut(text, *(differing or (0, 0)))
    return f"  {mark} {padded(label, width)} {text}{note}"


def _value(value: str) -> str:
    # Where Zeus leaves something out, it writes this sign: in a value it is an escape.
    return terminal_line(value.replace("…", r"\u2026"))


def _cut(text: str, start: int, end: int) -> str:
    """The part of a text from ``start`` to ``end`` with what is around it, and how much is left out."""
    first = max(0, start - _AROUND)
    last = min(len(text), end + _AROUND) if end else _LONGEST
    shown = text[first:last]
    if len(shown) > _LONGEST:
        half = _LONGEST // 2
        shown = f"{shown[:half]}… ({len(shown) - 2 * half:,} characters) …{shown[-half:]}"
        note = f" (differs in characters {start + 1:,} to {end:,}; v shows it)"
    else:
        note = ""
    before = f"({first:,} characters) …" if first else ""
    after = f"… ({len(text) - last:,} more characters)" if last < len(text) else ""
    return f"{before}{shown}{after}{note}"


def _differing(marked: Sequence[tuple[str, str, str]]) -> list[_Range | None]:
    """For each line, from where to where it differs from its former or later self, as it is shown; else None.

    Args:
        marked: mark, label and value.
    """
    from os.path import commonprefix

    found: list[_Range | None] = [None] * len(marked)
    gone: dict[str, list[int]] = {}
    for at, (mark, label, value) in enumerate(marked):
        if mark == "-":
            gone.setdefault(label, []).append(at)
        if mark != "+" or not gone.get(label):
            continue
        old = gone[label].pop(0)
        texts = (_value(marked[old][2]), _value(value))
        if texts[0] != texts[1]:
            start = len(commonprefix(texts))  # noqa: RUF071 - of characters, as it is wanted here
            ending = len(commonprefix([each[start:][::-1] for each in texts]))  # noqa: RUF071
            found[old], found[at] = ((start, len(each) - ending) for each in texts)
    return found


def _is_allowed(found: Examined, missing: Sequence[Part]) -> bool:
    from zeus_runtime.trust.parts import one_line
    from zeus_runtime.trust.records import records_of

    trust = found.trust
    known = records_of(trust.records, trust.file) if trust.records is not None else ()
    complain(f"{one_line(trust.file)} needs what you have not allowed yet:", "yellow")
    mask = found.document.redactor
    complain_lines(shown(missing, known, mask))
    while (said := _answer(_read)) == "view":
        complain_lines((*shown(missing, known, mask, whole=True), *_contents(missing)))
    return said == "yes"


def _answer(read: Callable[[str], str]) -> Answer:
    while True:
        said = _ANSWERS.get(read("Allow it? [y]es, once per user / [n]o / [v]iew whole: ").strip().lower())
        if said is not None:
            return said


def _read(prompt: str) -> str:
    """A line from the terminal; what was typed before the prompt came does not count. The end of input is a no."""
    from zeus_runtime.cli.typed_lines import typed_line

    line = typed_line(prompt)
    return "no" if line is None else line


def _files(place: Path) -> Iterable[Path]:
    """A file, or the files of a folder and the folders in it that cannot be listed; itself if it has too many."""
    from zeus_runtime.trust.file_content import TooLargeError, files_below

    closed: list[Path] = []

    def add(error: OSError) -> None:
        closed.append(Path(error.filename))

    try:
        found = list(files_below(place, compiled_apart=True, unread=add)) if place.is_dir() else [place]
    except (TooLargeError, OSError):
        return [place]
    return [*found, *closed]


def _changed(file: Path, parts: Sequence[Part]) -> UntrustedError:
    return UntrustedError(
        f"{file} changed while the question waited", parts, remedy="Run the command again to see it as it is."
    )


_MOST_BINARY: Final = 65_536
"""Bytes of a file with binary data that are shown."""


def _contents(parts: Sequence[Part]) -> Iterator[str]:
    """The files that parts execute, as far as they are text, with an escape for what cannot be seen.

    Raises:
        UntrustedError: a file is another one than that of the digest, to which the permission would belong.
    """
    from hashlib import sha256

    from zeus_runtime.escaping import exact_blanks
    from zeus_runtime.trust.parts import one_line

    places = dict.fromkeys(file for part in parts for file in part.files)
    held: dict[Path, set[str]] = {}
    for each, digest in chain.from_iterable(part.held for part in parts):
        held.setdefault(each, set()).add(digest)
    for file in dict.fromkeys([*(file for place in places for file in _files(place)), *held]):
        yield f"--- {one_line(str(file))}"
        try:
            with opened(file) as stream:
                data = stream.read()
        except OSError as error:
            if file in held:
                raise _changed(file, parts) from None
            yield f"    (cannot be read: {error.strerror})"
            continue
        if file in held and held[file] != {sha256(data).hexdigest()}:
            raise _changed(file, parts)
        # A shell executes a script with a NUL in it.
        if b"\0" in data and len(data) > _MOST_BINARY:
            yield f"    ({len(data):,} bytes of binary data)"
            continue
        # Python also executes a file in another encoding: its bytes show as escapes.
        text = data.decode("utf-8", "surrogateescape")
        yield from (f"    {exact_blanks(line)}" for line in text.split("\n"))
