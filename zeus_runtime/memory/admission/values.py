"""Numbers, dates and times of a text in one form, so that "16 GB" and "sixteen GB" are the same value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.admission.data import read

Kind: TypeAlias = Literal["number", "version", "date", "time"]


class Value(NamedTuple):
    """A value and where it stands.

    Args:
        text: in one form; a date is year, month, day and weekday with ``*`` for what is not said.
        start, end: in the text, in characters.
    """

    kind: Kind
    text: str
    start: int
    end: int


_EN, _DE = read("en"), read("de")
_MONTHS: Final = {
    name: at
    for language in (_EN, _DE)
    for at, names in enumerate(language["months"], 1)
    for name in names.split()
}
_DAYS: Final = {
    name: at
    for language in (_EN, _DE)
    for at, names in enumerate(language["days"], 1)
    for name in names.split()
}
_WHOLE_DAYS: Final = "|".join(names.split()[0] for language in (_EN, _DE) for names in language["days"])
_NUMBERS: Final = {
    name: str(at)
    for language in (_EN, _DE)
    for least, names in language["numbers"].items()
    for at, name in enumerate(names.split(), least)
} | {name: str(number) for name, number in _EN["tens"].items()}
_ORDINALS: Final = {
    name: str(at) for least, names in _EN["ordinals"].items() for at, name in enumerate(names.split(), least)
}
_ZH: Final = "零〇一二两三四五六七八九十百千万"
ZH_MEASURES: Final[str] = read("zh")["measures"]

_ZH_DIGITS: Final = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2} | {
    each: number for number, each in enumerate("三四五六七八九", 3)
}
_ZH_UNITS: Final = {"十": 10, "百": 100, "千": 1000, "万": 10_000}

_MONTH: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_IN: Final = "(?:" + "|".join(rf"(?<=\b{word} )" for word in "in of by since until last next".split()) + ")"
"""Before the names of months that are verbs too: "in May", "of March"."""
_DAY: Final = r"(?P<{}>\d{{1,2}})(?:st|nd|rd|th)?"
_ZH_NUMBER: Final = rf"[\d{_ZH}]"

_START: Final = r"(?<![A-Za-z0-9_])"
_FORMS: Final = (
    ("d", r"(?P<iso>(?<!\d)(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})(?!\d))"),
    ("l", rf"(?P<mdy>{_START}(?P<m2>{_MONTH})\s+{_DAY.format('d2')}\b(?:,?\s+(?P<y2>\d{{4}}))?)"),
    ("d", rf"(?P<dmy>{_START}{_DAY.format('d3')}\s+(?:of\s+)?(?P<m3>{_MONTH})(?:,?\s+(?P<y3>\d{{4}}))?)"),
    (
        "l",
        rf"(?P<my>{_START}(?:(?!may\b|mar\b|march\b)|{_IN}(?-i:(?=May\b|March\b)))(?P<m4>{_MONTH})(?:\s+(?P<y4>\d{{4}}))?)",
    ),
    (
        "l",
        r"(?P<year>\b(?:in|since|until|by|of|for(?=\s+\d{4}(?:\s+(?:is|was|are|were|will)\b|\s*[,;:!?]|\s*\.?\s*$)))"
        r"\s+(?P<y5>(?:19|20)\d\d)\b(?![.,]\d))",
    ),
    (
        "dc",
        rf"(?P<zhdate>(?:(?P<y6>\d{{4}})年)?(?P<m6>{_ZH_NUMBER}{{1,2}})月(?:(?P<d6>{_ZH_NUMBER}{{1,3}})[日号])?"
        r"|(?P<y7>(?:19|20)\d\d)年)",
    ),
    (
        "lc",
        rf"(?P<weekday>{_START}(?P<w1>{_WHOLE_DAYS})s?\b"
        r"|(?:周|星期|礼拜)(?P<w2>[一二三四五六日天]))",
    ),
    ("d", r"(?P<clock>(?<!\d)(?P<h1>\d{1,2}):(?P<n1>\d\d)(?:\s*(?P<p1>[ap])\.?m\b\.?)?)"),
    ("d", rf"(?P<ampm>{_START}(?P<h2>\d{{1,2}})\s*(?P<p2>[ap])\.?m\b\.?)"),
    (
        "dc",
        rf"(?P<zhtime>(?P<p3>早上|上午|凌晨|中午|下午|傍晚|晚上)?(?P<h3>{_ZH_NUMBER}{{1,3}})(?:点|时(?!候|间))"
        rf"(?:(?P<n3>{_ZH_NUMBER}{{1,3}})分|(?P<half>半))?)",
    ),
    (
        "dl",
        rf"(?P<version>{_START}v\d+(?:\.\d+)*(?![A-Za-z0-9_])"
        rf"|(?<![A-Za-z0-9_.])\d+(?:\.\d+){{2,}}(?![A-Za-z0-9_]))",
    ),
    (
        "d",
        r"(?P<decimal>(?<![A-Za-z0-9_.-])[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d.]*[A-Za-z]{3}))"
        r"(?P<scale>\s?(?:million|k|thousand)\b)?",
    ),
    ("l", rf"(?P<word>\b(?:{'|'.join(sorted(_NUMBERS | _ORDINALS, key=len, reverse=True))})\b(?!-))"),
    (
        "c",
        rf"(?P<zhnumber>(?!百分之)(?:[{_ZH}]{{1,24}}(?=[{ZH_MEASURES}]|[美欧日]元|公)|(?<=百分之)[{_ZH}]{{1,24}}"
        rf"|[一二两三四五六七八九][十百千][{_ZH}]{{0,22}}))",
    ),
)
"""What each form may begin with (digit or sign, letter, Chinese character), and its pattern; the first one counts."""


def _forms(beginning: str) -> re.Pattern[str]:
    return re.compile("|".join(form for begins, form in _FORMS if beginning in begins), re.IGNORECASE)


_DIGITS, _LETTERS, _CHINESE = map(_forms, "dlc")
_FIRST_CHINESE: Final = "\u2e80"


def _pattern(first: str) -> re.Pattern[str]:
    """The forms that may begin with this character."""
    if first.isdecimal() or first in "+-":
        return _DIGITS
    return _LETTERS if first < _FIRST_CHINESE else _CHINESE


_FOLDED: Final = {"i": "iI\u0130\u0131", "s": "sS\u017f", "k": "kK\u212a"}
"""Letters that stand for others where case is ignored."""


def _any_case(word: str) -> str:
    return "".join(f"[{_FOLDED.get(each, each + each.upper())}]" for each in word)


def _one_of(words: Iterable[str]) -> str:
    """A pattern of any of these words in any case, those of one letter together: others are passed over at once."""
    groups = [
        (first, sorted({word[1:] for word in group}, key=lambda rest: (-len(rest), rest)))
        for first, group in groupby(sorted(words), key=lambda word: word[0])
    ]
    return "|".join(f"{_any_case(first)}(?:{'|'.join(map(_any_case, rests))})" for first, rests in groups)


_MAY_BEGIN: Final = re.compile(
    rf"[\d+\-{_ZH}周星礼早上凌中下傍晚]|(?<![A-Za-z0-9_])"
    rf"(?:{_one_of(name[:3] for name in (*_MONTHS, *_DAYS, *_NUMBERS, *_ORDINALS))}"
    rf"|[vV]\d|(?:{_one_of(('in', 'since', 'until', 'by', 'of', 'for'))})\s+\d)"
)
"""Where a form can begin at all: asked first, it spares trying every one of them at every letter."""

_AFTERNOON: Final = frozenset({"下午", "傍晚", "晚上", "p"})
_SCALES: Final = {"k": 1_000, "thousand": 1_000, "million": 1_000_000}


def values(text: str) -> list[Value]:
    """Every number, version, date and time of ``text`` (normalised), in order."""
    digits = _digits_only(text)
    if digits is not None:
        return digits
    found: list[Value] = []
    at = 0
    while (begin := _MAY_BEGIN.search(text, at)) is not None:
        match = _pattern(begin[0][0]).match(text, begin.start())
        if match is None:
            at = begin.start() + 1
        else:
            found.append(_value(match))
            at = match.end()
    return found


_WORDS: Final = re.compile(r"\w+", re.ASCII)
_NUMERALS: Final = re.compile(r"[+-]|\d+", re.ASCII)
_NAMES: Final = frozenset((*_MONTHS, *_DAYS, *(f"{day}s" for day in _DAYS), *_NUMBERS, *_ORDINALS))
_BEFORE_DIGITS: Final = ("in", "since", "until", "by", "of", "for", "v")


def _digits_only(text: str) -> list[Value] | None:
    """What ``values`` finds where nothing can begin with a letter; None where something may. In a third of the time."""
    if not text.isascii():
        return None
    low = text.lower()
    if not _NAMES.isdisjoint(_WORDS.findall(low)):
        return None
    found: list[Value] = []
    at = 0
    for numeral in _NUMERALS.finditer(text):
        start = numeral.start()
        if low[:start].rstrip().endswith(_BEFORE_DIGITS):
            return None
        # No form in ASCII begins after a digit, so none begins within these.
        match = _DIGITS.match(text, start) if start >= at else None
        if match is not None:
            found.append(_value(match))
            at = match.end()
    return found


def _value(match: re.Match[str]) -> Value:
    if match.lastgroup == "decimal":
        return Value("number", _plain(match[0], 1), match.start(), match.end())
    kind, form = _form(match)
    return Value(kind, form, match.start(), match.end())


def _form(match: re.Match[str]) -> tuple[Kind, str]:
    got = match.groupdict()
    name = next(group for group in _GROUPS if got.get(group) is not None)
    if name in ("iso", "mdy", "dmy", "my", "year", "zhdate"):
        year, month, day = (_first(got, part) for part in "ymd")
        number = _MONTHS.get(month.rstrip(".").lower()) if month else None
        return "date", "-".join((year or "*", str(number or _whole(month)), str(_whole(day)), "*"))
    if name == "weekday":
        day = got["w1"]
        return (
            "date",
            f"*-*-*-{_DAYS[day.lower()] if day else '一二三四五六日'.find((got['w2'] or '').replace('天', '日')) + 1}",
        )
    if name in ("clock", "ampm", "zhtime"):
        hour = int(_whole(_first(got, "h")))
        minute = "30" if got["half"] else _whole(_first(got, "n"))
        part = (_first(got, "p") or "").lower()
        hour = hour % 12 + 12 if part in _AFTERNOON else hour % 12 if part == "a" else hour
        return "time", f"{hour:02d}:{0 if minute == '*' else int(minute):02d}"
    if name == "version":
        return "version", match[0].lower().lstrip("v")
    if name == "word":
        return "number", (_NUMBERS | _ORDINALS)[match[0].lower()]
    if name == "zhnumber":
        return "number", _whole(match[0])
    scale = _SCALES.get((got["scale"] or "").strip().lower(), 1)
    return "number", _plain(got["decimal"] or "0", scale)


_GROUPS: Final = (
    "iso mdy dmy my year zhdate weekday clock ampm zhtime version decimal word zhnumber"
).split()


def _first(got: dict[str, str | None], letter: str) -> str | None:
    return next(
        (text for name, text in got.items() if name[0] == letter and name[1:].isdigit() and text), None
    )


def _plain(text: str, scale: int) -> str:
    text = text.replace(",", "").lstrip("+")
    if scale != 1:
        return f"{float(text) * scale:g}"
    return text.lstrip("0") or "0" if "." not in text else text


def _whole(text: str | None) -> str:
    """A whole number in digits or Chinese numerals as digits; ``*`` for none."""
    if not text:
        return "*"
    if text.isdecimal():
        return str(int(text))
    total = part = digit = 0
    for each in text:
        if each in _ZH_UNITS:
            unit = _ZH_UNITS[each]
            if unit == 10_000:
                total, part, digit = (total + part + digit or 1) * unit, 0, 0
            else:
                part, digit = part + (digit or 1) * unit, 0
        else:
            digit = int(each) if each.isdecimal() else _ZH_DIGITS.get(each, 0)
    return str(total + part + digit)


def agree(one: Value, other: Value) -> bool:
    """Whether two values of one kind may be the same: one date may leave the year open that the other names."""
    if one.kind != "date" or other.kind != "date":
        return one.text == other.text
    return all(
        a == b or "*" in (a, b) for a, b in zip(one.text.split("-"), other.text.split("-"), strict=True)
    ) and any(a == b != "*" for a, b in zip(one.text.split("-"), other.text.split("-"), strict=True))
