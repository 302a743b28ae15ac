"""Show untrusted text: invisible characters become visible escapes; no character is dropped.

Pure, except that a process may name the encodings of its output (``limit_to``): what they lack is invisible too.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

# Variation selectors, and letters, marks and signs that show nothing, although Python calls them printable. A test
# draws the others in a browser.
_SELECTORS: Final = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2d7f\u3164\uffa0\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001d159"
    f"{_SELECTORS}]"
)
IGNORABLE: Final = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""A regular expression for Unicode's default ignorable code points, a set to which no version adds others."""
UNSEEN: Final = f"{IGNORABLE[:-1]}\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u2d7f\ufff9-\ufffc]"
"""A regular expression for these, and for the other formats and signs of ``is_unseen`` up to U+FFFF. With those above,
a search in a text beyond ASCII would take a third longer."""
# The parts of Korean syllables: vowels and final consonants are drawn into the preceding letter, and the first
# consonants look like the letters of a keyboard.
_DRAWN_IN: Final = re.compile("[\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]")
# Thai and Lao: signs in a row that are drawn as one letter (am, ae), and a vowel behind a tone, drawn as before it.
_DRAWN_AS_ONE: Final = re.compile(
    "[\u0e4d\u0ecd](?=[\u0e48-\u0e4b\u0ec8-\u0ecb]*[\u0e32\u0eb2])|\u0e40(?=\u0e40)|\u0ec0(?=\u0ec0)"
    "|(?<=[\u0e48-\u0e4b\u0ec8-\u0ecb])[\u0e31\u0e34-\u0e3a\u0e47\u0e4d\u0eb1\u0eb4-\u0ebc\u0ecd]"
)
_MOST_MARKS: Final = 3
_MOST_DRAWN: Final = 6
"""Marks on one character, as many as pointed Hebrew and stacked Tibetan need; more of them cover the lines around."""
_TAB: Final = "⇥"
_ENDING: Final = {" ": "␠", "\t": _TAB}
CONTINUED: Final = "┊"
"""Begins a part of a line that was too long for the terminal (`tools/question.folded`)."""
_STAND_INS: Final = dict(zip("→←·–×•│┊▌─└", "><--x*|:|-`", strict=True)) | {"…": "..."}
"""Signs of Zeus's own lines and of rich, for encodings that lack them; all but one are as wide as the sign."""
_SIGNS: Final = frozenset({*_ENDING.values(), CONTINUED})
_SELECTOR: Final = re.compile(f"[{_SELECTORS}]")
_SPACE: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")
_JOINERS: Final = frozenset("\u200c\u200d")
_JOINED: Final = frozenset({"Lo", "Mn", "Mc", "So", "Sk", "Sm"})
_MARKS: Final = ("Mn", "Me")
_VARIANTS: Final = ("<compat>", "<font>")
_FORMS: Final = ("<isolated>", "<initial>", "<medial>", "<final>")
_STROKES: Final = ("KANGXI RADICAL", "CJK RADICAL", "CJK STROKE")
"""How the names of symbols begin that are drawn as Chinese characters."""
_OVERLAY: Final = 1
_ABOVE: Final = 230
"""Combining classes of Unicode."""
_MARKS_OF_TEXT: Final = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sk", "Lm"})
_KEYCAPS: Final = frozenset("0123456789#*")
_COLLAPSED: Final = re.compile(r"^ | $|(?<= ) ")
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
# A process has one set, as it has one set of streams. To escape when a stream encodes is too late: lines are folded.
_encodings: set[str] = set()


def limit_to(encodings: Iterable[str | None]) -> None:
    """From now on, show as escapes what one of these encodings cannot represent; ``None`` represents everything."""
    names = {codecs.lookup(each).name for each in encodings if each}
    _encodings.clear()
    _encodings.update(names - {"utf-8"})


def has_blank_signs() -> bool:
    """Whether the output's encodings have the signs of ``exact_blanks``."""
    return _is_representable("".join(_ENDING.values()))


def terminal_text(text: str) -> str:
    """``text`` in a form that a terminal may show: line ends and tabs stay, other invisible characters become escapes.

    A joiner between two letters or symbols outside ASCII stays (Persian and Indic words, joined emoji), and so does one
    variation selector after such a character. Bidirectional controls never stay. Of the marks on one character, the
    first six stay. For signs such as ``…`` that the output's encoding lacks, ASCII stands in.
    """
    shown = utf8_text(text)
    return shown if _is_representable(shown) else "".join(map(_represented, shown))


