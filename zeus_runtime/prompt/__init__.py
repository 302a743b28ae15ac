"""The system prompt: its fifteen sections, the sources of their texts, and their assembly into one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.prompt.assembly import Assembled as Assembled
    from zeus_runtime.prompt.assembly import assemble as assemble
    from zeus_runtime.prompt.clock import time_section as time_section
    from zeus_runtime.prompt.files import FILES as FILES
    from zeus_runtime.prompt.files import PromptFile as PromptFile
    from zeus_runtime.prompt.files import prompt_files as prompt_files
    from zeus_runtime.prompt.sections import SECTIONS as SECTIONS
    from zeus_runtime.prompt.sections import STABLE_SECTIONS as STABLE_SECTIONS
    from zeus_runtime.prompt.sections import Section as Section
    from zeus_runtime.prompt.sections import SourcedText as SourcedText
    from zeus_runtime.prompt.stable import check_prompt as check_prompt
    from zeus_runtime.prompt.stable import stable_sections as stable_sections
    from zeus_runtime.prompt.tool_list import tools_description as tools_description

_ROOMS = {
    "Assembled": "assembly",
    "FILES": "files",
    "PromptFile": "files",
    "SECTIONS": "sections",
    "STABLE_SECTIONS": "sections",
    "Section": "sections",
    "SourcedText": "sections",
    "assemble": "assembly",
    "check_prompt": "stable",
    "prompt_files": "files",
    "stable_sections": "stable",
    "time_section": "clock",
    "tools_description": "tool_list",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
