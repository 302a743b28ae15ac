"""The bundled savers pass LangGraph's own conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver


@pytest.mark.parametrize("where", ["file", "memory"])
async def test_the_sqlite_saver_passes_the_conformance_suite(where: str, tmp_path: Path) -> None:
    count = 0

    @checkpointer_test(name=f"sqlite-{where}")
    async def saver() -> AsyncGenerator[SqliteSaver, None]:
        nonlocal count
        count += 1
        one = SqliteSaver(":memory:" if where == "memory" else tmp_path / f"{count}.db")
        yield one
        await one.aclose()

    report = await validate(saver)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert not failures
    assert report.passed_all()


async def test_the_postgres_saver_passes_the_conformance_suite(postgres_url: str) -> None:
    from zeus_plugins.checkpointers.postgres.saver import PostgresSaver

    @checkpointer_test(name="postgres")
    async def saver() -> AsyncGenerator[PostgresSaver, None]:
        one = PostgresSaver(postgres_url)
        await one.setup()
        yield one
        await one.aclose()

    report = await validate(saver)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert not failures
    assert report.passed_all()
