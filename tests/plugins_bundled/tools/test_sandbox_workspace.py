"""Programs of the sandbox that use the workspace: the access policy holds for them, and so do all limits."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.sandboxes.bubblewrap import running
from zeus_plugins.sandboxes.bubblewrap.backend import sandboxes
from zeus_plugins.sandboxes.bubblewrap.options import Options

from tests.support.sandboxes import bubblewrap, processes_with
from tests.support.shells import LEAVING, MOVING, POLICY, TRIES, need_bubblewrap, policed
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin.files import ProgramMount
from zeus_runtime.plugin.sandbox import (
    OwnPrograms,
    Program,
    SandboxCapabilities,
    SandboxError,
    SandboxFiles,
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


BOMB = """
import os, sys, time
open('/proc/self/comm', 'w').write({word!r}) if os.access('/proc/self/comm', os.W_OK) else None
while True:
    try: os.fork()
    except OSError: pass
"""


async def test_a_fork_bomb_is_limited_and_nothing_of_it_lives(tmp_path: Path) -> None:
    word = f"bomb{secrets.token_hex(4)}"
    code = f"import os\nword = {word!r}\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    call = calling(("execute_code", {"code": code, "timeout_seconds": 2}))
    (done,) = await results(tmp_path, call, max_processes=12)
    assert done.is_error
    wanted = "more than 12 processes" if os.geteuid() == 0 else "longer than 2 seconds"
    assert wanted in done.content
    await asyncio.sleep(0)
    assert processes_with("/tmp/code.py") == []
