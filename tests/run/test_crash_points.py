"""A process that dies between any two writes to its database: whatever comes next finds a thread that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, shape, write_agent
from tests.support.dying import Died, Power
from zeus_runtime import Agent
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(monkeypatch)


def answer(request: ModelRequest) -> AIMessage | str:
    """Each turn: two calls, one call, an answer."""
    turns = sum(message.type == "human" for message in request.messages)
    since = next(n for n, message in enumerate(reversed(request.messages)) if message.type == "human")
    step = sum(message.type == "ai" for message in list(request.messages)[len(request.messages) - since :])
    name = f"{turns}-{step}"
    if step == 0:
        return calling(*(call("record", f"{name}-{i}", text=f"{name}-{i}") for i in "ab"))
    return calling(call("record", f"{name}-a", text=f"{name}-a")) if step == 1 else f"end of {turns}"


def turn(number: int) -> list[tuple[str, str]]:
    return [
        ("human", f"prompt {number}"),
        ("ai", ""),
        ("tool", f"recorded: {number}-0-a"),
        ("tool", f"recorded: {number}-0-b"),
        ("ai", ""),
        ("tool", f"recorded: {number}-1-a"),
        ("ai", f"end of {number}"),
    ]


def agent(folder: Path) -> Agent:
    return Agent.from_config(folder / "zeus.yaml", directory=folder, model=PositionModel(answer))


async def until_death(folder: Path, prompt: str, session: str | None = None) -> None:
    """One run in a process of its own, as far as the power lasts."""
    living = agent(folder)
    try:
        await events_of(living.stream(prompt, session=session))
    except Died:
        pass
    finally:
        await living.aclose()


async def after_death(folder: Path, prompt: str, *, turns: int) -> list[BaseMessage]:
    """Take the run up; say it again only if the prompt itself was lost."""
    async with agent(folder) as living:
        session = await living.latest_session()
        before = list(await living.history(session)) if session else []
        finished = {str(m.content).removeprefix("recorded: ") for m in before if m.type == "tool"}
        done = [effect for effect in effects(folder) if effect in finished]
        prompts = sum(message.type == "human" for message in before)
        if prompts < turns:
            events: list[Event] = await events_of(living.stream(prompt, session=session))
        else:
            assert session is not None
            events = await events_of(living.resume(session))
        ending = events[-1]
        over = isinstance(ending, RunFailed) and "nothing to resume" in ending.message
        assert over or isinstance(ending, RunCompleted), ending
        session = await living.latest_session()
        assert session is not None
        after = list(await living.history(session))
        assert shape(after)[: len(before)] == shape(before), "a message was lost or changed"
        assert_paired(after)
        assert [effect for effect in effects(folder) if effect in finished] == done, (
            "a finished call was repeated"
        )
        return after


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return sorted(file.read_text().split()) if file.exists() else []


async def transactions_of_a_run(folder: Path, power: Power, monkeypatch: pytest.MonkeyPatch) -> int:
    write_agent(folder)
    monkeypatch.chdir(folder)
    power.restore()
    await until_death(folder, "prompt 1")
    return power.used


async def test_a_run_that_died_after_any_write_ends_as_if_it_had_not(
    tmp_path: Path, power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await transactions_of_a_run(tmp_path / "whole", power, monkeypatch)
    assert whole > 15
    for lasts in range(whole):
        folder = tmp_path / str(lasts)
        write_agent(folder)
        monkeypatch.chdir(folder)
        power.restore(lasts)
        await until_death(folder, "prompt 1")
        power.restore()
        history = await after_death(folder, "prompt 1", turns=1)
        assert shape(history) == turn(1), f"died after {lasts} writes"


async def test_a_new_prompt_that_died_after_any_write_goes_on_with_that_prompt(
    tmp_path: Path, power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (9, 14):
        for second in range(4, 13):
            folder = tmp_path / f"{first}-{second}"
            write_agent(folder)
            monkeypatch.chdir(folder)
            power.restore(first)
            await until_death(folder, "prompt 1")
            power.restore()
            async with agent(folder) as living:
                session = await living.latest_session()
                known = len(await living.history(session)) if session else 0
            if session is None or known == 0:
                continue
            power.restore(second)
            await until_death(folder, "prompt 2", session)
            power.restore()
            history = await after_death(folder, "prompt 2", turns=2)
            assert shape(history)[-7:] == turn(2), f"died after {first}, then after {second} writes"


FORM = """
output:
  schema: {type: object, properties: {n: {type: integer}}, required: [n]}
  strategy: STRATEGY
