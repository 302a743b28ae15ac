"""Programs that try to do harm: each really runs, and the harm does not happen."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from zeus_plugins.sandboxes.bubblewrap.host import host_root
from zeus_plugins.sandboxes.ssh.folders import FarFolders
from zeus_plugins.sandboxes.ssh.machine import Machine
from zeus_plugins.sandboxes.ssh.options import Options

from tests.support.sandboxes import MEGABYTE, bubblewrap, processes_with, ran, ran_out_of_time
from tests.support.ssh_server import Server, own_server
from zeus_runtime.plugin.sandbox import (
    Program,
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxLimits,
    SandboxSessions,
)

pytestmark = pytest.mark.xdist_group("sandbox")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with own_server(tmp_path_factory.mktemp("ssh")) as running:
        yield running


@pytest.fixture(params=["here", "over ssh"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    backend: SandboxBackend = bubblewrap(tmp_path / "kept")
    if request.param == "over ssh":
        there = tmp_path / "kept/.zeus/sandboxes"
        server = request.getfixturevalue("server")
        options = Options(**server.options(folder=str(there), python=sys.executable))
        machine = Machine(options, tmp_path, os.environ)
        machine._seen = {"root": str(there), "python": True}
        backend = SandboxSessions(machine, FarFolders(machine, None))
    yield await backend.create("s1")
    await backend.aclose()


SYSCALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *(ctypes.c_long(each) for each in arguments))
    return errno.errorcode.get(ctypes.get_errno(), 'done')
"""
"""For x86-64, which the numbers are of."""

native = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")


async def test_a_fork_bomb_meets_the_limit_of_processes(box: Sandbox) -> None:
    word = f"bomb{secrets.token_hex(4)}"
    outcome, text = await ran(
        box,
        f"""
import os, time
open('/proc/self/comm', 'w').write({word!r})
forks = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        forks += 1
except BlockingIOError:
    print('refused after', forks, flush=True)
""",
        processes=12,
    )
    assert text.startswith("refused after ")
    assert int(text.split()[2]) <= 14
    assert outcome.exit_code == 0
    assert processes_with(word) == []


async def test_a_fork_bomb_that_goes_on_is_ended_and_nothing_of_it_lives(box: Sandbox) -> None:
    word = f"bomb{secrets.token_hex(4)}"
    await ran_out_of_time(
        box,
        f"""
import os
open('/proc/self/comm', 'w').write({word!r})
while True:
    try: os.fork()
    except OSError: pass
""",
        processes=12,
    )
    assert processes_with(word) == []


async def test_memory_of_one_process_is_limited(box: Sandbox) -> None:
    outcome, text = await ran(
        box,
        """
held = []
try:
    while True: held.append(bytearray(8 * 2**20))
except MemoryError:
    megabytes = 8 * len(held)
    held.clear()
    print('refused after', megabytes)
""",
        memory_bytes=128 * MEGABYTE,
    )
    assert outcome.killed_by == "memory" or int(text.split()[2]) <= 128


async def test_memory_of_many_processes_together_is_limited(box: Sandbox) -> None:
    outcome, _ = await ran(
        box,
        """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(40 * 2**20)
        held[::4096] = b'x' * len(held[::4096])
        time.sleep(60)
time.sleep(60)
""",
        memory_bytes=128 * MEGABYTE,
    )
    assert outcome.killed_by == "memory"


async def test_memory_of_processes_whose_first_thread_has_ended_is_limited_too(box: Sandbox) -> None:
    outcome, _ = await ran(
        box,
        """
import ctypes, os, threading, time
def hold():
    time.sleep(0.1)
    held = bytearray(60 * 2**20)
    held[::4096] = b'x' * len(held[::4096])
    time.sleep(60)
for _ in range(5):
    if os.fork() == 0: break
threading.Thread(target=hold).start()
ctypes.CDLL(None).pthread_exit(None)
""",
        memory_bytes=128 * MEGABYTE,
    )
    assert outcome.killed_by == "memory"


async def test_memory_that_forked_processes_share_is_counted_once(box: Sandbox) -> None:
    outcome, text = await ran(
        box,
        """
import os, time
held = bytearray(100 * 2**20)
held[::4096] = b'x' * len(held[::4096])
for _ in range(4):
    if os.fork() == 0: time.sleep(0.3); os._exit(0)
for _ in range(4): os.wait()
print('all waited for')
""",
        memory_bytes=256 * MEGABYTE,
    )
    assert (outcome.killed_by, text) == (None, "all waited for\n")


