"""Memory through the command line, as its users meet it: from process to process, on SQLite as on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Table, create_engine, make_url, select

from tests.acceptance.teller import Line, asked, tell
from tests.cli.conftest import Project, Result, Zeus, command
from tests.support import forked
from tests.support.databases import execute
from tests.support.extracting import vectors_of
from tests.support.memory import service
from zeus_runtime.memory.items import Caller
from zeus_runtime.store.memory_tables import MEMORY_TABLES
from zeus_runtime.store.tables import TABLES

LIGHT = "The user prefers the light theme in the editor"
DARK = "The user prefers the dark theme in the editor"
TEA = "用户早上喜欢喝绿茶"
RELEASE = "The release is on Monday"
MEMORY = """
memory: {user: ann, project: shop, role: owner, embeddings: static}
tools: [memory]
middlewares:
- summarization: {trigger: {messages: 14}, keep: {messages: 3}}
- memory: {profile_after: 2}
"""
OVERLAY = "version: 1\nextends: postgres\n"


def on_server(project: Project, url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lay the overlay of PostgreSQL over the project's config: the words of the command line that do it."""
    execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
    project.write("zeus.server.yaml", OVERLAY)
    monkeypatch.setenv("ZEUS_DATABASE_URL", url)
    return ["--env", "server"]


