"""Numbers, dates and times of a text in one form, so that "16 GB" and "sixteen GB" are the same value."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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


_DATA: Final = read("values")
_LANGUAGES: Final = [read(name) for name in ("en", "de")]


def _ordered(key: str) -> dict[str, int]:
    """The names in a list of months or days, each with its place from 1 on."""
    listed = [enumerate(language[key], 1) for language in _LANGUAGES]
    return {name: at for names in listed for at, group in names for name in group.split()}


def _counted(key: str) -> dict[str, int]:
    """Numerals, each group from its first number on."""
    groups = [item for language in _LANGUAGES for item in language.get(key, {}).items()]
    return {name: at for least, names in groups for at, name in enumerate(names.split(), least)}


_MONTHS, _DAYS = _ordered("months"), _ordered("days")
_NUMBERS: Final = _counted("numbers") | _counted("ordinals") | _LANGUAGES[0]["tens"]
_DIGITS: Final[dict[str, int]] = _DATA["numerals"]
_POWERS: Final[dict[str, int]] = _DATA["powers"]


def _form(entry: dict[str, Any]) -> tuple[Kind, re.Pattern[str]]:
    names = {
        "month": "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?",
        "weekday": "|".join(group.split()[0] for language in _LANGUAGES for group in language["days"]),
        "number": "|".join(sorted(_NUMBERS, key=len, reverse=True)),
        "numeral": "".join((*_DIGITS, *_POWERS)).replace("日", "").replace("天", ""),
        "measures": read("zh")["measures"],
    }
    pattern = re.sub(r"\{\{(\w+)\}\}", lambda match: names[match[1]], entry["pattern"])
    return entry["kind"], re.compile(pattern, re.IGNORECASE)


_FORMS: Final = [_form(entry) for entry in _DATA["forms"]]


def values(text: str) -> list[Value]:
    """Every number, version, date and time of ``text`` (normalised), in order; earlier forms come first."""
    found: list[Value] = []
    taken = bytearray(len(text))
    for kind, pattern in _FORMS:
        for match in pattern.finditer(text):
            if not any(taken[match.start() : match.end()]):
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
            return f"{float(low.removesuffix(name).replace(',', '')) * scale:g}"
    if low[-1] in _DIGITS or low[-1] in _POWERS:
        return _whole(low)
    plain = low.replace(",", "").lstrip("+")
    return plain if "." in plain else plain.lstrip("0") or "0"


def _whole(text: str) -> str:
    """A whole number in digits or Chinese numerals as digits."""
    total = part = digit = 0
    for each in text:
        power = _POWERS.get(each, 0)
        if power == max(_POWERS.values()):
            total, part, digit = (total + part + digit or 1) * power, 0, 0
        elif power:
            part, digit = part + (digit or 1) * power, 0
        else:
            digit = digit * 10 + int(each) if each.isdecimal() else _DIGITS[each]
    return str(total + part + digit)