MAPPING = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def area(size, flags, descriptor=-1):
    ctypes.set_errno(0)
    found = libc.mmap(None, ctypes.c_size_t(size), 3, flags, descriptor, ctypes.c_long(0))
    return errno.errorcode.get(ctypes.get_errno(), found)
SHARED, PRIVATE, NAMELESS, HUGE = 1, 2, 0x20, 0x40000
"""


async def test_memory_that_is_shared_without_a_file_cannot_be_had(box: Sandbox) -> None:
    """It stays whole while a page of it is mapped, so that no look at the processes shows how much there is."""
    _, text = await ran(
        box,
        MAPPING
        + """
zero = os.open('/dev/zero', os.O_RDWR)
print(area(4096, SHARED | NAMELESS), area(4096, 3 | NAMELESS), area(4096, SHARED, zero))
print(area(2**21, PRIVATE | NAMELESS | HUGE), area(2**21, SHARED | NAMELESS | HUGE))
print(type(area(4096, PRIVATE | NAMELESS)).__name__, os.read(zero, 3))
""",
        memory_bytes=128 * MEGABYTE,
    )
    assert text.splitlines() == ["EPERM EPERM ENODEV", "ENOMEM ENOMEM", "int b'\\x00\\x00\\x00'"]


async def test_memory_that_is_shared_by_a_file_can_be_had(box: Sandbox) -> None:
    _, text = await ran(
        box,
        """
import multiprocessing as mp, multiprocessing.shared_memory as named
def add(value, area):
    with value.get_lock(): value.value += 1
    area.buf[0] += 1
fork = mp.get_context('fork')
value, area = fork.Value('i', 0), named.SharedMemory(create=True, size=2**20)
workers = [fork.Process(target=add, args=(value, area)) for _ in range(3)]
for each in workers: each.start()
for each in workers: each.join()
print(value.value, area.buf[0])
area.unlink()
""",
    )
    assert text.split() == ["3", "3"]


@native
async def test_memory_outside_of_processes_cannot_be_had(box: Sandbox) -> None:
    _, text = await ran(box, SYSCALL + "print(call(319, 0, 0), call(29, 0, 1 << 30, 0o1600), call(447, 0))")
    assert text.split() == ["ENOSYS"] * 3


@native
async def test_the_machines_requests_of_asynchronous_io_are_not_used_up(box: Sandbox) -> None:
    """There are `fs.aio-max-nr` for all of its programs together, whoever asks first."""
    _, text = await ran(box, SYSCALL + "print(call(206, 60_000, ctypes.addressof(ctypes.c_long(0))))")
    assert text.split() == ["ENOSYS"]


async def test_a_full_disk_is_the_programs_own(box: Sandbox, tmp_path: Path) -> None:
    _, text = await ran(
        box,
        """
