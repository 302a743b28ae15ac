"""The documents that facts are extracted from, in parts that a model may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import script, write_agent
from zeus_runtime import Agent
from zeus_runtime.memory.document_facts import MOST_CHARACTERS


@pytest.mark.parametrize("place", [MOST_CHARACTERS - 20, 1_980])
async def test_a_secret_is_masked_before_its_document_is_cut(tmp_path: Path, place: int) -> None:
    """At the end of a part, or of the beginning that is looked up among the memories."""
    secret = "argo-" + "a1B2c3D4" * 8
    (tmp_path / ".env").write_text(f"SHIP_TOKEN={secret}\n")
    write_agent(tmp_path, "memory: {user: ann}\n")
    (tmp_path / f"list of {secret}.txt").write_text(f"{'tea ' * (place // 4)}{secret} {'tea ' * 100}")
    async with Agent.from_config(directory=tmp_path, trust="all") as agent:
        parts = await agent.document_parts([Path(f"list of {secret}.txt")])
    assert sum(each.text.count("<secret:SHIP_TOKEN>") for each in parts) == 1
    assert parts[0].name.startswith("list of <secret:SHIP_TOKEN>.txt")
    assert "a1B2" not in str(parts)


async def test_a_file_about_which_a_rule_asks_is_read_only_if_a_person_names_it(tmp_path: Path) -> None:
    private = tmp_path / "docs/private"
    private.mkdir(parents=True)
    for file in (private / "pay.md", private / "plan.md", tmp_path / "docs/open.md"):
        file.write_text(f"{file.stem}\n")
    rules = 'middlewares: [{approve: {ask: [{"*": {path: "docs/private/**"}}]}}]\n'
    more = f"memory: {{user: ann}}\nknowledge: [b]\n{rules}"
    config = write_agent(tmp_path, more, tools="[filesystem, knowledge]")
    async with Agent.from_config(config, directory=tmp_path, trust="all", model=script("x")) as agent:
        knowledge = agent.plan.context.knowledge
        assert knowledge is not None
        await knowledge.add("b", [tmp_path / "docs", private / "pay.md"])
        for paths, names in (
            (["docs"], ["docs/open.md"]),
            (["docs", "docs/private/pay.md"], ["docs/open.md", "docs/private/pay.md"]),
        ):
            asked: dict[str, str] = {}
            parts = await agent.document_parts(
                [Path(each) for each in paths],
                unread=lambda path, why, asked=asked: asked.update({path: why}),
            )
            assert [each.name for each in parts] == names
            assert len(asked) == 3 - len(names)
            assert all("a rule asks before it is read" in why for why in asked.values())
        parts = await agent.document_parts(bases=["b"])
    assert [each.name for each in parts] == ["b/docs/open.md"]
