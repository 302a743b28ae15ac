"""Which vector store a config's memory has, and that the overlay for PostgreSQL turns no memory on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.databases import execute
from tests.support.least_rights import as_agent
from zeus_runtime import Agent

BASE = "version: 1\nmodel: openai/gpt-5.2\n"
MEMORY = "memory: {user: ann, embeddings: static}\n"
POSTGRES = "postgresql://zeus@db.example/zeus"


def store_of(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setenv("ZEUS_DATABASE_URL", POSTGRES)
    (folder / "zeus.yaml").write_text(text)
    planned = Agent.from_yaml(folder / "zeus.yaml", working_directory=folder).plan.memory
    return None if planned is None else planned.vector_store.name


@pytest.mark.parametrize(
    ("text", "store"),
    [
        (BASE + MEMORY, "sqlite"),
        (BASE + MEMORY + f"storage: {{url: '{POSTGRES}'}}\n", "pgvector"),
        (BASE + MEMORY + "storage: {url: 'postgres://zeus@db.example/zeus'}\n", "pgvector"),
        (BASE + "memory: {vector_store: chroma}\n", "chroma"),
        (BASE + MEMORY + "extends: postgres\n", "pgvector"),
        (BASE + "extends: postgres\n", None),
        ("version: 1\nextends: [quickstart, postgres]\nmemory: {}\n", "pgvector"),
    ],
)
def test_the_store_goes_with_the_database_and_with_a_memory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, store: str | None
) -> None:
    assert store_of(tmp_path, text, monkeypatch) == store
