"""Memory that the kernel holds for a sandbox: sockets are counted everywhere, and limited where a group can be made."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.sandboxes.bubblewrap.cgroups import Group, PidsGroup, delegated_group, older_group
from zeus_plugins.sandboxes.bubblewrap.sockets import inet_bytes, socket_bytes, unix_bytes
from zeus_plugins.sandboxes.bubblewrap.watch import take_more

from tests.support.sandboxes import MEGABYTE, bubblewrap, ran
from zeus_runtime.plugin.sandbox import SandboxLimits

HOARDER = """
import os, socket, sys, time
held = []
for _ in range(10):
    if os.fork() == 0:
        break
else:
    os.write(1, b"parent\\n")
for _ in range(100):
    one, other = socket.socketpair()
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(4096))
    except BlockingIOError:
        held.append((one, other))
os.write(1, b"full\\n")
"""
"""Eleven processes, each with a hundred pairs of sockets whose buffers are full."""
WAITING_HOARDER = f"{HOARDER}sys.stdin.read()"


@pytest.fixture
def hoarding() -> Iterator[int]:
    """The first process of a network namespace in which sockets hold more than 128 MB."""
    unshare = shutil.which("unshare")
    spaces = ["--net"] if os.geteuid() == 0 else ["--net", "--user"]
    if (
        unshare is None
        or subprocess.run([unshare, *spaces, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no network namespace can be made here")
    process = subprocess.Popen(
        [unshare, *spaces, sys.executable, "-c", WAITING_HOARDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        said = [process.stdout.readline().strip() for _ in range(12)]
        assert sorted(said) == ["full"] * 11 + ["parent"]
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()


async def test_buffers_of_sockets_are_memory_of_the_sandbox(hoarding: int) -> None:
    held = socket_bytes(hoarding)
    assert held >= 128 * MEGABYTE
    assert not await take_more([hoarding], 256 * MEGABYTE), "the processes themselves are small"
    assert await take_more([hoarding], 256 * MEGABYTE - held)


@pytest.mark.xdist_group("sandbox")
async def test_a_program_that_hides_memory_in_sockets_is_ended_without_a_group_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeus_plugins.sandboxes.bubblewrap.process.delegated_group", lambda: None)
    backend = bubblewrap(tmp_path / "kept")
    try:
        box = await backend.create("s1")
        # Longer than the time between two checks.
        outcome, _ = await ran(box, f"{HOARDER}time.sleep(0.5)", memory_bytes=128 * MEGABYTE)
    finally:
        await backend.aclose()
    assert outcome.killed_by == "memory"


def test_sockets_of_a_process_that_has_ended_hold_nothing() -> None:
    assert socket_bytes(2**22 + 1) == 0


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 2**24))
def test_each_local_socket_counts_as_full(few: int, more: int, wmem_max: int) -> None:
    assert unix_bytes(0, wmem_max) == 0
    assert unix_bytes(few + more, wmem_max) == unix_bytes(few, wmem_max) + unix_bytes(more, wmem_max)
    assert unix_bytes(1, wmem_max) == 2 * wmem_max, "so much the kernel grants who asks for the most"


QUEUES = st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**31)), max_size=20)


@given(QUEUES)
def test_internet_sockets_count_as_full_as_they_are(queues: list[tuple[int, int]]) -> None:
    lines = [f"  0: 0100007F:1F90 0100007F:C350 01 {sent:08X}:{got:08X} 00:0 0 0" for sent, got in queues]
    assert inet_bytes([*lines, "", "cut off"]) == sum(4096 + 2 * (sent + got) for sent, got in queues)


def test_what_a_program_sends_over_the_loopback_and_nobody_reads_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = f":{listening.getsockname()[1]:04X} "
        with socket.create_connection(listening.getsockname()) as sender, listening.accept()[0]:
            sender.sendall(bytes(100_000))
            lines = [line for line in Path("/proc/net/tcp").read_text().splitlines() if port in line]
    assert inet_bytes(lines) >= 2 * 100_000


LIMITS = SandboxLimits(
    seconds=1,
    memory_bytes=256 * MEGABYTE,
    processes=10,
    file_bytes=1,
    disk_bytes=100 * MEGABYTE,
    files=1,
    output_bytes=1,
)


def proc(folder: Path, *, own: str = "/user.slice/app.slice/zeus.scope", version: int = 2) -> Path:
    """A ``/proc/self`` whose groups are in ``folder/cgroup``."""
    made = folder / "proc"
    made.mkdir()
    made.joinpath("cgroup").write_text(
        f"4:memory:/elsewhere\n0::{own}\n" if version == 2 else "4:memory:/x\n"
    )
    made.joinpath("mountinfo").write_text(
        "30 20 0:25 / /proc rw - proc proc rw\n"
        + (f"31 20 0:26 / {folder}/cgroup rw,nosuid - cgroup2 cgroup2 rw\n" if version == 2 else "")
    )
    return made


def group(folder: Path, passed_on: str) -> Path:
    """A group that passes these controllers on, as far as files can be one."""
    folder.mkdir(parents=True)
    (folder / "cgroup.subtree_control").write_text(passed_on)
    (folder / "cgroup.procs").write_text("")
    return folder


def test_the_nearest_group_that_passes_its_controllers_on_is_used(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top, "cpu memory pids")
    user = group(top / "user.slice", "memory pids")
    group(user / "app.slice", "memory")
    group(user / "app.slice" / "zeus.scope", "")
    assert delegated_group(proc(tmp_path)) == user


@pytest.mark.parametrize("passed_on", ["", "memory", "pids", "cpu io"])
def test_where_no_group_passes_them_on_there_is_none(tmp_path: Path, passed_on: str) -> None:
    group(tmp_path / "cgroup", passed_on)
    group(tmp_path / "cgroup" / "user.slice" / "app.slice" / "zeus.scope", passed_on)
    assert delegated_group(proc(tmp_path)) is None


@pytest.mark.parametrize("own", ["/../outside", "/a/../../b"])
def test_a_group_outside_of_the_mount_is_none(tmp_path: Path, own: str) -> None:
    group(tmp_path / "cgroup", "memory pids")
    assert delegated_group(proc(tmp_path, own=own)) is None


def test_the_older_control_groups_are_none(tmp_path: Path) -> None:
    assert delegated_group(proc(tmp_path, version=1)) is None
    assert delegated_group(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("own", "mounted", "found"),
    [
        ("9:pids:/", "/", "."),
        ("9:cpu,pids:/system/zeus", "/", "system/zeus"),
        ("9:pids:/docker/abc", "/docker/abc", "."),
        ("9:pids:/docker/abc/inner", "/docker/abc", "inner"),
        ("9:memory:/", "/", None),
        ("9:pids:/missing", "/", None),
    ],
)
def test_the_older_group_that_counts_processes_is_found(
    tmp_path: Path, own: str, mounted: str, found: str | None
) -> None:
    for each in ("system/zeus", "inner", "."):
        (tmp_path / "cgroup" / each).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / each / "cgroup.procs").touch()
    made = tmp_path / "proc"
    made.mkdir()
    (made / "cgroup").write_text(f"{own}\n0::/\n")
    (made / "mountinfo").write_text(
        "30 20 0:25 / /proc rw - proc proc rw\n"
        f"31 20 0:26 / {tmp_path}/other rw - cgroup cgroup rw,memory\n"
        f"32 20 0:27 {mounted} {tmp_path}/cgroup rw,nosuid shared:3 - cgroup cgroup rw,pids\n"
    )
    assert older_group(made) == (None if found is None else tmp_path / "cgroup" / found)
    assert older_group(tmp_path / "nowhere") is None


def test_groups_that_a_killed_process_left_are_removed(tmp_path: Path, kernel: dict[str, list[str]]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for owner in (ended.pid, os.getppid()):
        (tmp_path / f"zeus-sandbox-{owner}-0").mkdir()
    made = Group(tmp_path, LIMITS)
    assert sorted(tmp_path.iterdir()) == sorted([made.folder, tmp_path / f"zeus-sandbox-{os.getppid()}-0"])


def test_a_group_that_counts_processes_only_limits_only_them(
    tmp_path: Path, kernel: dict[str, list[str]]
) -> None:
    made = PidsGroup(tmp_path, LIMITS)
    assert kernel == {"pids.max": ["14"]}
    assert not made.ran_out_of_memory
    made.close()
    assert not made.folder.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_group_that_is_not_this_users_is_none(tmp_path: Path) -> None:
    group(tmp_path / "cgroup", "memory pids").joinpath("cgroup.procs").chmod(0o444)
    assert delegated_group(proc(tmp_path, own="/")) is None


FILES = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.procs", "cgroup.kill")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What is written to a group, by file. In place of the kernel, which makes the files with the folder."""
    written: dict[str, list[str]] = {}
    mkdir, rmdir, write = Path.mkdir, Path.rmdir, Group._write

    def made(folder: Path, *args: object, **named: object) -> None:
        mkdir(folder, *args, **named)  # type: ignore[arg-type]
        for name in FILES:
            (folder / name).write_text("")

    def gone(folder: Path) -> None:
        for each in folder.iterdir():
            each.unlink()
        rmdir(folder)

    def noted(self: Group, name: str, value: int) -> None:
        write(self, name, value)
        written.setdefault(name, []).append((self.folder / name).read_text())

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", gone)
    monkeypatch.setattr(Group, "_write", noted)
    return written


