"""Secrets: a type that never prints, and the redaction of known secret values from any text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from zeus_runtime.frozen import dataclass

MASK: Final = "**********"
MIN_TEXT_LENGTH: Final = 4
"""Secrets shorter than this many characters are only masked where they are a whole value: searched for in running
text they would blot out the text itself."""
MIN_AMBIENT_LENGTH: Final = 8
"""The least length in characters of an environment value that is taken for a secret by its name alone."""

_SECRET_WORDS: Final = frozenset(
    {"KEY", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE"}
    | {"CREDENTIAL", "CREDENTIALS", "AUTHORIZATION"}
)
_PLACE_WORDS: Final = frozenset({"FILE", "PATH", "DIR"})
_URL_PASSWORD = re.compile(
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@'\"]*:)(?P<password>(?!\$\{)[^\s/?#@'\"]+)(?=@)"
)
_KEY = r"""(?P<name>[A-Za-z_][\w.-]*)["']?\s*[:=]\s*"""
_LINE_VALUE = re.compile(rf"""(?P<head>(?:--set\s)?[\s-]*["']?{_KEY})(?P<value>[^\s\[{{&*|>#].*)""")
_FLOW_VALUE = re.compile(
    rf"""(?P<head>{_KEY})(?P<value>"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s\[{{&*|>#,\]}}"'][^,\]}}#]*)"""
)
_HARMLESS = re.compile(r"""(null|true|false|~|-?\d+|["']?\$\{[^}]*\}["']?)\s*(#.*)?""")


class Secret:
    """A string that never prints: ``repr``, ``str``, ``format``, ``pickle`` and JSON (``default=str``) give the mask.

    Args:
        value: the secret text; ``reveal()`` gives it back.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = str.__str__(value)

    def reveal(self) -> str:
        """The secret text itself, for the one call that needs it."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.reveal() == other.reveal()

    def __hash__(self) -> int:
        return hash(self.__value)

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __len__(self) -> int:
        return len(self.__value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (MASK,)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self


class HiddenStr(str):
    """An ordinary string that holds a secret (a URL with a password): usable as text, masked in ``repr``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


def looks_secret(name: str) -> bool:
    """Whether a variable's or key's name says that its value is a secret: ``OPENAI_API_KEY``, ``dbPassword``.

    ``MAX_TOKENS``, ``KEYBOARD`` and ``KEY_FILE`` do not: whole words count, a plural TOKENS is an amount, and where a
    secret is kept is none.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = re.split(r"[^A-Za-z0-9]+", spaced.upper())
    return words[-1] not in _PLACE_WORDS and any(word in _SECRET_WORDS for word in words)


def secret_key(key: str) -> bool:
    """Whether a YAML key's name says that its value is a secret; a lone ``key`` may well be none."""
    return key.lower() != "key" and looks_secret(key)


def mask_line(line: str) -> str:
    """A source line with URL passwords and the values of secret-looking keys masked; ``${...}`` stays readable."""
    masked = _URL_PASSWORD.sub(rf"\g<scheme>{MASK}", line)
    whole = _LINE_VALUE.fullmatch(masked)
    return (
        _masked_value(whole)
        if whole and secret_key(whole["name"])
        else _FLOW_VALUE.sub(_masked_value, masked)
    )


def _masked_value(match: re.Match[str]) -> str:
    if not secret_key(match["name"]) or _HARMLESS.fullmatch(match["value"]):
        return match[0]
    return match["head"] + MASK


@dataclass(frozen=True)
class Redactor:
    """Replaces every known secret in text or JSON by the mask; a value that is passed around.

    Args:
        secrets: the known secret texts.
    """

    secrets: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"

    def __call__(self, text: str) -> str:
        """``text`` with every known secret, and every password in a URL, masked."""
        if text in self.secrets:
            return MASK
        if self._searched:
            text = self._searched.sub(MASK, text)
        return _URL_PASSWORD.sub(rf"\g<scheme>{MASK}", text) if "://" in text else text

    def json(self, value: Any) -> Any:
        """A JSON value with every string in it, keys too, masked by the same rule."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Secret):
            return MASK
        if isinstance(value, Mapping):
            return {
                self(key) if isinstance(key, str) else key: self.json(item) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return value

    def adding(self, values: Iterable[str]) -> Redactor:
        """A redactor that knows ``values`` too; empty ones are ignored."""
        more = {str.__str__(value) for value in values if value.strip()}
        return self if more <= self.secrets else Redactor(self.secrets | more)

    def hides(self, text: str) -> bool:
        """Whether ``text`` holds something that would be masked."""
        return self(text) != text

    @cached_property
    def _searched(self) -> re.Pattern[str] | None:
        forms = {
            form for secret in self.secrets for form in _written_forms(secret) if len(form) >= MIN_TEXT_LENGTH
        }
        if not forms:
            return None
        return re.compile(
            "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
        )


def secrets_of_environment(environ: Mapping[str, str]) -> Redactor:
    """A redactor for every variable whose name looks secret, used in the YAML or not (a provider's key is read from
    the environment without a word in the YAML)."""
    return Redactor().adding(
        value for name, value in environ.items() if len(value) >= MIN_AMBIENT_LENGTH and looks_secret(name)
    )


def url_passwords(text: str) -> tuple[str, ...]:
    """The passwords in the user part of the URLs in ``text``."""
    return tuple(match["password"] for match in _URL_PASSWORD.finditer(text)) if "://" in text else ()


def _written_forms(secret: str) -> Iterable[str]:
    """How a secret may stand in text: as it is, inside JSON, inside a URL, and line by line if it has lines."""
    from json import dumps
    from urllib.parse import quote, quote_plus, unquote

    yield secret
    yield dumps(secret)[1:-1]
    yield dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield unquote(secret)
    if "\n" in secret:
        yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= MIN_AMBIENT_LENGTH)
