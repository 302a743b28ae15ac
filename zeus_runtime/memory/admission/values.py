"""Numbers, dates and times of a text in one form, so that "16 GB" and "sixteen GB" are the same value."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.data_files import read

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


_DATA: Final = read("admission/data/values")
_MONTHS, _DAYS, _NUMBERS = (
    {name: at for language in ("en", "de") for name, at in read(f"admission/data/{language}")[key].items()}
    for key in ("months", "days", "numbers")
)
_DIGITS: Final[dict[str, int]] = _DATA["numerals"]
_POWERS: Final[dict[str, int]] = _DATA["powers"]


def _form(entry: dict[str, Any]) -> tuple[Kind, re.Pattern[str]]:
    names = {
        # The longest first: an alternation takes the first that fits, and "mar" begins "march".
        "month": "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?",
        "weekday": "|".join(_DAYS),
        "number": "|".join(sorted(_NUMBERS, key=len, reverse=True)),
        "numeral": "".join((*_DIGITS, *_POWERS)).replace("日", "").replace("天", ""),
        "measures": read("admission/data/zh")["measures"],
    }
    pattern = re.sub(r"\{\{(\w+)\}\}", lambda match: names[match[1]], entry["pattern"])
    return entry["kind"], re.compile(pattern, re.IGNORECASE)


_FORMS: Final = [_form(entry) for entry in _DATA["forms"]]
_LATIN: Final = [_form(entry) for entry in _DATA["forms"] if entry.get("language") != "zh"]
"""Those that a text of ASCII alone may have."""


def values(text: str) -> list[Value]:
    """Every number, version, date and time of ``text`` (normalised), in order; earlier forms come first."""
    found: list[Value] = []
    taken = bytearray(len(text))
    for kind, pattern in _LATIN if text.isascii() else _FORMS:
        for match in pattern.finditer(text):
            # A part of a longer form is not a value by itself, as the 5 of "5 May".
            if b"\1" not in taken[match.start() : match.end()]:
                taken[match.start() : match.end()] = b"\1" * len(match[0])
                found.append(Value(kind, _text(kind, match), match.start(), match.end()))
    return sorted(found, key=lambda value: value.start)


def _text(kind: Kind, match: re.Match[str]) -> str:
    got = {name: text for name, text in match.groupdict().items() if text}
    if kind == "version":
        return match[0].lower().lstrip("v")
    if kind == "number":
        return _number(match[0].lower())
    if kind == "time":
        hour, part = int(_whole(got["h"])), got.get("p", "").lower()
        if part in _DATA["afternoon"] or part == "a":
            # 12 a.m. is 0 and 12 p.m. is 12.
            hour = hour % 12 + 12 * (part != "a")
        return f"{hour:02d}:{30 if 'half' in got else int(_whole(got.get('n', '0'))):02d}"
    month, week = got.get("m", "").rstrip(".").lower(), got.get("w", "").lower()
    if week or ("d" in got and not month):
        return f"*-*-*-{_DAYS[week] if week else _DIGITS[got['d']]}"
    number = _MONTHS.get(month) or (_whole(month) if month else "*")
    return f"{got.get('y', '*')}-{number}-{_whole(got['d']) if 'd' in got else '*'}-*"


def _number(low: str) -> str:
    if low in _NUMBERS:
        return str(_NUMBERS[low])
    for name, scale in _DATA["scales"].items():
        if low.endswith(name):
            # Exactly: a float of seven digits would be another number in `:g`, or none in digits.
            return f"{(Decimal(low.removesuffix(name).replace(',', '')) * Decimal(str(scale))).normalize():f}"
    if low[-1] in _DIGITS or low[-1] in _POWERS:
        return _whole(low)
    plain = low.replace(",", "").lstrip("+")
    return plain if "." in plain else plain.lstrip("0") or "0"


def _whole(text: str) -> str:
    """A whole number in digits or Chinese numerals as digits."""
    total = part = digit = 0
    for each in text:
        power = _POWERS.get(each, 0)
        # 万 multiplies all that was read before it; smaller powers multiply only the digit before them.
        if power == max(_POWERS.values()):
            total, part, digit = (total + part + digit or 1) * power, 0, 0
        elif power:
            part, digit = part + (digit or 1) * power, 0
        else:
            digit = digit * 10 + int(each) if each.isdecimal() else _DIGITS[each]
    return str(total + part + digit)
