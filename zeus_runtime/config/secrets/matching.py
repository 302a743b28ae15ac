"""Decoded text: escapes decoded, line wraps and invisible characters left out, each character with its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from zeus_runtime.escaping import UNSEEN


class _Stage(NamedTuple):
    """One notation for characters.

    Args:
        keys: a text has one of them if it has such an escape; without keys, each escape is a character outside ASCII.
        pattern: begins with a fixed character, so that it is found fast; ``H`` is a hexadecimal digit.
        meant: the text that each escape means; None if it must be decoded.
    """

    keys: tuple[str, ...]
    pattern: str
    meant: str | None = None


_PASSES: Final = 4
"""How often an escape may be escaped in another way: JSON within a URL within HTML."""
_OPEN: Final = 2**16
"""Characters at the end of a growing text that may wait."""
_MOST_UNFINISHED: Final = 64
"""Beginnings of escapes and wraps, each at the end of what precedes the next."""
_TAIL: Final = 160
"""Characters at the end of a text in which an unfinished escape is looked for."""
_SHORT: Final = 8
"""The most characters of an escape whose meaning is kept."""
_RUN: Final = r"\\\\{0,15}"
"""Of backslashes: JSON within JSON doubles them. It is bounded, so that a longer run takes linear time."""
_JOINT: Final = r"[ \t+]*\r?\n[ \t+]*(?:[0-9]+\t[ \t+]*)?"
_PER: Final = "%(?:25){0,8}"
_CODES: Final = (
    _Stage(
        ("\\u", "\\x", "\\U", "\\0", "\\1", "\\2", "\\3"),
        rf"{_RUN}(?:u[dD][89abAB]HH{_RUN}u[dD][c-fC-F]HH|uHHHH|u\{{H{{1,6}}\}}|UH{{8}}|x[0-7]H"
        rf"|x[89a-fA-F]H(?:{_RUN}x[89a-fA-F]H)*|[01][0-7][0-7]|[23][0-7][0-7](?:{_RUN}[23][0-7][0-7])*)",
    ),
    _Stage(("%",), rf"{_PER}(?:[0-7]H|[89a-fA-F]H(?:{_PER}[89a-fA-F]H)*)"),
    _Stage(("&",), "&(?:amp;){0,8}(?:#[0-9]{1,9}|#[xX]H{1,8}|[A-Za-z][A-Za-z0-9]{1,31});"),
)
"""JSON, JavaScript, Python and, in octal digits, C, shells and git; URLs; HTML and XML."""
_BACKSLASHES: Final = (
    _Stage(("\\n",), rf"{_RUN}n", "\n"),
    _Stage(("\\t",), rf"{_RUN}t", "\t"),
    _Stage(("\\",), rf"{_RUN}r?", ""),
)
_BYTE: Final = "[\udc80-\udcff]"
"""Of a text that is not in UTF-8, as Python decodes it with ``surrogateescape``."""
_LONGEST_STRING: Final = 2048
_STRING_START: Final = rf"\x1b[]P^_X][^\x07\x1b\x9c]{{0,{_LONGEST_STRING}}}"
_STRING: Final = rf"{_STRING_START}(?:\x07|\x1b\\|\x9c)"
"""A control string, such as the address of a link in a terminal."""
_PARAMETERS: Final = r"[0-?]*[ -/]*[@-~]"
_SEQUENCES: Final = _Stage(
    ("\x1b", "\x9b"),
    rf"{_STRING}|\x1b\[{_PARAMETERS}|\x9b{_PARAMETERS}|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~])",
    "",
)
"""Colours and other control sequences (ECMA-48)."""
_WRAPS: Final = (
    _Stage((), _BYTE),
    _Stage(("\\\n", "\\\r\n"), rf"{_RUN}(?=\r?\n)", ""),
    _Stage(('"',), f'"{_JOINT}"', ""),
    _Stage(("'",), f"'{_JOINT}'", ""),
    # The tab after a number belongs to the wrap before it.
    _Stage((" \n", " \r\n"), r" (?<![ \t] ) *(?=\r?\n)", ""),
    _Stage(("\r",), r"\r", ""),
    _Stage(("\n",), r"\n[ \t]*(?:[0-9]+\t)?", ""),
)
"""Bytes that are not UTF-8; wraps, with a backslash or blanks before them and the number that ``read_file`` shows
behind, also between the quotes of two string literals."""
_UNSEEN: Final = (_Stage(("\0",), r"\0", ""), _Stage((), UNSEEN, ""))
"""The zeros of UTF-16, and invisible characters."""
_LATIN_1: Final = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
"""The characters of bytes that are not UTF-8, from their surrogates."""
_QUOTES: Final = _Stage(("'", '"'), "['\"]+", "'")
_BLANKS: Final = _Stage(("",), r"\s+", "")
# `[c-fC-F]H` is the first byte of a character in UTF-8, `[89abAB]H` a later one.
# `u[dD][89abAB]HH` is the first half of a surrogate pair.
_UNFINISHED: Final = (
    rf"(?:{_RUN}(?:u(?:H{{0,3}}|\{{H{{0,6}})|UH{{0,7}}|xH?)?"
    rf"|{_RUN}u[dD][89abAB]HH(?:{_RUN}(?:uH{{0,3}})?)?"
    rf"|{_RUN}x[c-fC-F]H(?:{_RUN}x[89abAB]H){{0,3}}(?:{_RUN}(?:xH?)?)?"
    rf"|{_RUN}[0-3][0-7]?|{_RUN}3[0-7][0-7](?:{_RUN}2[0-7][0-7]){{0,3}}(?:{_RUN}(?:2[0-7]?)?)?"
    rf"|{_PER}H?|{_PER}[c-fC-F]H(?:{_PER}[89abAB]H){{0,3}}(?:{_PER}H?)?"
    r"|&[#A-Za-z0-9;]{0,40})\Z"
)
"""An escape, or half of a character, at the end of a text, which more text may complete."""
_TAB: Final = rf"(?:\t|{_RUN}t)"
_BLANK: Final = rf"(?:[ +]|{_TAB})"
_BREAK: Final = rf"(?:\r|{_RUN}r)?(?:(?:{_RUN})?\n|{_RUN}n)"
_UNFINISHED_WRAP: Final = (
    rf"(?:(?<![ \t]) +\r?|(?:(?<![ \t]) +)?(?:\r?\n|{_RUN}n)[ \t]*[0-9]*|\r"
    rf"|(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*"
    rf"|(?:{_RUN})?[\"']{_BLANK}*(?:{_BREAK}{_BLANK}*(?:[0-9]+(?:{_TAB}{_BLANK}*)?)?|\r|{_RUN}r)?(?:{_RUN})?)\Z"
)


class _Change(NamedTuple):
    """A changed piece: where it starts and ends after a stage and before it."""

    start: int
    end: int
    start_before: int
    end_before: int


class Folded(NamedTuple):
    """A folded text, and where each of its characters starts and ends in the text as it is written.

    Args:
        changes: of each stage that changes something, in order.
    """

    text: str
    changes: Sequence[Sequence[_Change]] = ()

    def start(self, at: int) -> int:
        """Where the character ``at`` starts; a part of an escape cannot be replaced, so it has the escape's place."""
        return self._before(at, 0)

    def end(self, at: int) -> int:
        """Where it ends."""
        return self._before(at, 1) + 1

    def _before(self, at: int, last: int) -> int:
        for changes in reversed(self.changes):
            if number := bisect_right(changes, at, key=itemgetter(0)):
                _, end, first, after = changes[number - 1]
                at = at - end + after if at >= end else after - 1 if last else first
        return at


