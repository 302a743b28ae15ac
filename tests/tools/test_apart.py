"""A process of its own for what strangers wrote: whatever it does there, its user is told and goes on."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.plugin.tool import Apart, ApartError
from zeus_runtime.tools.worker_process import processors, started

ROOT = Path(__file__).parents[2]
EVAL = "builtins:eval"


@pytest.fixture
def apart() -> Iterator[Apart]:
    with Apart() as made:
        yield made


def test_what_a_function_makes_of_bytes_comes_back(apart: Apart) -> None:
    data = bytes(range(256)) * 5_000
    assert apart("builtins:list", data, seconds=30) == list(data)
    assert apart("builtins:int", b"ff", seconds=30, base=16) == 255


def test_one_process_serves_all_calls_and_ends_with_its_user() -> None:
    with Apart() as apart:
        pids = {apart(EVAL, b"__import__('os').getpid()", seconds=30) for _ in range(3)}
        (pid,) = pids
        assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(pid)), 0)
    with pytest.raises(ApartError, match="closed"):
        apart(EVAL, b"1", seconds=30)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"sum(iter(lambda: 1, 2))", "longer than 0.5 seconds"),
        (b"__import__('os')._exit(3)", "died of it"),
        (b"1 / 0", "ZeroDivisionError: division by zero"),
        (b"object()", "not JSON serializable"),
        pytest.param(
            b"len(bytearray(3 * 10**9))",
            "more memory than 2,000 MB",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit of address space"),
        ),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_call_is_answered(
    apart: Apart, program: bytes, why: str
) -> None:
    assert apart(EVAL, b"1", seconds=30) == 1
    with pytest.raises(ApartError, match=why):
        apart(EVAL, program, seconds=0.5 if b"iter" in program else 30)
    assert apart(EVAL, b"2", seconds=30) == 2


def test_a_process_that_dies_while_it_is_given_its_bytes_is_told_too(apart: Apart) -> None:
    with pytest.raises(ApartError, match="ModuleNotFoundError"):
        apart("no_such_module:function", b"x" * 10_000_000, seconds=30)
    apart._process.kill()  # type: ignore[union-attr]
    with pytest.raises(ApartError, match="died of it"):
        apart(EVAL, b"x" * 10_000_000, seconds=30)
    assert apart(EVAL, b"3", seconds=30) == 3


def test_it_has_neither_secrets_nor_modules_of_the_working_directory(
    apart: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "sk-secret" not in str(apart(EVAL, b"dict(__import__('os').environ)", seconds=30))


@pytest.fixture
def of_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the project on ``PYTHONPATH``, in which a model has made a module of Python's."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('the model was here')")
    own = "import json, os, sys\ndef size(data): return len(data), 'OWN' in os.environ\n"
    (folder / "own_reader.py").write_text(own + "print(sys.argv[1:], size(b'xy'), __name__)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:src:{ROOT}")
    monkeypatch.setenv("OWN", "x")
    return folder


@pytest.mark.usefixtures("of_project")
def test_a_project_s_folder_on_pythonpath_comes_after_the_standard_library(apart: Apart) -> None:
    assert apart("own_reader:size", b"abc", seconds=10) == [3, False]


@pytest.mark.usefixtures("of_project")
async def test_it_does_so_in_other_workers_too() -> None:
    process = await started("own_reader")
    out, _ = await process.communicate()
    assert out.decode() == f"['{os.getpid()}'] (2, True) __main__\n"


def test_a_folder_elsewhere_on_pythonpath_stays_first(
    of_project: Path, apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    (of_project.parent / "work").mkdir()
    monkeypatch.chdir(of_project.parent / "work")
    with pytest.raises(ApartError):
        apart("own_reader:size", b"abc", seconds=10)


def test_what_a_library_prints_is_no_answer(apart: Apart) -> None:
    assert apart(EVAL, b"print('noise') or 5", seconds=30) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of processor time")
def test_a_process_whose_user_was_killed_ends_by_its_processor_time(apart: Apart) -> None:
    limit = apart(EVAL, b"__import__('resource').getrlimit(__import__('resource').RLIMIT_CPU)[0]", seconds=30)
    assert 30 < int(str(limit)) < 60


USER = """
import sys
from zeus_runtime.plugin.tool import Apart
program = f"open({sys.argv[1]!r}, 'wb').write(str(__import__('os').getpid()).encode()) and sum(iter(lambda: 1, 2))"
Apart()("builtins:eval", program.encode(), seconds=600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no descriptors of processes")
def test_a_process_ends_when_its_user_is_killed_whatever_it_is_doing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    user = subprocess.Popen([sys.executable, "-c", USER, str(tmp_path / "begun")])
    working = os.pidfd_open(int((tmp_path / "begun").read_bytes()))
    user.kill()
    user.wait()
    assert select.select([working], [], [], 60)[0]


def test_what_closes_it_ends_a_call_in_another_thread() -> None:
    with ThreadPoolExecutor() as threads, Apart() as apart:
        assert apart(EVAL, b"1", seconds=600) == 1
        endless = threads.submit(apart, EVAL, b"sum(iter(lambda: 1, 2))", seconds=600)
        waiting = threads.submit(apart, EVAL, b"2", seconds=600)
        apart.close()
        for call in (endless, waiting):
            with pytest.raises(ApartError, match="closed"):
                call.result(60)


def test_one_that_is_closed_while_its_process_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    started = subprocess.Popen

    def start(*args: Any, **named: Any) -> subprocess.Popen[bytes]:
        closing.close()
        processes.append(started(*args, **named))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    closing = Apart()
    with pytest.raises(ApartError, match="closed"):
        closing(EVAL, b"1", seconds=30)
    assert [process.returncode is None for process in processes] == [False]


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_a_terminal_s_interrupt_is_not_what_a_file_dies_of(apart: Apart) -> None:
    assert apart(EVAL, b"__import__('os').getpgrp()", seconds=30) != os.getpgrp()


def test_that_no_process_can_be_started_is_told(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ApartError, match="No such file"):
        apart(EVAL, b"1", seconds=30)


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", 4), ("250000 100000", 2), ("800000 100000", 4), ("50000 100000", 1), ("", 4), (None, 4)],
)
def test_a_container_has_as_many_processors_as_it_has_time_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, count: int
) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr("zeus_runtime.tools.worker_process._QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    assert processors() == count
