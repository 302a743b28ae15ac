"""Sessions that begin as another one was at a step, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from tests.sessions.test_lifecycle import agent_in, rows, talk
from tests.support.agents import PositionModel, call, calling, events_of, shape
from tests.support.databases import SQLITE_URL
from zeus_runtime.cli.sessions.reading import session_table
from zeus_runtime.errors import NotFoundError
from zeus_runtime.events import RunCompleted
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.store.tables import STEP, THREAD

EVICTION = """
middlewares:
  - eviction: {max_tokens: 300}
profiles: {models: {gpt-4o: {max_input_tokens: 20000}}}
"""


def scripted() -> PositionModel:
    """It echoes three times in each turn, and then answers with what it has seen."""

    def answer(request: ModelRequest):  # type: ignore[no-untyped-def]
        messages = list(request.messages)
        last = max(n for n, message in enumerate(messages) if message.type == "human")
        asked = sum(message.type == "ai" for message in messages[last:])
        if asked < 3:
            return calling(call("echo", f"c{len(messages)}", text=f"{asked} " + "word " * 400))
        return f"answer after {len(messages)} messages"

    return PositionModel(answer)


async def test_a_title_has_the_size_of_the_whole_prompt_also_in_a_fork_and_in_a_table(tmp_path: Path) -> None:
    async with agent_in(tmp_path, SQLITE_URL, PositionModel(lambda _: "done")) as agent:
        session = await talk(agent, "lorem ipsum " * 400 + "end")
        await agent.fork(session, step=1)
        infos = await agent.sessions()
    assert len(infos) == 2
    assert all("… (4,803 characters)" in each.title for each in infos)
    assert all(row[-1].endswith("… (4,803 characters)") for row in session_table(infos).rows)


async def test_the_title_of_a_fork_says_its_step_also_without_a_title_of_the_session(tmp_path: Path) -> None:
    async with agent_in(tmp_path, SQLITE_URL, PositionModel(lambda _: "done")) as agent:
        session = await talk(agent, "one")
        log = (await agent._open()).log
        untitled = update(THREAD).where(THREAD.c.session == session).values(title="")
        await log.database.run(lambda connection: connection.execute(untitled))
        await agent.fork(session, step=1)
        assert {each.title for each in await agent.sessions()} == {"", "(from step 1)"}


async def test_a_fork_asks_a_step_again_with_what_it_was_asked_with(
    tmp_path: Path, database_url: str
) -> None:
    model = scripted()
    async with agent_in(tmp_path, database_url, model) as agent:
        session = await talk(agent, "one", "two")
        asked = [shape(each.messages) for each in model.requests]
        before = await rows(database_url, tmp_path)
        fork = await agent.fork(session, step=6)
        events = await events_of(agent.resume(fork, run_id="abcdef01"))
        assert isinstance(events[-1], RunCompleted)
        again = [shape(each.messages) for each in model.requests[len(asked) :]]
        assert again == asked[5:]
        assert shape(await agent.history(fork)) == shape(await agent.history(session))
        (info,) = [each for each in await agent.sessions() if each.session == fork]
        assert (info.title, info.state) == ("one (from step 6)", "complete")
        trace = await agent.context_trace(fork)
        assert [each.number for each in trace.steps] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert {each.run_id for each in trace.steps[5:]} == {"abcdef01"}
        await agent.delete_session(fork)
        assert await rows(database_url, tmp_path) == before


async def test_a_damaged_entry_of_the_ledger_keeps_nobody_from_a_fork(tmp_path: Path) -> None:
    model = scripted()
    async with agent_in(tmp_path, "sqlite:///z.db", model) as agent:
        session = await talk(agent, "one", "two")
        asked = [shape(each.messages) for each in model.requests]
        database = (await agent.log()).database
        damaged = update(STEP).where(STEP.c.number == 5).values(payload='{"number": ')
        await database.run(lambda connection: connection.execute(damaged))
        events = await events_of(agent.resume(await agent.fork(session, step=6)))
        assert isinstance(events[-1], RunCompleted)
        assert [shape(each.messages) for each in model.requests[len(asked) :]] == asked[5:]


async def test_a_fork_has_no_edit_of_its_step_and_keeps_the_originals_of_earlier_ones(
    tmp_path: Path, database_url: str
) -> None:
    model = scripted()
    async with agent_in(tmp_path, database_url, model, EVICTION) as agent:
        session = await talk(agent, "one", "two", "three")
        trace = await agent.context_trace(session)
        step = next(
            each
            for each, former in zip(trace.steps[1:], trace.steps, strict=False)
            if each.edits > former.edits > 0
        )
        fork = await agent.fork(session, step=step.number)
        forked = await agent.context_trace(fork)
        assert len(forked.edits) == trace.steps[step.number - 2].edits
        assert forked.steps == trace.steps[: step.number - 1]
        originals = [
            tmp_path / ".zeus" / handle.lstrip("/")
            for _, edit in forked.edits
            if (handle := getattr(edit, "handle", ""))
        ]
        assert originals
        await agent.delete_session(session)
        assert isinstance((await events_of(agent.resume(fork)))[-1], RunCompleted)
        assert (await agent.context_trace(fork)).problems == []
        assert all(each.is_file() for each in originals)


async def test_a_fork_takes_up_what_a_rollback_set_aside(tmp_path: Path, database_url: str) -> None:
    model = scripted()
    async with agent_in(tmp_path, database_url, model) as agent:
        session = await talk(agent, "one", "two")
        whole = shape(await agent.history(session))
        asked = shape(model.requests[6].messages)
        await agent.rollback(session, to=1)
        await events_of(agent.stream("instead", session=session))
        fork = await agent.fork(session, step=7)
        assert shape(await agent.history(fork)) == whole[: len(asked)]
        await events_of(agent.resume(fork))
        assert shape(model.requests[-2].messages) == asked
        assert shape(await agent.history(fork)) == whole
        later = await agent.fork(session, step=9)
        assert [text for role, text in shape(await agent.history(later)) if role == "human"] == [
            "one",
            "instead",
        ]


async def test_a_step_or_session_that_is_not_there_is_refused(tmp_path: Path, database_url: str) -> None:
    async with agent_in(tmp_path, database_url, scripted()) as agent:
        session = await talk(agent, "one")
        with pytest.raises(NotFoundError, match="has no step 9"):
            await agent.fork(session, step=9)
        with pytest.raises(NotFoundError, match="no session"):
            await agent.fork("session_000000000000", step=1)
        assert len(await agent.sessions()) == 1


async def test_the_same_name_is_one_fork(tmp_path: Path, database_url: str) -> None:
    async with agent_in(tmp_path, database_url, scripted()) as agent:
        session = await talk(agent, "one")
        made = [await agent.fork(session, step=2, name="session_0123456789ab") for _ in range(2)]
        assert made == ["session_0123456789ab"] * 2
        assert len(await agent.sessions()) == 2
