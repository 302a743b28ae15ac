"""Secrets: a type that never prints, and masking known secret values in any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, Final

from zeus_runtime.config.placeholders import (
    PLACEHOLDER,
    START,
    is_searched,
    looks_random,
    placeholder,
    rest_of,
    rest_placeholder,
    written_forms,
)
from zeus_runtime.frozen import dataclass

MASK: Final = "**********"
MIN_AMBIENT_LENGTH: Final = 8
"""The least length in characters of an environment value that is taken for a secret by its name alone."""

_SECRET_WORDS: Final = frozenset(
    {"KEY", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE"}
    | {"CREDENTIAL", "CREDENTIALS", "AUTHORIZATION"}
)
_ENDINGS: Final = frozenset({"PASS", "PWD", "PAT"})
"""Ordinary words too, so the whole name and the value decide with them."""
_PLACE_WORDS: Final = frozenset({"FILE", "PATH", "DIR"})
_URL_PASSWORD = re.compile(
    r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^\s/?#:@'\"<]*:)(?P<password>(?!\$\{|<secret:)[^\s/?#@'\"]+)(?=@)"
)
_URL_USER = re.compile(r"://([^\s/?#:@'\"]{16,})@")
"""A user without a password is a token where it looks like one (https://TOKEN@host)."""
_SETTING = re.compile(r"(?:^|[;\s])([A-Za-z][A-Za-z_]*)=([^;\s]+)")
# A name starts where a word starts: tried at each of its characters, a long word would take quadratic time.
_KEY = r"""(?P<name>(?<![\w.-])(?=[\w.-]*?[A-Za-z_])[\w.-]+)["']?\s*[:=]\s*"""
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


class HeaderValue(HiddenStr):
    """The value of an HTTP header in a config: masked as a whole wherever the config is shown."""

    __slots__ = ()


def looks_secret(name: str) -> bool:
    """Whether a variable's or key's name says that its value is a secret: ``OPENAI_API_KEY``, ``dbPassword``.

    ``MAX_TOKENS``, ``KEYBOARD`` and ``KEY_FILE`` do not: whole words count, a plural TOKENS is an amount, and where a
    secret is kept is none.
    """
    words = _words(name)
    return words[-1] not in _PLACE_WORDS and any(word in _SECRET_WORDS for word in words)


def holds_secret(name: str, value: str) -> bool:
    """Whether the name of a variable says that its value is a secret: ``looks_secret``, or ``DB_PASS``, ``GITHUB_PAT``.

    A lone ``PWD`` is the shell's folder, and a path, a pattern or a sentence is no password.
    """
    if looks_secret(name):
        return True
    words = _words(name)
    one_word = re.fullmatch(r"(?![/~.]|[A-Za-z]:[\\/])[^\s*]+", value)
    return len(words) > 1 and words[-1] in _ENDINGS and one_word is not None


def secret_entry(key: str, value: str) -> bool:
    """Whether a YAML key says that its text is a secret; a lone ``key`` may well be none."""
    return key.lower() != "key" and holds_secret(key, value)


def _words(name: str) -> list[str]:
    return re.split(r"[^A-Za-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper())


def holds_headers(key: object) -> bool:
    """Whether a key's name says that it holds HTTP headers: ``headers``, ``extra_headers``, ``defaultHeaders``."""
    return isinstance(key, str) and key.lower().endswith("headers")


def mask_line(line: str) -> str:
    """A source line with URL passwords and the values of secret-looking keys masked; ``${...}`` stays readable."""
    masked = _URL_PASSWORD.sub(rf"\g<scheme>{MASK}", line)
    whole = _LINE_VALUE.fullmatch(masked)
    return _masked_value(whole) if whole and _is_secret(whole) else _FLOW_VALUE.sub(_masked_value, masked)


def _masked_value(match: re.Match[str]) -> str:
    if not _is_secret(match) or _HARMLESS.fullmatch(match["value"]):
        return match[0]
    return match["head"] + MASK


def _is_secret(match: re.Match[str]) -> bool:
    return secret_entry(match["name"], re.sub(r"\s+#.*", "", match["value"]).strip().strip("\"'"))


class Learned:
    """Secrets that a process gets while it runs, such as an account's tokens; it only grows."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def add(self, secret: str, name: str) -> None:
        """Know ``secret`` from now on."""
        if secret not in self.names:
            self.names[secret] = _free(name, set(map(placeholder, self.names.values())))


@dataclass(frozen=True)
class Redactor:
    """Replaces every known secret in text or JSON by a placeholder that is the same in every run; a value.

    ``masked`` is for what a model reads, the log keeps and a person approves: only known secrets are replaced, so that
    ``restored`` can put them back, and the arguments that a person reads are those that the model wrote. A call and
    ``json`` are for everything else that a person reads: short secrets that are a whole value, and any password in a
    URL, are masked too.

    Args:
        names: secret text to the name in its placeholder, the first known first.
        learned: those that are known later, by every redactor that has the same.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    learned: tuple[Learned, ...] = ()

    def __repr__(self) -> str:
        return f"Redactor({len(self.names)} secrets)"

    @property
    def secrets(self) -> frozenset[str]:
        """The known secret texts."""
        return frozenset(self._now.names)

    def __call__(self, text: str) -> str:
        """``text`` with every known secret, and every password in a URL, masked."""
        text = self._known(text)
        return _URL_PASSWORD.sub(rf"\g<scheme>{MASK}", text) if "://" in text else text

    def json(self, value: Any) -> Any:
        """A JSON value with every string in it, keys too, masked by the same rule."""
        return _each(value, self)

    def _known(self, text: str) -> str:
        name = self._now.names.get(text)
        return self.text(text) if name is None else placeholder(name)

    def text(self, text: str) -> str:
        """``text`` with every known secret that is searched for in running text replaced by its placeholder."""
        parts: list[str] = []
        done = 0
        for start, end, shown in self._found(text):
            parts += [text[done:start], shown]
            done = end
        return "".join([*parts, text[done:]]) if parts else text

    def masked(self, value: Any) -> Any:
        """A text or JSON value with known secrets replaced, as ``text`` does."""
        return _each(value, self.text) if self._forms else value

    def settled(self, text: str) -> tuple[str, str]:
        """The part of a growing text that nothing after it can change, masked, and the rest as it is.

        The rest may be the beginning of a secret, or a secret that another one may overlap.
        """
        end = self._open_end(text)
        parts: list[str] = []
        done = 0
        for start, after, shown in self._found(text):
            if after > end:
                end = min(start, end)
                break
            parts += [text[done:start], shown]
            done = after
        return "".join([*parts, text[done:end]]), text[end:]

    def restored(self, text: str, held: str) -> str:
        """``text`` with those placeholders replaced whose secret, written in that way, is in ``held``.

        Raises:
            ValueError: ``held`` has a placeholder as text and its secret too, so what is meant cannot be told.
        """

        def real(match: re.Match[str]) -> str:
            secret = self._meant(match[0])
            if secret is None or secret not in held:
                return match[0]
            if match[0] in held:
                raise ValueError(match[0])
            return secret

        return PLACEHOLDER.sub(real, text) if START in text else text

    def placeholders_in(self, text: str) -> Sequence[str]:
        """The placeholders of known secrets that ``text`` holds, each once."""
        return list(dict.fromkeys(each for each in PLACEHOLDER.findall(text) if self._meant(each)))

    def adding(self, values: Iterable[str] | Mapping[str, str]) -> Redactor:
        """A redactor that knows ``values`` too; empty ones are ignored.

        Args:
            values: secret texts, or secret text to name; without a name a secret is numbered.
        """
        # A set has another order in every process, and the numbers must not.
        listed = sorted(values) if isinstance(values, Set) else values
        named = values if isinstance(values, Mapping) else dict.fromkeys(listed, "")
        names = dict(self.names)
        taken = set(map(placeholder, names.values()))
        for value, name in named.items():
            text = str.__str__(value)
            if not text.strip() or text in names or PLACEHOLDER.fullmatch(text):
                continue
            free = _free(name, taken)
            names[text] = free
            taken.add(placeholder(free))
        return self if len(names) == len(self.names) else Redactor(names, self.learned)

    def joined(self, other: Redactor) -> Redactor:
        """A redactor that knows what both know, now and later."""
        known = self.adding(other.names)
        return Redactor(known.names, tuple(dict.fromkeys((*self.learned, *other.learned))))

    def learn(self, secret: str, name: str) -> None:
        """Mask a secret that was got just now, here and in every redactor made from this one."""
        for each in self.learned[:1]:
            each.add(secret, name)

    def learn_all(self, other: Redactor) -> None:
        """Mask what ``other`` knows too, here and in every redactor made from this one."""
        for secret, name in other.names.items():
            if secret not in self.names:
                self.learn(secret, name)

    @property
    def learned_count(self) -> int:
        """How many secrets were learned; what was masked at another count may hold one that is known now."""
        return sum(len(each.names) for each in self.learned)

    def hides(self, text: str) -> bool:
        """Whether ``text`` holds something that would be masked."""
        return self(text) != text

    @property
    def forms(self) -> Sequence[str]:
        """Every text that is searched for."""
        return tuple(self._forms)

    def _open_end(self, text: str) -> int:
        """Where the longest end of ``text`` begins that a secret may go on from."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            for form in self._by_first.get(text[start], ()):
                if len(form) > len(text) - start and form.startswith(text[start:]):
                    return start
        return len(text)

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where known secrets stand, and what is shown instead; those that overlap are one."""
        forms = tuple(form for form in self._forms if form in text)
        if not forms:
            return
        pattern, at = _pattern(forms), 0
        start = end = 0
        shown = ""
        while match := pattern.search(text, at):
            at = match.start() + 1
            form = match[0]
            if form not in self._forms:
                # Of another config, or written by somebody: what stands behind its start may be the secret itself.
                at = match.end() if self._meant(form) else match.start() + len(START)
            elif match.start() >= end:
                if shown:
                    yield start, end, shown
                start, end, shown = match.start(), match.end(), self._forms[form]
            elif match.end() > end:
                shown += rest_placeholder(self._forms[form], end - match.start())
                end = match.end()
        if shown:
            yield start, end, shown

    def _meant(self, shown: str) -> str | None:
        """The text that a placeholder stands for; None for a placeholder of no known secret."""
        if (text := self._written.get(shown)) is None and (rest := rest_of(shown)):
            text = self._written.get(rest[0], "")[rest[1] :] or None
        return text

    @property
    def _now(self) -> Redactor:
        """A redactor of all that is known now."""
        count = self.learned_count
        if not count:
            return self
        kept: tuple[int, Redactor] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != count:
            known = Redactor(self.names)
            for each in self.learned:
                known = known.adding(each.names)
            kept = self.__dict__["_kept"] = count, known
        return kept[1]

    @property
    def _forms(self) -> Mapping[str, str]:
        """Text that is searched for to its placeholder."""
        return self._now._own_forms

    @property
    def _longest(self) -> int:
        return self._now._own_longest

    @property
    def _by_first(self) -> Mapping[str, Sequence[str]]:
        """First character to the texts that are searched for."""
        return self._now._own_by_first

    @property
    def _written(self) -> Mapping[str, str]:
        return self._now._own_written

    @cached_property
    def _own_forms(self) -> Mapping[str, str]:
        forms: dict[str, str] = {}
        for secret, name in self.names.items():
            if is_searched(secret):
                for text, shown in written_forms(secret, name):
                    forms.setdefault(text, shown)
        return forms

    @cached_property
    def _own_longest(self) -> int:
        return max(map(len, self._forms), default=0)

    @cached_property
    def _own_by_first(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for form in self._forms:
            found.setdefault(form[0], []).append(form)
        return found

    @cached_property
    def _own_written(self) -> Mapping[str, str]:
        return {shown: text for text, shown in self._forms.items()}


def _each(value: Any, masked: Callable[[str], str]) -> Any:
    if isinstance(value, HeaderValue | Secret):
        return MASK
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        shown: dict[Any, Any] = {}
        for key, item in value.items():
            name = masked(key) if isinstance(key, str) else key
            if name != key and name in (taken := {*shown, *value}):
                name = next(free for number in count(2) if (free := f"{name} ({number})") not in taken)
            shown[name] = _each(item, masked)
        return shown
    if isinstance(value, list | tuple):
        return [_each(item, masked) for item in value]
    return value


def _free(name: str, taken: Collection[str]) -> str:
    """``name``, with a number where another secret has it."""
    numbers = count(2 if name else 1)
    free = name or str(next(numbers))
    while placeholder(free) in taken:
        free = f"{name}-{next(numbers)}" if name else str(next(numbers))
    return free


@lru_cache(maxsize=256)
def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    """The placeholders that are there already, then the longest form first."""
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join([PLACEHOLDER.pattern, *map(re.escape, ordered)]))


def secrets_of_environment(environ: Mapping[str, str]) -> Redactor:
    """A redactor for every variable that holds a secret, used in the YAML or not (a provider's key is read from the
    environment without a word in the YAML)."""
    return Redactor(learned=(Learned(),)).adding(
        {
            secret: name
            for name, value in sorted(environ.items(), reverse=True)
            for secret in secrets_of_variable(name, value)
        }
    )


def secrets_of_variable(name: str, value: str) -> Iterator[str]:
    """The secrets in a variable: all of it by its name; by its shape what a URL or a connection string has of them."""
    if len(value) >= MIN_AMBIENT_LENGTH and holds_secret(name, value):
        yield value
    parts = [*url_passwords(value), *(each for each in _URL_USER.findall(value) if looks_random(each))]
    for key, part in _SETTING.findall(value):
        # Among the settings of a connection a lone `Pwd` is a password.
        if secret_entry(f"its_{key}" if key.upper() in _ENDINGS else key, part):
            parts.append(part)
    yield from (each for each in parts if len(each) >= MIN_AMBIENT_LENGTH and is_searched(each))


def url_passwords(text: str) -> tuple[str, ...]:
    """The passwords in the user part of the URLs in ``text``."""
    return tuple(match["password"] for match in _URL_PASSWORD.finditer(text)) if "://" in text else ()