def utf8_text(text: str) -> str:
    """``terminal_text`` for a UTF-8 file, whatever the output's encoding lacks."""
    heaped = _heaped(text)
    if not heaped and _is_visible(text):
        return text
    return "".join(
        escape(char) if place in heaped or (is_unseen(char) and not _belongs(text, place)) else char
        for place, char in enumerate(text)
    )


class TerminalStream:
    """``terminal_text`` for a text in pieces: marks at the beginning of a piece count with the marks before them."""

    def __init__(self) -> None:
        self._open = ""

    def __call__(self, piece: str) -> str:
        """The next piece, in a form that a terminal may show."""
        text = self._open + piece
        shown = terminal_text(text)[len(terminal_text(self._open)) :]
        self._open = _last_marks(text)
        return shown


def terminal_line(text: str) -> str:
    """``terminal_text`` in one line: newlines and tabs become escapes too."""
    return "".join(_NAMED.get(char, char) for char in terminal_text(text))


def shell_word(text: str) -> str:
    """A word of a command for a shell, on one line and without an unseen character: such a word is ``$'…'``."""
    import shlex

    if printable(text) == text and _is_representable(text):
        return shlex.quote(text)
    raw = text.encode("utf-8", "surrogateescape")
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in raw)
    return f"$'{''.join(plain)}'"


def shell_line(*words: str) -> str:
    """A command for a shell, on one line and without an unseen character."""
    return " ".join(map(shell_word, words))


def printable(text: str) -> str:
    """A name or path as one line of valid UTF-8: every character except visible ones and the space becomes an escape.

    A byte that is not UTF-8 (``surrogateescape``) shows as that byte, ``\\xe9``.
    """
    heaped = _heaped(text)
    if text.isprintable() and not heaped and not _BLANK.search(text):
        return text
    return "".join(
        char
        if char.isprintable() and not _BLANK.match(char) and place not in heaped
        else _NAMED.get(char) or escape(char)
        for place, char in enumerate(text)
    )


def exact(text: str) -> str:
    """``text`` in a form in which two different texts never look the same, for approvals.

    Newlines and tabs stay. Other invisible characters become escapes. So do joiners, spaces outside ASCII, combining
    marks except those that a script needs, variants of ASCII letters such as ``ﬁ``, and the signs of ``exact_blanks``.
    Letters of other alphabets become escapes in a word with Latin ones, such as a Cyrillic ``a``; a word of one
    alphabet that looks like another's stays. In a text of one line, which may be a command or an address, so does
    punctuation that touches ASCII, such as ``‘`` or ``∕``. A backslash is doubled where it could be taken for the start
    of an escape.
    """
    if text.isascii() and _is_plain(text) and "\\" not in text:
        return text
    return _escaped(text, _hidden(text) if "\n" in text else _hidden_in_line(text), "\\xuU")


