"""Programs of the sandbox that use the workspace: the access policy holds for them, and so do all limits."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from zeus_plugins.sandboxes.bubblewrap.cgroups import delegated_group, older_group

from tests.support.mapped_root import as_mapped_root
from tests.support.sandboxes import bubblewrap, processes_with, small_rootfs
from tests.support.shells import LEAVING, LOOKING, MOVING, POLICY, TRIES, filling, need_bubblewrap, policed
from zeus_runtime import Agent, ConfigError
from zeus_runtime.cli import main
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.files import ProgramMount, WorkspaceFiles
from zeus_runtime.plugin.sandbox import (
    Program,
    SandboxCapabilities,
    SandboxError,
    SandboxLimits,
    SharedWorkspace,
    folder_sandboxes,
)
from zeus_runtime.testing import ScriptedModel, calling

pytestmark = pytest.mark.xdist_group("sandbox")


def program(code: str, **arguments: Any) -> Any:
    return calling(("execute_code", {"code": code, "language": "shell", **arguments}))


def agent(
    folder: Path, *steps: Any, keys: dict[str, Any] | None = None, workspace: str = "write", **options: Any
) -> Agent:
    need_bubblewrap()
    if os.geteuid() == 0 and delegated_group() is None and older_group() is None:
        pytest.skip("no control group limits the processes of root here")
    return sandboxed(folder, *steps, keys=keys, workspace=workspace, **options)


def sandboxed(
    folder: Path, *steps: Any, keys: dict[str, Any] | None = None, workspace: str = "write", **options: Any
) -> Agent:
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": ["filesystem", {"sandbox": {"workspace": workspace, **options}}],
        **(keys or {}),
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    made = [program(each) if isinstance(each, str) else each for each in steps]
    model = ScriptedModel([*made, "done"])
    return Agent.from_config(directory=folder, model=model, environ=dict(os.environ), trust="all")


async def results(folder: Path, *steps: Any, **rest: Any) -> list[ToolCallResult]:
    async with agent(folder, *steps, **rest) as running:
        return [each async for each in running.stream("go") if isinstance(each, ToolCallResult)]


async def test_a_program_reads_and_writes_the_workspace_as_its_user(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("late\n")
    (tmp_path / "private").write_text("of the user alone\n")
    (tmp_path / "private").chmod(0o600)
    written, again = await results(
        tmp_path,
        "cat orders.csv private; pwd; echo made > out.txt; chmod 640 out.txt; echo own > /workspace/kept",
        calling(("execute_code", {"code": "print(open('out.txt').read(), open('/workspace/kept').read())"})),
    )
    assert written.content == f"late\nof the user alone\n{tmp_path}"
    assert again.content == "made\n own"
    status = (tmp_path / "out.txt").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (os.geteuid(), os.getegid(), 0o640)


async def test_a_program_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    policed(tmp_path)
    (tmp_path / "link").symlink_to("fixed/b")
    before = sorted(os.walk(tmp_path / "fixed"))
    read, *refused = await results(
        tmp_path,
        "cat link fixed/open/c && echo copied > /workspace/c",
        "echo x > fixed/open/c",
        "touch new",
        "rm link",
        "mv fixed/open moved",
        "chmod 777 fixed/open/c",
        "cat secrets/a",
        "cat deep/er/key.pem",
        "cat .env",
        "cat .zeus/zeus.db",
        workspace="read",
        keys=POLICY,
    )
    assert read.content == "CONTENT=of it\nCONTENT=of it"
    assert all(each.is_error for each in refused)
    assert "CONTENT" not in " ".join(each.content for each in refused)
    assert sorted(os.walk(tmp_path / "fixed")) == before
    assert not (tmp_path / "new").exists()


async def test_the_access_policy_holds_for_programs(tmp_path: Path) -> None:
    policed(tmp_path)
    answers = await results(tmp_path, *TRIES, keys=POLICY)
    assert {text: not each.is_error for text, each in zip(TRIES, answers, strict=True)} == TRIES
    assert (tmp_path / "fixed/open/d").read_text() == "y\n"
    assert (tmp_path / ".git/config").read_text() == "CONTENT=of it\n"


async def test_a_path_with_rights_of_its_own_keeps_them_whatever_a_program_moves(
    tmp_path: Path, outside: Path
) -> None:
    policed(tmp_path)
    for name in ("src", "notes", "submodule"):
        (tmp_path / name).mkdir()
    (tmp_path / "submodule/.git").write_text("gitdir: ../.git/modules/submodule\n")
    access = {**POLICY["workspace"]["access"], "deep/er/key.pem": "deny"}
    tries = [each.format(outside=outside) for each in MOVING]
    *moved, last = await results(
        tmp_path,
        *tries,
        "cat moved/* moved; echo x >> deep/er/key.pem; cat notes/secret; ls deep/er",
        keys={"workspace": {"access": access, "routes": {"/notes/": "notes"}}},
    )
    assert [text for text, each in zip(tries, moved, strict=True) if not each.is_error] == []
    said = " ".join(each.content for each in (*moved, last))
    assert "CONTENT" not in said
    assert "of another project" not in said
    assert (tmp_path / "deep/er/key.pem").read_text() == "CONTENT=of it\n"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text("of another project")
    return folder


@pytest.mark.parametrize("workspace", ["read", "write"])
async def test_programs_cannot_leave_the_workspace(tmp_path: Path, outside: Path, workspace: str) -> None:
    (tmp_path / "linked").symlink_to(outside)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen()
        victim = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - nothing waits for it
        try:
            port = server.getsockname()[1]
            tries = [each.format(outside=outside, pid=victim.pid, port=port) for each in LEAVING]
            answers = await results(
                tmp_path, *tries, "cat linked/secret", "echo it runs", workspace=workspace
            )
            assert victim.poll() is None
        finally:
            victim.kill()
            victim.wait()
    *left, works = answers
    assert works.content == "it runs"
    assert [text for text, each in zip([*LEAVING, "link"], left, strict=True) if not each.is_error] == []
    assert "of another project" not in " ".join(each.content for each in left)
    assert (outside / "secret").read_text() == "of another project"


@pytest.mark.parametrize("code", ["b() { b | b & }; b; sleep 9", "perl -e 'fork while 1' & wait; sleep 9"])
async def test_a_fork_bomb_meets_the_limit_and_nothing_of_it_lives(tmp_path: Path, code: str) -> None:
    word = f"bomb{secrets.token_hex(4)}"
    most = 0
    async with agent(tmp_path, program(f"{code} # {word}", timeout_seconds=0.7), max_processes=12) as running:
        task = asyncio.create_task(running.run("go"))
        while not task.done():
            most = max(most, len(processes_with("/tmp/code.sh")))
            await asyncio.sleep(0.02)
    assert 2 <= most <= 16
    assert processes_with("/tmp/code.sh") == []


async def test_a_program_gets_as_many_processes_as_the_limit_says(tmp_path: Path) -> None:
    code = """
