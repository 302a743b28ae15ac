"""The prompt files that ship: complete, within their size, and golden as a whole."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.support.golden import assert_golden
from zeus_runtime.config.model import Mode, Prompt, TimeSection
from zeus_runtime.plugin.tool import Tool, tool
from zeus_runtime.prompt import (
    FILES,
    Section,
    assemble,
    check_prompt,
    stable_sections,
    time_section,
    tools_description,
)
from zeus_runtime.registry.home import bundled_home
from zeus_runtime.tools import visible

PROMPTS = bundled_home() / "prompts"
GOLDEN = Path(__file__).parent / "golden"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (PROMPTS / "README.md").read_text().splitlines()
    if re.match(r"\| \w+ \| \w+\.md", line)
]


@tool(category="filesystem", access="read")
async def read_file(path: str, offset: int = 1) -> str:
    """Read a text file.

    By pages.

    Args:
        path: File, such as /src/main.py.
        offset: First line.
    """
    return ""


@tool(category="filesystem", access="write")
async def write_file(path: str, content: str) -> str:
    """Write a whole file.

    Args:
        path: File.
        content: The complete text.
    """
    return ""


@tool(category="memory", access="write")
async def memory_save(content: str, scope: str | None = None) -> str:
    """Save to memory.

    Args:
        content: One statement.
        scope: user, project or session.
    """
    return ""


@tool(category="memory", access="read")
async def memory_search(query: str, k: int = 5) -> str:
    """Search memory."""
    return ""


TOOLS: list[Tool] = [read_file, write_file, memory_save, memory_search]


def prompt_of(mode: Mode, style: Any = "full") -> str:
    sections = stable_sections(
        Prompt(tools_description=style),
        mode=mode,
        agent_name="Zeus",
        workspace="/w",
        tools=visible(TOOLS, mode),
        homes=[bundled_home()],
    )
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    return assemble({**sections, Section.TIME: time_section(now, TimeSection(timezone="UTC"))}).text


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_assembled_prompt_is_the_golden_one(mode: Mode) -> None:
    assert_golden(GOLDEN / f"{mode}.md", prompt_of(mode) + "\n")


def test_the_brief_tool_list_is_the_golden_one() -> None:
    assert_golden(GOLDEN / "tools_brief.md", tools_description(visible(TOOLS, "ask"), "brief") + "\n")


def test_the_shipped_files_have_no_problem() -> None:
    assert check_prompt(Prompt(), homes=[bundled_home()]) == []


def test_the_readmes_table_is_the_table_of_files() -> None:
    assert {row[0]: tuple(row[1:4]) for row in ROWS} == {
        str(section): tuple(names.values()) for section, names in FILES.items()
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_file_keeps_its_limit_in_words(row: list[str]) -> None:
    for name in row[1:4]:
        words = len(re.findall(r"[\w'{}-]+", (PROMPTS / name).read_text()))
        assert 20 < words <= int(row[4]), f"{name} has {words} words"


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_files_name_no_tool_that_may_be_absent(mode: Mode) -> None:
    bare = stable_sections(
        Prompt(), mode=mode, agent_name="Zeus", workspace="/w", tools=[], homes=[bundled_home()]
    )
    text = "\n".join(bare.values())
    assert not re.findall(r"\b(?:\w+_(?:file|todos|save|search|code|fetch|skill)|glob|grep)\b", text)
