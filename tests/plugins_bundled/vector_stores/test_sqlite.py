"""The vector store `sqlite`: what every store does, and that it is the default's."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine
from zeus_plugins import catalogue
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime import MissingError
from zeus_runtime.plugin.vector_store import VectorStore
from zeus_runtime.testing import VectorStoreConformance


class TestSqliteVectorStore(VectorStoreConformance):
    def store(self, folder: Path) -> VectorStore:
        return SqliteVectorStore()


def test_it_is_registered_as_sqlite() -> None:
    (component,) = catalogue.vector_stores.sqlite.register_vector_stores()
    assert component.name == "sqlite"


def test_another_database_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "name", "postgresql")
    with engine.connect() as connection, pytest.raises(MissingError) as caught:
        SqliteVectorStore().prepare(connection)
    assert "pgvector" in str(caught.value.remedy)
