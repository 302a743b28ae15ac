"""The fifteen sections of the system prompt, in the order they always have."""

from __future__ import annotations

from enum import StrEnum


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
