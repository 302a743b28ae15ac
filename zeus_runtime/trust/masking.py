"""Secrets in what a person allows: each is masked, except where it may decide what is run or where data goes.

A config chooses the secrets of its own ``.env`` and YAML. If all were masked, one could hide the host of an address, or
the package that a command installs. The secrets of the process are the user's own, so they are masked everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import pairwise
from typing import Final

from zeus_runtime.config.secrets.masking import MASK, Redactor, secrets_of_environment
from zeus_runtime.config.secrets.placeholders import is_frame, is_key, lines_of_key, looks_random, placeholder
from zeus_runtime.config.secrets.secret_names import holds_secret, secret_entry
from zeus_runtime.frozen import dataclass

_HOST: Final = r"(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?"


def _url(chars: str) -> re.Pattern[str]:
    """A URL in which every program reads the same host: no blank, no backslash, one ``@`` before the path.

    Args:
        chars: what a login or a masked value of the query may consist of.
    """
    return re.compile(
        rf"""(?P<scheme>[a-z][a-z0-9+.-]*://)
        (?:(?P<user>[{chars}]*)(?::(?P<password>[{chars}]*))?@)?
        (?P<place>(?:{_HOST}(?:,{_HOST})*)?(?:/[^\s?\#\\]*)?)
        (?P<query>(?:\?[^\s\#\\]*)?)
        (?P<fragment>(?:\#[^\s\\]*)?)""",
        re.VERBOSE | re.ASCII | re.IGNORECASE,
    )


_WORD: Final = r"\w.~+=-"
"""A shell runs ``$(...)`` in a word, and git decodes ``%40`` before it looks for the host."""
_ADDRESS: Final = r"\w.~!$'()*+,;=%-"
_NAMED: Final = re.compile(r"((?:--?(?=[A-Za-z])|(?=[A-Za-z_]\w*=))([\w-]+)=)([^=].*)", re.ASCII | re.DOTALL)
_HEADER: Final = re.compile(r"(([A-Za-z][\w-]*):\s*)(.+)", re.ASCII | re.DOTALL)
_FIELD: Final = re.compile(r"(([A-Za-z][\w-]*):\s+)(.+)", re.ASCII | re.DOTALL)
"""Without a flag before it, ``secret:latest`` is an image."""
_FLAG: Final = re.compile(r"--?([A-Za-z][\w-]*)", re.ASCII)
_HEADER_FLAGS: Final = frozenset({"H", "header", "headers"})

_PIECE: Final = re.compile(r"[\w.~+/-]+", re.ASCII)
"""Shells, URLs and settings divide a value at all other characters."""
_OPERATOR: Final = re.compile(r"[\s;&|<>()\[\]{}'\"`\\]")
"""With one of these signs a text may be code: ``api_key=f(…)`` after ``-c``, or ``TOKEN=a b`` before a command."""
_QUOTES: Final = re.compile(r"[\"'\\]")
"""A shell drops them: ``c""url`` is ``curl``."""
_DOTTED: Final = re.compile(r"(?:[\w-]+\.)+[A-Za-z]{2,}|(?:[0-9]+\.){1,3}[0-9]+", re.ASCII)
"""A host, or a setting such as ``core.pager``."""
_IPV6: Final = re.compile(r"[0-9a-f]*:[0-9a-f]*:", re.ASCII | re.IGNORECASE)
_EXPANDED: Final = re.compile(r"`|\$[({]|\$(\w+)", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+=*", re.ASCII)
_LEAST_BASE64: Final = 32
_LEAST_PROGRAM: Final = 2
"""Characters of a program's name; a single letter with signs around it is part of a password."""


@dataclass(frozen=True)
class PartMask:
    """Masks the secrets in a part's lines.

    Args:
        own: the secrets of the process, which no config chooses.
        known: all secrets, also those that the config brings.
        path: ``PATH``, where programs are looked up.
        variables: the names that a shell replaces.
        read: the words and values of the command, as ``_letters`` gives them: one that names a variable may read it.
    """

    own: Redactor = field(default_factory=Redactor)
    known: Redactor = field(default_factory=Redactor)
    path: str = ""
    variables: Set[str] = frozenset()
    read: tuple[str, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str], known: Redactor) -> PartMask:
        """The mask of a process with these variables.

        Only a variable's name makes its value the user's own secret: a branch or a commit message that CI passes on may
        contain anything.
        """
        own = {name: value for name, value in environ.items() if holds_secret(name, value.strip())}
        return cls(secrets_of_environment(own), known, environ.get("PATH", ""), environ.keys())

    def within(self, env: Mapping[str, str], words: Sequence[str] = ()) -> PartMask:
        """The mask for a process with these words that gets these variables too."""
        # With the process's own behind it: a name that either finds may be a program.
        path = f"{env['PATH']}{os.pathsep}{self.path}" if "PATH" in env else self.path
        read = tuple(map(_letters, (*words, *env.values())))
        return replace(self, path=path, variables=self.variables | env.keys(), read=read)

    def words(self, arguments: Sequence[str]) -> Iterator[str]:
        """A program's arguments. No flag hides the word behind it: only the program knows if the flag takes a value.

        ``npx --api-key gist:ID`` runs the gist. After ``-H``, a word is a header, and names its secret itself.
        """
        for before, text in pairwise(["", *arguments]):
            flag = _FLAG.fullmatch(before)
            yield self._word(text, flag[1] if flag else "")

    def word(self, text: str) -> str:
        """A program's argument. A value after ``--api-key=`` or ``API_KEY=`` names no program, package or host."""
        return self._word(text, "")

    def _word(self, text: str, flag: str) -> str:
        if found := _NAMED.fullmatch(text):
            if found[2] in _HEADER_FLAGS:
                return found[1] + self._word(found[3], found[2])
            # `env A_TOKEN=VALUE sh -c '$A_TOKEN'`; the word itself has the name too.
            if not found[1].startswith("-") and self._is_read(found[2], besides=1):
                return self.own.text(text)
            if self._is_literal(found[3]) and self._hides(found[2], found[3]):
                return found[1] + self._whole(found[3])
            if address := _url(_WORD).fullmatch(found[3]):
                return self.own.text(found[1] + self._masked(address, _WORD))
        elif found := (_HEADER if flag in _HEADER_FLAGS else _FIELD).fullmatch(text):
            # `Bearer TOKEN` is two words. To `bash -c -H TEXT` the text is code too.
            words = found[3].replace(" ", "") if flag in _HEADER_FLAGS else found[3]
            if self._is_literal(words) and self._hides(found[2], found[3]):
                return found[1] + self._whole(found[3])
        return self._shown(text, _WORD)

    def _is_literal(self, value: str) -> bool:
        """Whether a value behind a name in the same word is a literal, and not code in which the name is a variable."""
        return value in self.own.names or _OPERATOR.search(value) is None

    def entry(self, name: str, value: str) -> str:
        """The value of a program's variable. One that the command itself reads may be its code, package or host."""
        if self._is_read(name):
            return self.own.text(value)
        if self._hides(name, value):
            return self._whole(value)
        return self._json(value) if value.lstrip()[:1] in ("{", "[") else self._shown(value, _WORD)

    def address(self, text: str) -> str:
        """The place that data is sent to."""
        return self._shown(text, _ADDRESS)

    def hidden(self, _value: object) -> str:
        """A value that no person is shown."""
        return MASK

    def _is_read(self, name: str, besides: int = 0) -> bool:
        """Whether the command has a variable's name in more than ``besides`` of its words and values."""
        letters = _letters(name)
        return sum(letters in each for each in self.read) > besides

    def _hides(self, name: str, value: str) -> bool:
        """Whether a named value is a secret that no program could take for something to run or for a place.

        ``--password-command=helper`` is shown if there is such a program, and so is each value with a host, a path or
        something that a shell replaces.
        """
        if not holds_secret(name, value):
            return False
        return value in self.own.names or not self._may_decide(value)

    def _may_decide(self, value: str) -> bool:
        if is_key(value) and _is_whole_key(value):
            return False
        # `$(…)` and backticks always; `$NAME` only if there is such a variable, since `pa$word` may be a password.
        if any(not each[1] or each[1] in self.variables for each in _EXPANDED.finditer(value)):
            return True
        if _IPV6.search(value):
            return True
        pieces = {*_PIECE.findall(value), *_PIECE.findall(_QUOTES.sub("", value))}
        return any(map(self._names_something, pieces))

    def _names_something(self, piece: str) -> bool:
        """Whether a piece of a value is a path, a host, a setting or a program."""
        # Base64 has slashes too, so what looks random counts as a path only where its beginning is one.
        if "/" in piece:
            return not looks_random(piece) or _is_begun_path(piece)
        if looks_random(piece) or len(piece) < _LEAST_PROGRAM:
            return _DOTTED.fullmatch(piece) is not None
        from shutil import which

        return _DOTTED.fullmatch(piece) is not None or which(piece, path=self.path) is not None

    def _json(self, value: str) -> str:
        """A JSON text with the secrets of its members masked, each judged by its own key."""
        import json

        shown = self._shown(value, _WORD)
        try:
            parsed = json.loads(value)
            members, names = list(_members(parsed)), set(_keys(parsed))
        except (ValueError, RecursionError):
            return shown
        # A text that another member shows stays visible: there it may be a package, a flag or a name.
        seen = {text for name, text in members if not self._hides(name, text)} | names
        for name, text in members:
            if text and text not in seen and self._hides(name, text):
                # In each notation that the value may have; one with other escapes stays as it is shown above.
                for written in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
                    shown = shown.replace(written, json.dumps(self._whole(text)))
        return shown

    def _shown(self, text: str, chars: str) -> str:
        if text in self.own.names:
            return self._whole(text)
        found = _url(chars).fullmatch(text) if "://" in text else None
        return self.own.text(text if found is None else self._masked(found, chars))

    def _masked(self, found: re.Match[str], chars: str) -> str:
        """A URL with its login, and the secrets of its query, masked."""
        user, password = found["user"], found["password"]
        login = "" if user is None else self._whole(user) if user in self.known.names else user
        login += "" if password is None else f":{self._whole(password)}"
        query = re.sub(
            rf"(?<=[?&])([\w.-]+=)([/{chars}]+)(?=&|\Z)", self._pair, found["query"], flags=re.ASCII
        )
        at = "" if user is None else "@"
        return f"{found['scheme']}{login}{at}{found['place']}{query}{found['fragment']}"

    def _pair(self, found: re.Match[str]) -> str:
        """A parameter of a query, judged as a server decodes it; one that is encoded twice is shown."""
        from urllib.parse import unquote, unquote_plus

        name, value = found[1][:-1], unquote_plus(found[2])
        if secret_entry(name, value) and unquote(value) == value and self._hides(name, value):
            return found[1] + self._whole(found[2])
        return found[0]

    def _whole(self, value: str) -> str:
        name = self.known.names.get(value) or self.own.names.get(value)
        return placeholder(name) if name else MASK


class BareMask(PartMask):
    """Masks nothing: it tells values apart, and no person sees what it gives."""

    def _word(self, text: str, _flag: str) -> str:
        return text

    def entry(self, _name: str, value: str) -> str:
        return value

    def address(self, text: str) -> str:
        return text

    def hidden(self, value: object) -> str:
        import json

        return json.dumps(value, sort_keys=True)


def _letters(text: str) -> str:
    """A text without signs: ``environ["A_" + "TOKEN"]`` and ``$A_TOKEN`` both name ``A_TOKEN``."""
    return re.sub(r"\W+", "", text)


def _is_begun_path(piece: str) -> bool:
    """Whether a piece that looks random begins as a path or as an address does; so does one in 64 base64 texts."""
    first = piece.split("/")[int(piece.startswith("/"))]
    if piece.startswith("/"):
        return os.path.lexists(f"/{first}")
    return first in {"", "~", ".", ".."} or _DOTTED.fullmatch(first) is not None


def _is_whole_key(value: str) -> bool:
    """Whether a value is a private key and names no file in one of its lines, which may begin with a slash."""
    body = [each.strip() for each in lines_of_key(value) if each.strip() and not is_frame(each)]
    return (
        bool(body)
        and all(map(_BASE64.fullmatch, body))
        and all(len(each) >= _LEAST_BASE64 for each in body[:-1])
        and looks_random("".join(body))
        and not any(map(os.path.lexists, body))
    )


def _members(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a JSON value, each with the key that it is found under."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _members(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _members(item, name)
    elif isinstance(value, str):
        yield name, value


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _keys(item)
