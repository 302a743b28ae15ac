"""Keepers of sessions killed with SIGKILL at random points: what they did is done or not done, never half."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.databases import SQLITE_URL

KILLS = {"sqlite": 8, "postgres": 3}
CHECKOUT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(300)


def test_archive_restore_rollback_and_prune_are_done_or_not_done(tmp_path: Path, database_url: str) -> None:
    kills = KILLS["sqlite" if database_url == SQLITE_URL else "postgres"]
    words = ["-m", "tests.support.killing_keepers", str(tmp_path / "a"), str(kills), "20261121", database_url]
    ended = forked.run(
        [sys.executable, *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    *reports, last = map(json.loads, ended.stdout.splitlines())
    assert len(reports) == kills
    for report in reports:
        assert report["sessions"]
        assert report["whole"], report
        assert report["same"], report
        assert report["grown"], report
    assert reports[-1]["rollbacks"] or any(report["archived"] for report in reports), (
        "something was done meanwhile"
    )
    assert last == {"went_on": ["RunCompleted", "RunCompleted"]}
