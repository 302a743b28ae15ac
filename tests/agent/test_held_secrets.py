"""What an agent stored before a secret was known is not found by its words, unless its model may see secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import write_agent
from zeus_runtime import Agent

SECRET = "purple-walrus-tango-4417"


@pytest.mark.parametrize("to_model", ["mask", "allow"])
async def test_a_search_finds_a_stored_secret_only_if_the_model_may_see_it(
    tmp_path: Path, to_model: str
) -> None:
    write_agent(tmp_path, f"memory: {{user: ann}}\nsecrets: {{to_model: {to_model}}}\n")
    (tmp_path / "vault.md").write_text(f"It opens with {SECRET} at night.\n")
    async with Agent.from_config(directory=tmp_path, trust="all") as agent:
        await agent.memory.add_explicit_memory(f"The vault opens with {SECRET} at night.")
        await agent.knowledge.add("base", [tmp_path / "vault.md"])
    (tmp_path / ".env").write_text(f"VAULT_PASSWORD={SECRET}\n")
    async with Agent.from_config(directory=tmp_path, trust="all") as agent:
        memories = await agent.memory.search_memories("walrus")
        passages = await agent.knowledge.search("walrus", names=["base"])
    assert (len(memories), len(passages.hits)) == ((1, 1) if to_model == "allow" else (0, 0))