def exact_line(text: str) -> str:
    """``exact`` in one line: newlines and tabs become escapes too."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    ends = {place for place, char in enumerate(text) if char in "\n\t"}
    return _escaped(text, _hidden_in_line(text) | ends, "\\xuUnt")


def exact_label(text: str) -> str:
    """``exact_line`` for a browser, which drops spaces at the ends and joins those in a row: ``\\x20``."""
    ends = {place for place, char in enumerate(text) if char in "\n\t"}
    blanks = {each.start() for each in _COLLAPSED.finditer(text)}
    return _escaped(text, _hidden_in_line(text) | ends | blanks, "\\xuUnt")


def exact_blanks(line: str) -> str:
    """``exact`` of a line with visible blanks: a tab shows as ``⇥``, a space at the line's end as ``␠``.

    They show as ``\\t`` and ``\\x20`` if the output's encoding lacks these signs.
    """
    if not has_blank_signs():
        end = len(line.rstrip(" \t"))
        blanks = {place for place, char in enumerate(line) if char == "\t" or place >= end}
        return _escaped(line, _hidden(line) | blanks, "\\xuUt")
    # A line of a text, where quotation marks and dashes are usual.
    shown = _escaped(line, _hidden(line), "\\xuU")
    body = shown.rstrip(" \t")
    return body.replace("\t", f"{_TAB}   ") + "".join(_ENDING[char] for char in shown[len(body) :])


def json_text(text: str) -> str:
    """JSON text with the invisible characters of its strings as ``\\uXXXX``: the same value, safe to print."""
    heaped = _heaped(text)
    if not heaped and _is_plain(text):
        return text
    return "".join(
        _json_escape(char) if place in heaped or is_unseen(char) or not _is_representable(char) else char
        for place, char in enumerate(text)
    )


def exact_json(text: str) -> str:
    """``json_text`` with everything escaped that ``exact`` escapes: two different values never look the same."""
    if text.isascii() and _is_plain(text):
        return text
    hidden = _hidden_in_line(text)
    return "".join(_json_escape(char) if place in hidden else char for place, char in enumerate(text))


def word(value: Any) -> str:
    """A simple word unchanged, any other value as JSON: no part of a value can be taken for the text around it."""
    if isinstance(value, str) and _WORD.fullmatch(value) and not needs_quotes(value):
        return value
    return json_shown(value)


def json_shown(value: Any) -> str:
    """A JSON value exactly, in one line."""
    import json

    return exact_json(json.dumps(value, ensure_ascii=False, default=str))


def json_label(value: Any) -> str:
    """``json_shown`` for a browser, which joins spaces in a row: ``\\u0020``."""
    # Only within a text are there two in a row.
    return re.sub("(?<= ) ", r"\\u0020", json_shown(value))


def needs_quotes(text: str) -> bool:
    """Whether a text of one line could be taken for a value of another type, or has invisible ends."""
    if text != text.strip() or not text or "\t" in text:
        return True
    import json

    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def is_unseen(char: str) -> bool:
    """Whether a character shows nothing, or acts on the text around it; newlines, tabs and spaces do not count."""
    if char in "\n\t" or unicodedata.category(char) == "Zs":
        return False
    return not char.isprintable() or _BLANK.match(char) is not None


def escape(char: str) -> str:
    """``\\x1b``, ``\\u202e`` or ``\\U000e0041``.

    From 80 on, ``\\xe9`` is a byte that is not UTF-8 (``surrogateescape``), since ``é`` is ``\\u00e9``.
    """
    code = ord(char)
    if code < 0x80 or "\udc80" <= char <= "\udcff":
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(text: str) -> bool:
    """Whether a quick search finds nothing to escape."""
    return _is_visible(text) and _is_representable(text)


def _is_visible(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable() and not _BLANK.search(text)


def _is_representable(text: str) -> bool:
    """Whether the output's encodings have every character of ``text``."""
    return text.isascii() or all(_comes_back(text, each) for each in _encodings)


def _comes_back(text: str, encoding: str) -> bool:
    """Whether ``text`` is the same when it was encoded; Shift JIS encodes ``¥`` as a backslash."""
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False


def _represented(char: str) -> str:
    return char if _is_representable(char) else _STAND_INS.get(char) or escape(char)


def _belongs(text: str, place: int) -> bool:
    """Whether a joiner or selector is part of the spelling of its neighbours, or a CR is part of CRLF."""
    char, before, after = text[place], text[place - 1 : place] if place else "", text[place + 1 : place + 2]
    if char == "\r":
        return after == "\n"
    if char in _JOINERS:
        return _joins(before) and _joins(after)
    if not _SELECTOR.match(char) or _SELECTOR.match(before):
        return False
    return _joins(before) or (char == "\ufe0f" and before in _KEYCAPS)


def _joins(char: str) -> bool:
    return char > "\x7f" and unicodedata.category(char) in _JOINED


def _escaped(text: str, hidden: frozenset[int], begins: str) -> str:
    """``text`` with escapes at ``hidden``; a backslash before an escape or before one of ``begins`` is doubled."""

    def shown(place: int, char: str) -> str:
        if place in hidden:
            return _NAMED[char] if char in "\n\t" else escape(char)
        after = text[place + 1 : place + 2]
        return "\\\\" if char == "\\" and after and (after in begins or place + 1 in hidden) else char

    return "".join(shown(place, char) for place, char in enumerate(text))


def _heaped(text: str) -> frozenset[int]:
    """The places of surplus marks on one character; a joiner between marks does not begin a new character."""
    if text.isascii():
        return frozenset()
    found, marks = [], 0
    for place, char in enumerate(text):
        if char in _JOINERS:
            continue
        marks = marks + 1 if _is_mark(char) else 0
        if marks > _MOST_DRAWN:
            found.append(place)
    return frozenset(found)


def _last_marks(text: str) -> str:
    """The marks on the last character, at most as many as may stay."""
    found: list[str] = []
    for char in reversed(text):
        if char in _JOINERS:
            continue
        if len(found) == _MOST_DRAWN or not _is_mark(char):
            break
        found.append(char)
    return "".join(reversed(found))