import os, time
forks = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        forks += 1
except BlockingIOError:
    print(forks, flush=True)
"""
    (done,) = await results(tmp_path, calling(("execute_code", {"code": code})), max_processes=12)
    assert 11 <= int(done.content) <= 14


async def test_memory_time_file_size_and_output_are_limited_too(tmp_path: Path) -> None:
    def python(code: str, **arguments: Any) -> Any:
        return calling(("execute_code", {"code": code, **arguments}))

    slow, large, long, loud = await results(
        tmp_path,
        python("import time; time.sleep(60)", timeout_seconds=0.3),
        python("held = bytearray(128 * 2**20)"),
        python("open('long', 'wb').write(bytes(2 * 2**20))"),
        python("print('x' * 4_000)"),
        memory_mb=64,
        max_file_mb=1,
        max_output_kb=2,
    )
    assert slow.content == "[ended: it took longer than 0.3 seconds]"
    assert "MemoryError" in large.content
    assert "File too large" in long.content
    assert (tmp_path / "long").stat().st_size <= 2**20
    assert loud.content.endswith("[ended: it printed more than 2 KB]")


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    async with agent(tmp_path, program("touch begun; sleep 600")) as running:
        task = asyncio.create_task(running.run("go"))
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - it begins in another process
            await asyncio.sleep(0.01)
        assert processes_with("/tmp/code.sh") != []
        task.cancel()
        await asyncio.wait([task])
        assert processes_with("/tmp/code.sh") == []


KILLED = """
import asyncio, json
from pathlib import Path
from zeus_runtime import Agent
from zeus_runtime.testing import ScriptedModel, calling
call = calling(("execute_code", {"code": "touch begun; sleep 600", "language": "shell"}))
async def main():
    async with Agent.from_config(directory=".", model=ScriptedModel([call]), environ={}, trust="all") as agent:
        await agent.run("go")
