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


@pytest.mark.parametrize(
    ("to_model", "held", "like"),
    [("mask", "<secret:DEPLOY_KEY>", ""), ("allow", "hunter2-Qz81mPq44xw", " <secret:OTHER>")],
)
async def test_a_kept_change_tells_a_secret_from_a_text_that_looks_like_its_placeholder(
    tmp_path: Path, to_model: str, held: str, like: str
) -> None:
    """As the question about the change does."""
    secret = "hunter2-Qz81mPq44xw"
    (tmp_path / "a.txt").write_text(f"one {secret}{like}\n")
    model = script(
        calling(call("edit_file", "a", path="a.txt", old=f"one {held}", new=f"two {held}")), "Done."
    )
    config = write_agent(tmp_path, f"secrets: {{to_model: {to_model}}}\n", tools="[probe, filesystem]")
    environ = {"DEPLOY_KEY": secret}
    async with Agent.from_config(config, directory=tmp_path, environ=environ, model=model) as agent:
        result = await agent.run("go")
        log = await agent.log()
        payloads = [json.loads(each.payload) for each in await log.read(await log.find(result.session))]
    assert (tmp_path / "a.txt").read_text() == f"two {secret}{like}\n"
    ((kept,),) = [each["artifact"]["changes"] for each in payloads if each["role"] == "tool"]
    lines = [each.rstrip("\n") for each in kept["lines"] if each[0] in "+-"]
    told = like.replace("<secret", "<not the secret")
    assert lines == [f"-one <secret:DEPLOY_KEY>{told}", f"+two <secret:DEPLOY_KEY>{told}"]
