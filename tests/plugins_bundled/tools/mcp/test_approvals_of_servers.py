"""Approvals of what servers offer: tools that join while a run goes on, calls that wait, questions of servers."""

from __future__ import annotations

from pathlib import Path

from tests.plugins_bundled.tools.mcp.test_stdio import Patient, agent, results, server, states, until
from tests.support.agents import call, calling, play, script
from zeus_runtime.events import RunFailed

ASK = "middlewares: [{approve: {mode: ask}}]"


async def test_a_tool_that_joins_while_the_run_goes_on_is_asked_about(tmp_path: Path) -> None:
    late = tmp_path / "late"

    async def joined() -> None:
        late.touch()
        await until(lambda: states(running), lambda found: found[0] == "connected")

    model = Patient(
        script(calling(call("echo", "1", text="a")), calling(call("slow__write", "2", text="b")), "done"),
        joined,
    )
    servers = {"slow": server(f"wait={late}", start_timeout_seconds=0.01)}
    async with agent(tmp_path, model, servers, ASK) as running:
        ending = (await play(running, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "approval_needed"
    assert [each["tool_name"] for each in ending.details["pending"]] == ["slow__write"]
    assert not (tmp_path / "written.txt").exists()


async def test_a_rule_that_denies_holds_for_a_tool_that_a_server_offers_later(tmp_path: Path) -> None:
    model = script(calling(call("small__grow", "1")), calling(call("small__new_11", "2")), "done")
    deny = "middlewares: [{approve: {mode: run_everything, deny: [small__new_11]}}]"
    async with agent(tmp_path, model, {"small": server()}, deny) as running:
        events = await play(running, "go")
    assert results(events)["2"].startswith("small__new_11 is not allowed")
