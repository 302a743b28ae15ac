"""The times that a text names, such as "last week", "gestern", "昨天" or "in March": as periods, from a date on.

The words are those of the package ``dateparser``, which has them from Unicode's CLDR for each language. Only its data
are read: importing it takes 0.3 s, and it finds days and no periods.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import regex

from zeus_runtime.memory.retrieval.analysis import CJK, likely_languages, plain_words

if TYPE_CHECKING:
    from zeus_runtime.memory.items import MemoryItem


class Period(NamedTuple):
    """A time from ``start`` on, before ``end``; UTC."""

    start: datetime
    end: datetime

    def meets(self, other: Period) -> bool:
        """Whether they have a moment in common."""
        return self.start < other.end and other.start < self.end


_CODES: Final = {
    "arabic": "ar",
    "catalan": "ca",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "italian": "it",
    "norwegian": "nb",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "turkish": "tr",
}
_HAN: Final = regex.compile(f"[{CJK}]")
_HANGUL: Final = regex.compile(r"\p{Hangul}")
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_UNITS: Final = ("day", "week", "month", "year")
_SHORT: Final = 4
"""A shorter name of a month or a day is one only with a capital inside a sentence: ``may`` and ``sun`` are words."""
# 2024-03 and 2024-03-09, not 12024-03 or 1824-03-09.
_DATE: Final = regex.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?!\d)")
# "in 2023." has a year; 2023,5 and 1.2023 are other numbers.
_YEAR: Final = regex.compile(r"(?<![\d.,])(?:19|20)\d\d(?![\d.,]*\d)")
_YEAR_AFTER: Final = regex.compile(r"\W{0,3}(?:\w{1,3}\W+)?((?:19|20)\d\d)(?!\d)")
_YEAR_BEFORE: Final = regex.compile(r"((?:19|20)\d\d)\s*年?\s*$")
_KEY: Final = regex.compile(r"(?:in (?P<later>\S+)|(?P<ago>\S+)) (?P<unit>day|week|month|year)(?: ago)?")


class _TimeWords(NamedTuple):
    """The words of one language.

    Args:
        names: a phrase to its kind (a unit, ``month`` names or ``weekday``) and number.
        pattern: finds the phrases.
        first: the first words of the phrases; empty where nothing parts words.
        numbers: words of numbers.
        counted: patterns with a number in group 1, the unit, and the direction.
        units: words of which each counted time has one; empty where nothing parts words.
    """

    names: dict[str, tuple[str, int]]
    pattern: Any
    first: frozenset[str]
    numbers: dict[str, int]
    counted: Sequence[tuple[Any, str, int]]
    units: frozenset[str]

    def may_name(self, words: frozenset[str]) -> bool:
        """Whether a text of these words may have one of the phrases."""
        return not self.first or not self.first.isdisjoint(words)

    def may_count(self, words: frozenset[str]) -> bool:
        """Whether a text of these words may have a counted time."""
        return not self.units or not self.units.isdisjoint(words)


def periods(text: str, at: datetime) -> list[Period]:
    """The periods that ``text`` names.

    Args:
        at: when it was said, UTC. A month or a day of the week is the last one that has begun.
    """
    return list(_periods(text, _period("day", at, 0).start))


@lru_cache(20_000)
def _periods(text: str, day: datetime) -> tuple[Period, ...]:
    """Questions of a time ask for the same memories again and again."""
    return tuple(each.period for each in _found(text, day))


def without_times(text: str, at: datetime) -> str:
    """The text without the words that name times; days of the week stay, since things happen on them each week."""
    left, last = [], 0
    for start, end in sorted(each.span for each in _found(text, at) if not each.recurs):
        left.append(text[last:start])
        last = end
    return " ".join([*left, text[last:]])


def times_of(item: MemoryItem) -> list[Period]:
    """When the content of a memory happened or is true: as its text names it, as its dates say, or when it was said."""
    found = periods(item.content, item.said_at)
    if item.valid_from is not None or item.valid_until is not None:
        found.append(Period(item.valid_from or _FIRST, item.valid_until or _LAST))
    return found or [_period("day", item.said_at, 0)]


_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)


class _NamedTime(NamedTuple):
    """A time that a text names.

    Args:
        span: of its words.
        recurs: whether the same words name a time each week.
    """

    period: Period
    span: tuple[int, int]
    recurs: bool = False


def _found(text: str, at: datetime) -> list[_NamedTime]:
    found: list[_NamedTime] = []
    for named in _candidates(text, at):
        first, last = named.span
        # Earlier candidates win: the year of "March 2023" is not another time.
        if not any(first < each.span[1] and each.span[0] < last for each in found):
            found.append(named)
    return found


def _candidates(text: str, at: datetime) -> Iterator[_NamedTime]:
    for match in _DATE.finditer(text):
        if (written := _written(*match.groups())) is not None:
            yield _NamedTime(written, match.span())
    there = frozenset(_WORD.findall(text.casefold()))
    for code in _codes(text):
        words = _words(code)
        for pattern, unit, sign in words.counted if words.may_count(there) else ():
            for match in pattern.finditer(text):
                count = words.numbers.get(match[1].casefold()) or _whole(match[1])
                yield _NamedTime(_period(unit, at, sign * count), match.span())
        for match in words.pattern.finditer(text) if words.may_name(there) else ():
            kind, number = words.names.get(match[0].casefold(), ("", 0))  # a Turkish I has two small letters
            if kind == "named month":
                if _is_name(match, text):
                    yield _NamedTime(*_named_month(text, match.span(), at, number))
            elif kind == "weekday":
                if _is_name(match, text):
                    yield _NamedTime(_weekday(at, number), match.span(), recurs=True)
            elif kind:
                yield _NamedTime(_period(kind, at, number), match.span())
    for match in _YEAR.finditer(text):
        yield _NamedTime(_years(int(match[0])), match.span())


def _is_name(match: Any, text: str) -> bool:
    word = match[0]
    if _HAN.match(word[-1]):
        return len(word) > 1
    return len(word) >= _SHORT or (word[0].isupper() and bool(text[: match.start()].strip()))


def _written(year: str, month: str, day: str | None) -> Period | None:
    try:
        start = datetime(int(year), int(month), int(day or 1), tzinfo=UTC)
    except ValueError:
        return None
    return _period("day" if day else "month", start, 0)


def _named_month(
    text: str, span: tuple[int, int], at: datetime, month: int
) -> tuple[Period, tuple[int, int]]:
    after, before = _YEAR_AFTER.match(text, span[1]), _YEAR_BEFORE.search(text[: span[0]])
    year = at.year if month <= at.month else at.year - 1
    if after is not None:
        year, span = int(after[1]), (span[0], after.end())
    elif before is not None:
        year, span = int(before[1]), (before.start(), span[1])
    return _period("month", datetime(year, month, 1, tzinfo=UTC), 0), span


def _weekday(at: datetime, number: int) -> Period:
    # Today itself, if it is that day.
    return _period("day", at, -((at.weekday() - number) % 7))


def _years(year: int) -> Period:
    return Period(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))


def _period(unit: str, at: datetime, offset: int) -> Period:
    """The day, week, month or year ``offset`` after that of ``at``."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in ("day", "week"):
        length = timedelta(days=1 if unit == "day" else 7)
        first = day if unit == "day" else day - timedelta(days=day.weekday())
        start = first + max(-_FURTHEST, min(_FURTHEST, offset)) * length
        return Period(start, start + length)
    months = offset if unit == "month" else offset * 12
    first_month = day.year * 12 + (day.month - 1 if unit == "month" else 0) + months
    return Period(_month(first_month), _month(first_month + (1 if unit == "month" else 12)))


