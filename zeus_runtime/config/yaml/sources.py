"""The texts that a config was read from, so that a diagnostic can show the line it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final

from zeus_runtime.config.messages.diagnostics import Diagnostic, Severity
from zeus_runtime.config.secrets.masking import MASK, Redactor, mask_line
from zeus_runtime.config.secrets.placeholders import looks_random
from zeus_runtime.config.secrets.running_text import is_lone_key
from zeus_runtime.config.secrets.secret_names import holds_headers, may_hold_secret
from zeus_runtime.config.yaml.tree import Mark, Path
from zeus_runtime.frozen import dataclass

_BREAK: Final = re.compile("[\n\x85\u2028\u2029]")
_PART: Final = re.compile(r"\S(?:[^\n\x85\u2028\u2029]*\S)?")
_LEAST_HEADER_CHARACTERS: Final = 3
"""Shorter header values are not secrets, and masking them would make the line unreadable."""


@dataclass(frozen=True)
class Sources:
    """Source names and their texts, in order of reading.

    Args:
        texts: by the name that marks carry.
        redactor: what must not be shown.
        headers: the values of HTTP headers, and addresses that cannot be read, which are not shown either; None where
            the texts are not all read, so that each line is shown as far as the lines above it allow.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    redactor: Redactor = field(default_factory=Redactor)
    headers: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"Sources({list(self.texts)})"

    def adding(self, name: str, text: str) -> Sources:
        """These sources and one more."""
        return Sources({**self.texts, name: text}, self.redactor, self.headers)

    def joined(self, other: Sources) -> Sources:
        """These sources and others, with what neither of them shows."""
        unshown = (
            None if self.headers is None or other.headers is None else frozenset(self.headers | other.headers)
        )
        return Sources({**other.texts, **self.texts}, self.redactor.joined(other.redactor), unshown)

    def line(self, mark: Mark | None) -> str | None:
        """The line that ``mark`` is in, secrets masked; None if there is none."""
        if mark is None or mark.source not in self.texts:
            return None
        text = self._without_long_values(mark.source)
        # `maxsplit`, because a long file may have many errors, and each asks for one line.
        lines = unread_lines(text) if self.headers is None else _BREAK.split(text, maxsplit=mark.line)
        if not 1 <= mark.line <= len(lines):
            return None
        before = (lines[at] for at in range(mark.line - 2, -1, -1))
        line = lines[mark.line - 1]
        line = self._shown_below(next((each for each in before if _is_above(each, line)), ""), line)
        # The caret's place stays within the line.
        return line if len(line) <= 400 else line[: max(400, mark.column + 20)] + "…"

    def text(self, name: str) -> str:
        """The whole text of a source, each line as ``line`` shows it, and secrets over several lines masked too."""
        text = self.redactor(self._without_long_values(name))
        lines = unread_lines(text) if self.headers is None else _BREAK.split(text)
        ends = (*_BREAK.findall(text), "")
        shown = map(self._shown_below, _parents(lines), lines)
        return "".join(line + end for line, end in zip(shown, ends, strict=True))

    def _without_long_values(self, name: str) -> str:
        """A source, header values and unreadable addresses over several lines masked: no line holds the whole value."""
        return self.texts[name] if self.headers is None else _without_long(self.texts[name], self.headers)

    def _shown_below(self, parent: str, line: str) -> str:
        if self.headers is not None:
            # First as a whole: of a value that was masked in part, the rest would not be found.
            line = _without_header(self._without_values(line), parent)
        return self.shown(line)

    def diagnostic(
        self,
        code: str,
        message: str,
        position: Mark | None,
        *,
        path: Path = (),
        width: int = 1,
        related: tuple[tuple[str, Mark | None], ...] = (),
        hint: str | None = None,
        severity: Severity = "error",
    ) -> Diagnostic:
        """A Diagnostic with its source line, everything in it redacted."""
        line = self.line(position)
        # A source of this kind is the setting itself, which may hold a secret.
        if position is not None and position.source.startswith("--set "):
            position = position._replace(source=self.shown(position.source))
        return Diagnostic(
            code=code,
            message=self._hidden(message) if any(map(holds_headers, path)) else self.redactor(message),
            path=path,
            position=position,
            source_line=line,
            width=width,
            related=tuple((self._hidden(text), mark) for text, mark in related),
            hint=None if hint is None else self.redactor(hint),
            severity=severity,
        )

    def shown(self, line: str) -> str:
        """A line of a source, or a ``--set``, with secrets and header values masked."""
        return self._hidden(mask_line(line))

    def _hidden(self, line: str) -> str:
        return self.redactor(self._without_values(line))

    def _without_values(self, line: str) -> str:
        # The longest first, since one value may be part of another.
        for value in sorted(self.headers or (), key=len, reverse=True):
            if len(value) >= _LEAST_HEADER_CHARACTERS and value in line:
                # As a whole word: the value `v1` must not mask a part of `v1beta`.
                line = re.sub(rf"(?<![\w.-]){re.escape(value)}(?![\w-])", MASK, line)
        return line


