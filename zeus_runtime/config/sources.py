"""The texts that a config was read from, so that a diagnostic can show the line it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from zeus_runtime.config.diagnostics import Diagnostic, Severity
from zeus_runtime.config.nodes import Mark, Path
from zeus_runtime.config.secret_parts import holds_headers
from zeus_runtime.config.secrets import MASK, Redactor, mask_line
from zeus_runtime.frozen import dataclass

_LEAST_HEADER_CHARACTERS: Final = 3
"""A shorter header value is no secret, and would blot out the line."""


@dataclass(frozen=True)
class Sources:
    """Source names and their texts, in order of reading.

    Args:
        texts: by the name that marks carry.
        redactor: what must not be shown.
        headers: the values of HTTP headers, which are not shown either.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    redactor: Redactor = field(default_factory=Redactor)
    headers: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Sources({list(self.texts)})"

    def adding(self, name: str, text: str) -> Sources:
        """These sources and one more."""
        return Sources({**self.texts, name: text}, self.redactor, self.headers)

    def line(self, mark: Mark | None) -> str | None:
        """The line that ``mark`` is in, secrets masked; None if there is none."""
        if mark is None or mark.source not in self.texts:
            return None
        lines = re.split("[\n\x85\u2028\u2029]", self.texts[mark.source], maxsplit=mark.line)
        if not 1 <= mark.line <= len(lines):
            return None
        line = self.shown(_without_header(lines[: mark.line]))
        return line if len(line) <= 400 else line[: max(400, mark.column + 20)] + "…"

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
        if position is not None and position.source.startswith("--set "):
            position = position._replace(source=self.shown(position.source))
        return Diagnostic(
            code=code,
            message=self._hidden(message) if any(map(holds_headers, path)) else self.redactor(message),
            path=path,
            position=position,
            source_line=self.line(position),
            width=width,
            related=tuple((self._hidden(text), mark) for text, mark in related),
            hint=None if hint is None else self.redactor(hint),
            severity=severity,
        )

    def shown(self, line: str) -> str:
        """A line of a source, or a ``--set``, with secrets and header values masked."""
        return self._hidden(mask_line(line))

    def _hidden(self, line: str) -> str:
        for value in sorted(self.headers, key=len, reverse=True):
            if len(value) >= _LEAST_HEADER_CHARACTERS and value in line:
                line = re.sub(rf"(?<![\w.-]){re.escape(value)}(?![\w-])", MASK, line)
        return self.redactor(line)


# Each begins at a word's beginning: tried at each of its characters, a long word would take quadratic time.
_HEADERS: Final = re.compile(r"(?<![\w.-])[\w.-]*headers[\"']?\s*:\s*(?P<flow>\{.*)?", re.IGNORECASE)
_LINE: Final = re.compile(r"^(?P<name>[^:]*:\s*)(?!\$\{[^}]*\}\s*$)\S.*")
_FLOW: Final = re.compile(r"""(?P<name>(?<![\w.-])[\w.-]+["']?\s*:\s+)(?!\$\{)[^,}]+""")


def _without_header(lines: Sequence[str]) -> str:
    """The last of some lines, its value masked if it is a header's, as far as the lines alone tell.

    An error may keep the document from being read, and then ``Sources.headers`` does not have it.
    """
    line = lines[-1]
    here = _HEADERS.search(line)
    if here and here["flow"]:
        return line[: here.start("flow")] + _FLOW.sub(rf"\g<name>{MASK}", here["flow"])
    above = (each for each in reversed(lines[:-1]) if each.strip() and _indent(each) < _indent(line))
    parent = _HEADERS.search(next(above, ""))
    return _LINE.sub(rf"\g<name>{MASK}", line) if parent and not parent["flow"] else line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
