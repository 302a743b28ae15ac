"""Laws of whatever is done to a session: no message is lost, and the view is the fold of what is not set aside."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from tests.support.databases import SQLITE_URL, database_on
from zeus_runtime.context import DropBefore, Evict, fold
from zeus_runtime.errors import UsageError
from zeus_runtime.run.stored_thread import read_thread
from zeus_runtime.run.transcript import Transcript
from zeus_runtime.sessions.lifecycle import SessionLifecycle
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog

SESSION = "session_law"

MOVES = st.lists(
    st.one_of(
        st.just(("turn",)),
        st.tuples(st.just("drop"), st.floats(0, 1)),
        st.tuples(st.just("evict"), st.floats(0, 1)),
        st.tuples(st.just("rollback"), st.floats(0, 1), st.booleans()),
        st.just(("archive",)),
        st.just(("restore",)),
    ),
    max_size=14,
)


class NoCheckpoints:
    async def adelete_thread(self, _session: str) -> None: ...


async def conversation(log: ThreadLog) -> Transcript:
    """As a run opens it."""
    thread = await log.find(SESSION)
    return Transcript(log, thread, await read_thread(log, thread))


class Model:
    """What must be so, said as plainly as it can be: lists that are cut."""

    def __init__(self) -> None:
        self.everything: list[str] = []
        self.line: list[tuple[int, Any]] = []
        self.edits: list[tuple[int, Any]] = []

    def say(self, message: Any) -> None:
        self.everything.append(str(message.content))
        self.line.append((len(self.everything), message))

    def cut(self, length: int) -> None:
        self.line = self.line[:length]
        self.edits = [(at, edit) for at, edit in self.edits if at <= length]


async def obeyed(url: str, folder: Path, moves: list[tuple[Any, ...]]) -> None:
    database = Database(url, directory=folder)
    log = ThreadLog(database)
    model = Model()
    archived = False
    try:
        await log.create_tables()
        thread = await log.open(SESSION, agent="law")
        lifecycle = SessionLifecycle(log, NoCheckpoints())  # type: ignore[arg-type]
        for number, (name, *more) in enumerate(moves):
            if name == "archive":
                assert await lifecycle.archive(SESSION) is not archived
                archived = True
            elif name == "restore":
                assert await lifecycle.restore(SESSION) is archived
                archived = False
            elif archived:
                continue
            elif name == "turn":
                talking = await conversation(log)
                for message in (HumanMessage(f"ask {number}"), AIMessage(f"say {number}")):
                    await talking.append(talking.last + 1, f"r{number}", message)
                    model.say(message)
            elif name == "rollback":
                turns = [place for place, (_, said) in enumerate(model.line) if said.type == "human"]
                if turns:
                    at = turns[min(int(more[0] * len(turns)), len(turns) - 1)]
                    kept = at if more[1] else at + 1
                    try:
                        await lifecycle.roll_back(SESSION, model.line[at][0], before=more[1])
                    except UsageError:
                        assert kept == len(model.line)
                    model.cut(kept)
            elif model.line:
                talking = await conversation(log)
                seq = 1 + int(more[0] * (talking.last - 1))
                edit = (
                    DropBefore("p", "r", seq)
                    if name == "drop"
                    else Evict("p", "r", seq, f"evicted {number}", "/h")
                )
                view = talking.view(talking.last).applied(edit)
                await talking.admit([edit], talking.last, view)
                model.edits.append((talking.last, edit))
        if archived:
            await lifecycle.restore(SESSION)
        stored = [json.loads(entry.payload)["content"] for entry in await log.read(thread)]
        assert stored == model.everything, "every message that was appended is readable, in order"
        assert [entry.seq for entry in await log.read(thread)] == [*range(1, len(stored) + 1)]
        talking = await conversation(log)
        assert talking.last == len(model.line)
        shown = [message.content for message in talking.view(talking.last)]
        expected = fold([message for _, message in model.line], [edit for _, edit in model.edits])
        assert shown == [message.content for message in expected]
        assert (await log.info(thread)).messages == len(model.line)
    finally:
        await database.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES)
def test_no_message_is_lost_and_the_view_is_what_is_not_set_aside(moves: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(obeyed(SQLITE_URL, Path(folder), moves))


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(moves=MOVES)
def test_the_same_holds_on_a_server(
    postgres_server: str, tmp_path: Path, moves: list[tuple[Any, ...]]
) -> None:
    with database_on(postgres_server) as url:
        asyncio.run(obeyed(url, tmp_path, moves))
