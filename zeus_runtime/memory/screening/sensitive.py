"""Detect texts that must never be stored (secrets) and texts that must never be trusted (orders to a model).

The patterns are in ``data/``. A rule is reported by its name alone. No function here returns, raises or logs any part
of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.errors import MissingError
from zeus_runtime.memory.data_files import read
from zeus_runtime.memory.normalise import inked, lowered

if TYPE_CHECKING:
    from re import Match, Pattern


class NamedPattern(NamedTuple):
    """A pattern with a name.

    Args:
        name: its name, which is safe to log.
        signs: texts in lower case; a text (``lowered``) that contains none of them cannot match the pattern.
        pattern: the pattern.
        check: looks closer at a match; without it every match counts.
    """

    name: str
    signs: tuple[str, ...]
    pattern: Pattern[str]
    check: Callable[[Match[str]], bool] | None = None

    def finds(self, text: str, low: str) -> bool:
        """Whether ``text``, which is ``low`` in lower case (``lowered``), has it."""
        if not any(map(low.__contains__, self.signs)):
            return False
        return any(self.check is None or self.check(match) for match in self.pattern.finditer(text))


@cache
def rules(file: str, section: str) -> tuple[NamedPattern, ...]:
    """The rules of a section of a file in ``data/``, in the order they are looked for."""
    listed = read(f"screening/data/{file}")
    fragments: dict[str, str] = listed.get("fragments", {})
    return tuple(_rule(each, fragments) for each in listed[section])


def _rule(entry: dict[str, Any], fragments: dict[str, str]) -> NamedPattern:
    pattern = re.sub(r"\{\{(.+?)\}\}", lambda name: fragments[name[1]], "|".join(entry["patterns"]))
    compiled = re.compile(pattern, 0 if entry.get("exact") else re.IGNORECASE)
    # Every text contains "", so a rule without signs is always tried.
    return NamedPattern(
        entry["name"], tuple(entry["signs"]) or ("",), compiled, _CHECKS.get(entry.get("check", ""))
    )


def credentials() -> tuple[NamedPattern, ...]:
    """What lets somebody in, by its form."""
    return rules("secrets", "credentials")


def secrets() -> tuple[NamedPattern, ...]:
    """Credentials, then the numbers of cards, accounts and persons."""
    return credentials() + rules("secrets", "numbers")


def injections() -> tuple[NamedPattern, ...]:
    """Texts that speak to a model."""
    return rules("injections.en", "injections") + rules("injections.zh", "injections")


def secret_rule(text: str) -> str | None:
    """Return the name of the rule that finds a secret in ``text``, or None.

    Our patterns come first, because they are cheap, then those of detect-secrets (Yelp, Apache-2.0). Only its patterns
    are used: not its verification over the network, and not its ``pragma: allowlist secret``, with which any text could
    exempt itself.

    Args:
        text: normalised; an invisible character inside a secret would hide it.

    Raises:
        MissingError: detect-secrets is not installed.
    """
    return pattern_rule(text) or library_rule(text)


def pattern_rule(text: str) -> str | None:
    """The name of the first of our own rules that finds a secret, or None."""
    return _first(secrets(), text)


def credential_rule(identifier: str) -> str | None:
    """Like ``secret_rule``, for texts from a program, in which digits are not numbers of cards or accounts."""
    return _first(credentials(), identifier) or library_rule(identifier)


def injection_rule(text: str) -> str | None:
    """Return the name of the rule that finds instructions to a model in ``text`` (normalised), or None."""
    return _first(injections(), text)


def _first(rules: Iterable[NamedPattern], text: str) -> str | None:
    lowest = [(each, lowered(each)) for each in _forms(text)]
    return next((rule.name for rule in rules for form, low in lowest if rule.finds(form, low)), None)


def _forms(text: str) -> tuple[str, ...]:
    """``text``, and what a reader sees of it: a character without ink parts a secret or an order for a pattern."""
    seen = inked(text)
    return (text,) if seen == text else (text, seen)


def library_rule(text: str) -> str | None:
    """The name of the detector of detect-secrets that finds a secret, or None.

    Raises:
        MissingError: detect-secrets is not installed.
    """
    for name, analyse in _detectors():
        if any(True for each in _forms(text) for _ in analyse(each)):
            return f"detect-secrets: {name}"
    return None


_loaded: dict[str, Callable[[str], Iterable[str]]] = {}


def _detectors() -> Iterable[tuple[str, Callable[[str], Iterable[str]]]]:
    if not _loaded:
        from importlib import import_module

        try:
            for module, name in read("screening/data/secrets")["detectors"].items():
                detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
                _loaded[module] = detector.analyze_string
        except ImportError as error:
            # All detectors or none: with some of them a text would pass as checked.
            _loaded.clear()
            raise MissingError(
                "detect-secrets, which keeps secrets out of memory, cannot be imported",
                remedy="install it: pip install 'detect-secrets>=1.5'",
            ) from error
    return _loaded.items()


def _card(match: Match[str]) -> bool:
    """Whether a card number begins here: other numbers may stand behind it, as they may before it."""
    parts = re.split("[ -]", match[0] + match[1])
    return any(_luhn("".join(parts[:count])) for count in range(1, len(parts) + 1))


def _luhn(number: str) -> bool:
    digits = [int(each) for each in number]
    # The lengths of issued cards. A row of zeros passes the sum too, and is no card.
    if len(digits) not in (14, 15, 16, 19) or len(set(digits)) == 1:
        return False
    doubled = [d if place % 2 == 0 else d * 2 - 9 * (d > 4) for place, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _iban(match: Match[str]) -> bool:
    """Whether an account's number begins here; words may stand behind it, as they may before it."""
    text = re.sub(r"[ -]", "", match[0] + match[1]).upper()
    lengths = {each[:2]: int(each[2:]) for each in read("screening/data/secrets")["iban_lengths"].split()}
    length = lengths.get(text[:2])
    if length is None or len(text) < length:
        return False
    # ISO 7064: the country and the check digits behind the rest, letters as 10 to 35, leave 1.
    return int("".join(str(int(each, 36)) for each in text[4:length] + text[:4])) % 97 == 1