@lru_cache(maxsize=4)
def _without_long(text: str, values: frozenset[str]) -> str:
    """A text of YAML, each part of a line masked that belongs to a longer scalar of headers or of ``values``."""
    if not values and "headers" not in text.lower():
        return text
    from zeus_runtime.config.yaml.long_scalars import long_scalars

    parts, end = [], 0
    for start, stop in long_scalars(text, values):
        parts += [text[end:start], _PART.sub(MASK, text[start:stop])]
        end = stop
    return "".join(parts) + text[end:]


# Each begins at a word's beginning: tried at each of its characters, a long word would take quadratic time.
_HEADERS: Final = re.compile(r"(?<![\w.-])[\w.-]*headers[\"']?\s*:\s*(?P<flow>\{.*)?", re.IGNORECASE)
# `Authorization: x`, but not `Authorization: ${TOKEN}`.
_LINE: Final = re.compile(r"^(?P<name>[^:]*:\s*)(?!\$\{[^}:]*\}\s*$)\S.*")
_FLOW: Final = re.compile(
    r"""(?P<name>(?<![\w.-])[\w.-]+(?:["']\s*:\s*|\s*:\s+))(?:[!&][^\s,{}]*\s+)*"""
    r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|\[[^\]]*\]?|[^,}]+)"""
)


def _parents(lines: Iterable[str]) -> Iterator[str]:
    """For each line the nearest one above that is indented less; empty if there is none."""
    # Each is indented more than the one before it. A line leaves it once, so a long text takes linear time.
    open_above: list[str] = []
    for line in lines:
        yield next((each for each in reversed(open_above) if _is_above(each, line)), "")
        if line.strip():
            while open_above and not _is_above(open_above[-1], line):
                open_above.pop()
            open_above.append(line)


def _is_above(upper: str, line: str) -> bool:
    return bool(upper.strip()) and _indent(upper) < _indent(line)


def _without_header(line: str, parent: str) -> str:
    """A line, its value masked if it is a header's, as far as the lines alone tell.

    Args:
        parent: the nearest line above it that is indented less.
    """
    here = _HEADERS.search(line)
    if here and here["flow"]:
        return line[: here.start("flow")] + _FLOW.sub(rf"\g<name>{MASK}", here["flow"])
    above = _HEADERS.search(parent)
    return _LINE.sub(rf"\g<name>{MASK}", line) if above and not above["flow"] else line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# Linear, as those above: names begin at a word's beginning.
# `- name: x` and `"a b": x`, but not `https://host`: a key in a block has white space behind its colon.
_OWN_KEY: Final = re.compile(r"""\s*(?:-\s+)*(?P<name>"[^"]*"\s*:|'[^']*'\s*:|[\w.-]+\s*:(?=\s|$))\s*""")
# Also within a line, and in a command: `{token: x}`, `API_KEY=x`.
_ANY_KEY: Final = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]+)["']?\s*[:=]\s*""")
# `--api-key` in a list of words; the next word is its value, also where a comma is missing.
_FLAG: Final = re.compile(r"""(?<![\w.-])--?(?P<name>[A-Za-z][\w-]*)(?![\w.:=-])["']?[\s,]*""")
_BLOCK: Final = re.compile(r"([|>][-+0-9]*\s*)?(#.*)?")
_LOGIN: Final = re.compile(r"://[^\s/:@]*:")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_AFTER_SCHEME: Final = re.compile(r"(?<!\w)(?P<scheme>(?i:Bearer|Basic|Token)\s+)(?P<value>[^\s\"',\]}]+)")
_LONG_WORD: Final = re.compile(r"(?<![\w.+=~%-])[\w.+=~%-]{16,}")
# Up to seven digits: a secret of digits alone has eight at least.
_PLAIN: Final = re.compile(r"""(null|true|false|~|-?[0-9]{1,7}|["']?\$\{[^}:]*\}["']?)\s*([,}\]#]|$)""")