class Meaning(NamedTuple):
    """One meaning of a text. What looks like an escape or a control sequence may hold a secret, or its first letter.

    Args:
        passes: how often escapes are decoded; without any, only what wraps the text is left out.
        sequences: whether control sequences are left out.
    """

    passes: int = _PASSES
    sequences: bool = True


_WHOLE: Final = Meaning()
"""Everything is decoded and left out, as in ``folded``."""


def meanings(text: str, *, quotes: bool) -> Iterator[tuple[Meaning, str]]:
    """The meanings of a text that differ, each with its folded text.

    Args:
        quotes: as of ``folded``.
    """
    last = None
    for meaning, half in _halves(text):
        meant = _finished(half, meaning, quotes=quotes)
        if (meaning.sequences, meant) != last:
            yield meaning, meant
        last = meaning.sequences, meant


def folded(text: str, *, quotes: bool = True) -> str:
    """``text`` with its escapes decoded and without what only wraps or colours it.

    A secret and a text that holds it are folded by the same rules, so the rules may lose what a backslash means.

    Args:
        quotes: a run of quotes becomes one, as a shell and SQL write one within others; needless without a quote in a
            secret.
    """
    *_, (passes, half) = enumerate(_passes(text, sequences=True))
    return _finished(half, Meaning(passes), quotes=quotes)


