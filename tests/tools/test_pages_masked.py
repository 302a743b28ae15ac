"""No page of a tool ends inside a secret: the text is masked before it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import call, calling, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.events import ToolCallResult

SECRET = "q7Zk29LmX4vT81pWc3Rb"
PAGE = 2000
BASE = "knowledge: [docs]\n"
SKILL = "---\nname: notes\ndescription: Notes.\n---\n"


def halves(text: str) -> list[int]:
    """The lengths of the pieces of the secret, from 6 characters on, that ``text`` holds."""
    return [size for size in range(6, len(SECRET) + 1) if SECRET[:size] in text or SECRET[-size:] in text]


@pytest.mark.parametrize("place", [1, 7, 10, 19])
async def test_pages_of_a_document_show_no_part_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    calls = [call("parse_resource_file", f"c{page}", path="/notes.txt", page=page) for page in (1, 2)]
    tools = f"[filesystem, {{knowledge: {{page_chars: {PAGE}}}}}]"
    config = write_agent(tmp_path, BASE, tools=tools)
    (tmp_path / "notes.txt").write_text("x" * (PAGE - place - 1) + "\n" + SECRET + " end " + "y" * PAGE)
    async with Agent.from_config(config, directory=tmp_path, model=script(calling(*calls), "done")) as agent:
        results = [each for each in await play(agent, "go") if isinstance(each, ToolCallResult)]
    assert [each.is_error for each in results] == [False, False]
    assert "<" in "".join(each.content for each in results)
    assert not any(halves(each.content) for each in results)


@pytest.mark.parametrize("name", ["SKILL.md", "long.txt"])
async def test_pages_of_a_skill_show_no_part_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    folder = tmp_path / ".claude" / "skills" / "notes"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL + "Short.")
    body = "".join(f"{'word ' * 37}t={SECRET} end" for _ in range(60))
    (folder / name).write_text((SKILL if name == "SKILL.md" else "") + body)

    def read(page: int) -> dict[str, object]:
        if name == "SKILL.md":
            return call("load_skill", f"c{page}", name="notes", page=page)
        return call("read_skill_resource", f"c{page}", name="notes", path=name, page=page)

    config = write_agent(
        tmp_path, "middlewares: [skills: {trust_project: true, page_tokens: 500}]\n", tools="[]"
    )
    model = script(calling(*(read(page) for page in range(1, 5))), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        results = [each for each in await play(agent, "go") if isinstance(each, ToolCallResult)]
    assert [each.is_error for each in results] == [False] * 4
    assert not any(halves(each.content) for each in results)
