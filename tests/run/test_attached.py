"""Files that messages brought along: they go with their session, but for those that another one names too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import call as calls
from tests.support.agents import calling, events_of, script, write_agent
from tests.support.pictures import png
from zeus_runtime import Agent


def agent_in(folder: Path) -> Agent:
    answers = (calling(calls("read_file", "c", path="/drawn.png")), "done", "done again")
    config = write_agent(folder, "middlewares: [resources]\n", tools="[filesystem]")
    return Agent.from_config(config, directory=folder, model=script(*answers))


def kept(folder: Path) -> set[str]:
    return {path.name for path in (folder / ".zeus" / "attached_files").rglob("*")}


async def say(agent: Agent, prompt: str, *attachments: str) -> str:
    return str((await events_of(agent.stream(prompt, attachments=attachments)))[-1].session)  # type: ignore[union-attr]


@pytest.mark.parametrize("packed", [(), ("gone",), ("left",), ("gone", "left")])
async def test_what_messages_brought_along_goes_with_their_session(
    tmp_path: Path, packed: tuple[str, ...]
) -> None:
    for name in ("own", "other", "shared"):
        (tmp_path / f"{name}.md").write_text(f"text of {name}")
    (tmp_path / "shown.png").write_bytes(png())
    (tmp_path / "drawn.png").write_bytes(png(8, 8))
    async with agent_in(tmp_path) as agent:
        gone = await say(agent, "see @own.md @shared.md", "shown.png", "own.md")
        (tmp_path / "drawn.png").write_bytes(png(9, 9))
        left = await say(agent, "see @shared.md @other.md")
        for name in packed:
            await agent.archive({"gone": gone, "left": left}[name])
        assert {"own.md", "shared.md", "other.md", "shown.png", "drawn.png"} <= kept(tmp_path)
        await agent.delete_session(gone)
        names = [name for name in kept(tmp_path) if "." in name]
        assert sorted(names) == ["drawn.png", "other.md", "shared.md"]
        assert len(kept(tmp_path)) == 2 * len(names), "no empty folder is left"
        await agent.delete_session(left)
    assert kept(tmp_path) == set()
    assert (tmp_path / "own.md").exists()
