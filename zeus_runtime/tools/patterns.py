"""Glob patterns over path parts: ``*``, ``?``, ``[...]`` within a part, ``**`` for any parts, ``{a,b}``. Pure.

Matching takes time in the product of both lengths, whatever the pattern: nothing here can run away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import partial
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeAlias

from zeus_runtime.tools.paths import ENDING, composed, decomposed_fold, folded, folded_piece, letters_of

Parts: TypeAlias = Sequence[str]
PathTest: TypeAlias = Callable[[Parts], bool]


class PathFilter(Protocol):
    """Whether a path is named; its first ``beyond`` parts do not count."""

    def __call__(self, parts: Parts, beyond: int = 0) -> bool: ...


PartTest: TypeAlias = Callable[[str], bool]

_MAGIC = re.compile(r"[*?\[{]")
# A `]` at once after `[` or `[!` is a character of the group, as in fnmatch: `[]a]` is one group, `[]` is text.
_WILDCARDS = re.compile(r"(\*+|\?|\[!?+\]?+[^\]]*\])")
# The innermost braces: in `{a,{b,c}}` it takes `{b,c}`. It does not take `{a}`.
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_LISTED = re.compile(r"[*?\]}],\s")
"""Several patterns in one text, such as ``a/**, b/**``."""
_EXTENDED = re.compile(r"[?*+@!]\([^()/]*\|")
"""Such as ``@(a|b)``. ``*(1).pdf`` is a name."""
_SEQUENCE = re.compile(r"\{[^{},/]+\.\.[^{},/]+\}")
"""Such as ``{1..9}``."""
_CLASS = re.compile(r"\[([:.=]).+\1\]")
"""Such as ``[:upper:]`` at the end of a group. ``[[...slug]]`` is a name."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Such as the line end of YAML's `|`."""
_MAX_ALTERNATIVES = 64
_FRAME = "(?s:"
"""Begins what ``translate`` returns."""
_HIDDEN = str.maketrans("{,}", "\1\2\3")
_SHOWN = str.maketrans("\1\2\3", "{,}")
_ANY = "**"


def parts_of(path: str) -> tuple[str, ...]:
    """A path's or pattern's parts."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


class Slip(NamedTuple):
    """Why a pattern matches nothing by mistake, or other files than it seems to.

    Args:
        message: what is wrong.
        remedy: what to write instead.
    """

    message: str
    remedy: str = "remove it; for a file with such a name, write ? in its place"


def pattern_slip(pattern: str, *, may_be_name: bool = False, may_be_root: bool = False) -> Slip | None:
    """Return the slip in a pattern for paths, also in an alternative in its braces; None if there is none.

    Args:
        may_be_name: a pattern without ``/`` is a name anywhere, and one with ``/`` a path from ``/`` on.
        may_be_root: ``/`` and ``.`` may mean the workspace's own folder, without what is in it.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    alternatives = expand_braces(pattern)
    parts = [part for each in alternatives for part in parts_of(each)]
    if not may_be_root and not all(map(parts_of, alternatives)):
        part = "" if len(alternatives) == 1 else "an alternative of "
        return Slip(f"{part}the pattern {pattern!r} names nothing", "`**` names every file")
    if any(each.startswith("!") for each in alternatives):
        return Slip(f"the pattern {pattern!r} begins with `!`, which excludes nothing here")
    if (control := _CONTROL.search(pattern)) is not None:
        return Slip(f"the pattern {pattern!r} has the control character {control[0]!r}")
    if any(part[:1].isspace() for part in parts):
        return Slip(f"a name in the pattern {pattern!r} begins with a blank")
    if any(part[-1:].isspace() for part in parts):
        return Slip(f"a name in the pattern {pattern!r} ends with a blank")
    if _LISTED.search(pattern) or any(
        choice[:1].isspace() for braces in _BRACES.findall(pattern) for choice in braces.split(",")
    ):
        return Slip(f"the pattern {pattern!r} has a blank after a comma, and the blank is a part of the name")
    for each in alternatives if may_be_name else ():
        name = each.rstrip("/")
        if name != each and "/" not in name:
            return Slip(
                f"the pattern {pattern!r} has a / at its end alone, so it may mean one folder or each of this name",
                f"write /{name}/ for the folder at the top of the workspace, or {name} for each of this name",
            )
    if (beside := _beside_slip(pattern, alternatives)) is not None:
        return beside
    return _foreign_slip(pattern, parts)


def _foreign_slip(pattern: str, parts: Sequence[str]) -> Slip | None:
    """The slip in a pattern of another language, such as bash: its signs are plain text here."""
    for group in (each for part in parts for each in _WILDCARDS.findall(part) if each.startswith("[")):
        if group.startswith("[^"):
            return Slip(
                f"the pattern {pattern!r} has a `[^`, where `^` is one of the characters",
                "write [! for any other",
            )
        if (named := _CLASS.search(group)) is not None:
            return Slip(
                f"the pattern {pattern!r} has the class `{named[0]}`, whose letters are the characters here",
                "write the characters themselves, such as [A-Z] or [0-9]",
            )
        fits, is_negated = re.compile(translate(group)).match, group.startswith("[!")
        if all((fits(each) is not None) is is_negated for each in group[1 + is_negated : -1]):
            return Slip(
                f"`{group}` in the pattern {pattern!r} names no character: a range ends before it begins",
                "write the first character first, such as [a-z], or [A-Za-z] for all letters",
            )
    if "\\" in pattern:
        return Slip(
            f"the pattern {pattern!r} has a backslash, which neither separates parts nor makes plain text here",
            "separate parts with /, as in secrets/**, and write a wildcard that is text in brackets, as in [*]",
        )
    if _EXTENDED.search(pattern):
        return Slip(
            f"the pattern {pattern!r} has a group of bash, such as `@(a|b)`, which is plain text here",
            "write {a,b} for either text, or several patterns",
        )
    if _SEQUENCE.search(pattern):
        return Slip(
            f"the pattern {pattern!r} has a range in braces, such as `{{1..9}}`, which is plain text here",
            "write [1-9] for one character, or {a,b} for either text",
        )
    return None


def _beside_slip(pattern: str, alternatives: Sequence[str]) -> Slip | None:
    for each in alternatives:
        parts = each.split("/")
        spread = [_without_beside(part, "*/**/*") for part in parts]
        if spread != parts:
            meant = "/".join(
                part if part == wide else wide.removeprefix("*/").removesuffix("/*")
                for part, wide in zip(parts, spread, strict=True)
            )
            return Slip(
                f"the pattern {pattern!r} has a `**` beside other text in a name, where it means no folders",
                f"write {meant} for any number of folders, or one * for any text in a name",
            )
    return None


def _without_beside(part: str, instead: str) -> str:
    """A part of a pattern with ``instead`` for each ``**`` that has other text beside it."""
    if part == _ANY:
        return part
    return _WILDCARDS.sub(lambda found: instead if found[0].startswith(_ANY) else found[0], part)


def text_slip(pattern: str) -> Slip | None:
    """Return the slip in a pattern for any text; None if there is none: most tools read a text without its ends."""
    if pattern.strip() != pattern or any(_CONTROL.match(each) for each in (pattern[:1], pattern[-1:])):
        return Slip(f"the pattern {pattern!r} begins or ends with a blank or a control character")
    if "/" not in pattern:
        return None
    # It is also compared with paths.
    try:
        return _beside_slip(pattern, expand_braces(pattern))
    except ValueError as error:
        return Slip(str(error), "write several patterns")


def has_magic(part: str) -> bool:
    """Whether a part of a pattern holds a wildcard or braces."""
    return _MAGIC.search(part) is not None


def literal_prefix(pattern: Parts) -> int:
    """How many leading parts of a pattern are plain names, the last part never counted."""
    for index, part in enumerate(pattern[:-1]):
        if has_magic(part):
            return index
    return max(len(pattern) - 1, 0)


def plain_beginning(pattern: str) -> tuple[str, ...]:
    """The path at the beginning of a pattern, up to its first ``*`` or ``?``; brackets and braces are plain text."""
    return tuple(takewhile(lambda part: "*" not in part and "?" not in part, parts_of(pattern)))


def plain_patterns(pattern: str, *, or_literal: bool) -> Sequence[str]:
    """The patterns without braces that a pattern stands for.

    Args:
        or_literal: also those in which some braces are text.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    return list(
        dict.fromkeys([*expand_braces(pattern), *(_with_literal_braces(pattern) if or_literal else ())])
    )


def compile_glob(pattern: str, *, is_search: bool = False) -> PathTest:
    """A test of path parts against a whole pattern.

    Args:
        is_search: a ``**`` beside other text also takes folders: ``src/**.py`` finds what ``src/**/*.py`` does.

    Raises:
        ValueError: more than 64 alternatives in braces, or by such a ``**``.
    """
    patterns = expand_braces(pattern)
    if is_search:
        spread = (
            "/".join(_without_beside(part, "{*,*/**/*}") for part in each.split("/")) for each in patterns
        )
        patterns = [each for wide in spread for each in expand_braces(wide)]
        if len(patterns) > _MAX_ALTERNATIVES:
            raise ValueError(_too_many(pattern))
    return _compiled(patterns, _part)


def compile_way(pattern: str, *, same: Callable[[str], str] = str) -> PathTest:
    """A test whether the plain beginning of a pattern names a folder: of ``a/b/*.md`` it names ``a`` and ``a/b``.

    Args:
        same: names are equal if it returns the same for both.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    written = map(parts_of, expand_braces(pattern))
    ways = [list(map(same, each[: literal_prefix(each)])) for each in written]

    def names(parts: Parts) -> bool:
        folder = list(map(same, parts))
        return any(each[: len(folder)] == folder for each in ways)

    return names


def folded_glob(pattern: str, *, or_literal: bool = True) -> PathTest:
    """A test of path parts that also fits those which some file system takes for the same path.

    Args:
        or_literal: it also fits the names in which brackets and braces are plain text: some projects have a folder
            ``app/[slug]``. A rule that lifts another one must not.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    patterns = plain_patterns(pattern, or_literal=or_literal)
    return _compiled(patterns, partial(_spelled_part, is_wide=or_literal))


def folded_cover(pattern: str) -> PathFilter:
    """``folded_glob`` for a rule that restricts files, read as in ``workspace.access``.

    A pattern without ``/`` is a name anywhere, but for the leading parts that do not count. What is in a folder that a
    pattern names is covered too; ``.`` and ``/`` name the workspace's own folder alone.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    plain = plain_patterns(pattern, or_literal=True)
    part = partial(_spelled_part, is_wide=True)
    named = _compiled([f"**/{each}/**" for each in plain if "/" not in each and parts_of(each)], part)
    paths = [each for each in plain if "/" in each or not parts_of(each)]
    rooted = _compiled([f"{each}/**" if parts_of(each) else each for each in paths], part)
    return lambda parts, beyond=0: rooted(parts) or named(parts[beyond:])


def folded_plain(pattern: str, *, or_literal: bool) -> PathTest:
    """``folded_glob`` of one of the ``plain_patterns``, in which braces are text."""
    return _compiled([pattern], partial(_spelled_part, is_wide=or_literal))


def folded_start(pattern: str) -> PathTest:
    """A test whether a folder's own names count where ``folded_plain`` matches what is below that folder.

    They do not count for a ``**`` at the start of the pattern, which fits the same files below any folder.
    """
    tests = [None if part == _ANY else _spelled_part(part, is_wide=True) for part in parts_of(pattern)]
    anywhere = _past_any({0}, tests)
    return lambda parts: bool(_reached(tests, parts) - anywhere)


def folded_part(pattern: str, *, or_literal: bool = False) -> PartTest:
    """A test of a ``folded`` name against one part of a pattern, whose literal pieces are folded by the same steps."""
    first, *rest = _WILDCARDS.split(pattern)
    if not rest:
        return folded(pattern).__eq__
    pieces = [first, *rest]
    pieces[::2] = map(folded_piece, pieces[::2])
    texts = list(map(folded_piece, pieces[1::2])) if or_literal else ()
    pieces[1::2] = map(composed, pieces[1::2])
    pieces[-1] = pieces[-1].rstrip(ENDING)
    # A range cannot be folded: [A-Z] must fit the small letters of a folded name.
    has_range = any(piece.startswith("[") for piece in pieces[1::2])
    return _matcher(pieces, re.IGNORECASE if has_range else re.NOFLAG, texts)


def _spelled_part(pattern: str, *, is_wide: bool) -> PartTest:
    """A test of a name, in any spelling, against one part of a pattern.

    A wildcard takes one letter of the name, whatever the letter is folded to: `?.PEM` also names `ß.pem`.

    Args:
        is_wide: a wildcard also takes a letter of the folded name, and brackets are also plain text.
    """
    exact, same = _part(pattern, or_literal=is_wide), folded_part(pattern, or_literal=is_wide)
    lettered = _lettered(pattern, or_literal=is_wide) if _WILDCARDS.search(pattern) else None

    def fits(name: str) -> bool:
        if exact(name):
            return True
        is_plain = lettered is None or name.isascii()
        # `key.*` also names `KEY.`, whose folded form has no dot at its end.
        if (is_plain or is_wide) and (
            same(folded(name)) or (name.endswith(tuple(ENDING)) and same(folded_piece(name)))
        ):
            return True
        return lettered is not None and not is_plain and lettered(name)

    return fits


class _PatternStep(NamedTuple):
    """A step of a pattern for one name.

    Args:
        text: folded text that it takes; empty if it takes none.
        takes: whether it takes a letter, by the letter and its fold; None for text alone.
        is_any: it takes any number of letters.
    """

    text: str = ""
    takes: Callable[[str, str], bool] | None = None
    is_any: bool = False


def _lettered(pattern: str, *, or_literal: bool) -> PartTest:
    """A test of a name, letter by letter: text takes a letter by its fold, and a wildcard takes the letter itself."""
    pieces = _WILDCARDS.split(pattern)
    pieces[::2] = map(decomposed_fold, pieces[::2])
    pieces[-1] = pieces[-1].rstrip(ENDING)
    steps = [
        _wildcard(each, or_literal=or_literal) if place % 2 else _PatternStep(each)
        for place, each in enumerate(pieces)
        if each
    ]
    free = [None if each.is_any else _never for each in steps]

    def reaches_end(letters: Sequence[tuple[str, str]]) -> bool:
        # Each position is a step and how much of its text is taken.
        reached = {(index, 0) for index in _past_any({0}, free)}
        for letter, fold in letters:
            following = set()
            for index, start in reached:
                if index == len(steps):
                    continue
                text, takes, is_any = steps[index]
                if text.startswith(fold, start):
                    end = start + len(fold)
                    following.add((index + 1, 0) if end == len(text) else (index, end))
                if start == 0 and takes is not None and takes(letter, fold):
                    following.add((index, 0) if is_any else (index + 1, 0))
            whole = {index for index, start in following if start == 0}
            reached = following | {(index, 0) for index in _past_any(whole, free)}
        return (len(steps), 0) in reached

    return lambda name: any(map(reaches_end, (letters_of(name), letters_of(name.rstrip(ENDING)))))


def _never(_: str) -> bool:
    return False


def _wildcard(wildcard: str, *, or_literal: bool) -> _PatternStep:
    if not wildcard.startswith("["):
        return _PatternStep(takes=lambda *_: True, is_any=wildcard != "?")
    test = re.compile(translate(composed(wildcard)), re.IGNORECASE).match
    is_negated = wildcard.startswith("[!")
    # Of a range only the ends are compared by their folds; for its other letters, cases are.
    named = re.sub("(.)-(.)", r"\1\2", composed(wildcard)[1 + is_negated : -1])
    folds = frozenset(map(decomposed_fold, named))

    def takes(letter: str, fold: str) -> bool:
        if is_negated:
            return fold not in folds and test(letter) is not None
        return fold in folds or test(letter) is not None

    return _PatternStep(decomposed_fold(wildcard) if or_literal else "", takes)


def text_test(pattern: str) -> PartTest:
    """A test of a whole text, in which a group of brackets also fits its own text."""
    return _part(pattern, or_literal=True)


def compile_filter(patterns: Sequence[str]) -> PathFilter:
    """A test whether patterns name a path or a folder it is in, with the number of leading parts to leave untested.

    A pattern without ``/`` is matched with each part, one with ``/`` with the path from the root.

    Raises:
        ValueError: more than 64 alternatives in braces.
    """
    plain = [each for pattern in patterns for each in expand_braces(pattern)]
    named = [_part(each.strip("/")) for each in plain if "/" not in each.strip("/")]
    rooted = [_compiled([each], _part) for each in plain if "/" in each.strip("/")]

    def test(parts: Parts, beyond: int = 0) -> bool:
        if any(matches(part) for part in parts[beyond:] for matches in named):
            return True
        return any(matches(parts[: end + 1]) for end in range(beyond, len(parts)) for matches in rooted)

    return test


def expand_braces(pattern: str) -> list[str]:
    """``*.{py,md}`` as ``*.py`` and ``*.md``; braces without a comma are text.

    Raises:
        ValueError: more than 64 alternatives.
    """
    done: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        match = _BRACES.search(current)
        if match is None:
            done.append(current)
        else:
            before, after = current[: match.start()], current[match.end() :]
            pending.extend(before + choice + after for choice in reversed(match[1].split(",")))
        # In the loop, not after it: thirty times `{a,b}` in a row stand for a billion patterns.
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ValueError(_too_many(pattern))
    return list(dict.fromkeys(done))


def _too_many(pattern: str) -> str:
    return f"the braces of {pattern!r} stand for more than {_MAX_ALTERNATIVES} patterns"


def _compiled(patterns: Sequence[str], part_test: Callable[[str], PartTest]) -> PathTest:
    tests = [_steps(parts_of(each), part_test) for each in dict.fromkeys(patterns)]
    return lambda parts: any(test(parts) for test in tests)


def _steps(pattern: Parts, part_test: Callable[[str], PartTest]) -> PathTest:
    tests = [None if part == _ANY else part_test(part) for part in pattern]

    return lambda parts: len(tests) in _reached(tests, parts)


def _reached(tests: Sequence[PartTest | None], parts: Parts) -> set[int]:
    """Which positions of a pattern the parts can reach; ``**`` can stand for nothing, so it lets the next in."""
    reached = _past_any({0}, tests)
    # All positions advance together, and nothing goes back: a part costs at most one test for each position.
    for part in parts:
        reached = _past_any(
            {
                index if step is None else index + 1
                for index in reached
                if index < len(tests) and ((step := tests[index]) is None or step(part))
            },
            tests,
        )
    return reached


def _past_any(reached: set[int], tests: Sequence[PartTest | None]) -> set[int]:
    # A copy, because the set grows in the loop.
    for index in sorted(reached):
        while index < len(tests) and tests[index] is None:
            index += 1
            reached.add(index)
    return reached


def _part(pattern: str, *, or_literal: bool = False) -> PartTest:
    pieces = _WILDCARDS.split(pattern)
    return _matcher(pieces, re.NOFLAG, pieces[1::2] if or_literal else ())


def _matcher(pieces: Sequence[str], flags: re.RegexFlag, texts: Sequence[str] = ()) -> PartTest:
    """A test of one part.

    Args:
        pieces: text and wildcards in turn.
        texts: for each wildcard the text that a group of brackets also fits; empty if it fits its characters alone.
    """
    groups = [
        (group, text) for group, text in zip(pieces[1::2], texts, strict=False) if group.startswith("[")
    ]
    # No name has a zero byte, so it can keep a group's place while the rest is translated.
    kept = [
        "\0" if groups and place % 2 and each.startswith("[") else each for place, each in enumerate(pieces)
    ]
    regex = translate("".join(kept))
    for group, text in groups:
        regex = regex.replace("\0", f"(?:{_inner(group)}|{re.escape(text)})", 1)
    compiled = re.compile(regex, flags)
    return lambda name: compiled.match(name) is not None


def _inner(group: str) -> str:
    """A group of brackets as ``translate`` writes it, without its frame, whose end differs between Python versions."""
    return translate(group).removeprefix(_FRAME).removesuffix(translate("").removeprefix(_FRAME))


def _with_literal_braces(pattern: str) -> Sequence[str]:
    """The alternatives of a pattern in which some braces are text; if they are too many, the one in which all are."""

    def or_text(found: re.Match[str]) -> str:
        # The second choice is the braces' own text, hidden so that `expand_braces` does not expand it again.
        return f"{{{found[1]},{found[0].translate(_HIDDEN)}}}"

    either = _BRACES.sub(or_text, pattern)
    if either == pattern:
        return ()
    try:
        return [each.translate(_SHOWN) for each in expand_braces(either)]
    except ValueError:
        return [pattern]