"""


@pytest.mark.parametrize("strategy", ["tool", "prompt"])
async def test_a_run_with_a_form_that_died_after_any_write_ends_as_if_it_had_not(
    tmp_path: Path, power: Power, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Its refusals are written once, and a finished answer is neither lost nor asked for again."""

    def gives(call_id: str, value: int | str) -> AIMessage | str:
        if strategy == "tool":
            return calling(call("final_answer", call_id, n=value))
        return f'{{"n": "{value}"}}' if isinstance(value, str) else f'{{"n": {value}}}'

    script = [calling(call("record", "1-0-a", text="1-0-a")), gives("f1", "x"), gives("f2", 3)]

    def answer(request: ModelRequest) -> AIMessage | str:
        return script[sum(message.type == "ai" for message in request.messages)]

    def living(folder: Path) -> Agent:
        return Agent.from_config(folder / "zeus.yaml", directory=folder, model=PositionModel(answer))

    async def dies(folder: Path, lasts: float) -> None:
        write_agent(folder, FORM.replace("STRATEGY", strategy))
        monkeypatch.chdir(folder)
        power.restore(lasts)
        running = living(folder)
        try:
            await events_of(running.stream("prompt 1"))
        except Died:
            pass
        finally:
            await running.aclose()

    await dies(tmp_path / "whole", float("inf"))
    whole = power.used
    power.restore()
    async with living(tmp_path / "whole") as running:
        session = await running.latest_session()
        assert session is not None
        expected = shape(await running.history(session))
    for lasts in range(whole):
        folder = tmp_path / str(lasts)
        await dies(folder, lasts)
        power.restore()
        async with living(folder) as running:
            session = await running.latest_session()
            known = len(await running.history(session)) if session else 0
            events: list[Event] = await events_of(
                running.resume(session) if session and known else running.stream("prompt 1", session=session)
            )
            ending = events[-1]
            over = isinstance(ending, RunFailed) and "nothing to resume" in ending.message
            assert over or (isinstance(ending, RunCompleted) and ending.output == {"n": 3}), (lasts, ending)
            session = await running.latest_session()
            assert session is not None
            assert shape(await running.history(session)) == expected, f"died after {lasts} writes"


async def test_a_run_that_died_after_its_answer_is_ended_by_a_resume(
    tmp_path: Path, power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to ask, but its turn is open: what surrounds and follows a run has yet to happen."""
    whole = await transactions_of_a_run(tmp_path / "whole", power, monkeypatch)
    ended = []
    for lasts in range(whole):
        folder = tmp_path / str(lasts)
        write_agent(folder)
        monkeypatch.chdir(folder)
        power.restore(lasts)
        await until_death(folder, "prompt 1")
        power.restore()
        async with agent(folder) as living:
            session = await living.latest_session()
            if session is None or shape(await living.history(session)) != turn(1):
                continue
            (before,) = await living.sessions()
            ending = (await events_of(living.resume(session)))[-1]
            (after,) = await living.sessions()
            ended.append((before.state, type(ending), after.state))
    assert ("open", RunCompleted, "complete") in ended
    assert {each for each in ended if each[0] == "open"} == {("open", RunCompleted, "complete")}
    assert ended[-1] == ("complete", RunFailed, "complete")