def _halves(text: str) -> Iterator[tuple[Meaning, str]]:
    """The meanings of a text before their last stages; two of them may be the same."""
    with_sequences: dict[int, str] = {}
    for passes, half in enumerate(_passes(text, sequences=False)):
        yield Meaning(passes, sequences=False), half
        if _may_have(half, _SEQUENCES):
            with_sequences[passes] = half
    # If only escapes write sequences, to leave them out changes the last stages alone.
    if 0 in with_sequences:
        with_sequences = dict(enumerate(_passes(text, sequences=True)))
    for passes, half in with_sequences.items():
        yield Meaning(passes), half


def _passes(text: str, *, sequences: bool) -> Iterator[str]:
    """The text after each pass that decodes escapes, the first without any, before the stages of ``_finished``."""
    text = _through(text, _fillers(sequences=sequences))  # first, as an escape may be wrapped too
    yield text
    for number in range(_PASSES if has_escapes(text) else 0):
        before, text = text, _through(text, _CODES)
        if number and text == before:
            break
        yield _through(text, (*_BACKSLASHES, *_WRAPS))


def _finished(half: str, meaning: Meaning, *, quotes: bool) -> str:
    stages = (*([_SEQUENCES] if meaning.sequences else []), *_UNSEEN) if meaning.passes else ()
    return _through(half, (*stages, *([_QUOTES] if quotes else [])))


def folded_with_places(
    text: str, *, quotes: bool = True, blanks: bool = True, meaning: Meaning = _WHOLE
) -> Folded:
    """``folded``, with the places of characters; slower, for a text that holds a secret.

    Args:
        quotes: as of ``folded``.
        blanks: whether they stay; if not, the text is that of ``without_blanks``.
        meaning: the meaning that is wanted.
    """
    found = Folded(text)
    for stage in _fillers(sequences=meaning.sequences):
        found = _placed(found, stage)
    # As `folded`: without an escape, nothing is a wrap that was none before.
    is_escaped = bool(meaning.passes) and has_escapes(found.text)
    stages = _plain_stages(quotes=quotes, sequences=meaning.sequences)
    plain = stages if is_escaped else [_QUOTES] if quotes else []
    for _ in range(meaning.passes if is_escaped else 0):
        before = found.text
        for stage in _CODES:
            found = _placed(found, stage)
        if found.text == before:
            break
    for stage in (*plain, *([] if blanks else [_BLANKS])):
        found = _placed(found, stage)
    return found


def without_blanks(text: str) -> str:
    """A folded text without white space: where a secret has some, a text may have another, or a line break."""
    return "".join(text.split())


def has_escapes(text: str) -> bool:
    """Whether a secret in ``text`` may be written with escapes."""
    return "\\" in text or "%" in text or "&" in text


def beyond_ascii(text: str) -> str:
    """The characters of ``text`` that are not ASCII; of most texts they are few."""
    if text.isascii():
        return ""
    return (
        text.encode("utf-8", "surrogatepass")
        .translate(None, bytes(range(0x80)))
        .decode("utf-8", "surrogatepass")
    )


def wraps(text: str) -> list[tuple[int, int]]:
    """Where the line wraps of ``text`` start and end."""
    return [each.span() for each in re.finditer(r"\r?\n[ \t]*(?:[0-9]+\t)?", text)]


def unfinished(text: str) -> int:
    """Where an escape begins that more text may complete; the length of ``text`` if there is none."""
    return _tail(text, _UNFINISHED)


def unfinished_wrap(text: str) -> int:
    """Where a line wrap or a control sequence begins that more text may complete; else the length of ``text``."""
    found = _compiled(rf"{_STRING_START}\x1b?\Z").search(text, max(0, len(text) - _LONGEST_STRING - 3))
    return min(_tail(text, _UNFINISHED_WRAP), found.start() if found else len(text))


def open_words(text: str, *, words: int, most: int, breaks: str, quotes: bool) -> int:
    """Where the last words of a growing text start, which more text may continue.

    It depends on the shape of ``text`` alone, never on a secret: otherwise how much waits would answer a guess at the
    beginning of a secret. Lines that may be the wrapped parts of one word are one word.

    Args:
        words: how many words between blanks.
        most: the characters of the folded text that wait at most.
        breaks: a character class; each of its characters ends a word, and with it what may be a secret.
        quotes: as of ``folded``.
    """
    begin = max(0, len(text) - _OPEN)
    whole = text[begin:]
    for _ in range(_MOST_UNFINISHED):
        if (end := min(unfinished(whole), unfinished_wrap(whole))) == len(whole):
            break
        whole = whole[:end]

    def start(text: str) -> int:
        # Blanks at the end may belong to a wrap that an escape writes.
        known = text.rstrip()
        blanks = [each.end() for each in re.finditer(r"\s+", known)]
        last = re.search(f"[{breaks}](?=[^{breaks}]*\\Z)", known)
        return max(
            blanks[-words] if len(blanks) >= words else 0, last.end() if last else 0, len(known) - most, 0
        )

    # Also without folding, which takes the letter behind an escape for a part of it.
    ends = [start(whole)]
    for meaning, meant in meanings(whole, quotes=quotes):
        if meant != whole:
            found = folded_with_places(whole, quotes=quotes, meaning=meaning)
            ends.append(found.start(at) if (at := start(meant)) < len(meant) else len(whole))
    return begin + min(ends)


