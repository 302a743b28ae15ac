"""PostgreSQL databases in which the vector store `pgvector` can keep the vectors of knowledge bases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases import database_on, execute


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty PostgreSQL database with the extension."""
    with database_on(postgres_server) as url:
        execute(url, "CREATE EXTENSION vector")
        yield url
