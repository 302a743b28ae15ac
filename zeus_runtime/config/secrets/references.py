"""The references in a value, which a shell, a library or a person fills in: ``$DB_PASSWORD`` is no secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.config.secrets.running_text import is_key_like

_SIGNS: Final = r"""\s:/@,;&|=?.\"'()\[\]{}<>\\-"""
"""Between the parts of a value. A ``!`` or a ``#`` is of a password."""
_WORD: Final = r"[\w.()-]++"
_WORDS: Final = rf"{_WORD}(?:[ ]{_WORD})*+"
_VAULT: Final = r"[\w-]++(?:[ ][\w-]++)*+"
"""No host of a network: an address may be a secret as a whole."""
_KEPT: Final = r"[\w.-]+(?:[:/#][\w.-]+){4,}[:/#]*"
"""``arn:aws:ssm:eu-west-1:123456789012:parameter/shop/db``, ``projects/shop/secrets/db/versions/latest``: five names or
more; fewer may be a password of some words."""
_REFERENCE: Final = (
    rf"(?<![^{_SIGNS}])(?:\$?\{{\{{[-\s.]*+(?P<filled>[A-Za-z_][^{{}}\n]*+)\}}\}}"
    r"|\$?\$\{!?(?P<braced>[A-Za-z_]\w*+)(?P<more>(?:[^{}\n\w](?:[^{}\n]|\{[^{}\n]*+\})*+)?)\}"
    r"|\$\((?P<command>(?:[^()<\n]|\([^()\n]*+\))*+)\)"
    r"|`(?=[^`\s]*+[^\S\n])(?P<quoted>[^`\n]++)`"
    rf"|(?:\$?\$(?:env:)?(?P<bare>[A-Za-z_]\w*+)|%(?P<percent>[A-Z_][A-Z0-9_]*+)%)(?=[${_SIGNS}]|\Z)"
    r"(?!\s*+[.:?]{0,2}=(?!=))"
    rf"|[a-z][a-z+]*+:/(?P<place>/(?:{_VAULT})?(?:/{_WORDS}(?=/))*+/{_WORD})(?=[\s\"'`)\]}}]|\Z)"
    r"|\[(?P<to_fill_in>[A-Za-z]++(?:[ _-][A-Za-z]++)++)\](?!\s*+[:=(]))"
)
"""``{{ name }}``, ``${NAME}``, ``$(command)``, ``$NAME`` and ``%NAME%``, but for a name that a line sets (PHP). It may
have a default: ``${NAME:-text}``. Also the place of a secret in its keeper (``op://vault/item/field``), and what a
person fills in (``[YOUR-PASSWORD]``)."""
_PLAIN: Final = r"[A-Z0-9_]+|[a-z0-9_]+|[a-z]+(?:[A-Z][a-z]+)+"
_DEFAULT: Final = re.compile(r":?[-=](.+)", re.DOTALL)
_TO_FILL_IN: Final = r"<[A-Za-z]+(?:[ _-][A-Za-z]+)*>"
"""``<your-api-key>``."""
_FIRST: Final = 0xF0000
_MOST: Final = 0xFFFE
_STAND_INS: Final = f"{chr(_FIRST)}-{chr(_FIRST + _MOST)}"
"""Signs for private use: texts seldom have them."""
_RUN: Final = rf"([{_STAND_INS}])\1*+"
"""Those of one reference."""
_ONLY: Final = (
    r"(?:[A-Za-z]++[ ]+)?(?:(?<=[;&,\s])[A-Za-z]\w*+=[\w./-]++(?=[;&,\s]|\Z)"
    rf"|[A-Za-z][A-Za-z_-]*+[\"'\\]*+\s*+[:=]|[{_STAND_INS}{_SIGNS}])*+"
)
"""References, with a scheme before them (``Bearer``), names (``token=``) and further settings (``;User=app``)."""
_PREFIX: Final = rf"(?<![^\s:@,;&|=?\"'()\[\]{{}}<>\\])(\w++)[-./](?=[{_STAND_INS}])"
"""``prefix-${TOKEN}``."""
_NEXT: Final = rf"(?<=[{_STAND_INS}])[\"'`]\s[^\"'`]*\Z"
"""Behind the quote that ends a text, which some readings go beyond."""
_BELOW: Final = rf"[{_STAND_INS}]+(?:/[\w.-]+)+"
"""A place on the disk: ``$HOME/.ssh/id_ed25519``."""


