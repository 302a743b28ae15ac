"""The documents that facts are extracted from, in parts that a model may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import write_agent
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
