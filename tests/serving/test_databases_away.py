"""Services of which a database is away: at the start, and while they run."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.serving.test_two_services import two_databases, unopened
from tests.support.agents import script, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.errors import MissingError, NotFoundError, RunError
from zeus_runtime.serving.http import replicas, turn_queue
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.backtests import Replay
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.store.turns import add_turn, begin_turn, find_turn


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)


async def test_an_agent_whose_database_is_away_starts_once_it_is_back_and_keeps_no_other_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    former = two_databases(tmp_path)
    first = former.hosting.named("one")
    session = (await former.turns.begin_session(first, None)).session
    await add_turn(await first.of(None).log(), session, "run_1", {"prompt": "go"}, key=None, queue=False)
    await former.hosting.aclose()
    place, aside = tmp_path / "one.db", tmp_path / "aside.db"
    place.rename(aside)
    place.mkdir()
    service = two_databases(tmp_path, script("Done."))
    async with serving(service) as client:
        made = await client.post("/v1/sessions", json={"agent": "other"})
        assert made.status_code == 201, made.text
        _, run = await begun(client, "go", made.json()["session"])
        await until(client, run, "complete")
        told = (await client.get("/ready")).json()
        assert list(told["databases_away"]) == ["one"]
        assert "it is a folder" in told["databases_away"]["one"]
        assert (await client.get("/v1/sessions")).headers["zeus-unread-agents"] == "one"
        place.rmdir()
        aside.rename(place)
        async with asyncio.timeout(20):
            while (await client.get("/ready")).json()["databases_away"]:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        await until(client, "run_1", "complete")
    words = [
        each.getMessage().partition(":")[0] for each in caplog.records if "database" in each.getMessage()
    ]
    assert words.count("the agent one waits until its database is back") == 1
    assert words.count("the database of the agent one is back") == 1


async def test_a_service_all_of_whose_databases_are_away_does_not_start(tmp_path: Path) -> None:
    service = two_databases(tmp_path)
    for name in ("one", "other"):
        (tmp_path / f"{name}.db").mkdir()
    with pytest.raises(MissingError, match="it is a folder"):
        await service.start()


async def test_an_agent_that_cannot_be_opened_although_its_database_is_there_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = two_databases(tmp_path)
    one, _ = service.hosting
    monkeypatch.setattr(one.of(None), "log", partial(unopened, one.of(None)))
    with pytest.raises(RunError):
        await service.start()


async def test_an_opening_that_fails_leaves_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    (hosted,) = service_of(tmp_path, script()).hosting
    closed: list[object] = []
    close = Database.close

    async def closing(database: Database) -> None:
        # An agent of an earlier test may close its own late.
        if Path(database.place).is_relative_to(tmp_path):
            closed.append(database)
        await close(database)

    monkeypatch.setattr(Database, "close", closing)
    with monkeypatch.context() as patched:
        patched.setattr(ThreadLog, "create_tables", unopened)
        for number in (1, 2):
            with pytest.raises(RunError):
                await hosted.of(None).log()
            assert len(closed) == number
    await hosted.of(None).log()
    await hosted.aclose()
    assert len(closed) == 3


async def test_the_log_tells_once_that_a_database_went_and_once_that_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = two_databases(tmp_path)
    looked: list[object] = []
    is_over = asyncio.Event()

    async def failing(_database: object, _sessions: object) -> dict[str, int]:
        looked.append(_database)
        if len(looked) <= 8:
            raise RunError("the database does not answer")
        if len(looked) == 12:
            is_over.set()
        return {}

    async def no_events(_after: int, _most: int) -> tuple[()]:
        return ()

    await service.start()
    following = asyncio.create_task(anext(service.hub.follow("s", 0, no_events)))
    monkeypatch.setattr(replicas, "last_numbers", failing)
    async with asyncio.timeout(20):
        await is_over.wait()
    following.cancel()
    await service.aclose()
    told = [each for each in caplog.records if "other processes" in each.getMessage()]
    assert [each.getMessage() for each in told] == [
        "the look at other processes fails, and is tried again: the database does not answer\n"
        "Also failed: the database does not answer",
        "the look at other processes works again",
    ]
    assert not any(each.exc_info for each in told)


async def test_a_work_of_the_watch_tells_of_each_new_problem_and_shows_where_a_fault_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems: list[Exception | None] = [
        RunError("one"),
        RunError("two"),
        ValueError("secret"),
        ValueError("secret"),
    ]
    problems += [None, None]

    async def fail() -> None:
        if (problem := problems.pop(0)) is not None:
            raise problem

    work = service_module._Work("the work", fail)
    while problems:
        await work.done(lambda text: text.replace("secret", "***"))
    assert [(each.getMessage().rpartition(": ")[2], bool(each.exc_info)) for each in caplog.records] == [
        ("one", False),
        ("two", False),
        ("ValueError('***')", True),
        ("the work works again", False),
    ]


async def test_backtests_of_other_databases_are_listed_found_and_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = two_databases(tmp_path)
    one, other = service.hosting

    async def hang() -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={"agent": "other"})).json()["session"]
        begun_here = await service.backtests.begin(other, None, [Replay(session, "p", hang)])
        path = f"/v1/backtests/{begun_here.id}"
        with monkeypatch.context() as patched:
            for each in ("log", "masked_log"):
                patched.setattr(one.of(None), each, partial(unopened, one.of(None)))
            listed = await client.get("/v1/backtests")
            assert [each["id"] for each in listed.json()] == [begun_here.id]
            assert listed.headers["zeus-unread-agents"] == "one"
            assert (await client.get(path)).json()["state"] == "running"
            assert (await client.post(f"{path}/cancel")).json()["state"] == "cancelled"
            lost = await client.get("/v1/backtests/0")
            assert (lost.status_code, "does not answer" in lost.text) == (500, True), "it may be there"
        assert (await client.get("/v1/backtests/0")).status_code == 404
        assert "zeus-unread-agents" not in (await client.get("/v1/backtests")).headers


@pytest.mark.parametrize("fails", ["before the turn begins", "after the turn has begun"])
async def test_a_turn_whose_database_goes_away_is_tried_again_without_a_further_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    tries: list[None] = []

    def away() -> None:
        if len(tries) < 3:
            raise RunError("the database is away")

    async def begin(*given: Any) -> Any:
        tries.append(None)
        away()
        return await begin_turn(*given)

    async def find(*given: Any, **named: Any) -> Any:
        away()
        return await find_turn(*given, **named)

    def stream(*given: Any, **named: Any) -> Any:
        tries.append(None)
        away()
        return whole(*given, **named)

    whole = Agent.stream
    if fails == "before the turn begins":
        monkeypatch.setattr(turn_queue, "begin_turn", begin)
    else:
        monkeypatch.setattr(Agent, "stream", stream)
        monkeypatch.setattr(turn_queue, "find_turn", find)
    async with serving(service) as client:
        _, run = await begun(client, "go")
        assert (await until(client, run, "complete"))["ending"]["answer"] == "Done."
    assert sum("the database is away" in each.getMessage() for each in caplog.records) == 1
    assert not service.turns._postponed


async def test_a_turn_that_cannot_be_run_ends_with_the_reason_and_does_not_keep_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)

    def missing(*_: Any, **__: Any) -> Any:
        raise MissingError("the key is missing", remedy="Set it.")

    async with serving(service_of(tmp_path, script("Done."))) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Agent, "stream", missing)
            session, run = await begun(client, "go")
            ending = (await until(client, run, "failed"))["ending"]
            assert (ending["code"], ending["message"], ending["exit_code"]) == (
                "missing",
                "the key is missing\n  Set it.",
                4,
            )
        _, later = await begun(client, "go", session)
        assert (await until(client, later, "complete"))["ending"]["answer"] == "Done."


async def test_a_session_that_is_being_tried_is_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script())
    (hosted,) = service.hosting
    tries: list[None] = []
    began, answers = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> Any:
        tries.append(None)
        began.set()
        await answers.wait()
        raise RunError("the database is away")

    monkeypatch.setattr(turn_queue, "begin_turn", slow)
    answers.set()
    service.turns.wake(hosted, None, "s")
    await service.turns._working["s"]
    began.clear()
    answers.clear()
    await service.turns.recover_rest()
    trying = service.turns._working["s"]
    await began.wait()
    await service.turns.recover_rest()
    answers.set()
    await trying
    assert len(tries) == 2
    await service.hosting.aclose()


async def test_a_session_that_is_deleted_before_its_turn_begins_is_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    (hosted,) = service.hosting
    problems: list[Exception] = [RunError("the database is away"), NotFoundError("there is no such session")]

    async def begin(*_: Any) -> Any:
        raise problems.pop(0)

    monkeypatch.setattr(turn_queue, "begin_turn", begin)
    for left in (["s"], []):
        service.turns.wake(hosted, None, "s")
        await service.turns._working["s"]
        assert list(service.turns._postponed) == left
    await service.hosting.aclose()
