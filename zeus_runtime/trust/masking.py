"""Secrets in what a person allows: each is masked, except where it may decide what is run or where data goes.

A config chooses the secrets of its own ``.env`` and YAML. If all were masked, one could hide the host of an address, or
the package that a command installs. The secrets of the process are the user's own, so they are masked everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zeus_runtime.config.secrets.masking import MASK, Redactor, secrets_of_environment
from zeus_runtime.config.secrets.parts import holds_secret, secret_entry
from zeus_runtime.config.secrets.placeholders import looks_random, placeholder

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
_NAMED: Final = re.compile(r"((?:--?(?=[A-Za-z])|(?=[A-Za-z_]\w*=))([\w-]+)=)([^=].*)", re.ASCII)
_OPAQUE: Final = re.compile(r"[\w~+=-]+", re.ASCII)
_HOST_LIKE: Final = re.compile(r"(?:[\w-]+\.)+[a-z]{2,}(?:[:/].*)?", re.ASCII)
"""Data could go there, however random a part of it looks."""
_TOKEN: Final = re.compile(r"(?![/.~])[\w.~+/=-]+", re.ASCII)


@dataclass(frozen=True)
class PartMask:
    """Masks the secrets in a part's lines.

    Args:
        own: the secrets of the process, which no config chooses.
        known: all secrets, also those that the config brings.
        path: ``PATH``, where programs are looked up.
    """

    own: Redactor = field(default_factory=Redactor)
    known: Redactor = field(default_factory=Redactor)
    path: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str], known: Redactor) -> PartMask:
        """The mask of a process with these variables.

        Only a variable's name makes its value the user's own secret: a branch or a commit message that CI passes on may
        contain anything.
        """
        own = {name: value for name, value in environ.items() if holds_secret(name, value.strip())}
        return cls(secrets_of_environment(own), known, environ.get("PATH", ""))

    def word(self, text: str) -> str:
        """A program's argument. A value after ``--api-key=`` or ``API_KEY=`` names no program, package or host."""
        named = _NAMED.fullmatch(text)
        if named and self._hides(named[2], named[3]):
            return named[1] + self._whole(named[3])
        return self._shown(text, _WORD)

    def entry(self, name: str, value: str) -> str:
        """The value of a program's variable."""
        return self._whole(value) if self._hides(name, value) else self._shown(value, _WORD)

    def address(self, text: str) -> str:
        """The place that data is sent to."""
        return self._shown(text, _ADDRESS)

    def _hides(self, name: str, value: str) -> bool:
        """Whether a named value is masked. ``--password-command=helper`` is not, if there is such a program."""
        if not _is_token(name, value):
            return False
        if looks_random(value) or value in self.own.names:
            return True
        from shutil import which

        return which(value, path=self.path) is None

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
        return found[1] + self._whole(found[2]) if secret_entry(found[1][:-1], found[2]) else found[0]

    def _whole(self, value: str) -> str:
        name = self.known.names.get(value) or self.own.names.get(value)
        return placeholder(name) if name else MASK


def _is_token(name: str, value: str) -> bool:
    """Whether a named value is a secret and nothing else: no path, no address, no setting such as ``core.pager``."""
    if not holds_secret(name, value) or _HOST_LIKE.fullmatch(value):
        return False
    return bool(_OPAQUE.fullmatch(value) or (_TOKEN.fullmatch(value) and looks_random(value)))
