"""Two services on one database: what one does, the other tells its readers, and cancels what the first is asked to."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.serving.test_open_streams import reading
from tests.support.agents import call, calling, script, write_agent
from tests.support.databases import execute, storage
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.errors import BusyError, RunError, ZeusError
from zeus_runtime.events import RunFailed
from zeus_runtime.serving.http import hub, replicas, turn_queue
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.app import app_of
from zeus_runtime.serving.http.backtests import Replay
from zeus_runtime.serving.http.hosting import Hosting
from zeus_runtime.serving.http.replicas import _Listening
from zeus_runtime.serving.http.service import Service
from zeus_runtime.serving.http.turn_queue import TurnQueue
from zeus_runtime.store.backtests import end_backtest
from zeus_runtime.store.turns import begin_turn


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)
    # What a reader hears of another service must not wait for the pause.
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 60)


async def heard(*services: Service) -> None:
    async with asyncio.timeout(20):
        while not all(each.replicas.are_heard for each in services):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


async def told_of(lines: list[str], words: str) -> None:
    async with asyncio.timeout(20):
        while not any(words in line for line in lines):  # noqa: ASYNC110 - a reader appends
            await asyncio.sleep(0.02)


class Hanging:
    """Hangs at a prompt with `slow`."""

    name = "slow"

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        if "slow" in str(request.messages[-1].content):
            self.began.set()
            await asyncio.sleep(60)
        async for piece in script("Done.").stream(request):
            yield piece


async def test_on_postgres_a_notice_tells_of_events_and_cancels_without_a_question(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Hanging()
    write_agent(tmp_path, storage(postgres_url))
    ours, theirs = service_of(tmp_path, model), service_of(tmp_path, script())
    async with serving(ours) as one, serving(theirs) as other:
        session, run = await begun(one, "first")
        await until(one, run, "complete")
        task, lines = await reading(other, f"/v1/sessions/{session}/events")
        await heard(ours, theirs)

        async def asked(*_: Any) -> Any:
            raise AssertionError("the database is asked although its notices arrive")

        monkeypatch.setattr(replicas, "last_numbers", asked)
        execute(postgres_url, *(f"SELECT pg_notify('zeus_service', $x${each}$x$)" for each in FOREIGN))
        _, run = await begun(one, "slow", session)
        await told_of(lines, f'"{run}"')
        await model.began.wait()
        await other.post(f"/v1/runs/{run}/cancel")
        assert (await until(one, run, "cancelled"))["ending"]["code"] == "cancelled"
        await told_of(lines, f'"{RunFailed.type}"')
        task.cancel()


FOREIGN = (
    "",
    "[" * 7000,
    "3",
    "[]",
    '{"events": 3}',
    '{"events": {"x": "y"}}',
    '{"events": {"x": 1e999}}',
    '{"by": 1}',
)


async def test_a_lost_connection_loses_no_event_and_is_opened_again(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "RECONNECT_SECONDS", 2)
    write_agent(tmp_path, storage(postgres_url))
    ours, theirs = service_of(tmp_path, Hanging()), service_of(tmp_path, script())
    listens = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    async with serving(ours) as one, serving(theirs) as other:
        session, run = await begun(one, "first")
        await until(one, run, "complete")
        task, lines = await reading(other, f"/v1/sessions/{session}/events")
        await heard(ours, theirs)
        execute(postgres_url, f"SELECT pg_terminate_backend(pid) {listens}")
        _, second = await begun(one, "second", session)
        await told_of(lines, f'"{second}"')
        await heard(ours, theirs)
        assert execute(postgres_url, f"SELECT count(*) {listens}") == [(2,)]
        _, third = await begun(one, "third", session)
        await told_of(lines, f'"{third}"')
        task.cancel()
    numbers = [int(line[4:]) for line in lines if line.startswith("id: ")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert execute(postgres_url, f"SELECT count(*) {listens}") == [(0,)]


async def test_an_idle_reader_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.02)
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    async with serving(service) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        task, lines = await reading(client, f"/v1/sessions/{session}/events")
        await told_of(lines, "ping")
        reads = 0

        async def read(*_: Any, **__: Any) -> Any:
            nonlocal reads
            reads += 1
            return []

        monkeypatch.setattr(Agent, "stored_events", read)
        before = sum("ping" in line for line in lines)
        async with asyncio.timeout(20):
            while sum("ping" in line for line in lines) < before + 10:  # noqa: ASYNC110 - a reader appends
                await asyncio.sleep(0.02)
        task.cancel()
    assert reads == 0


async def test_a_reader_of_one_service_hears_of_the_others_turn_and_cancels_it(
    tmp_path: Path, database_url: str
) -> None:
    is_asked = asyncio.Event()

    class Slow:
        name = "slow"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            if "slow" in str(request.messages[-1].content):
                is_asked.set()
                await asyncio.sleep(60)
            async for piece in script("Done.", "Done.").stream(request):
                yield piece

    write_agent(tmp_path, storage(database_url))
    async with (
        serving(service_of(tmp_path, Slow())) as one,
        serving(service_of(tmp_path, script())) as other,
    ):
        session, run = await begun(one, "first")
        await until(one, run, "complete")
        task, lines = await reading(other, f"/v1/sessions/{session}/events")
        before = len(lines)
        _, run = await begun(one, "slow", session)
        await is_asked.wait()
        async with asyncio.timeout(20):
            while not any(f'"{run}"' in line for line in lines[before:]):  # noqa: ASYNC110 - a reader appends
                await asyncio.sleep(0.02)
        answer = await other.post(f"/v1/runs/{run}/cancel")
        assert answer.status_code == 202
        turn = await until(one, run, "cancelled")
        assert turn["ending"]["code"] == "cancelled"
        async with asyncio.timeout(20):
            while not any(f'"{RunFailed.type}"' in line for line in lines[before:]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        task.cancel()
        _, run = await begun(one, "third", session)
        assert (await until(one, run, "complete", "cancelled"))["state"] == "complete"


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_turn_that_another_service_ends_meanwhile_is_not_run_again(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    model = Waiting()
    write_agent(tmp_path, storage(database_url))
    ours, theirs = service_of(tmp_path, model), service_of(tmp_path, script("First.", "Second.", "More."))
    async with serving(ours) as one, serving(theirs) as other:
        session, run = await begun(one, "first")
        await model.began.wait()

        async def late(log: Any, name: str) -> Any:
            found = await begin_turn(log, name)
            if found is None or found[0].run != run or model.may_end.is_set():
                return found
            model.may_end.set()
            await until(one, run, "complete")
            while ours.turns.working:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
            return found[0], has_begun

        monkeypatch.setattr(turn_queue, "begin_turn", late)
        _, second = await begun(other, "second", session, queue=1)
        await until(other, second, "complete")
        while theirs.turns.working:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)
        (hosted,) = theirs.hosting
        events = await hosted.of(None).stored_events(session, 0, at_most=100)
        assert [(each.run, json.loads(each.payload)["type"]) for each in events if each.ends] == [
            (run, "complete"),
            (second, "complete"),
        ]
        messages = (await other.get(f"/v1/sessions/{session}/messages")).json()
        assert [each["content"] for each in messages if each["role"] == "user"] == ["first", "second"]


class Waiting:
    """Answers once it may."""

    name = "waiting"

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        self.began.set()
        await self.may_end.wait()
        async for piece in script("First.", "Second.", "More.").stream(request):
            yield piece


@pytest.mark.parametrize("error", [BusyError("s runs elsewhere"), RunError("the disk is gone")])
async def test_a_turn_that_comes_while_another_one_fails_to_begin_is_looked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ZeusError
) -> None:
    write_agent(tmp_path)
    looked: list[str] = []

    async def one(queue: TurnQueue, hosted: Any, owner: Any, session: str) -> bool:
        looked.append(session)
        if len(looked) == 1:
            queue.wake(hosted, owner, session)
            raise error
        return False

    monkeypatch.setattr(TurnQueue, "_one", one)
    service = service_of(tmp_path, script())
    (hosted,) = service.hosting
    service.turns.wake(hosted, None, "s")
    async with asyncio.timeout(20):
        while service.turns.working:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    assert looked == ["s", "s"]


async def test_a_turn_goes_on_in_another_service_when_its_time_is_over_and_the_first_has_died(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_queue, "SEARCH_SECONDS", 0.05)
    timed = "middlewares: [approve: {timeout_seconds: 0.5, on_timeout: approve}]\n"
    write_agent(tmp_path, timed + storage(database_url))
    model = script(calling(call("record", "a", text="draft")), "Done.")
    async with serving(service_of(tmp_path, model)) as other:
        async with serving(service_of(tmp_path, model)) as one:
            _, run = await begun(one, "go")
            await until(one, run, "waiting")
        assert (await until(other, run, "complete"))["ending"]["answer"] == "Done."
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


async def test_a_turn_that_only_seems_to_run_here_is_cancelled_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script())
    (hosted,) = service.hosting
    told: list[str] = []
    service.turns.tell_to_cancel = lambda: told.append("told")
    is_looking, may_end = asyncio.Event(), asyncio.Event()

    async def one(*_: Any) -> bool:
        is_looking.set()
        await may_end.wait()
        raise BusyError("it runs elsewhere")

    monkeypatch.setattr(TurnQueue, "_one", one)
    session = (await service.turns.begin_session(hosted, None)).session
    turn = await service.turns.add(hosted, None, session, {"prompt": "go"})
    log = await hosted.of(None).log()
    assert await begin_turn(log, session) is not None
    await is_looking.wait()
    await service.turns.cancel(hosted, None, turn)
    assert told == ["told"]
    may_end.set()
    await service.turns.aclose()
    await service.hosting.aclose()


def two_databases(folder: Path, model: Any = None) -> Service:
    """A service of the agents `one` and `other`, each with its own database."""
    for name in ("one", "other"):
        write_agent(folder, storage(f"sqlite:///{folder}/{name}.db")).rename(folder / f"{name}.yaml")
        text = (folder / f"{name}.yaml").read_text()
        (folder / f"{name}.yaml").write_text(text.replace("name: test", f"name: {name}"))
    return service_of(folder, model or script(), ("one.yaml", "other.yaml"))


async def unopened(_agent: Agent) -> Any:
    raise RunError("the database does not answer")


@pytest.mark.parametrize("fails", ["question", "opening"])
async def test_a_database_that_does_not_answer_keeps_no_other_from_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    service = two_databases(tmp_path)
    asked: list[str] = []

    async def failing(database: Any, _sessions: Any) -> Any:
        asked.append(database.place)
        if fails == "question":
            raise RunError("the database does not answer")
        return {}

    async def no_events(_after: int, _most: int) -> Any:
        return ()

    monkeypatch.setattr(replicas, "last_numbers", failing)
    following = asyncio.create_task(anext(service.hub.follow("s", 0, no_events)))
    await asyncio.sleep(0)
    if fails == "opening":
        one, _ = service.hosting
        place = (await one.of(None).log()).database.place
        service.replicas._listening[place] = _Listening()
        monkeypatch.setattr(one.of(None), "log", partial(unopened, one.of(None)))
    with pytest.raises(RunError):
        await service.replicas.look()
    assert len(set(asked)) == (2 if fails == "question" else 1)
    if fails == "opening":
        assert list(service.replicas._listening) == [place], "it listens on where it cannot look"
        monkeypatch.undo()
    following.cancel()
    await service.hosting.aclose()


@pytest.mark.parametrize("fails", ["notice", "opening"])
async def test_a_database_that_does_not_answer_keeps_no_other_from_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    service = two_databases(tmp_path)
    places = [(await each.of(None).log()).database.place for each in service.hosting]
    told: list[str] = []

    async def given(database: Any, _notices: Any) -> None:
        if fails == "notice" and database.place == places[0]:
            raise RunError("the database does not answer")
        told.append(database.place)

    monkeypatch.setattr(replicas, "give_notice", given)
    if fails == "opening":
        one, _ = service.hosting
        monkeypatch.setattr(one.of(None), "log", partial(unopened, one.of(None)))
    service.replicas._listening.update((each, _Listening()) for each in places)
    service.replicas._note_events("s", 1)
    assert service.replicas._telling is not None
    await service.replicas._telling
    assert told == places[1:]
    monkeypatch.undo()
    await service.hosting.aclose()


async def test_an_unexpected_error_does_not_end_the_listening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script())
    again = asyncio.Event()
    opened: list[object] = []

    async def notices(database: object) -> AsyncIterator[str]:
        opened.append(database)
        if len(opened) == 1:
            raise ValueError("a driver's error")
        again.set()
        await asyncio.Event().wait()
        yield ""

    monkeypatch.setattr(replicas, "notices", notices)
    monkeypatch.setattr(replicas, "RECONNECT_SECONDS", 0)
    (hosted,) = service.hosting
    database = (await hosted.of(None).log()).database
    hearing = asyncio.create_task(service.replicas._hear(database, _Listening()))
    waiting = asyncio.create_task(again.wait())
    await asyncio.wait((hearing, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert not hearing.done()
    assert waiting.done()
    hearing.cancel()
    await service.hosting.aclose()


async def test_a_backtest_whose_database_does_not_answer_keeps_no_other_from_being_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = two_databases(tmp_path)
    works = service.backtests

    async def hang() -> Any:
        await asyncio.Event().wait()

    one, other = service.hosting
    for hosted in (one, other):
        session = (await service.turns.begin_session(hosted, None)).session
        begun = await works.begin(hosted, None, [Replay(session, "p", hang)])
    await end_backtest(await other.of(None).log(), begun.id, "cancelled")
    with monkeypatch.context() as patched:
        patched.setattr(one.of(None), "log", partial(unopened, one.of(None)))
        with pytest.raises(RunError):
            await works.cancel_as_asked()
    assert begun.id not in works._here
    await works.aclose()
    await service.hosting.aclose()


async def test_each_work_of_the_watch_and_of_the_end_is_done_although_others_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script())
    done: Counter[str] = Counter()

    def failing(place: Any, name: str, at_first: bool = True) -> None:
        async def fail(*_: Any, **__: Any) -> None:
            done[name] += 1
            if at_first or done[name] > 1:
                raise RunError("the database does not answer")

        monkeypatch.setattr(place, name, fail)

    failing(service.streams, "check")
    failing(service.replicas, "look", at_first=False)  # the service would not start
    failing(service, "_let_idle_go")
    failing(service, "_expire")
    await service.start()
    async with asyncio.timeout(20):
        while len(done) < 4 or min(done.values()) < 3:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)
    done.clear()
    for each in (service.backtests, service.turns, service.replicas, service.hosting):
        failing(each, "aclose")
    with pytest.raises(RunError):
        await service.aclose()
    assert done == {"aclose": 4}


async def test_a_service_whose_start_fails_late_closes_what_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script())
    closed: list[object] = []
    aclose = Hosting.aclose

    async def closing(hosting: Hosting) -> None:
        closed.append(hosting)
        await aclose(hosting)

    async def fail() -> None:
        raise RunError("the database does not answer")

    monkeypatch.setattr(Hosting, "aclose", closing)
    monkeypatch.setattr(service.replicas, "look", fail)
    app = app_of(service)
    with pytest.raises(RunError, match="does not answer"):
        async with app.router.lifespan_context(app):
            pass
    assert closed == [service.hosting]