def skeleton(text: str) -> str:
    """How ``text`` is written, without the characters that it means."""
    token = "|".join(
        stage.pattern for stage in (*_CODES, *_plain_stages(quotes=True, sequences=True), _BLANKS)
    )
    parts: list[str] = []
    done = 0
    for match in _compiled(token).finditer(text):
        is_code = match[0][0] in "\\%&"
        # A sign that is in no code: else `\x74` and `\164` would be alike.
        shown = re.sub("[0-9a-f]", "~", re.sub("[A-F]", "^", match[0])) if is_code else match[0]
        shown = re.sub(_BYTE, "~", shown)
        parts += ["." * (match.start() - done), shown]
        done = match.end()
    return "".join([*parts, "." * (len(text) - done)])


def _fillers(*, sequences: bool) -> tuple[_Stage, ...]:
    # Wraps first: they may be within a sequence.
    return (*_WRAPS, *([_SEQUENCES] if sequences else []), *_UNSEEN)


def _plain_stages(*, quotes: bool, sequences: bool) -> tuple[_Stage, ...]:
    return (*_BACKSLASHES, *_fillers(sequences=sequences), *([_QUOTES] if quotes else []))


def _through(text: str, stages: Iterable[_Stage]) -> str:
    for stage in stages:
        text = _in_stage(text, stage)
    return text


def _in_stage(text: str, stage: _Stage) -> str:
    if not _may_have(text, stage):
        return text
    return _compiled(stage.pattern).sub(_decoded if stage.meant is None else stage.meant, text)


def _may_have(text: str, stage: _Stage) -> bool:
    for key in stage.keys:
        # A single character is looked for much faster than two.
        if key[:1] in text and key in text:
            return True
    return not (stage.keys or text.isascii()) and bool(_compiled(stage.pattern).search(beyond_ascii(text)))


def _placed(found: Folded, stage: _Stage) -> Folded:
    text = found.text
    if not _may_have(text, stage):
        return found
    changes: list[_Change] = []
    parts: list[str] = []
    done = length = 0
    for match in _compiled(stage.pattern).finditer(text):
        first, after = match.span()
        new = _decoded(match) if stage.meant is None else stage.meant
        if new == match[0]:
            continue
        parts += [text[done:first], new]
        start = length + first - done
        done, length = after, start + len(new)
        changes.append(_Change(start, length, first, after))
    return Folded("".join([*parts, text[done:]]), (*found.changes, changes)) if changes else found


def _tail(text: str, pattern: str) -> int:
    first = max(0, len(text) - _TAIL)
    found = _compiled(pattern).search(text, first)
    return found.start() if found else len(text)


def _decoded(match: re.Match[str]) -> str:
    token = match[0]
    return _decoded_short(token) if len(token) <= _SHORT else _decoded_token(token)


def _decoded_token(token: str) -> str:
    if "\udc80" <= token <= "\udcff":
        return token.translate(_LATIN_1)
    if token[0] == "%":
        return _of_bytes(re.sub("%(?:25)*(?=[0-9a-fA-F]{2})", "", token))
    if token[0] == "&":
        from html import unescape

        return unescape(re.sub("^&(?:amp;)+(?=.)", "&", token))
    kind = token.lstrip("\\")[0]
    if kind.isdigit():
        return _of_bytes("".join(f"{int(each, 8):02x}" for each in re.findall("[0-7]+", token)))
    if kind == "x":
        return _of_bytes(re.sub(r"\\*x", "", token))
    codes = [int(each, 16) for each in re.findall("[0-9a-fA-F]+", token)]
    if len(codes) == 2:
        return chr(0x10000 + ((codes[0] & 0x3FF) << 10 | codes[1] & 0x3FF))
    return chr(codes[0]) if codes[0] <= 0x10FFFF else token


# A text has few different ones, and often.
_decoded_short = lru_cache(maxsize=1024)(_decoded_token)


def _of_bytes(digits: str) -> str:
    """UTF-8; a byte that is none by itself as Latin-1."""
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape").translate(_LATIN_1)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Not at import: most commands mask nothing.
    return re.compile(pattern.replace("H", "[0-9a-fA-F]"))