import os
for folder in ('/workspace', '/tmp', '/dev/shm'):
    written = 0
    try:
        for number in range(1000):
            with open(f'{folder}/{number}', 'wb', buffering=0) as file:
                written += file.write(b'x' * 2**20)
    except OSError as error:
        print(folder, error.strerror, written // 2**20)
for folder in ('/', '/dev', '/etc', '/usr', '/opt', '/proc', '/home', '/var/tmp'):
    try:
        open(f'{folder}/fill', 'w')
        print('wrote to', folder)
    except OSError: pass
""",
        disk_bytes=8 * MEGABYTE,
    )
    lines = text.splitlines()
    assert [each.rsplit(" ", 1)[0] for each in lines] == [
        f"{folder} No space left on device" for folder in ("/workspace", "/tmp", "/dev/shm")
    ]
    assert all(int(each.split()[-1]) <= 8 for each in lines)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= 8 * MEGABYTE


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


@pytest.mark.parametrize(
    "program",
    [
        "for n in range(100): os.truncate(os.open(f'{n:03}', os.O_CREAT | os.O_WRONLY), 4 * 2**20)",
        "open('000', 'wb').write(b'x' * 4 * 2**20)\nfor n in range(1, 100): os.link('000', f'{n:03}')",
    ],
    ids=["holes", "many names"],
)
async def test_files_that_are_small_in_memory_only_do_not_fill_the_hosts_disk(
    box: Sandbox, tmp_path: Path, program: str
) -> None:
    await ran(box, "open('kept', 'w').write('x' * 100)", disk_bytes=8 * MEGABYTE)
    outcome, _ = await ran(box, f"import os\n{program}", disk_bytes=8 * MEGABYTE)
    assert "000" not in "".join(outcome.lost)
    assert "too many bytes" in outcome.lost[0]
    assert outcome.lost[-1] == "and 79 more"
    assert on_disk(tmp_path) <= 8 * MEGABYTE
    _, text = await ran(
        box, "import os; print(len(open('kept').read()), len(os.listdir('.')))", disk_bytes=8 * MEGABYTE
    )
    assert text.split() == ["100", "2"], "the session goes on with what fits"


async def test_files_are_changed_within_a_disk_that_is_full(box: Sandbox, tmp_path: Path) -> None:
    fill = "open('a', 'wb').write(b'a' * 4 * 2**20); open('b', 'wb').write(b'b' * 4 * 2**20)"
    assert (await ran(box, fill, disk_bytes=8 * MEGABYTE))[0].lost == ()
    change = "import os; os.unlink('b'); open('c', 'wb').write(b'c' * 4 * 2**20); open('a', 'r+').write('x')"
    assert (await ran(box, change, disk_bytes=8 * MEGABYTE))[0].lost == ()
    assert on_disk(tmp_path) == 8 * MEGABYTE


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (
            "for n in range(1500): os.symlink('x', f'{n:04}')",
            "open('x', 'wb').write(b'x' * 4 * 2**20)",
        ),
        (
            "os.mkdir('one'); open('one/x', 'wb').write(b'x' * 5 * 2**20)",
            "os.rename('one', 'two'); os.symlink('two', 'one')",
        ),
    ],
    ids=["links that stay", "a folder that moved behind a link"],
)
async def test_what_takes_no_room_twice_is_not_counted_twice(box: Sandbox, before: str, then: str) -> None:
    for program in (before, then):
        outcome, text = await ran(box, f"import os\n{program}", disk_bytes=8 * MEGABYTE)
        assert (outcome.lost, text) == ((), "")


async def test_a_flood_of_empty_files_is_ended(box: Sandbox) -> None:
    outcome, _ = await ran(
        box, "for number in range(10**7): open(f'/workspace/{number}', 'w').close()", files=500
    )
    assert outcome.killed_by == "files"


async def test_floods_of_files_that_are_ended_one_after_the_other_do_not_add_up(
    box: Sandbox, tmp_path: Path
) -> None:
    await ran(box, "open('kept', 'w').write('x')", files=500)
    for each in range(3):
        outcome, _ = await ran(
            box,
            f"""
import os
for number in range(10**7):
    os.makedirs(f'{each}/{{number}}'); os.symlink('x', f'{each}/{{number}}/y'); open(f'{each}-{{number}}', 'w').close()
""",
            files=500,
        )
        assert outcome.killed_by == "files"
        assert "too many files" in "".join(outcome.lost)
    assert len(list((tmp_path / "kept/.zeus/sandboxes/s1").rglob("*"))) == 500
    with pytest.raises(SandboxError, match="more than 499 files"):
        await ran(box, "", files=499)
    _, text = await ran(
        box, "import os, shutil; shutil.rmtree('0'); print(os.path.exists('kept'))", files=500
    )
    assert text == "True\n", "the session goes on with what fits"


async def test_a_file_of_a_terabyte_is_refused(box: Sandbox) -> None:
    _, text = await ran(
        box,
        """
try:
    open('/workspace/huge', 'w').truncate(2**40)
    print('made')
except OSError as error: print(error.strerror)
""",
    )
    assert text.strip() == "File too large"


async def test_no_environment_of_the_host_can_be_read(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secrets.token_hex(16)
    monkeypatch.setenv("ZEUS_TEST_SECRET", secret)
    outcome, text = await ran(
        box,
        """
import os, pathlib
print(dict(os.environ))
for each in pathlib.Path('/proc').glob('[0-9]*/environ'):
    try: print(each, each.read_bytes())
    except OSError as error: print(each, error.strerror)
for each in pathlib.Path('/proc').glob('[0-9]*/cmdline'): print(each, each.read_bytes())
""",
    )
    assert outcome.exit_code == 0
    assert "/proc/1/environ" in text
    assert secret not in text
    assert "/proc/1/cmdline" in text
    assert str(Path.cwd()) not in text


async def test_no_network_is_there_neither_the_hosts_nor_the_metadata_service(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        _, text = await ran(
            box,
            f"""
import socket
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {server.getsockname()[1]})),
    (socket.AF_INET, socket.SOCK_STREAM, ('169.254.169.254', 80)),
    (socket.AF_INET, socket.SOCK_STREAM, ('10.0.0.1', 80)),
    (socket.AF_INET, socket.SOCK_STREAM, ('8.8.8.8', 53)),
    (socket.AF_INET6, socket.SOCK_STREAM, ('fd00:ec2::254', 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ('169.254.169.254', 53)),
    (40, socket.SOCK_STREAM, None),
    (socket.AF_PACKET, socket.SOCK_RAW, None),
    (socket.AF_NETLINK, socket.SOCK_RAW, None),
):
    try:
        with socket.socket(family, kind) as client:
            client.settimeout(1)
            client.connect(address)
            print('connected to', address)
    except OSError as error: print('refused', family, error.strerror)
