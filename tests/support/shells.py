"""Agents with a shell for tests, and the processes that are left of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from zeus_plugins.sandboxes.bubblewrap.host import check_system, try_out
from zeus_plugins.tools.shell.containment import NAMESPACES

from zeus_runtime import Agent
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin.files import ProgramMount, WorkspaceFiles
from zeus_runtime.plugin.sandbox import SandboxUnavailableError
from zeus_runtime.testing import ScriptedModel, calling


def need_bubblewrap() -> None:
    """Skip the test where bubblewrap cannot run commands."""
    import shutil

    found = shutil.which("bwrap")
    if found is None:
        pytest.skip("bubblewrap is not installed")
    try:
        check_system()
        try_out(found, NAMESPACES)
    except SandboxUnavailableError as error:
        pytest.skip(f"no bubblewrap here: {error.message}")


def shell_agent(folder: Path, *steps: Any, keys: dict[str, Any] | None = None, **options: Any) -> Agent:
    """An agent whose model makes the calls of ``steps``.

    Args:
        keys: further keys of the config.
        options: of the component `shell`.
    """
    config = {"version": 1, "model": "gpt-4o", "tools": [{"shell": options}], **(keys or {})}
    (folder / "zeus.yaml").write_text(yaml.safe_dump(config))
    model = ScriptedModel([*steps, "done"])
    return Agent.from_config(directory=folder, model=model, environ={}, trust="all")


def command(text: str | Sequence[str], **arguments: Any) -> Any:
    """A step that runs a command."""
    return calling(("run_command", {"command": text, **arguments}))


async def results(
    folder: Path, *steps: Any, keys: dict[str, Any] | None = None, **options: Any
) -> list[ToolCallResult]:
    """The results of the calls of ``steps``; a text is a command."""
    made = [command(each) if isinstance(each, str) else each for each in steps]
    async with shell_agent(folder, *made, keys=keys, **options) as agent:
        return [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]


LOOKING: Final = "find .zeus results; cat $(find .zeus results -type f)"
"""Shows the folders where Zeus keeps files of sessions."""


def filling(folder: Path, monkeypatch: pytest.MonkeyPatch, *, before: bool) -> Mapping[str, Any]:
    """Let another session keep files after a program's rights were looked up, and before it starts.

    Args:
        folder: the workspace.
        before: whether it has kept some already.

    Returns:
        keys of the agent's config.
    """
    look = WorkspaceFiles.program_view

    def put(*names: str) -> None:
        for each in names:
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / each).write_text(f"CONTENT of {each}\n")

    def filled(files: WorkspaceFiles, **rest: Any) -> Sequence[ProgramMount]:
        judged = look(files, **rest)
        put("results/theirs", ".zeus/attached_files/bb/theirs.txt", ".zeus/conversation_history/theirs.md")
        put(".zeus/sandboxes/theirs/a", ".zeus/uploads/them/theirs", ".zeus/theirs.db-wal")
        return judged

    monkeypatch.setattr(WorkspaceFiles, "program_view", filled)
    put(".zeus/attached_files/aa/mine.txt", ".zeus/skills/a/SKILL.md")
    if before:
        put("results/their_first", ".zeus/attached_files/cc/their_first", ".zeus/sandboxes/their_first/a")
    return {"workspace": {"routes": {"/large_tool_results/": "results"}}}


def processes_of(mark: str) -> list[str]:
    """The command lines of this machine's processes that have the text ``mark``."""
    found = []
    for each in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are wanted
        try:
            line = Path("/proc", each, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and int(each) != os.getpid():
            found.append(line)
    return found


def below(pid: int) -> dict[int, int]:
    """The processes that a process has started, and those that these have, each with the id of its parent."""
    parents = {}
    for each in alive():
        try:
            stat = Path("/proc", str(each), "stat").read_text(errors="replace")
        except OSError:
            continue
        parents[each] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, int] = {}
    level = {pid}
    while level:
        level = {each for each, parent in parents.items() if parent in level}
        found |= {each: parents[each] for each in level}
    return found


def alive() -> set[int]:
    """The ids of this machine's processes."""
    return {int(each) for each in os.listdir("/proc") if each.isdecimal()}  # noqa: PTH208 - names are wanted


