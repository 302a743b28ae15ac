"""Join sections into one text: always in the same order, with only blank lines between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zeus_runtime.prompt.sections import SECTIONS, STABLE_SECTIONS, Section

_SEPARATOR = "\n\n"


class Assembled(NamedTuple):
    """A system prompt.

    Args:
        text: the sections' texts, with a blank line between each two.
        parts: its sections in order, without empty ones.
        stable_length: how many leading characters sections 1 to 6 take, including separators between them.
    """

    text: str
    parts: tuple[tuple[Section, str], ...]
    stable_length: int


def assemble(sections: Mapping[Section, str]) -> Assembled:
    """The system prompt of ``sections``, whatever their order in the mapping.

    Blank lines and spaces around a section's text are dropped, and empty sections are left out. The first
    ``stable_length`` characters depend on sections 1 to 6 alone.

    Raises:
        ValueError: a key is not a section.
    """
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        raise ValueError(f"not a section: {', '.join(map(repr, unknown))}")
    stripped = ((section, sections.get(section, "").strip()) for section in SECTIONS)
    parts = tuple((section, text) for section, text in stripped if text)
    # The stable sections come first, so their joined length is that of the prompt's beginning.
    stable = _SEPARATOR.join(text for section, text in parts if section in STABLE_SECTIONS)
    return Assembled(_SEPARATOR.join(text for _, text in parts), parts, len(stable))