class References:
    """Keeps the references of a text apart while rules look for secrets in it.

    Signs stand in for each, as many as it has characters. So no rule cuts one at its blanks or braces, or takes its
    signs for those of an address, and a part with one is as long as before.

    Args:
        says_secret: whether a name says that its value is a secret.
        holds_secret: whether a text has a secret in it, by its form.
    """

    def __init__(self, says_secret: Callable[[str], bool], holds_secret: Callable[[str], bool]) -> None:
        self._says_secret = says_secret
        self._holds_secret = holds_secret
        self._found: list[re.Match[str]] = []

    def hidden(self, text: str) -> str:
        """A text with stand-ins; as it is, if it has some already: then the caller keeps its references apart."""
        if not re.search(r"[$%`\[]|\{\{|://", text) or re.search(f"[{_STAND_INS}]", text):
            return text
        return re.sub(_REFERENCE, self._hide, text)

    def _hide(self, found: re.Match[str]) -> str:
        if len(self._found) >= _MOST or not self._is_reference(found):
            return found[0]
        self._found.append(found)
        return chr(_FIRST + len(self._found) - 1) * len(found[0])

    def _is_reference(self, found: re.Match[str]) -> bool:
        bare = found["bare"]
        # A password may begin with a `$`.
        if bare and not (bare.isupper() or "_" in bare or self._says_secret(bare)):
            return False
        # In brackets there are also lists and sections.
        if found["to_fill_in"] and not self._says_secret(found["to_fill_in"]):
            return False
        name = bare or found["filled"] or found["braced"] or found["percent"] or found["place"] or ""
        if found["braced"] and not re.fullmatch(_PLAIN, name):
            return False
        within = found["command"] or found["quoted"] or found["filled"] or found["more"] or ""
        is_default = _DEFAULT.fullmatch(within)
        return not _is_random(name) and (is_default is not None or not self._holds_secret(within))

    def with_defaults(self, hidden: str) -> str:
        """A text as it is meant where the variables with a default are not set."""
        return re.sub(_RUN, self._meant, hidden) if self._found else hidden

    def _meant(self, run: re.Match[str]) -> str:
        default = _DEFAULT.fullmatch(self._of(run)["more"] or "")
        return self.with_defaults(self.hidden(default[1])) if default else run[0]

    def with_named_defaults(self, hidden: str) -> str:
        """A text with the defaults behind their names, if these say secret."""
        return re.sub(_RUN, self._named, hidden) if self._found else hidden

    def _named(self, run: re.Match[str]) -> str:
        name, more = self._of(run).group("braced", "more")
        has_default = more and "{" not in more and _DEFAULT.fullmatch(more)
        return f"{{{name}{more}}}" if has_default and self._says_secret(name) else run[0]

    @staticmethod
    def has_named_default(part: str) -> bool:
        """Whether a part of a text with named defaults is more than a default: no text has it."""
        return re.search(r"\{[A-Za-z_]\w*+:?[-=]", part) is not None

    def _of(self, run: re.Match[str]) -> re.Match[str]:
        return self._found[ord(run[1]) - _FIRST]

    def is_only(self, part: str) -> bool:
        """Whether a part of a hidden text is a reference and nothing else, or the place of a secret in its keeper, or a
        person has to fill it in."""
        # Zeus searches no text for such a word, so it is not a secret beside a reference either.
        text = re.sub(_PREFIX, lambda word: word[0] if is_searched(word[1]) else "", re.sub(_NEXT, "", part))
        has_any = re.search(f"[{_STAND_INS}]", part)
        is_found = (
            self._is_kept(part)
            or (has_any and (re.fullmatch(_ONLY, text) or re.fullmatch(_BELOW, text)))
            or re.fullmatch(_TO_FILL_IN, part)
        )
        return bool(is_found) and not _is_random(part)

    def _is_kept(self, part: str) -> bool:
        """Whether a part is a place without a scheme and ``//``: names of two levels, or one of them says secret."""
        if not re.fullmatch(_KEPT, part):
            return False
        names = re.split("[:/#]", part)
        return len(set(re.findall("[:/#]", part))) > 1 or any(map(self._says_secret, names[1:-1]))

    def shown(self, part: str) -> str:
        """A part of a hidden text as it is written."""
        return re.sub(_RUN, lambda run: self._of(run)[0][: len(run[0])], part) if self._found else part


def _is_random(code: str) -> bool:
    return any(map(is_key_like, re.findall(r"\w+", code)))