def _is_mark(char: str) -> bool:
    return char > "\u02ff" and unicodedata.category(char) in _MARKS


def _hidden(text: str) -> frozenset[int]:
    """The places of the characters that ``exact`` escapes."""
    hidden = frozenset(
        place
        for place, char in enumerate(text)
        if is_unseen(char)
        or not _is_representable(char)
        or (char > "\x7f" and (_SPACE.match(char) or char in _SIGNS or _looks_like_another(text, place)))
    )
    return hidden if text.isascii() else hidden | _foreign(text)


def _hidden_in_line(text: str) -> frozenset[int]:
    """``_hidden``, and punctuation that passes for ASCII: ``a․b`` for ``a.b``. What fills two columns does not."""
    if text.isascii():
        return _hidden(text)
    return _hidden(text) | {
        place
        for place, char in enumerate(text)
        if char > "\x7f"
        and unicodedata.category(char) in _MARKS_OF_TEXT
        and unicodedata.east_asian_width(char) not in ("W", "F")
        and any(
            each.isascii() and not each.isspace()
            for each in (*text[max(place - 1, 0) : place], *text[place + 1 : place + 2])
        )
    }


def _foreign(text: str) -> frozenset[int]:
    """The places of letters in a word of Latin letters whose alphabet is not written together with them.

    Chinese, Japanese and Korean are, but not their letters of another width, or other variants (NFKC changes them). The
    rule is Unicode's "highly restrictive" one (UTS 39, 5.2).
    """
    import regex

    latin, foreign, other = map(regex.compile, (r"\p{Latin}", _NOT_BESIDE_LATIN, _NOT_LATIN))
    return frozenset(
        word.start() + letter.start()
        for word in regex.finditer(r"[\p{L}\p{M}\p{N}]+", text)
        if latin.search(word[0])
        for letter in other.finditer(word[0])
        if foreign.match(letter[0]) or unicodedata.normalize("NFKC", letter[0]) != letter[0]
    )


_NOT_LATIN: Final = r"(?V1)[\p{L}--\p{Latin}]"
_NOT_BESIDE_LATIN: Final = (
    r"(?V1)[\p{L}--[\p{Latin}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Common}\p{Inherited}]]"
)


def _looks_like_another(text: str, place: int) -> bool:
    """Whether a character has another spelling, or is a mark that hides or belongs to no letter.

    A mark stays after a letter outside ASCII if the two have no single-character form, at most three marks in a row.
    """
    char = text[place]
    if _DRAWN_IN.match(char) or _DRAWN_AS_ONE.match(text, place) or _is_variant(char):
        return True
    if unicodedata.category(char) not in _MARKS:
        # Also one that makes another letter of the one before it, such as the second half of a Tamil vowel.
        before = text[max(place - 1, 0) : place]
        normal = unicodedata.normalize("NFC", before + char)
        return normal != unicodedata.normalize("NFC", before) + char
    start = place
    while start > 0 and place - start < _MOST_MARKS and unicodedata.category(text[start]) in _MARKS:
        start -= 1
    cluster = text[start : place + 1]
    is_letter = cluster[0] > "\x7f" and (unicodedata.category(cluster[0]) in ("Lo", "Ll", "Lu", "Lm", "Mc"))
    if not is_letter or unicodedata.normalize("NFC", cluster) != cluster:
        return True
    kind = unicodedata.combining(char)
    # A stroke through a letter makes another one, and a dot above gives a dotless i its dot.
    return kind == _OVERLAY or (kind == _ABOVE and "DOTLESS" in unicodedata.name(cluster[0], ""))


def _is_variant(char: str) -> bool:
    """Whether a character is drawn as other letters: ``ﬁ``, ``ǆ``, ``ⅼ``, ``𝗋``, a form of an Arabic one, a radical.

    Letters of full width are as wide as their neighbours in Chinese, Japanese and Korean, and are seen to be wide.
    """
    category, made_of = unicodedata.category(char), unicodedata.decomposition(char)
    if category == "So":
        return unicodedata.name(char, "").startswith(_STROKES)
    if made_of.startswith(_FORMS):
        return True
    if category not in ("Ll", "Lt", "Lu", "Lo", "Nd", "Nl") or not made_of.startswith(_VARIANTS):
        return False
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return False
    letters = unicodedata.normalize("NFKC", char)
    # Other letters of several, such as the Armenian ``և``, are ordinary, or do not look like their parts.
    is_latin = letters.isascii() or unicodedata.name(char).startswith("LATIN")
    return len(letters) == 1 or is_latin


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
