"""The bubblewrap sandbox: what every backend must do, its filter, its Python, and what it says where it cannot work."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from zeus_plugins.sandboxes.bubblewrap.backend import Bubblewrap
from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot, arguments_of, waiting
from zeus_plugins.sandboxes.bubblewrap.host import host_root
from zeus_plugins.sandboxes.bubblewrap.identity import Identity
from zeus_plugins.sandboxes.bubblewrap.options import Options
from zeus_plugins.sandboxes.bubblewrap.seccomp import filter_program
from zeus_plugins.sandboxes.bubblewrap.syscalls import ABSENT, FORBIDDEN, LOOKED_INTO, MACHINES, NEWEST

from tests.support.sandboxes import bubblewrap, processes_with, ran, small_rootfs
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin.sandbox import (
    OwnPrograms,
    Program,
    SandboxBackend,
    SandboxError,
    SandboxLimits,
    SandboxUnavailableError,
)
from zeus_runtime.testing import SandboxConformance, ScriptedModel, calling

pytestmark = pytest.mark.xdist_group("sandbox")
NOBODY = 65534


class TestConformance(SandboxConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        bubblewrap(tmp_path)

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        backend = bubblewrap(self.folder)
        yield backend
        await backend.aclose()


def without(folder: Path, **options: str) -> SandboxUnavailableError:
    with pytest.raises(SandboxUnavailableError) as refused:
        Bubblewrap(Options(**options), folder, OwnPrograms({"PATH": str(folder)})).check()
    return refused.value


def test_without_the_program_nothing_runs_and_the_install_command_is_named(tmp_path: Path) -> None:
    error = without(tmp_path)
    assert error.exit_code == 4
    assert "not installed" in error.message
    assert "apt-get install bubblewrap" in str(error.remedy)


def test_a_host_that_allows_no_namespaces_is_said_in_bubblewraps_words(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    assert "No permissions to create new namespace" in without(tmp_path).message


async def test_a_sandbox_that_breaks_later_is_an_error_and_no_plain_process(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.symlink_to(str(shutil.which("bwrap")))
    backend = bubblewrap(tmp_path, command=str(program))
    box = await backend.create("s1")
    program.unlink()
    program.write_text(f"#!/bin/sh\necho 'bwrap: broken' >&2\ntouch {tmp_path}/started\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SandboxError, match="bwrap: broken"):
        await box.exec(Program(("touch", str(tmp_path / "ran"))), SandboxLimits())
    assert (tmp_path / "started").exists()
    assert not (tmp_path / "ran").exists()


def test_the_filter_has_the_kernels_numbers() -> None:
    try:
        resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except OSError:
        pytest.skip("libseccomp is not here to compare with")
    resolve.argtypes, resolve.restype = (ctypes.c_uint32, ctypes.c_char_p), ctypes.c_int
    compared = 0
    for table in (FORBIDDEN, ABSENT, LOOKED_INTO):
        for name, numbers in table.items():
            for machine in MACHINES.values():
                known = resolve(machine.audit, name.encode())
                number = numbers[machine.column]
                if known >= 0 or number is None:
                    assert number == (known if known >= 0 else None), name
                    compared += 1
                assert number is None or number <= NEWEST
    assert compared > 140


@pytest.mark.parametrize("machine", MACHINES)
def test_every_path_through_the_filter_ends_in_a_return(machine: str) -> None:
    program = filter_program(machine)
    steps = [program[each : each + 8] for each in range(0, len(program), 8)]
    for place, step in enumerate(steps):
        code = int.from_bytes(step[:2], sys.byteorder)
        targets = [place + 1 + step[2], place + 1 + step[3]] if code & 7 == 5 else [place + 1]
        assert code == 0x06 or all(each < len(steps) for each in targets)
    assert int.from_bytes(steps[-1][:2], sys.byteorder) == 0x06


async def test_programs_get_the_python_that_zeus_runs_on(tmp_path: Path) -> None:
    box = await bubblewrap(tmp_path).create("s1")
    _, text = await ran(box, "import sys, sysconfig, ssl, sqlite3; print(sys.version_info[:3])")
    wanted = sys.version_info[:3] if Path(host_root(None).python or "").name != "python3" else text.strip()
    assert text.strip() == str(wanted)


async def test_a_rootfs_is_what_programs_see(tmp_path: Path) -> None:
    small_rootfs(tmp_path / "rootfs", "sh", "cat", "setpriv")
    backend = bubblewrap(tmp_path, rootfs="rootfs")
    assert backend.capabilities.languages == ("shell",)
    box = await backend.create("s1")
    shown = Program(("/bin/sh", "-c", "cat /etc/issue; echo /*; echo /usr/bin/*; echo made > made"))
    outcome = await box.exec(shown, SandboxLimits())
    assert outcome.output.decode().splitlines() == [
        "my own",
        "/bin /dev /etc /lib /lib64 /proc /tmp /usr /workspace",
        "/usr/bin/cat /usr/bin/setpriv /usr/bin/sh",
    ]
    assert await box.read("made", max_bytes=10) == b"made\n"


@pytest.mark.parametrize("options", [{"rootfs": "nowhere"}, {"python": "/nowhere/python3"}])
def test_a_rootfs_or_python_that_is_not_there_is_an_error_of_the_yaml(
    options: dict[str, str], tmp_path: Path
) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"sandbox": {"backend": {"bubblewrap": options}}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="nowhere") as refused:
        Agent.from_config(directory=tmp_path, environ={})
    assert refused.value.exit_code == 3


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's home folder with Pythons in it, the working directory below it; no Python of /dev or /tmp is shown."""
    above = Path(tempfile.mkdtemp(prefix="zeus-", dir="/var/tmp"))
    home = above / "home"
    for folder in ("bin", ".local/bin", "work/bin", "work/here", ".pyenv/3.13/bin", "loose"):
        (home / folder).mkdir(parents=True, exist_ok=True)
        (home / folder / "python3").touch(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work/here")
    monkeypatch.setattr("zeus_plugins.sandboxes.bubblewrap.host.FOLDERS", ("/workspace",))
    yield home
    shutil.rmtree(above)


@pytest.mark.parametrize("folder", ["bin", ".local/bin", "work/bin", "loose"])
def test_a_python_that_is_shown_with_files_of_others_only_is_not_shown(folder: str, homes: Path) -> None:
    python = homes / folder / "python3"
    assert host_root(str(python)).prefix is None
    config = {"bubblewrap": {"python": str(python)}}
    (homes / "zeus.yaml").write_text(
        json.dumps({"version": 1, "model": "gpt-4o", "tools": [{"sandbox": {"backend": config}}]})
    )
    with pytest.raises(ConfigError, match="cannot be shown to programs without other files"):
        Agent.from_config(directory=homes, environ={})


def test_a_python_of_its_own_prefix_is_shown_with_it(homes: Path) -> None:
    assert host_root(str(homes / ".pyenv/3.13/bin/python3")).prefix == homes / ".pyenv/3.13"


def _planned(folder: Path, options: dict[str, str], workspace: dict[str, object]) -> None:
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": [{"sandbox": {"backend": {"bubblewrap": options}}}],
        "workspace": workspace,
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    Agent.from_config(directory=folder, environ={"HOME": str(folder.parent / "home")})


@pytest.mark.parametrize(
    ("rootfs", "reason"),
    [
        ("/", "in the workspace, or the workspace is in it"),
        (".", "in the workspace"),
        ("image", "in the workspace"),
        ("link", "in the workspace"),
        ("..", "in the workspace"),
        ("../notes/inner", "in the workspace"),
        ("../home/.config", "decide about this agent"),
        ("../home", "decide about this agent"),
        ("../home/.config/zeus/image", "decide about this agent"),
        ("../.env.image", "may hold keys"),
        ("../closed", "the rule `closed: deny`"),
    ],
)
def test_a_rootfs_shows_nothing_that_the_access_policy_judges(
    rootfs: str, reason: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    places = (
        "image",
        "../notes/inner",
        "../home/.config/zeus/image",
        "../.env.image",
        "../closed",
        "..",
        "../home",
    )
    for each in (".", *places, "../home/.config"):
        (project / each / "bin").mkdir(parents=True)
        (project / each / "bin/sh").touch()
    (tmp_path / "elsewhere").symlink_to(project / "image")
    workspace = {"routes": {"/notes/": "../notes"}, "access": {"closed": "deny"}}
    with pytest.raises(ConfigError, match="programs may not see") as refused:
        _planned(project, {"rootfs": rootfs if rootfs != "link" else "../elsewhere"}, workspace)
    assert reason in str(refused.value)
    assert refused.value.exit_code == 3


def test_a_rootfs_that_is_beside_the_workspace_is_shown(tmp_path: Path) -> None:
    (tmp_path / "project/work").mkdir(parents=True)
    (tmp_path / "project/image/bin").mkdir(parents=True)
    (tmp_path / "project/image/bin/sh").touch()
    _planned(tmp_path / "project", {"rootfs": "image"}, {"root": "work"})


def test_a_python_is_not_shown_with_files_of_the_workspace(homes: Path) -> None:
    (homes / "project/secrets/bin").mkdir(parents=True)
    (homes / "project/secrets/bin/python3").touch(0o755)
    python = {"python": str(homes / "project/secrets/bin/python3")}
    with pytest.raises(ConfigError, match=r"programs may not see .*/secrets: it is in the workspace"):
        _planned(homes / "project", python, {})
    _planned(homes / "project", {"python": str(homes / ".pyenv/3.13/bin/python3")}, {})


@pytest.fixture
def prefix(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The prefix of the Python that Zeus runs on; it is not in /tmp, which is always empty in a sandbox."""
    folder = Path(tempfile.mkdtemp(prefix="zeus-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin/python3").touch(0o755)
    monkeypatch.setattr("sys._base_executable", str(folder / "bin/python3"))
    yield folder
    shutil.rmtree(folder)


SHOWING = "cat {0}/*.txt {0}/*/*.txt; find {0} -type f"


async def _shown(config: dict[str, object], project: Path, folder: Path) -> str:
    """What a program sees of ``folder``."""
    bubblewrap(project)
    call = calling(("execute_code", {"code": SHOWING.format(folder), "language": "shell"}))
    config = {"version": 1, "model": "gpt-4o", "tools": ["sandbox"], **config}
    (project / "zeus.yaml").write_text(json.dumps(config))
    agent = Agent.from_config(
        directory=project, environ=dict(os.environ), model=ScriptedModel([call, "done"])
    )
    async with agent:
        found = [each.content async for each in agent.stream("go") if isinstance(each, ToolCallResult)]
    return found[0]


@pytest.mark.parametrize(
    ("project", "workspace"),
    [
        ("src/app", {}),
        ("src/app", {"root": "work"}),
        ("src/app", {"root": "/tmp"}),
        ("../elsewhere", {"routes": {"/r/": "../{prefix}/src/app"}}),
        ("../elsewhere", {"routes": {"/r/": "link"}}),
    ],
)
async def test_programs_do_not_see_a_workspace_that_a_shown_folder_contains(
    project: str, workspace: dict[str, object], prefix: Path, tmp_path: Path
) -> None:
    app = prefix / "src/app"
    for folder in (app / "work", prefix / "share"):
        folder.mkdir(parents=True)
    (app / "key.txt").write_text("KEY")
    (app / "work/inner.txt").write_text("KEY")
    (prefix / "share/help.txt").write_text("HELP")
    here = app if project == "src/app" else tmp_path / "elsewhere"
    here.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    (tmp_path / "elsewhere/link").symlink_to(app)
    given = json.loads(json.dumps(workspace).replace("../{prefix}", str(prefix)))
    shown = await _shown({"workspace": given}, here, prefix)
    assert "HELP" in shown
    assert "KEY" not in shown
    assert "key.txt" not in shown


async def test_a_python_in_the_workspace_is_not_shown(prefix: Path) -> None:
    (prefix / "key.txt").write_text("KEY")
    assert "KEY" not in await _shown({}, prefix, prefix)
    with pytest.raises(ConfigError, match=r"programs may not see .*python3: it is in the workspace"):
        _planned(prefix, {"python": str(prefix / "bin/python3")}, {})
    assert host_root(None).prefix == prefix
    assert host_root(None, [prefix]).prefix is None
    assert host_root(None, [prefix.parent]).prefix is None


@pytest.mark.parametrize("root", ["/", "/usr", "/usr/lib"])
def test_a_workspace_with_what_all_programs_need_is_an_error(root: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"programs need .*in {root}, a folder of the workspace") as refused:
        _planned(tmp_path, {}, {"root": root})
    assert refused.value.exit_code == 3


def test_an_ordinary_users_programs_are_in_a_user_namespace_that_makes_no_others(tmp_path: Path) -> None:
    """Root runs this as nobody; an ordinary user as themselves."""
    bubblewrap(tmp_path)
    given = arguments_of(
        SandboxRoot(None, None), Identity(1000, False), SandboxLimits(), {}, filter_fd=3, status_fd=4
    )
    given = _without(_without(given, "--seccomp", 2), "--json-status-fd", 2)
    shell = "id -u; unshare -Ur true; echo $?; grep CapEff /proc/self/status; ulimit -a"
    command = waiting(Identity(1000, False), SandboxLimits(processes=7), ("/bin/sh", "-c", shell))
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    gate, gate_end = socket.socketpair()
    with gate, gate_end:
        gate.sendall(b"\n")
        done = subprocess.run(
            [str(shutil.which("bwrap")), *given, "--", *command],
            stdin=gate_end,
            capture_output=True,
            env={},
            cwd="/",
            check=False,
            **user,  # type: ignore[call-overload]
        )
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert text.startswith("1000\n")
    assert "unshare failed" in text
    assert "CapEff:\t0000000000000000" in text
    assert "process              9" in text or "max user processes" in text


def _without(words: Sequence[str], option: str, count: int) -> list[str]:
    place = words.index(option)
    return [*words[:place], *words[place + count :]]


async def test_files_of_sessions_that_ran_nothing_for_long_are_removed(tmp_path: Path) -> None:
    root = tmp_path / ".zeus/sandboxes"
    for name, days in (("old", 40), ("new", 5), ("s1", 40)):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
        os.utime(root / name, (time.time() - days * 86_400,) * 2)
    await bubblewrap(tmp_path, keep_days=30.0).create("s1")
    assert sorted(each.name for each in root.iterdir()) == ["new", "s1"]


async def test_a_session_with_more_files_than_fit_is_told_so(tmp_path: Path) -> None:
    box = await bubblewrap(tmp_path).create("s1")
    await box.write("big", b"x" * 3_000_000)
    with pytest.raises(SandboxError, match="cannot be copied into the sandbox: No space left"):
        await box.exec(Program(("true",)), SandboxLimits(disk_bytes=2**20))
    assert await box.read("big", max_bytes=3_000_000) == b"x" * 3_000_000


async def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    box = await bubblewrap(tmp_path).create("s1")
    await box.write("d/kept", b"x")
    kept = tmp_path / ".zeus/sandboxes/s1/d"
    for name in (".0123456789abcdef.zeus-tmp", "own.zeus-tmp"):
        (kept / name).write_text("x")
    outcome = await box.exec(Program(("/bin/sh", "-c", "ls -A d")), SandboxLimits())
    assert outcome.output == b"kept\nown.zeus-tmp\n"
    assert sorted(each.name for each in kept.iterdir()) == ["kept", "own.zeus-tmp"]


async def test_a_program_that_does_not_fit_is_an_error_that_says_so(tmp_path: Path) -> None:
    box = await bubblewrap(tmp_path).create("s1")
    program = Program(("python3", "/tmp/code.py"), {"code.py": b"#" * 3_000_000})
    with pytest.raises(SandboxError, match="files cannot be copied into the sandbox: No space left"):
        await box.exec(program, SandboxLimits(disk_bytes=2**20))


async def test_files_in_a_folder_that_cannot_be_looked_into_stay_as_they_were(tmp_path: Path) -> None:
    box = await bubblewrap(tmp_path).create("s1")
    inner = "/".join(["d"] * 30)
    await box.write(f"{inner}/deep", b"x")
    await box.write("top", b"x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave_few_descriptors(_data: bytes) -> None:
        taken = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
        free = [each for each in range(len(taken) + 21) if each not in taken]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], before[1]))

    shell = Program(("/bin/sh", "-c", "echo; sleep 0.2; rm top; echo y > new"))
    try:
        outcome = await box.exec(shell, SandboxLimits(), leave_few_descriptors)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "Too many open files" in outcome.lost[0]
    assert (await box.read(f"{inner}/deep", max_bytes=1), await box.read("new", max_bytes=2)) == (
        b"x",
        b"y\n",
    )
    with pytest.raises(SandboxError, match="does not exist"):
        await box.read("top", max_bytes=1)


async def test_a_sandbox_that_is_cancelled_while_it_is_made_leaves_no_process(tmp_path: Path) -> None:
    """A child of bubblewrap that does not know yet that it is to die with it waits for its word for ever."""
    program = tmp_path / "program"
    program.symlink_to(str(shutil.which("bwrap")))
    box = await bubblewrap(tmp_path, command=str(program)).create("s1")
    word = f"left{secrets.token_hex(4)}"
    program.unlink()
    program.write_text(f"#!/bin/sh\nsh -c ': {word}; sleep 60; true' &\ntouch {tmp_path}/started\nwait\n")
    program.chmod(0o755)
    running = asyncio.ensure_future(box.exec(Program(("true",)), SandboxLimits()))
    while not (tmp_path / "started").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    async with asyncio.timeout(60):
        while processes_with(word):
            await asyncio.sleep(0.01)
