"""Processes killed with SIGKILL at random points: every run goes on, nothing repeats, nothing is lost or doubled."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked

RUNS = 50
WAIT_SECONDS = 580
"""They take 40 seconds on an idle machine."""

pytestmark = pytest.mark.timeout(WAIT_SECONDS + 20)

CHECKOUT = Path(__file__).parents[2]


def killed(folder: Path, runs: int, seed: int, *more: str) -> list[dict[str, Any]]:
    """The reports of so many runs, each killed again and again."""
    done = forked.run(
        [sys.executable, "-m", "tests.support.killing", str(folder), str(runs), str(seed), *more],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == runs, done.stderr[-2000:]
    return reports


def test_fifty_runs_survive_sigkill_at_random_points(tmp_path: Path) -> None:
    reports = killed(tmp_path, RUNS, 20261121)
    for report in reports:
        assert report.get("ending") == "done", report
        assert report["repeated"] == []
        assert report["log_equal"]
        assert report["threads"] == 1
    assert sum(report["kills"] for report in reports) >= RUNS


def test_a_run_on_postgres_survives_sigkill_at_random_points(tmp_path: Path, postgres_server: str) -> None:
    (report,) = killed(tmp_path, 1, 20261122, postgres_server)
    assert report["ending"] == "done", report
    assert report["repeated"] == []
    assert report["log_equal"]
    assert report["threads"] == 1
    assert report["kills"] >= 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_edits_survive_sigkill_and_no_step_decides_twice(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    server = [request.getfixturevalue("postgres_server")] if kind == "postgres" else []
    runs = 1 if server else 6
    reports = killed(tmp_path, runs, 7, "edits", *server)
    for report in reports:
        assert report.get("ending") == "done", report
        assert report["repeated"] == []
        assert report["log_equal"]
        assert report["edits"] >= 3
        assert report["decided_once"]
        assert report["answers_in_ledger"]
        assert report["recovered"]
    assert sum(report["kills"] for report in reports) >= runs
