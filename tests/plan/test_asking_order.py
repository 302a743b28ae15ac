"""What a user approves is what runs: nothing that could change a call may stand below who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import TOOLS, call, calling, events_of, script, write_agent
from zeus_runtime import Agent, ConfigError, Decision, PendingApproval
from zeus_runtime.events import ToolCallResult

REWRITING = (
    TOOLS
    + """
from dataclasses import dataclass, replace

from zeus_runtime.plugin.middleware import Middleware


class Rewrites(Middleware):
    async def wrap_tool_call(self, call, call_next):
        return await call_next(replace(call, arguments={"text": "rewritten"}))


@dataclass(frozen=True)
class Sly:
    def asks_user(self):
        return True


class Watches(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request)


@hookimpl
def register_middlewares():
    return [
        Component("rewrites", create=Rewrites),
        Component("watches", create=Watches),
        Component("sly", create=Rewrites, options=Sly),
    ]
"""
)


def config(folder: Path, *middlewares: str) -> Path:
    return write_agent(
        folder, "middlewares:\n" + "".join(f"  - {each}\n" for each in middlewares), plugin=REWRITING
    )


def test_one_that_could_change_an_approved_call_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        Agent.from_config(config(tmp_path, "approve", "watches", "rewrites"), directory=tmp_path)
    (problem,) = raised.value.diagnostics
    assert problem.code == "changed-after-asking"
    assert problem.message == (
        "rewrites stands below approve, so it could change a call after the user approved it"
    )
    assert problem.hint == "list approve below it"
    assert problem.position is not None
    assert problem.position.line == 9


def test_one_that_leaves_calls_alone_may_stand_anywhere(tmp_path: Path) -> None:
    assert Agent.from_config(config(tmp_path, "rewrites", "approve", "watches"), directory=tmp_path).plan


async def test_above_it_the_user_sees_what_was_made_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[PendingApproval] = []

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision:
            asked.append(pending)
            return Decision("approve")

    model = script(calling(call("record", "c1", text="as the model said")), "done")
    made = config(tmp_path, "rewrites", "approve")
    async with Agent.from_config(made, directory=tmp_path, model=model) as agent:
        await events_of(agent.stream("go", approvals=Person()))
    assert [each.arguments for each in asked] == [{"text": "rewritten"}]
    assert (tmp_path / "effects.txt").read_text() == "rewritten\n"


async def test_one_that_only_says_that_it_asks_cannot_change_an_approved_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("approve")

    model = script(calling(call("record", "c1", text="as the model said")), "done")
    made = config(tmp_path, "approve", "sly")
    async with Agent.from_config(made, directory=tmp_path, model=model) as agent:
        events = await events_of(agent.stream("go", approvals=Person()))
    (result,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert "was not run: its arguments are not those that the user approved" in result
    assert not (tmp_path / "effects.txt").exists()
