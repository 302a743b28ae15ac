"""Memory through the command line, as its users meet it: from process to process, on SQLite as on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, create_engine, make_url, select

from tests.acceptance.teller import Line, asked, tell
from tests.cli.conftest import Project, Result, Zeus, command
from tests.support.databases import execute
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
- summarization: {trigger: {messages: 8}, keep: {messages: 3}}
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
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def test_saved_in_one_process_found_and_explained_in_others(project: Project, overlay: list[str]) -> None:
    save = {"call": "memory_save", "content": LIGHT, "memory_type": "preference"}
    story = {"Remember my theme.": [save, "Noted."], "Which theme?": ["Light."]}
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