asyncio.run(main())
"""


async def test_a_runtime_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    agent(tmp_path)
    process = subprocess.Popen(  # noqa: ASYNC220 - it is killed
        [sys.executable, "-c", KILLED], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        await asyncio.sleep(0.02)
    process.kill()
    process.wait()
    until = time.monotonic() + 10
    while processes_with("/tmp/code.sh"):
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("times", [1, 9])
async def test_a_file_that_is_replaced_before_it_is_mounted_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A folder changes places with one that holds a closed file, after each look at the workspace."""
    for name in ("src", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").write_text("CONTENT=of it\n")
        (tmp_path / name / "name").write_text(name)
    (tmp_path / "other/.env").rename(tmp_path / "other/b")
    left, look = [times], WorkspaceFiles.program_view

    def swapped(self: WorkspaceFiles, **rest: Any) -> Sequence[ProgramMount]:
        judged = look(self, **rest)
        if left[0]:
            left[0] -= 1
            (tmp_path / "src").rename(tmp_path / "third")
            (tmp_path / "other").rename(tmp_path / "src")
            (tmp_path / "third").rename(tmp_path / "other")
        return judged

    monkeypatch.setattr(WorkspaceFiles, "program_view", swapped)
    (done,) = await results(tmp_path, "cat src/.env other/.env; echo ran")
    assert "CONTENT" not in done.content
    assert done.content.endswith("ran") == (times == 1)
    assert ("files of the workspace were replaced" in done.content) == (times > 1)


@pytest.mark.parametrize("workspace", ["read", "write"])
@pytest.mark.parametrize("before", [True, False])
async def test_a_program_sees_nothing_that_other_sessions_keep_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, workspace: str
) -> None:
    keys = dict(filling(tmp_path, monkeypatch, before=before))
    async with agent(tmp_path, LOOKING, keys=keys, workspace=workspace) as running:
        prompt = "Read /attached_files/aa/mine.txt."
        (done,) = [each async for each in running.stream(prompt) if isinstance(each, ToolCallResult)]
    assert "CONTENT of .zeus/attached_files/aa/mine.txt" in done.content
    assert "CONTENT of .zeus/skills/a/SKILL.md" in done.content
    assert "their" not in done.content


async def test_a_rootfs_shows_the_workspace_too(tmp_path: Path) -> None:
    small_rootfs(tmp_path / "rootfs", "sh", "cat")
    (tmp_path / "rootfs" / tmp_path.parts[1]).mkdir(exist_ok=True)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a").write_text("of the workspace\n")
    backend = {"bubblewrap": {"rootfs": str(tmp_path / "rootfs")}}
    (shown,) = await results(tmp_path / "project", "cat a /etc/issue; echo b > b", backend=backend)
    assert shown.content == "of the workspace\nmy own"
    assert (tmp_path / "project/b").read_text() == "b\n"


async def test_a_folder_of_a_route_has_its_place_and_its_rights(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "notes").symlink_to(outside)
    keys = {"workspace": {"routes": {"/other/": str(outside)}, "access": {"/other/**": "read"}}}
    read, written = await results(
        tmp_path, f"cat {outside}/secret notes/secret", f"echo x > {outside}/secret", keys=keys
    )
    assert read.content == "of another project" * 2
    assert written.is_error


@pytest.mark.parametrize("backend", ["docker", {"ssh": {"host": "build.example.org"}}])
def test_a_backend_that_cannot_show_the_workspace_is_an_error_of_the_yaml(
    tmp_path: Path, backend: Any
) -> None:
    with pytest.raises(ConfigError, match="cannot show the workspace to programs") as refused:
        agent(tmp_path, backend=backend)
    assert refused.value.exit_code == 3
    assert refused.value.diagnostics[0].path == ("tools", 1, "sandbox", "workspace")


@pytest.mark.parametrize(
    ("place", "own"),
    [
        ("/tmp", "/tmp"),
        ("/dev/shm", "/dev/shm"),
        ("/workspace", "/workspace"),
        ("/workspace/a", "/workspace"),
    ],
)
def test_a_workspace_where_programs_have_their_own_files_is_refused(
    tmp_path: Path, place: str, own: str
) -> None:
    check = bubblewrap(tmp_path).capabilities.workspace
    assert check is not None
    check([tmp_path, Path("/tmp/a"), Path("/workspaces/a")])
    with pytest.raises(OptionsError, match=f"programs have a folder {own} of their own"):
        check([tmp_path, Path(place)])