_FURTHEST: Final = 10_000
"""Days or weeks: a larger number is none that a memory can be about."""


def _month(number: int) -> datetime:
    # The years 1 to 9998, so that the end of a period exists too: datetime ends with 9999.
    year, month = divmod(max(12, min(9998 * 12, number)), 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)


def _whole(number: str) -> int:
    digits = regex.match(r"\d{1,6}", number)
    return int(digits[0]) if digits else 0


def _codes(text: str) -> list[str]:
    """The languages that the text may be in; a text without a word that tells it may be in any."""
    words, scripts = plain_words(text), []
    if not text.isascii():
        scripts = [
            code for code, script in (("zh", _HAN), ("ja", _HAN), ("ko", _HANGUL)) if script.search(text)
        ]
        words = [word for word in words if not _HAN.match(word) and not _HANGUL.match(word)]
    if not words:
        return scripts
    return [*scripts, *(_CODES[each] for each in likely_languages(words))]


@lru_cache(64)
def _words(code: str) -> _TimeWords:
    package = find_spec("dateparser")
    assert package is not None and package.origin is not None, "it is a dependency"  # noqa: PT018
    file = Path(package.origin).parent / "data" / "date_translation_data" / f"{code}.py"
    # The file is one assignment of a dictionary. It is read as data: nothing of the package runs.
    data: dict[str, Any] = ast.literal_eval(file.read_text("utf-8").partition("=")[2].strip())
    names: dict[str, tuple[str, int]] = {}
    for number, name in enumerate(_WEEKDAYS):
        names |= {each.casefold(): ("weekday", number) for each in data.get(name, ())}
    for number, name in enumerate(_MONTHS, 1):
        names |= {each.casefold(): ("named month", number) for each in data.get(name, ())}
    for key, phrases in data.get("relative-type", {}).items():
        if (meaning := _meaning(key)) is not None:
            names |= {each.casefold(): meaning for each in phrases}
    numbers = {
        word.casefold(): int(digits)
        for pair in data.get("simplifications", ())
        for word, digits in pair.items()
        if digits.isdigit() and word.isalpha()
    }
    counts = "|".join([r"\d{1,6}", *numbers])
    counted, units = [], set()
    for key, patterns in data.get("relative-type-regex", {}).items():
        unit = next((each for each in _UNITS if each in key.split()), None)
        if unit is not None:
            sign = 1 if key.startswith("in ") else -1
            counted += [(_bounded(each.replace(_NUMBER, counts), code), unit, sign) for each in patterns]
            units |= {_rarest(each) for each in patterns}
    # The longest first: an alternation takes the first that fits, and "last" may begin a longer phrase.
    spelled = sorted(map(regex.escape, names), key=len, reverse=True)
    parted = code not in _UNPARTED and "" not in units
    first = frozenset(word for name in names for word in _WORD.findall(name)[:1])
    return _TimeWords(
        names,
        _bounded("|".join(spelled), code),
        first if code not in _UNPARTED else frozenset(),
        numbers,
        counted,
        frozenset(units) if parted else frozenset(),
    )


def _rarest(pattern: str) -> str:
    """A word that every text has which a counted pattern fits; empty if there is none."""
    words = _LITERAL.findall(pattern.replace(_NUMBER, " ").casefold())
    return max(words, key=len, default="")


_WORD: Final = regex.compile(r"\w+")
_LITERAL: Final = regex.compile(r"(?<!\S)\w+(?!\S)")
_UNPARTED: Final = ("zh", "ja")
"""Languages that do not part words."""
_NUMBER: Final = r"\d++[.,]?\d*+"
"""As the patterns of ``dateparser`` have a number."""


def _bounded(pattern: str, code: str) -> Any:
    """The pattern between words, where the language parts them."""
    whole = f"(?:{pattern})" if code in _UNPARTED else rf"(?<!\w)(?:{pattern})(?!\w)"
    return regex.compile(whole, regex.IGNORECASE)


def _meaning(key: str) -> tuple[str, int] | None:
    match = _KEY.fullmatch(key)
    number = match and (match["later"] or match["ago"])
    if match is None or number is None or not number.isdigit():
        return None
    return match["unit"], int(number) if match["later"] else -int(number)