def _chinese_id(match: Match[str]) -> bool:
    """GB 11643: the last character is a checksum of the seventeen before it."""
    number = match[0].upper()
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(number, weights, strict=False))
    return "10X98765432"[total % 11] == number[-1]


def _password(match: Match[str]) -> bool:
    """Whether what follows "password is" can be one, and is not the rest of a sentence about passwords."""
    value = match["value"].strip("\"'`“”‘’.,;:!?()[]。")
    if (
        len(value) < 3
        or value.casefold() in read("screening/data/secrets")["plain_words"].split()
        or re.fullmatch(r"[$%]?[{(<]+\w+[)}>]+%?|\*+|x+|\.+", value)
    ):
        return False
    if re.search(r"[\d@#$%^&*!+=~|\\]", value) or re.search(r"[a-z][A-Z]", value):
        return bool(re.search(r"[A-Za-z@#$%^&*!+=~|\\]", value)) or len(value) >= 4
    quoted = match["value"][:1] in "\"'`“‘"
    last = not re.match(r"\W*\w", match.string[match.end() :].split("\n")[0])
    return quoted or (last and re.search(r"(?:ed|ing|able|ly)$", value) is None)


_DENIED: Final = re.compile(r"\b(?:don't|do not|never|not|doesn't|didn't|shouldn't)\s+$", re.IGNORECASE)


def _not_denied(match: Match[str]) -> bool:
    return _DENIED.search(match.string, max(0, match.start() - 20), match.start()) is None


_CHECKS: Final[dict[str, Callable[[Match[str]], bool]]] = {
    "card": _card,
    "iban": _iban,
    "chinese_id": _chinese_id,
    "password": _password,
    "not_denied": _not_denied,
}