def test_a_sandbox_is_limited_moved_in_and_killed_as_a_group(
    tmp_path: Path, kernel: dict[str, list[str]]
) -> None:
    made = Group(tmp_path, LIMITS)
    other = Group(tmp_path, LIMITS)
    assert made.folder != other.folder
    other.close()
    kernel.clear()
    made = Group(tmp_path, LIMITS)
    assert kernel == {
        "memory.max": [str((256 + 225 + 16) * MEGABYTE)],
        "memory.swap.max": ["0"],
        "memory.oom.group": ["1"],
        "pids.max": ["14"],
    }
    made.add([11, 12])
    assert kernel["cgroup.procs"] == ["11", "12"]
    assert not made.ran_out_of_memory
    (made.folder / "memory.events").write_text("low 0\nmax 12\noom 1\noom_kill 0\n")
    assert not made.ran_out_of_memory, "it was asked to give memory back, and did"
    (made.folder / "memory.events").write_text("low 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert made.ran_out_of_memory
    made.close()
    assert kernel["cgroup.kill"] == ["1"]
    assert not made.folder.exists()


def test_a_group_that_cannot_be_limited_is_not_left_behind(
    tmp_path: Path, kernel: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = Group._write

    def refused(self: Group, name: str, value: int) -> None:
        if name == "pids.max":
            raise OSError(errno.EACCES, "refused")
        noted(self, name, value)

    monkeypatch.setattr(Group, "_write", refused)
    with pytest.raises(OSError, match="refused"):
        Group(tmp_path, LIMITS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(delegated_group() is None, reason="no control group is delegated to this process")
def test_the_kernel_ends_a_program_whose_sockets_take_too_much() -> None:
    parent = delegated_group()
    assert parent is not None
    small = SandboxLimits(
        seconds=1,
        memory_bytes=32 * MEGABYTE,
        processes=20,
        file_bytes=1,
        disk_bytes=0,
        files=1,
        output_bytes=1,
    )
    made = Group(parent, small)
    try:
        program = f"import sys; sys.stdin.readline()\n{WAITING_HOARDER}"
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)
        assert process.stdin is not None
        made.add([process.pid])
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait() != 0
        assert made.ran_out_of_memory
    finally:
        made.close()
    assert not made.folder.exists()
