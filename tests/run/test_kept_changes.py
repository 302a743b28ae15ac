"""The changes that calls made, in the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent

KEY = "-----BEGIN KEY-----\nhunter2-first-line\nhunter2-second-line\n-----END KEY-----"


@pytest.mark.parametrize("to_model", ["mask", "allow"])
async def test_no_line_of_a_secret_stays_in_a_change(tmp_path: Path, to_model: str) -> None:
    (tmp_path / "plan.md").write_text(f"# Plan\n\n{KEY}\n")
    model = script(
        calling(call("edit_file", "a", path="plan.md", old="# Plan", new="# The plan")),
        calling(call("write_file", "b", path="plan.md", content="# Plan\n")),
        "Done.",
    )
    config = write_agent(tmp_path, f"secrets: {{to_model: {to_model}}}\n", tools="[probe, filesystem]")
    async with Agent.from_config(
        config, directory=tmp_path, environ={"DEPLOY_KEY": KEY}, model=model
    ) as agent:
        result = await agent.run("go")
        log = await agent.log()
        payloads = [json.loads(each.payload) for each in await log.read(await log.find(result.session))]
    kept = [each["artifact"]["changes"] for each in payloads if each["role"] == "tool"]
    assert [(each["path"], each["removed"] > 0) for (each,) in kept] == [("/plan.md", True)] * 2
    assert "DEPLOY_KEY" in str(kept)
    assert "hunter2" not in str(kept)
