"""Cases run at the same time, and are reported in the order of the file."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.testing.cases import running
from zeus_runtime.testing.cases.report import reported
from zeus_runtime.testing.cases.running import RunOutcome, outcomes


def planned(count: int) -> list[Any]:
    agent = SimpleNamespace(name="a", model=None)
    return [
        SimpleNamespace(
            case=SimpleNamespace(name=f"c{place // 2}", min_pass_rate=None), agent=agent, number=place % 2 + 1
        )
        for place in range(count)
    ]


@given(order=st.integers(0, 9).flatmap(lambda n: st.permutations(range(n))), concurrency=st.integers(1, 5))
def test_no_more_runs_than_allowed_go_on_and_the_report_has_the_files_order(
    order: list[int], concurrency: int
) -> None:
    runs, going, most = planned(len(order)), 0, 0

    async def outcome(_read: Any, run: Any, _source: Any) -> RunOutcome:
        nonlocal going, most
        going += 1
        most = max(most, going)
        for _ in range(1 + order[runs.index(run)]):
            await asyncio.sleep(0)
        going -= 1
        return RunOutcome(run.case.name, "a", None, run.number, "passed")

    async def done() -> list[RunOutcome]:
        return [each async for each in outcomes(cast(Any, None), runs, "live", concurrency=concurrency)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_outcome", outcome)
        found = asyncio.run(done())
    assert most == min(concurrency, len(runs))
    report = reported(runs, found, default_rate=1)
    told = [(each.case, each.number) for case in report.cases for each in case.runs]
    assert told == [(each.case.name, each.number) for each in runs]
    assert report.passed


async def test_a_run_without_a_folder_costs_no_other_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def folder(_prefix: str) -> nullcontext[Path]:
        made.append("folder")
        if len(made) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return nullcontext(Path())

    class Bench:
        def __init__(self, *_: Any) -> None:
            pass

        async def outcome(self, begun: RunOutcome) -> RunOutcome:
            return replace(begun, status="passed")

    monkeypatch.setattr(running, "own_folder", folder)
    monkeypatch.setattr(running, "_Bench", Bench)
    runs = planned(3)
    for each in runs:
        each.agent.checked = SimpleNamespace(secrets=str)
    found = [each async for each in outcomes(cast(Any, None), runs, "live")]
    assert [each.status for each in found] == ["passed", "error", "passed"]
    assert "No space left on device" in found[1].error


async def test_runs_that_go_on_are_ended_when_nobody_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def outcome(_read: Any, run: Any, _source: Any) -> RunOutcome:
        try:
            await (asyncio.sleep(0) if run.number == 1 else asyncio.Event().wait())
        finally:
            ended.append(f"{run.case.name}.{run.number}")
        return RunOutcome(run.case.name, "a", None, run.number, "passed")

    monkeypatch.setattr(running, "_outcome", outcome)
    async with aclosing(outcomes(cast(Any, None), planned(2), "live", concurrency=2)) as stream:
        first = await anext(stream)
    assert (first.number, ended) == (1, ["c0.1", "c0.2"])