""",
        )
        with pytest.raises(BlockingIOError):  # nobody waits to be let in
            server.accept()
    assert [line.split()[0] for line in text.splitlines()] == ["refused"] * 9, text


async def test_links_lead_the_host_nowhere(box: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    outcome, _ = await ran(
        box,
        f"""
import os
os.symlink({str(outside / "secret.txt")!r}, 'file')
os.symlink({str(outside)!r}, 'folder')
os.symlink('../' * 30 + 'etc', 'up')
os.makedirs('inner'); os.symlink('../../../etc', 'inner/up')
os.symlink('inner', 'fine')
os.symlink('loop', 'loop')
os.mkfifo('pipe')
try: os.link('/usr/bin/env', 'hard')
except OSError as error: print(error)
""",
    )
    assert len(outcome.lost) == 5
    for path in (
        "file",
        "folder/secret.txt",
        "up/passwd",
        "inner/up/passwd",
        "pipe",
        "../outside/secret.txt",
    ):
        with pytest.raises(SandboxError):
            await box.read(path, max_bytes=1000)
    with pytest.raises(SandboxError):
        await box.write("/etc/written", b"x")
    await box.write("folder/written", b"x")
    assert not (outside / "written").exists()
    listed = {each.path for each in await box.list()}
    assert "/workspace/fine" in listed
    assert not any("secret" in path or "passwd" in path for path in listed)


async def test_a_link_put_in_place_of_a_folder_between_two_runs_leads_nowhere(
    box: Sandbox, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    await ran(box, "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('first')")
    kept = tmp_path / "kept/.zeus/sandboxes/s1"
    assert (kept / "a/b/c").read_text() == "first"
    await ran(
        box,
        f"""
import os, shutil
shutil.rmtree('a'); os.symlink({str(outside)!r}, 'a')
""",
    )
    await box.write("a/b/c", b"second")
    assert list(outside.iterdir()) == []


async def test_nobody_becomes_root(box: Sandbox, tmp_path: Path) -> None:
    _, text = await ran(
        box,
        """
import os, shutil, subprocess
for become in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try: become(); print('became root')
    except OSError: print('refused')
shutil.copy('/bin/sh', 'sh')
try: os.chmod('sh', 0o6755)
except OSError: print('no setuid')
subprocess.run(['./sh', '-c', 'echo euid $(id -u)'])
for tool in ('su', 'passwd', 'mount', 'newgrp'):
    found = shutil.which(tool)
    if found: subprocess.run([found, '--help'], stdout=-3, stderr=-3)
print('uids', os.getresuid())
print(next(line for line in open('/proc/self/status') if line.startswith('CapEff')).split())
""",
    )
    assert text.count("refused") == 4
    assert "euid 0" not in text
    assert "uids (0" not in text
    assert "['CapEff:', '0000000000000000']" in text
    kept = tmp_path / "kept/.zeus/sandboxes/s1/sh"
    assert kept.stat().st_mode & 0o7000 == 0


@native
async def test_no_process_can_be_traced_or_read(box: Sandbox) -> None:
    _, text = await ran(
        box,
        SYSCALL
        + """
child = os.fork()
if child == 0:
    import time
    time.sleep(60)
