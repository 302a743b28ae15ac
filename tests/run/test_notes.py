"""Notes of a run: stored, masked, found again by the same run, gone and back with their session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import RunError
from zeus_runtime.run.notes import RunNotes
from zeus_runtime.store import run_notes
from zeus_runtime.store.archived import archive, restore
from zeus_runtime.store.database import Database
from zeus_runtime.store.session_lock import LogConflictError
from zeus_runtime.store.thread_log import ThreadLog

SECRET = "sk-notes-0123456789"
VALUE = {"text": "größer \0 \ud800 🌊", "list": [1, None, True]}


async def test_a_run_finds_its_notes_again_and_no_other_run_does(tmp_path: Path, database_url: str) -> None:
    database = Database(database_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")

        def notes(run_id: str) -> RunNotes:
            made = RunNotes(Redactor({SECRET: "KEY"}))
            made.begin(log, thread, run_id)
            return made

        first = notes("run_1")
        await first.put("a", VALUE)
        await first.put("b", {"key": SECRET})
        assert await first.get("a") == await notes("run_1").get("a") == VALUE
        assert SECRET not in json.dumps([await first.get("b"), await notes("run_1").get("b")])
        assert await notes("run_2").get("a") is None
        with pytest.raises(LogConflictError):
            await notes("run_1").put("a", "another process wrote it first")
        assert await archive(log, thread)
        assert await notes("run_1").get("a") is None
        await restore(log, thread)
        assert await notes("run_1").get("a") == VALUE
    finally:
        await database.close()


@pytest.mark.parametrize("failure", [RunError("the database is away"), asyncio.CancelledError()])
async def test_a_read_that_failed_hides_no_stored_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    async def fail(*_: object) -> dict[str, str]:
        raise failure

    database = Database("sqlite:///z.db", directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        before, resumed = RunNotes(Redactor()), RunNotes(Redactor())
        for notes in (before, resumed):
            notes.begin(log, thread, "run_1")
        await before.put("a", VALUE)
        with monkeypatch.context() as broken:
            broken.setattr(run_notes, "notes_of", fail)
            with pytest.raises(type(failure)):
                await resumed.get("a")
        assert await resumed.get("a") == VALUE
    finally:
        await database.close()


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers() | st.text(max_size=5), max_size=3)))
async def test_a_simulation_keeps_its_notes_in_memory(values: dict[str, list[int | str]]) -> None:
    notes = RunNotes(Redactor())
    for name, value in values.items():
        await notes.put(name, value)
    assert {name: await notes.get(name) for name in values} == values
