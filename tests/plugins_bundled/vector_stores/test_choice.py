"""Which vector store a config's memory has, and that the overlay for PostgreSQL turns no memory on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus, project, zeus
from tests.support.databases import execute, storage
from zeus_runtime import Agent

__all__ = ["project", "zeus"]

BASE = "version: 1\nmodel: openai/gpt-5.2\n"
MEMORY = "memory: {user: ann, embeddings: static}\n"
POSTGRES = "postgresql://zeus@db.example/zeus"


@pytest.mark.parametrize(
    ("text", "store"),
    [
        (BASE + MEMORY, "sqlite"),
        (BASE + MEMORY + f"storage: {{url: '{POSTGRES}'}}\n", "pgvector"),
        (BASE + MEMORY + "storage: {url: 'postgres://zeus@db.example/zeus'}\n", "pgvector"),
        (BASE + "memory: {vector_store: chroma, embeddings: static}\n", "chroma"),
        (BASE + MEMORY + "extends: postgres\n", "pgvector"),
        (BASE + "extends: postgres\n", None),
    ],
)
def test_the_store_goes_with_the_database_and_the_overlay_turns_no_memory_on(
    tmp_path: Path, text: str, store: str | None
) -> None:
    (tmp_path / "zeus.yaml").write_text(text)
    agent = Agent.from_config(
        tmp_path / "zeus.yaml", directory=tmp_path, environ={"ZEUS_DATABASE_URL": POSTGRES}
    )
    planned = agent.plan.memory
    assert (None if planned is None else planned.vector_store.name) == store


def test_zeus_db_upgrade_makes_the_vectors_table_and_says_what_is_missing(
    zeus: Zeus, project: Project, postgres_url: str
) -> None:
    project.agent("hello", more=storage(postgres_url) + MEMORY)
    refused = zeus("db", "upgrade")
    assert refused.exit_code == 4
    assert "pgvector" in refused.err
    assert "CREATE EXTENSION vector" in refused.err
    execute(postgres_url, "CREATE EXTENSION vector")
    assert zeus("db", "upgrade").exit_code == 0
    assert execute(postgres_url, "SELECT count(*) FROM memory_vector_pg") == [(0,)]