print(call(101, 16, child), call(101, 0, 0), call(310, child, 0, 0, 0, 0, 0), call(438, 0, 0, 0))
os.kill(child, 9)
""",
    )
    assert text.split() == ["EPERM"] * 4


async def test_the_kernels_interfaces_are_closed(box: Sandbox) -> None:
    before = Path("/proc/sys/kernel/hostname").read_text()
    _, text = await ran(
        box,
        """
import os
for path in ('/proc/sys/kernel/hostname', '/proc/sys/vm/overcommit_memory', '/proc/sysrq-trigger',
             '/proc/sys/kernel/core_pattern', '/sys/kernel/uevent_helper', '/sys/fs/cgroup/x', '/dev/mem',
             '/dev/kmem', '/dev/port', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/fuse', '/dev/kvm',
             '/proc/self/timens_offsets'):
    try:
        with open(path, 'r+b', buffering=0) as file: file.write(b'1')
        print('wrote', path)
    except OSError: print('refused')
for path in ('/proc/kcore', '/proc/kmsg', '/dev/mem', '/dev/kmsg', '/proc/vmallocinfo', '/sys/kernel/notes'):
    try:
        with open(path, 'rb') as file: print('read', path, len(file.read(10)))
    except OSError: print('refused')
print(os.path.exists('/sys'), os.path.exists('/etc/shadow'), os.path.exists('/home'), os.path.exists('/var'),
      [each for each in os.listdir('/etc/ssl') if each not in ('certs', 'openssl.cnf')])
""",
    )
    assert text.count("refused") == 21, text
    assert text.splitlines()[-1] == "False False False False []"
    assert Path("/proc/sys/kernel/hostname").read_text() == before


@native
async def test_the_kernels_programs_keys_and_rings_are_refused(box: Sandbox) -> None:
    calls = {
        "bpf": (321, 0, 0, 0),
        "perf_event_open": (298, 0, 0, -1, -1, 0),
        "userfaultfd": (323, 0),
        "io_uring_setup": (425, 8, 0),
        "kexec_load": (246, 0, 0, 0, 0),
        "init_module": (175, 0, 0, 0),
        "add_key": (248, 0, 0, 0, 0, -1),
        "request_key": (249, 0, 0, 0, 0),
        "keyctl": (250, 0, -3, 0),
        "syslog": (103, 2, 0, 0),
        "settimeofday": (164, 0, 0),
        "open_by_handle_at": (304, 0, 0, 0),
        "personality": (135, 0x0400000),
    }
    lines = "\n".join(f"print({name!r}, call{arguments})" for name, arguments in calls.items())
    _, text = await ran(box, SYSCALL + lines)
    assert text.splitlines() == [f"{name} EPERM" for name in calls]


@native
async def test_calls_of_another_convention_and_of_later_kernels_do_not_exist(box: Sandbox) -> None:
    _, text = await ran(box, SYSCALL + "print(call(0x40000000 + 39), call(463), call(9999), call(435, 0, 0))")
    assert text.split() == ["ENOSYS"] * 4


@native
async def test_nothing_can_be_mounted_and_no_namespace_made(box: Sandbox) -> None:
    _, text = await ran(
        box,
        SYSCALL
        + """
print(call(165, 0, 0, 0, 0, 0), call(166, 0, 0), call(155, 0, 0), call(161, 0), call(272, 0x10000000),
      call(308, 0, 0), call(56, 0x10000011, 0, 0, 0, 0), call(56, 0x40000011, 0, 0, 0, 0), call(428, 0, 0, 0),
      call(430, 0, 0), call(442, 0, 0, 0, 0, 0))
import subprocess
for command in ('mount -o remount,rw /usr', 'mount -t tmpfs x /tmp', 'unshare -Ur true'):
    command = command.split()
    print(subprocess.run(command, stdout=-3, stderr=-3).returncode != 0)
""",
    )
    assert text.split() == ["EPERM"] * 11 + ["True"] * 3


async def test_nothing_can_be_typed_into_a_terminal(box: Sandbox) -> None:
    _, text = await ran(
        box,
        """
import fcntl, os, termios
master, slave = os.openpty()
for descriptor in (0, master, slave):
    for request in (termios.TIOCSTI, termios.TIOCSTI + (1 << 32), 0x541C):
        try: fcntl.ioctl(descriptor, request & 0xFFFFFFFF, b'x'); print('typed')
        except OSError as error: print(error.strerror)