def descriptors_of(pid: int) -> set[str]:
    """The pipes and sockets that a process has open."""
    found = set()
    for each in Path("/proc", str(pid), "fd").iterdir():
        try:
            target = str(each.readlink())
        except OSError:
            continue
        if target.startswith(("pipe:", "socket:")):
            found.add(target)
    return found


POLICY: Final[dict[str, Any]] = {
    "workspace": {
        "access": {
            "secrets/**": "deny",
            "fixed/**": "read",
            "fixed/open/**": "write",
            "asked.txt": "ask",
            "*.pem": "deny",
        }
    }
}


def policed(folder: Path) -> None:
    """Make files for which ``POLICY`` has rules, and protected ones."""
    for name in (
        "secrets/a",
        "fixed/b",
        "fixed/open/c",
        "asked.txt",
        "deep/er/key.pem",
        ".env",
        ".git/config",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("CONTENT=of it\n")


TRIES: Final = {
    "cat secrets/a": False,
    "cat deep/er/key.pem": False,
    "cat .env": False,
    "cat .zeus/zeus.db": False,
    "cat fixed/b asked.txt .git/config zeus.yaml": True,
    "echo x > fixed/b": False,
    "touch fixed/new": False,
    "echo x >> asked.txt": False,
    "echo x >> zeus.yaml": False,
    "echo x >> .git/config": False,
    "touch .zeus/new": False,
    "rm -rf .git": False,
    "mv fixed away": False,
    "mv zeus.yaml other": False,
    "ln .env copy || cp .env copy": False,
    "echo x > fixed/open/c && echo y > fixed/open/d && echo z > deep/er/new && mkdir made": True,
}
"""Commands in the folder of ``policed``, and whether they succeed under ``POLICY``."""

MOVING: Final = [
    "mv -T deep moved || mv -T deep/er moved",
    'mv --exchange deep/er fixed || python3 -c \'import os; os.rename("deep/er", "moved")\'',
    "rm -rf deep/er; rmdir deep/er",
    "mv secrets/a moved; mv secrets moved",
    "mv submodule moved || mv submodule/.git moved || echo gitdir: x > submodule/.git",
    "umount deep/er/key.pem || umount -l deep || mount --bind deep src",
    "ln deep/er/key.pem moved || ln asked.txt moved",
    "ln -s deep/er/key.pem moved; cat moved",
    'python3 -c \'import os; os.replace("src", "deep")\'',
    "mv notes moved; ln -s {outside} notes; cat notes/secret",
]
"""Commands that give a file another path, by which the rules would judge it otherwise; none may succeed."""

LEAVING: Final = [
    "cat {outside}/secret",
    "cat ../*/secret ../../*/*/secret",
    "ln -s {outside} link; cat link/secret",
    "cat /proc/1/root{outside}/secret || cat /proc/self/root{outside}/secret",
    "cd /; cat ./{outside}/secret",
    "cat < {outside}/secret",
    "echo changed > {outside}/secret",
    "exec 3< {outside}; cat /dev/fd/3/secret",
    "unshare -Ur cat {outside}/secret",
    "mount --bind / /tmp && cat /tmp{outside}/secret",
    "chroot /proc/1/root cat {outside}/secret",
    "nsenter -t 1 -m cat {outside}/secret",
    "python3 -c \"print(open('{outside}/secret').read())\"",
    "cat /proc/[0-9]*/cwd{outside}/secret",
    "for each in /proc/[0-9]*/root; do cat $each{outside}/secret && exit 0; done; exit 1",
    "test -w /proc/sys/kernel/core_pattern -o -w /usr/bin/env -o -w /etc/passwd",
    "find /proc -maxdepth 1 -type f -perm 400 -exec head -c 9 {{}} + | grep .",
    "mknod disk b 8 0 && cat disk",
    "cp /bin/sh shell && chmod u+s shell",
    "cp /bin/sh shell && chmod g+s shell",
    "python3 -c \"import os; os.close(os.open('new', os.O_CREAT | os.O_WRONLY, 0o4755)); os.stat('new')\"",
    "kill -9 {pid} || python3 -c 'import os; os.kill({pid}, 9)'",
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\"",
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('door')\"",
]
"""Commands that leave the workspace; none may succeed."""
