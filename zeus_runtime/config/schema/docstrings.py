"""Parse Google-style docstrings: the description, and the ``Args:`` by name."""

from __future__ import annotations

import re
from typing import NamedTuple

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Attributes|Returns?|Raises|Yields?|Examples?|Notes?|Warnings?|See Also|Todo):\s*"
)
_PARAMETERS = frozenset({"Args", "Arguments", "Parameters", "Attributes"})
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")


class Docstring(NamedTuple):
    """A docstring's description and what it says of each parameter, one line each."""

    description: str
    parameters: dict[str, str]


def parse(text: str | None) -> Docstring:
    """Parse a docstring; sections other than ``Args`` are left out."""
    lines = _dedented(text or "")
    description: list[str] = []
    parameters: dict[str, str] = {}
    section: str | None = None
    current: str | None = None
    entry_indent = 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            header = _SECTION.fullmatch(line)
            section, current = (header[1] if header else None), None
            if header:
                continue
        if section is None:
            description.append(line)
        elif section in _PARAMETERS and line.strip():
            entry = _ENTRY.fullmatch(line.strip())
            if entry and (current is None or indent <= entry_indent):
                current, entry_indent = entry["name"], indent
                parameters[current] = entry["text"]
            elif current is not None:
                parameters[current] = f"{parameters[current]} {line.strip()}".strip()
    return Docstring("\n".join(description).strip(), parameters)


def _dedented(text: str) -> list[str]:
    first, *rest = text.expandtabs().rstrip().split("\n")
    # The first line stands behind the quotes, so its indentation says nothing.
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return [first.strip(), *(line[margin:].rstrip() for line in rest)]
