"""Processes killed with SIGKILL at random points: every run goes on, nothing repeats, nothing is lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 50
WAIT_SECONDS = 580
"""They take 40 seconds on an idle machine."""

pytestmark = pytest.mark.timeout(WAIT_SECONDS + 20)

CHECKOUT = Path(__file__).parents[2]


def test_fifty_runs_survive_sigkill_at_random_points(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killing", str(tmp_path), str(RUNS), "20261121"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == RUNS
    for report in reports:
        assert report.get("ending") == "done", (report, done.stderr[-2000:])
        assert report["repeated"] == []
        assert report["log_equal"]
        assert report["threads"] == 1
    assert sum(report["kills"] for report in reports) >= RUNS


def test_edits_survive_sigkill_and_no_step_decides_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killing", str(tmp_path), "6", "7", "edits"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 6
    for report in reports:
        assert report.get("ending") == "done", (report, done.stderr[-2000:])
        assert report["repeated"] == []
        assert report["log_equal"]
        assert report["edits"] >= 3
        assert report["decided_once"]
        assert report["answers_in_ledger"]
        assert report["recovered"]
    assert sum(report["kills"] for report in reports) >= 6