def test_the_error_of_such_a_workspace_has_its_place_in_the_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="programs have a folder /tmp of their own") as refused:
        agent(tmp_path, keys={"workspace": {"root": "/tmp"}})
    assert refused.value.diagnostics[0].path == ("tools", 1, "sandbox", "workspace")


def test_without_bubblewrap_the_tools_are_off_and_the_plan_says_why(tmp_path: Path) -> None:
    plan = agent(tmp_path, backend={"bubblewrap": {"command": "no-such-bwrap"}}).plan
    assert [each.tool.name for each in plan.tools if each.tool.category == "sandbox"] == []
    assert "no-such-bwrap is not installed" in plan.off[0].reason


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's processes are limited without a group")
async def test_root_without_a_control_group_gets_no_sandbox_on_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = agent(tmp_path, "touch ran")
    for each in ("backend", "process"):
        for name in ("delegated_group", "older_group"):
            monkeypatch.setattr(f"zeus_plugins.sandboxes.bubblewrap.{each}.{name}", lambda: None)
    assert "nothing limits the number of processes" in agent(tmp_path).plan.off[0].reason
    async with running:
        (done,) = [each async for each in running.stream("go") if isinstance(each, ToolCallResult)]
    assert done.is_error
    assert "nothing limits the number of processes" in done.content
    assert not (tmp_path / "ran").exists()


MAPPED = """
import asyncio, os, sys
from pathlib import Path
from tests.plugins_bundled.tools.test_sandbox_workspace import sandboxed
from zeus_plugins.sandboxes.bubblewrap.cgroups import delegated_group, older_group
from zeus_runtime.events import ToolCallResult

async def main():
    assert os.geteuid() == 0 and delegated_group() is None and older_group() is None
    script = "touch ran; for each in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; echo all"
    async with sandboxed(Path.cwd(), script, max_processes=6) as agent:
        assert not agent.plan.off, agent.plan.off
        async for each in agent.stream("go"):
            if isinstance(each, ToolCallResult):
                print(each.content)

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make such a namespace without further programs")
def test_the_kernel_counts_the_processes_of_a_root_who_is_an_ordinary_user_of_the_host() -> None:
    """As in rootless containers."""
    need_bubblewrap()
    with TemporaryDirectory(dir="/tmp", prefix="zeus-mapped-") as name:
        done = as_mapped_root(MAPPED, Path(name))
        assert done.returncode == 0, done.stderr
        assert "annot fork" in done.stdout
        assert "all\n" not in done.stdout
        assert (Path(name) / "ran").exists()


async def test_a_backend_that_does_not_share_the_workspace_runs_no_program_on_it(tmp_path: Path) -> None:
    class Separate:
        capabilities = SandboxCapabilities("namespaces", False, ("shell",), frozenset(), machine="")

        def check(self) -> None: ...

        async def run(self, *_: object) -> Any:
            raise AssertionError

    box = await folder_sandboxes(Separate(), tmp_path, keep_days=None).create("s1")
    shared = SharedWorkspace(tmp_path, list)
    with pytest.raises(SandboxError, match="cannot show the workspace"):
        await box.exec(Program(("true",), workspace=shared), SandboxLimits())


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_other_modes_hide_it(tmp_path: Path, mode: Any) -> None:
    agent(tmp_path)
    made = Agent.from_config(directory=tmp_path, environ={}, mode=mode, trust="all")
    assert {each.showing for each in made.plan.tools if each.tool.category == "sandbox"} == {"hidden"}


@pytest.mark.parametrize(
    ("workspace", "said"), [("read", "programs read the workspace"), ("write", "programs read and write")]
)
def test_the_plan_says_what_programs_may_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workspace: str, said: str
) -> None:
    agent(tmp_path, workspace=workspace)
    assert main(["plan", str(tmp_path / "zeus.yaml")]) == 0
    assert said in capsys.readouterr().out


async def test_too_many_mounts_are_refused_with_what_to_do(tmp_path: Path) -> None:
    need_bubblewrap()
    looks = []

    def look() -> Sequence[ProgramMount]:
        looks.append(1)
        return [ProgramMount(f"{tmp_path}/{at}.pem", "none", False) for at in range(3_000)]

    box = await bubblewrap(tmp_path).create("s1")
    with pytest.raises(SandboxError, match="3,000 files and folders have other rights") as refused:
        await box.exec(Program(("true",), workspace=SharedWorkspace(tmp_path, look)), SandboxLimits())
    assert "rules of workspace.access for folders instead of files" in (refused.value.remedy or "")
    assert len(looks) == 1, "another look would find the same"