@pytest.fixture
def overlay(database_url: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that choose the database of ``database_url``, from one YAML."""
    return on_server(project, database_url, monkeypatch) if database_url.startswith("postgres") else []


def process(*words: str) -> Result:
    """``zeus`` as a process of its own."""
    done = forked.run(command(*words), capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def test_saved_in_one_process_found_and_explained_in_others(project: Project, overlay: list[str]) -> None:
    save = {"call": "memory_save", "asked": True, "content": LIGHT, "memory_type": "preference"}
    story: dict[str, Sequence[Line]] = {"Remember my theme.": [save, "Noted."], "Which theme?": ["Light."]}
    tell(project.folder, story, MEMORY)
    first = process("run", "zeus.yaml", *overlay, "Remember my theme.", "-o", "json")
    second = process("run", "zeus.yaml", *overlay, "Which theme?", "-o", "json")
    assert (first.json["answer"], second.json["answer"]) == ("Noted.", "Light.")
    assert first.json["session"] != second.json["session"]
    *_, prompt = (each["system"] for each in asked(project.folder))
    shown = re.search(r"<memories>.*\[(mem_\w+), preference, [\d-]+\] (.*)\n.*</memories>", prompt, re.DOTALL)
    assert shown is not None
    assert shown[2] == LIGHT
    explained = process("context", "explain", "memory", "--config", "zeus.yaml", *overlay, "--format", "json")
    (source,) = explained.json["sources"]
    assert (source["id"], source["shown"]) == (shown[1], True)
    told = 0.5 * source["similarity"] + 0.3 * source["confidence"] + 0.2 * 0.6
    assert source["final_score"] == pytest.approx(told)


STORY: Mapping[str, Sequence[Line]] = {
    "Please remember that I prefer the light theme.": [
        {"call": "memory_save", "asked": True, "content": LIGHT, "memory_type": "preference"},
        "Noted.",
    ],
    "Remember for the project when the release is.": [
        {
            "call": "memory_save",
            "asked": True,
            "content": RELEASE,
            "scope": "project",
            "memory_type": "event",
        },
        "Noted.",
    ],
    "请记住我早上喜欢喝绿茶。": [
        {"call": "memory_save", "asked": True, "content": TEA, "memory_type": "habit"},
        {"call": "memory_save", "asked": True, "content": "The user works as a marine biologist"},
        {
            "call": "memory_save",
            "asked": True,
            "content": "The user writes Rust and Python code",
            "memory_type": "skill",
        },
        "好的。",
    ],
    "Which theme should the editor have?": ["Light."],
    "Remember that I prefer the dark theme now.": [
        {"call": "memory_save", "asked": True, "content": DARK, "memory_type": "preference"},
        # The model reads in the result that the older one is near.
        {
            "call": "memory_save",
            "asked": True,
            "content": DARK,
            "memory_type": "preference",
            "replaces": [f"id of: {LIGHT}"],
        },
        {"call": "memory_search", "query": "theme of the editor", "k": 3},
        "Dark it is.",
    ],
    "When is the release? Then forget Ann's day.": [
        {"call": "memory_search", "query": "release day", "scope": "project"},
        {"call": "memory_delete", "memory_id": "mem_unknown"},
        "On Monday.",
    ],
    "Remember for the project that we run PostgreSQL 16.": [
        {
            "call": "memory_save",
            "asked": True,
            "content": "The database runs on PostgreSQL 16",
            "scope": "project",
        },
        "Noted.",
    ],
    "Remember that it is PostgreSQL 18 now.": [
        {
            "call": "memory_save",
            "asked": True,
            "content": "The database runs on PostgreSQL 18",
            "scope": "project",
            "replaces": ["id of: The database runs on PostgreSQL 16"],
            "valid_from": "2026-03-01",
        },
        {"call": "memory_save", "content": "the database runs on PostgreSQL 18.", "scope": "project"},
        "Noted.",
    ],
    "Remember for the project that the office is in Lyon.": [
        {"call": "memory_save", "asked": True, "content": "The office is in Lyon", "scope": "project"},
        {"call": "memory_search", "query": "database of the project"},
        "You may not.",
    ],
    "Tell me of the sea.": [
        {"call": "memory_save", "content": "The user asks about the sea"},
        {"call": "memory_save", "content": "Whales were spoken of at length"},
        {"call": "memory_save", "content": "A tide table hangs in the hall"},
        {"call": "memory_save", "content": "The harbour closes at dusk in winter"},
        {"call": "memory_stats"},
        "It is deep.",
    ],
    "Which theme do I like?": ["Dark."],
    "Forget my tea: 我早上喜欢喝绿茶": [
        {"call": "memory_search", "query": "早上喝什么茶"},
        {"call": "memory_delete", "memory_id": f"id of: {TEA}"},
        {"call": "memory_search", "query": "早上喝什么茶"},
        "It is forgotten.",
    ],
    "我早上喜欢喝什么？": ["不知道。"],
}
TOLD: Sequence[tuple[str, str, str, Sequence[str]]] = (
    # user, role, session, what they say there
    ("ann", "owner", "first", ["Please remember that I prefer the light theme."]),
    ("bob", "editor", "second", ["Remember for the project when the release is."]),
    ("ann", "owner", "third", ["请记住我早上喜欢喝绿茶。", "Thanks.", "Good night."]),
    ("ann", "owner", "fourth", ["Which theme should the editor have?"]),
    ("ann", "owner", "fifth", ["Remember that I prefer the dark theme now."]),
    ("bob", "editor", "sixth", ["When is the release? Then forget Ann's day."]),
    (
        "ann",
        "owner",
        "seventh",
        ["Remember for the project that we run PostgreSQL 16.", "Remember that it is PostgreSQL 18 now."],
    ),
    ("eve", "viewer", "eighth", ["Remember for the project that the office is in Lyon."]),
    ("ann", "owner", "fourth", ["Tell me of the sea.", "Thanks.", "And?", "Which theme do I like?"]),
    ("ann", "owner", "ninth", ["Forget my tea: 我早上喜欢喝绿茶"]),
    ("ann", "owner", "tenth", ["我早上喜欢喝什么？"]),
)
QUERIES = (
    "theme of the editor",
    "when is the release",
    "which database",
    "the sea",
    "早上喝茶",
    "gibberish qwx",
)
UNTOLD = {
    *(
        "created_ms",
        "updated_ms",
        "at_ms",
        "last_used_ms",
        "since_ms",
        "taken_ms",
        "words",
        "duration_ms",
        "epoch",
    ),
}
"""What two runs of one story may differ in: times, the lexical index's own form, and where a thread's epochs begin."""


class Clock(datetime):
    """A clock that a test tells the hour."""

    hour_now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return cls.hour_now.astimezone(tz) if tz else cls.hour_now.replace(tzinfo=None)

    @classmethod
    def forward(cls) -> None:
        cls.hour_now += timedelta(hours=1)


def test_a_story_of_ten_sessions_is_the_same_on_both_databases(
    zeus: Zeus, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users and a guest of one project; ids are counted up, so that they are the same too."""
    found = []
    for name in ("file", "server"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        overlay = on_server(Project(folder), postgres_url, monkeypatch) if name == "server" else []
        with monkeypatch.context() as patch:
            numbers = itertools.count(1)
            patch.setattr(secrets, "token_hex", partial(counted, numbers))
            drawn = SimpleNamespace(urandom=partial(counted_bytes, numbers))
            patch.setattr("zeus_runtime.memory.opened.os", drawn)
            Clock.hour_now = datetime(2026, 3, 1, 12, tzinfo=UTC)
            patch.setattr("zeus_runtime.memory.opened.datetime", Clock)
            patch.setattr("zeus_runtime.run.assembly.datetime", Clock)
            found.append(
                {**lived(zeus, folder, overlay), "rows": rows(folder, postgres_url if overlay else None)}
            )
    file, server = found
    assert_the_story_holds(file)
    for part in file:
        assert_same(file[part], server[part], part)


def counted(numbers: Iterator[int], size: int) -> str:
    """The next number in so many bytes of hexadecimal digits."""
    return f"{next(numbers):0{2 * size}x}"


def counted_bytes(numbers: Iterator[int], size: int) -> bytes:
    """The next number in so many bytes."""
    return bytes.fromhex(counted(numbers, size))


def lived(zeus: Zeus, folder: Path, overlay: Sequence[str]) -> dict[str, Any]:
    """Let the story happen, and ask for all that can be seen of it."""
    tell(folder, STORY, MEMORY)
    sessions: dict[str, str] = {}
    answers = []
    for user, role, session, prompts in TOLD:
        me = ["--set", f"memory.user={user}", "--set", f"memory.role={role}", *overlay]
        for prompt in prompts:
            Clock.forward()
            there = ["--session", sessions[session]] if session in sessions else []
            done = zeus("run", "zeus.yaml", prompt, *there, *me, "-o", "json")
            assert done.exit_code == 0, done.err
            sessions[session] = done.json["session"]
            answers.append((prompt, done.json["answer"], done.err))

    def seen(user: str, role: str, *words: str) -> Any:
        config = ["--config", "zeus.yaml", "--set", f"memory.user={user}", "--set", f"memory.role={role}"]
        done = zeus(*words, *config, *overlay, "--format", "json")
        assert done.exit_code == 0, (words, done.err)
        return done.json

    members = (("ann", "owner"), ("bob", "editor"), ("eve", "viewer"))
    kept = {user: seen(user, role, "memory", "list", "--status", "all") for user, role in members}
    listed = zeus("sessions", "list", "--config", "zeus.yaml", *overlay, "--json").json
    return {
        "answers": answers,
        "sessions": [{key: value for key, value in each.items() if "at" not in key} for each in listed],
        "prompts": [(each["purpose"], each["system"], each["messages"]) for each in asked(folder)],
        "memories": kept,
        "history": [
            seen("ann", "owner", "memory", "history", each["id"]) for each in kept["ann"]["memories"]
        ],
        "searches": [
            seen(user, role, "memory", "search", query, "--mode", mode, "-k", "9")
            for user, role in members
            for mode in ("fused", "vector")
            for query in QUERIES
        ],
        "stats": [seen(user, role, "memory", "stats") for user, role in members],
        "profile": seen("ann", "owner", "memory", "profile", "show"),
        "project": seen("eve", "viewer", "memory", "profile", "show", "--project"),
        "explained": [
            seen("ann", "owner", "context", "explain", "memories", "--session", sessions[name])
            for name in ("fifth", "fourth")
        ],
    }


def rows(folder: Path, url: str | None) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, the ledger's too, in the order of their keys."""
    place = f"sqlite:///{folder / '.zeus' / 'zeus.db'}"
    if url is not None:
        place = make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    engine = create_engine(place)
    with engine.connect() as connection:
        read = {
            table.name: [
                dict(row._mapping) for row in connection.execute(select(table).order_by(*_keys(table)))
            ]
            for table in (*TABLES, *MEMORY_TABLES)
        }
    engine.dispose()
    texts = {(row["thread"], row["digest"]): row["text"] for row in read["context_text"]}
    for row in read["context_step"]:
        step = json.loads(row["payload"])
        fixed = json.loads(texts[row["thread"], step["fixed"]])
        # Scores are computed, so that the digests of what holds them are others where their last digit is.
        for name, digest in fixed.get("sources", {}).items():
            fixed["sources"][name] = json.loads(texts[row["thread"], digest])
        row["payload"] = json.dumps({**step, "fixed": fixed})
    read["context_text"] = [
        {"thread": thread, "text": text}
        for (thread, _), text in sorted(texts.items(), key=lambda each: (each[0][0], each[1]))
        if "sources" not in text and "final_score" not in text
    ]
    return {
        name: [{key: plain(key, value) for key, value in row.items() if key not in UNTOLD} for row in found]
        for name, found in read.items()
    }


def _keys(table: Table) -> list[Any]:
    return list(table.primary_key.columns)


def plain(column: str, value: Any) -> Any:
    """JSON as what it says, without times."""
    if column not in ("payload", "text") or not value.startswith("{"):
        return value
    return {key: each for key, each in json.loads(value).items() if key not in UNTOLD}


def assert_the_story_holds(lived: dict[str, Any]) -> None:
    """That the story is one: otherwise nothing would be compared with nothing."""
    memories = {each["id"]: each for each in lived["memories"]["ann"]["memories"]}
    by_text = {each["content"]: each for each in memories.values()}
    assert by_text[LIGHT]["superseded_by"] == by_text[DARK]["id"]
    old, new = (by_text[f"The database runs on PostgreSQL {number}"] for number in (16, 18))
    assert (old["status"], old["superseded_by"], new["status"]) == ("superseded", new["id"], "active")
    assert old["valid_until"] == new["valid_from"] == "2026-03-01T00:00:00+00:00"
    assert any(each["near"] for each in memories.values())
    assert TEA not in by_text
    assert "The office is in Lyon" not in by_text
    assert "The harbour closes at dusk in winter" not in by_text
    assert {each["content"] for each in lived["memories"]["eve"]["memories"]} < by_text.keys()
    systems = [system for purpose, system, _ in lived["prompts"] if purpose == "turn"]
    assert any(TEA in system.partition("<memories>")[2] for system in systems)
    assert TEA not in systems[-1]
    assert any("marine biologist" in system.partition("<profile>")[2] for system in systems)
    assert "summary" in {purpose for purpose, _, _ in lived["prompts"]}
    assert lived["rows"]["context_edit"]
    assert len(lived["sessions"]) == len({session for _, _, session, _ in TOLD}) == 10
    assert sum(bool(each["memories"]) for each in lived["searches"]) > len(lived["searches"]) / 2


def assert_same(one: Any, other: Any, where: str) -> None:
    """Equal part by part; numbers that are computed, to the sixth digit."""
    if isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, abs=1e-6), where
    elif isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), where
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{number}]")
    else:
        assert one == other, where