try: os.open('/dev/tty', os.O_RDWR); print('has a terminal')
except OSError: print('no terminal')
""",
    )
    assert text.splitlines() == ["Operation not permitted"] * 9 + ["no terminal"]


async def test_the_hosts_kernel_loads_no_modules_for_a_program(box: Sandbox) -> None:
    """It looks for one that has the protocol, or the line discipline of a terminal, and keeps it."""
    _, text = await ran(
        box,
        """
import errno, fcntl, os, socket, struct
def refused(work):
    try: work()
    except OSError as error: return errno.errorcode[error.errno]
SCTP, DCCP, UDPLITE, MPTCP = 132, 33, 136, 262
for family in (socket.AF_INET, socket.AF_INET6):
    for kind, protocol in ((1, SCTP), (5, 0), (6, DCCP), (6, 0), (2, UDPLITE), (1, MPTCP), (3, 1), (1 | 1 << 11, SCTP)):
        print(refused(lambda: socket.socket(family, kind, protocol)))
    for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17), (1 | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 6)):
        print(refused(lambda: socket.socket(family, kind, protocol)))
for kind in (1, 2, 5): print(refused(lambda: socket.socket(socket.AF_UNIX, kind)))
terminal = os.openpty()[1]
print(refused(lambda: fcntl.ioctl(terminal, 0x5423, struct.pack('i', 21))))
""",
    )
    each = ["EPROTONOSUPPORT"] * 8 + ["None"] * 5
    assert text.split() == [*each, *each, "None", "None", "None", "EPERM"]


async def test_what_is_shown_read_only_stays_as_it_is(box: Sandbox) -> None:
    root = host_root(None)
    prefix = Path("/usr/lib") if root.prefix is None else root.prefix
    _, text = await ran(
        box,
        f"""
import os
for path in ('/usr/bin/zeus-was-here', '/usr/lib/zeus-was-here', '/etc/zeus-was-here',
             {str(prefix)!r} + '/zeus-was-here',
             os.__file__, '/usr/bin/env', '/bin/sh'):
    for harm in (lambda: open(path, 'a').write('x'), lambda: os.chmod(path, 0o777), lambda: os.unlink(path)):
        try: harm(); print('harmed', path)
        except OSError: print('refused')
""",
    )
    assert text.split() == ["refused"] * 21
    assert not (prefix / "zeus-was-here").exists()


async def test_no_descriptor_of_the_host_is_open(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "open.txt").write_text("secret")
    descriptor = os.open(tmp_path / "open.txt", os.O_RDWR)
    os.set_inheritable(descriptor, True)
    try:
        _, text = await ran(
            box,
            """
import os
print(sorted(os.listdir('/proc/self/fd'))[:3])
for each in range(1024):
    try: print(each, os.readlink(f'/proc/self/fd/{each}').split(':')[0])
    except OSError: pass
""",
        )
    finally:
        os.close(descriptor)
    assert text.splitlines()[1:] == ["0 /dev/null", "1 pipe", "2 pipe"]


async def test_endless_output_is_cut_while_it_runs(box: Sandbox) -> None:
    pieces: list[int] = []
    outcome = await box.exec(
        Program(("yes", "the program ran")),
        SandboxLimits(output_bytes=100_000),
        lambda data: pieces.append(len(data)),
    )
    assert outcome.killed_by == "output"
    assert outcome.output.startswith(b"the program ran\n")
    assert len(outcome.output) == sum(pieces) == 100_000


async def test_what_a_program_leaves_running_is_dead_when_exec_returns(box: Sandbox, tmp_path: Path) -> None:
    word = f"orphan{secrets.token_hex(3)}"
    outcome, text = await ran(
        box,
        f"""
import os, signal, subprocess, time
subprocess.Popen(['sh', '-c', 'trap "" TERM HUP INT; while :; do date >> ticks; sleep 0.05; done'],
                 start_new_session=True, stdout=-3, stderr=-3)
