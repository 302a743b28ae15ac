"""The fifteen sections of the system prompt, in their fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self


class Section(StrEnum):
    """A section's name; the declaration order is the prompt's order (SPEC section 2)."""

    CORE = "core"
    SOUL = "soul"
    TOOLS = "tools"
    WORKFLOW = "workflow"
    MEMORY = "memory"
    MODE = "mode"
    TIME = "time"
    SKILLS = "skills"
    CONNECTOR = "connector"
    MCP_PROMPTS = "mcp_prompts"
    PROFILE = "profile"
    MEMORIES = "memories"
    RESOURCES = "resources"
    SANDBOX = "sandbox"
    ATTACHMENTS = "attachments"


SECTIONS: tuple[Section, ...] = tuple(Section)
STABLE_SECTIONS: tuple[Section, ...] = SECTIONS[:6]


class SourcedText(str):
    """A section's text together with its sources, which the ledger stores beside the text.

    Args:
        text: what the model reads.
        sources: one JSON object for each source.
    """

    sources: tuple[Mapping[str, Any], ...]

    def __new__(cls, text: str, sources: Sequence[Mapping[str, Any]]) -> Self:
        made = super().__new__(cls, text)
        made.sources = tuple(sources)
        return made