KILLER = """
import os
import signal
from pathlib import Path

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware


class Killer(Middleware):
    def __init__(self, options, context):
        pass

    async def wrap_tool_call(self, call, call_next):
        if call.name != "memory_save":
            return await call_next(call)
        saves = Path("saves")
        number = int(saves.read_text()) if saves.exists() else 0
        saves.write_text(str(number + 1))
        if number == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await call_next(call)
        if number == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


@hookimpl
def register_middlewares():
    return [Component("killer", create=Killer)]
"""


@pytest.mark.parametrize(("before", "after"), [(1, None), (None, 1), (None, 0)])
def test_a_kill_between_a_save_and_what_it_replaces_loses_nothing(
    project: Project, before: int | None, after: int | None
) -> None:
    """The process is killed before or after the call that replaces, or after the save, before results are stored."""
    save = {"call": "memory_save", "content": DARK}
    lines: list[Line] = [save, {**save, "replaces": [f"id of: {LIGHT}"]}, "Dark it is."]
    tell(project.folder, {"Remember that I prefer dark.": lines}, MEMORY)
    words = ("--config", "zeus.yaml")
    old = process("memory", "add", LIGHT, *words).out.strip()
    killer = KILLER.replace("BEFORE", str(before)).replace("AFTER", str(after))
    (project.folder / "killer.py").write_text(killer)
    text = (project.folder / "zeus.yaml").read_text().replace("[teller.py]", "[teller.py, killer.py]")
    (project.folder / "zeus.yaml").write_text(text + "- killer\n")
    killed = forked.run(
        command("run", "zeus.yaml", "Remember that I prefer dark."), capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL
    kept = {each["content"] for each in listed_memories(words)}
    assert kept == {DARK} if after == 1 else LIGHT in kept
    (session,) = process("sessions", "list", *words, "--json").json
    done = process("resume", session["session"], *words, "-o", "json")
    assert done.json["answer"] == "Dark it is."
    (new,) = listed_memories(words)
    assert new["content"] == DARK
    changes = process("memory", "history", old, *words, "--format", "json").json["changes"]
    assert [each["action"] for each in changes] == ["stored", "superseded"]


def listed_memories(words: Sequence[str]) -> list[dict[str, Any]]:
    """The active memories, in a process of its own."""
    listed: list[dict[str, Any]] = process("memory", "list", *words, "--format", "json").json["memories"]
    return listed


async def test_what_another_process_saves_and_deletes_is_seen_by_one_that_is_open(
    project: Project, overlay: list[str], database_url: str
) -> None:
    tell(project.folder, {}, MEMORY)
    caller = Caller("ann", "shop", "owner")
    memory = service(
        project.folder, caller, words_only=True, url=database_url, open_vectors=vectors_of(database_url)
    )
    assert await memory.search_memories("theme of the editor") == []
    words = ("--config", "zeus.yaml", *overlay)
    added = await asyncio.to_thread(process, "memory", "add", LIGHT, *words)
    (found,) = await memory.search_memories("theme of the editor")
    assert found.item.id == added.out.strip()
    gone = await asyncio.to_thread(process, "memory", "delete", found.item.id, "--yes", *words)
    assert gone.exit_code == 0
    assert await memory.search_memories("theme of the editor") == []
    await memory.aclose()


def test_of_twenty_extractions_of_four_processes_at_once_exactly_three_are_kept(
    tmp_path: Path, database_url: str
) -> None:
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION vector")
    words = [sys.executable, "-m", "tests.support.extracting", str(tmp_path), database_url]
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        forked.Forked([*words, name, "5"], cwd=Path(__file__).parents[2], **streams)
        for name in ("left", "right", "up", "down")
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in started:
        assert each.stdin is not None
        each.stdin.write("now\n")
        each.stdin.flush()
    outcomes = [outcome for each in started for outcome in json.loads(each.communicate()[0])]
    assert [each.returncode for each in started] == [0] * 4
    assert sorted(outcomes) == ["rate_limited"] * 17 + ["stored"] * 3


SECRETS = ("sk-ant-" + "api03-" + "Zx9Qw7Er5Ty3Ui1Op0As8Df6Gh4Jk2Lz" * 2, "correct-horse-" + "battery-77x")
ASKED = "Remember how the service is reached."


def test_no_secret_is_remembered_and_what_was_said_of_it_goes_with_its_session(
    zeus: Zeus, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """A model, a user and a file try to have secrets kept; only the conversation itself ever had them."""
    folder = project.folder
    key, password = SECRETS
    said: Sequence[Line] = [
        {"call": "memory_save", "content": f"The key of the service is {key}"},
        {"call": "memory_save", "content": f"The password is {password}", "scope": "project"},
        {"call": "memory_search", "query": f"what is reached with {key}"},
        "Neither is kept.",
    ]
    tell(folder, {ASKED: said}, MEMORY + "storage: {url: 'sqlite:///.zeus/zeus.db'}\n")
    with caplog.at_level(logging.DEBUG):
        kept = zeus("memory", "add", LIGHT).out.strip()
        done = zeus("run", "zeus.yaml", ASKED, "-o", "json")
        session = done.json["session"]
        for _ in range(8):
            assert zeus("run", "zeus.yaml", "And?", "--session", session, "-o", "json").exit_code == 0
        for each in SECRETS:
            refused = zeus("memory", "add", f"The password is {each}")
            assert (refused.exit_code, "sensitive" in refused.err) == (2, True)
        entries = [json.dumps({"content": f"The password is {each}"}) for each in SECRETS]
        (folder / "entries.jsonl").write_text("\n".join(entries))
        zeus("memory", "import", "entries.jsonl")
        for words in (
            ["list", "--status", "all"],
            ["search", "key of the service"],
            ["history", kept],
            ["export"],
        ):
            assert not holds(zeus("memory", *words).out.encode())
    assert "memory_save" in (folder / "asked.jsonl").read_text() or done.json["answer"] == "Neither is kept."
    assert not holds(caplog.text.encode())
    remembered = rows(folder, None)
    tables = {name for name, found in remembered.items() if holds(json.dumps(found, default=str).encode())}
    assert tables <= {"message", "context_edit"}, "what was said"
    assert zeus("sessions", "delete", session, "--yes").exit_code == 0
    for name in ("asked.jsonl", "story.json", "entries.jsonl"):
        (folder / name).unlink()
    # What a policy put aside stays as long as `archive.max_age_days` says.
    kept_aside = folder / ".zeus" / "conversation_history"
    left = [
        file
        for file in folder.rglob("*")
        if file.is_file() and file.parent != kept_aside and holds(file.read_bytes())
    ]
    assert left == []
    assert LIGHT in zeus("memory", "list").out


def holds(data: bytes) -> bool:
    """Whether there is a secret."""
    return any(each.encode() in data for each in SECRETS)
