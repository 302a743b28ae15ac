"""The tools `load_skill` and `read_skill_resource`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

from zeus_runtime.plugin import Minimum, printable
from zeus_runtime.plugin.skills import matching_skills, read_skill_resource, read_skill_text, skill_resources
from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_plugins.middlewares.skills.middleware import SkillLibrary
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.skills import Skill, Skills

FILE: Final = "SKILL.md"
MAX_LISTED: Final = 100
"""Resources listed with a skill; the rest are counted."""

SKILLS_PER_PAGE: Final = 30

Counting = Callable[[str], int]


def skill_tools(
    library_of: Callable[[ToolRun], SkillLibrary], *, page_tokens: int, files: WorkspaceFiles
) -> list[Tool]:
    """The two tools.

    Args:
        library_of: the skills of the run that calls a tool.
        page_tokens: maximum tokens per page.
        files: the workspace; it decides which of a skill's files may be read.
    """

    @tool(name="load_skill", category="skills", access="read", replayable_result=True)
    def load_skill(
        run: ToolRun, name: str = "", query: str = "", page: Annotated[int, Minimum(1)] = 1
    ) -> ToolResult:
        """Load a skill's instructions by its name, or find skills by words.

        Follow the instructions of a loaded skill; they stay in the conversation. The files of a skill (scripts,
        references, assets) are listed with it and read with read_skill_resource when the instructions call for them.

        Args:
            name: The skill's name as <available_skills> has it.
            query: Without a name: words that a skill's name or description has; none lists every skill.
            page: Which page of a long text or list, from 1.
        """
        library = library_of(run)
        skills = library.find()
        if not name.strip():
            return _listed(skills, query, page)
        skill = skills.by_name.get(name.strip())
        if skill is None:
            return _unknown(skills, name.strip())
        masked = run.secrets.text
        return _loaded(skill, library, masked, page=page, page_tokens=page_tokens, files=files)

    @tool(name="read_skill_resource", category="skills", access="read", replayable_result=True)
    def read_resource(run: ToolRun, name: str, path: str, page: Annotated[int, Minimum(1)] = 1) -> ToolResult:
        """Read a file of a skill: a script, a reference, an asset.

        Args:
            name: The skill's name.
            path: The file's path as load_skill lists it.
            page: Which page of a long file, from 1.
        """
        library = library_of(run)
        skills = library.find()
        skill = skills.by_name.get(name.strip())
        if skill is None:
            return _unknown(skills, name.strip())
        data = read_skill_resource(skill.place, path, files)
        text = _text(data)
        if text is not None:
            # Mask before cutting into pages: a part of a secret would not be recognised.
            text = run.secrets.text(text)
        if text is None:
            size = f"{len(data):,} bytes"
            return ToolResult(f"{path} of the skill {skill.name} is not text ({size}); it cannot be shown.")
        return _paged(
            f"{skill.name}: {printable(path)}", text, library.count, page=page, page_tokens=page_tokens
        )

    return [load_skill, read_resource]


def header(name: str, digest: str, page: int = 1) -> str:
    """Return the first line of a loaded skill."""
    return f'<skill name="{name}" version="{digest}" page="{page}">'


def _loaded(
    skill: Skill,
    library: SkillLibrary,
    masked: Callable[[str], str],
    *,
    page: int,
    page_tokens: int,
    files: WorkspaceFiles,
) -> ToolResult:
    data = read_skill_resource(skill.place, FILE, files)
    text = read_skill_text(data)
    head = header(skill.name, hashlib.sha256(data).hexdigest()[:12], page)
    # The head has the file's digest: a skill that was edited since is shown again.
    if library.shows(head):
        return ToolResult(
            f"The skill {skill.name} is already loaded and did not change: its instructions are above."
        )
    pages = pages_of(masked(text.body), page_tokens, library.count)
    if page > len(pages):
        return _no_page(skill.name, page, len(pages))
    more = (
        f"\n\nPage {page} of {len(pages)}; load_skill with page={page + 1} continues."
        if page < len(pages)
        else ""
    )
    listed = f"\n\n{_files(skill, files)}" if page == 1 else ""
    return ToolResult(f"{head}\n{pages[page - 1]}\n</skill>{more}{listed}")


def _files(skill: Skill, files: WorkspaceFiles) -> str:
    found = skill_resources(skill.place, files)
    workspace, where = files.root.resolve(), ""
    if skill.folder.is_relative_to(workspace):
        where = (
            f"In the workspace this skill is the folder /{skill.folder.relative_to(workspace).as_posix()}."
        )
    if not found:
        return where
    lines = [f"- {printable(each.path)} ({each.size_bytes:,} bytes)" for each in found[:MAX_LISTED]]
    if len(found) > MAX_LISTED:
        lines.append(f"- and {len(found) - MAX_LISTED:,} more")
    listed = "\n".join(["Its files, for read_skill_resource:", *lines])
    return f"{listed}\n{where}" if where else listed


def _listed(skills: Skills, query: str, page: int) -> ToolResult:
    matches = matching_skills(skills.offered, query)
    asked = f" for {query!r}" if query.strip() else ""
    if not matches:
        return ToolResult(f"There is no skill{asked}.")
    pages = -(-len(matches) // SKILLS_PER_PAGE)
    if page > pages:
        return _no_page("The list", page, pages)
    shown = matches[(page - 1) * SKILLS_PER_PAGE : page * SKILLS_PER_PAGE]
    more = f"; page={page + 1} continues" if page < pages else ""
    count = "1 skill" if len(matches) == 1 else f"{len(matches)} skills"
    head = f"{count}{asked}, page {page} of {pages}{more}:"
    return ToolResult("\n".join([head, *(f"- {each.name}: {each.description}" for each in shown)]))


def _unknown(skills: Skills, name: str) -> ToolResult:
    import difflib

    close = difflib.get_close_matches(name, list(skills.by_name), n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "load_skill without a name lists all skills."
    return ToolResult(f"There is no skill {name!r}. {hint}", is_error=True)


def _paged(title: str, text: str, counting: Counting, *, page: int, page_tokens: int) -> ToolResult:
    pages = pages_of(text, page_tokens, counting)
    if page > len(pages):
        return _no_page(title, page, len(pages))
    if len(pages) == 1:
        return ToolResult(text or "(the file is empty)")
    more = f"; page={page + 1} continues" if page < len(pages) else ""
    return ToolResult(f"[{title}, page {page} of {len(pages)}{more}]\n{pages[page - 1]}")


def _no_page(title: str, page: int, pages: int) -> ToolResult:
    return ToolResult(f"{title} has {pages} pages; page {page} does not exist.", is_error=True)


def _text(data: bytes) -> str | None:
    if b"\0" in data[:8_192]:
        return None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None


def pages_of(text: str, page_tokens: int, counting: Counting) -> list[str]:
    """Split ``text`` into pages of at most about ``page_tokens``, at line ends if possible."""
    total = counting(text)
    if total <= page_tokens:
        return [text]
    # By the whole text's mean, not by counting each page: the same page number is always the same part.
    size = max(1, len(text) * page_tokens // total)
    pages: list[str] = []
    place = 0
    while place < len(text):
        end = place + size
        # Not in a page's first half: a text of few line ends would make many short pages. 0 means: cut anywhere.
        cut = text.rfind("\n", place + size // 2, end) + 1 if end < len(text) else 0
        pages.append(text[place : cut or end])
        place = cut or end
    return pages
