"""The history policy: the last 30 messages at the start of a turn, dropped in chunks (SPEC section 5)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, write_agent
from zeus_runtime import Agent
from zeus_runtime.plugin.model import ModelRequest


def echo_answer(request: ModelRequest) -> str:
    return f"answer to {request.messages[-1].content}"


async def talk(tmp_path: Path, yaml: str, turns: int) -> PositionModel:
    model = PositionModel(echo_answer)
    async with Agent.from_config(write_agent(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        session = (await agent.run("0")).session
        for turn in range(1, turns):
            await agent.run(str(turn), session=session)
        assert len(await agent.history(session)) == 2 * turns
    return model


async def test_at_most_thirty_earlier_messages_are_sent_and_all_are_stored(tmp_path: Path) -> None:
    model = await talk(tmp_path, "middlewares: [history]\n", 40)
    earlier = [len(request.messages) - 1 for request in model.requests]
    assert max(earlier) == 30
    assert min(earlier[16:]) >= 20
    assert all(request.messages[0].type == "human" for request in model.requests)


async def test_the_prefix_moves_rarely(tmp_path: Path) -> None:
    model = await talk(tmp_path, "middlewares: [history]\n", 60)
    firsts = [str(request.messages[0].content) for request in model.requests]
    moves = sum(one != other for one, other in pairwise(firsts))
    assert moves == (60 * 2 - 30) // 10


@pytest.mark.parametrize(("maximum", "chunk"), [(4, 1), (4, 4), (10, 3), (6, 6)])
async def test_both_options_do_what_they_say(tmp_path: Path, maximum: int, chunk: int) -> None:
    yaml = f"middlewares: [history: {{max_messages: {maximum}, chunk: {chunk}}}]\n"
    model = await talk(tmp_path, yaml, 20)
    earlier = [len(request.messages) - 1 for request in model.requests]
    assert max(earlier) <= maximum
    assert max(earlier) == maximum - maximum % 2
    drops = [one + 2 - other for one, other in pairwise(earlier) if other < one + 2]
    assert all(drop >= chunk for drop in drops)


async def test_one_long_turn_is_not_cut_inside_and_never_leaves_an_orphan(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> AIMessage | str:
        step = sum(message.type == "ai" for message in request.messages)
        if request.messages[-1].content == "next":
            return "second"
        return calling(*(call("echo", f"{step}-{i}", text="x") for i in range(3))) if step < 20 else "first"

    model = PositionModel(answer)
    config = write_agent(tmp_path, "middlewares: [history]\n")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await agent.run("go")).session
        assert len(model.requests[-1].messages) == 81
        await agent.run("next", session=session)
    sent = list(model.requests[-1].messages)
    assert_paired(sent)
    assert 20 <= len(sent) - 1 <= 30


async def test_what_was_dropped_stays_dropped_after_a_restart(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [history: {max_messages: 4, chunk: 4}]\n")
    sent = []
    session: str | None = None
    for turn in range(6):
        model = PositionModel(echo_answer)
        async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
            session = (await agent.run(str(turn), session=session)).session
        sent.append([str(message.content) for message in model.requests[0].messages])
    assert [len(each) for each in sent] == [1, 3, 5, 3, 5, 3]