# One file may have many errors.
@lru_cache(maxsize=4)
def unread_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that may be invalid YAML; everything that may belong to a secret or a header is masked."""
    return tuple(map(_without_shapes, named_secrets_masked(text)))


def named_secrets_masked(text: str) -> tuple[str, ...]:
    """The lines of a text that may be invalid YAML, masked behind a key or a flag of a secret or of headers."""
    unread = _Unread()
    return tuple(unread.shown(line) for line in _BREAK.split(text))


def _without_shapes(line: str) -> str:
    """A line without what is a secret by its form: passwords in addresses, and words that look random.

    Without a structure, each word may be in the ``env`` of a server or in a header.
    """
    # The password ends at the last `@`: a quote in it may be a slip.
    login, end = _LOGIN.search(line), line.rfind("@")
    if login and login.end() < end and not _VARIABLE.fullmatch(line, login.end(), end):
        line = line[: login.end()] + MASK + line[end:]
    line = _AFTER_SCHEME.sub(
        lambda found: found["scheme"] + MASK if looks_random(found["value"]) else found[0], line
    )
    return _LONG_WORD.sub(lambda found: MASK if looks_random(found[0]) else found[0], line)


class _Unread:
    """The place of the last key of a secret or of headers, and the part of its value that is still open."""

    def __init__(self) -> None:
        self.column: int | None = None
        self.is_headers = False
        self.names: int | None = None  # the column of the headers' names
        self.brackets = 0
        self.quote = ""
        self.is_framed = False  # within a private key
        self.seen = False

    def shown(self, line: str) -> str:
        """The next line, masked."""
        if not re.search(r"\w", line):
            self._go_on(line)
            return line
        shown = self._masked(line) if self._holds(line) else self._begun(line)
        if (begin := line.rfind("-----BEGIN")) >= 0 or self.is_framed:
            self.is_framed = line.rfind("-----END") < begin or (begin < 0 and "-----END" not in line)
            self.seen = True
        return shown

    def _holds(self, line: str) -> bool:
        """Whether a line may be a part of the value."""
        if self.is_framed or self.quote or self.brackets:
            return True
        if self.column is not None:
            indent = _indent(line)
            # A list may stand in the column of its key.
            if indent > self.column or (indent == self.column and line.lstrip().startswith("- ")):
                return True
        # Behind a secret, a line without a key may continue it: the text may be invalid, so indentation proves nothing.
        return self.seen and not _OWN_KEY.match(line)

    def _masked(self, line: str) -> str:
        own, indent = _OWN_KEY.match(line), _indent(line)
        is_name = not (self.is_framed or self.quote or self.brackets) and self.names in (None, indent)
        self._go_on(line)
        if own and self.is_headers and is_name:
            self.names = indent
            return line if _says_nothing(line, own.end()) else line[: own.end()] + MASK
        return line[:indent] + MASK

    def _go_on(self, line: str) -> None:
        if self.quote:
            self.quote = "" if self.quote in line else self.quote
        elif self.brackets:
            self.brackets = max(0, self.brackets + _opened(line))

    def _begun(self, line: str) -> str:
        """A line that is not part of a secret; one may begin in it."""
        self.column = None
        own = _OWN_KEY.match(line)
        for key in sorted((*_ANY_KEY.finditer(line), *_FLAG.finditer(line)), key=re.Match.start):
            is_headers = holds_headers(key["name"])
            name = key["name"].rpartition(".")[2]
            if not is_headers and (is_lone_key(name) or not may_hold_secret(name)):
                continue
            is_own = own is not None and own.end() == key.end()
            if not is_own and _PLAIN.match(line, key.end()):
                continue
            rest = line[key.end() :]
            self.column = own.start("name") if own and is_own else _indent(line)
            self.is_headers, self.names, self.seen = is_headers, None, True
            # A flag is an item: the rest of its list may follow on the next lines.
            in_list = int(
                key.re is _FLAG and line.count("[", 0, key.start()) > line.count("]", 0, key.start())
            )
            self.brackets = max(0, in_list + _opened(rest))
            self.quote = rest[0] if rest[:1] in ('"', "'") and rest[0] not in rest[1:] else ""
            return line if _says_nothing(line, key.end()) else line[: key.end()] + MASK
        return line


def _says_nothing(line: str, start: int) -> bool:
    """Whether all of a value that is on its key's line is a variable, or nothing that could be a secret."""
    plain = _PLAIN.match(line, start)
    return not line[plain.end() :].strip() if plain else _BLOCK.fullmatch(line, start) is not None


def _opened(text: str) -> int:
    return sum(text.count(each) for each in "{[") - sum(text.count(each) for each in "}]")