if os.fork() == 0:
    os.setsid()
    open('/proc/self/comm', 'w').write({word!r})
    if os.fork() == 0:
        for each in range(1, 32):
            try: signal.signal(each, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: open('late', 'a').write('x'); time.sleep(0.01)
    os._exit(0)
while not all(os.path.exists(each) and os.path.getsize(each) for each in ('late', 'ticks')): time.sleep(0.01)
print('left', flush=True)
""",
    )
    assert outcome.exit_code == 0
    assert text == "left\n"
    assert processes_with(word) == []
    kept = tmp_path / "kept/.zeus/sandboxes/s1/late"
    size = kept.stat().st_size
    await ran(box, "")
    assert kept.stat().st_size == size > 0


async def test_a_program_that_closes_its_output_and_goes_on_is_waited_for_and_ended(box: Sandbox) -> None:
    await ran_out_of_time(box, "import os, time\nos.close(1); os.close(2)\nwhile True: time.sleep(1)")


async def test_a_crash_is_handed_to_nobody_on_the_host(box: Sandbox) -> None:
    """A core_pattern that is a command runs as the host's root, whatever the limit, unless that is 1 byte."""
    outcome, text = await ran(
        box,
        "import os; print(next(each for each in open('/proc/self/limits') if 'core' in each)); os.abort()",
    )
    assert text.split()[:6] == ["Max", "core", "file", "size", "1", "1"]
    assert outcome.exit_code == 128 + 6


async def test_the_first_process_may_do_no_more_than_the_program(box: Sandbox) -> None:
    """An ordinary user's program can write into its memory."""
    _, text = await ran(
        box,
        """
for name in ('core file', 'data', 'file', 'open files', 'processes'):
    first, own = ([each for each in open(f'/proc/{who}/limits') if f'Max {name} ' in each] for who in ('1', 'self'))
    print(first == own != [])
""",
    )
    assert text.split() == ["True"] * 5


async def test_limits_cannot_be_raised(box: Sandbox) -> None:
    _, text = await ran(
        box,
        """
import resource
for name in ('CORE', 'DATA', 'FSIZE', 'NOFILE', 'NPROC'):
    which = getattr(resource, f'RLIMIT_{name}')
    soft, hard = resource.getrlimit(which)
    try: resource.setrlimit(which, (soft, hard + 1)); print('raised', name)
    except (OSError, ValueError): print('refused', soft == hard != resource.RLIM_INFINITY)
""",
    )
    assert text.split() == ["refused", "True"] * 5


async def test_no_process_of_the_host_can_be_signalled(box: Sandbox) -> None:
    with subprocess.Popen(["sleep", "60"]) as target:
        _, text = await ran(
            box,
            f"""
import os, signal
for pid in ({target.pid}, {os.getpid()}, {os.getppid()}, -{os.getpgid(0)}):
    try: os.kill(pid, 9); print('signalled', pid)
    except (ProcessLookupError, PermissionError): print('refused')
print(len([each for each in os.listdir('/proc') if each.isdigit()]) < 6, flush=True)
try: os.kill(-1, signal.SIGKILL)
except ProcessLookupError: print('nobody else')
""",
        )
        assert target.poll() is None
        target.kill()
    assert text.splitlines() == [*["refused"] * 4, "True", "nobody else"]


async def test_a_time_bomb_that_ignores_every_signal_is_ended(box: Sandbox) -> None:
    word = f"clock{secrets.token_hex(4)}"
    await ran_out_of_time(
        box,
        f"""
import signal
open('/proc/self/comm', 'w').write({word!r})
for each in range(1, 65):
    try: signal.signal(each, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
    )
    assert processes_with(word) == []


async def test_names_that_are_no_names_harm_nobody(box: Sandbox, tmp_path: Path) -> None:
    outcome, _ = await ran(
        box,
        r"""
import os
open(b'\xff\xfe', 'w').write('x')
open('line\nbreak', 'w').write('x')
open('-rf', 'w').write('x')
os.makedirs('/'.join(['d'] * 90))
for each in ('.zeus', '.git'):
    os.makedirs(each); open(f'{each}/config', 'w').write('x')
""",
    )
    assert any("deeper than" in each for each in outcome.lost)
    assert {each.path for each in await box.list()} >= {"/workspace/-rf", "/workspace/line\nbreak"}
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == [".zeus"]


async def test_files_stay_whatever_rights_they_have(box: Sandbox) -> None:
    await ran(box, "open('old', 'w').write('old')")
    outcome, _ = await ran(
        box,
        """
import os
os.chmod('old', 0); os.makedirs('d/e'); os.chmod('d', 0)
open('new', 'w').write('x'); os.chmod('new', 0o111)
""",
    )
    assert outcome.lost == ()
    assert (await box.read("old", max_bytes=10), await box.read("new", max_bytes=10)) == (b"old", b"x")
    _, text = await ran(box, "import os; print(os.access('new', os.X_OK), os.path.isdir('d/e'))")
    assert text == "True True\n"
