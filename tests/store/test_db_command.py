"""``zeus db`` and ``zeus sessions`` on either database, through the command line."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url, text

from tests.cli.conftest import Project, Zeus, project, zeus
from tests.store.test_schema import at_revision_1, do
from tests.support.databases import storage
from zeus_runtime.store.schema import HEAD

__all__ = ["project", "zeus"]


def test_a_database_is_made_shown_and_upgraded(zeus: Zeus, project: Project, database_url: str) -> None:
    import asyncio

    project.agent("hello", more=storage(database_url))
    shown = zeus("db", "current")
    assert (shown.exit_code, shown.out) == (0, "none (no tables)\n")
    assert not (project.folder / ".zeus").exists()
    made = zeus("db", "upgrade")
    assert (made.exit_code, made.out) == (0, f"{HEAD}\n")
    assert "made the tables" in made.err
    assert zeus("db", "current", "--json").json == {
        "database": make_url(database_url).render_as_string(),
        "revision": HEAD,
        "newest": HEAD,
        "state": "current",
    }
    assert "already" in zeus("db", "upgrade").err
    assert zeus("run", "zeus.yaml", "go").out == "hello\n"

    def newer(connection):  # type: ignore[no-untyped-def]
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))

    asyncio.run(do(database_url, project.folder, newer))  # type: ignore[arg-type]
    for words in (["db", "upgrade"], ["run", "zeus.yaml", "go"], ["sessions", "list"]):
        refused = zeus(*words)
        assert (refused.exit_code, "newer (0999)" in refused.err) == (4, True)
    assert zeus("db", "current").out == "0999 (newer)\n"


def test_an_older_server_is_refused_until_it_is_upgraded(
    zeus: Zeus, project: Project, postgres_url: str
) -> None:
    import asyncio

    asyncio.run(at_revision_1(postgres_url, project.folder))
    project.agent("hello", "hello", more=storage(postgres_url))
    shown = zeus("db", "current")
    assert (shown.exit_code, shown.out) == (0, "0001 (older)\n")
    assert "zeus db upgrade" in shown.err
    refused = zeus("run", "zeus.yaml", "go")
    assert (refused.exit_code, "`zeus db upgrade`" in refused.err) == (4, True)
    assert "from 0001 to" in zeus("db", "upgrade").err
    assert zeus("run", "zeus.yaml", "go").exit_code == 0


def test_sessions_are_listed_shown_and_deleted(zeus: Zeus, project: Project, database_url: str) -> None:
    project.agent("hello", more=storage(database_url))
    session = zeus("run", "zeus.yaml", "go", "--output", "json").json["session"]
    assert [each["session"] for each in zeus("sessions", "list", "--json").json] == [session]
    assert "hello" in zeus("sessions", "show", session).out
    assert zeus("run", "zeus.yaml", "more", "--continue").exit_code == 0
    assert zeus("sessions", "delete", session, "--yes").exit_code == 0
    assert zeus("sessions", "list", "--json").json == []
    if database_url.startswith("postgres"):
        from tests.support.databases import execute

        for table in ("message", "context_step", "checkpoints", "checkpoint_writes", "checkpoint_blobs"):
            assert execute(database_url, f"SELECT count(*) FROM {table}") == [(0,)]


@pytest.mark.parametrize("given", [True, False])
def test_the_postgres_preset_is_an_overlay_of_two_keys(
    zeus: Zeus, project: Project, postgres_url: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("hello", more="extends: postgres\n")
    if not given:
        refused = zeus("run", "zeus.yaml", "go")
        assert refused.exit_code == 3
        assert "ZEUS_DATABASE_URL" in refused.err
        assert "postgresql://user@host/database" in refused.err
        return
    monkeypatch.setenv("ZEUS_DATABASE_URL", postgres_url)
    assert zeus("run", "zeus.yaml", "go").out == "hello\n"
    assert not list(project.folder.glob(".zeus/*.db"))
    assert len(zeus("sessions", "list", "--json").json) == 1


def test_the_postgres_checkpointer_needs_a_postgres_database(zeus: Zeus, project: Project) -> None:
    project.agent("hello", more="checkpointer: postgres\n")
    refused = zeus("run", "zeus.yaml", "go")
    assert refused.exit_code == 4
    assert "checkpointer: {postgres: {url:" in refused.err
