"""What is seen of the settings of the sandbox: what programs can do, where their files are, what the model is told."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from zeus_plugins.sandboxes.docker.backend import Docker
from zeus_plugins.sandboxes.docker.command import made

from tests.acceptance.settings import Flip, Scene, See
from tests.support.sandboxes import bubblewrap, small_rootfs
from tests.support.shells import need_bubblewrap
from zeus_runtime.plugin.middleware import Section
from zeus_runtime.plugin.sandbox import SandboxLimits, SandboxSessions
from zeus_runtime.testing import calling

BOXED: Final[dict[str, Any]] = {"tools": [{"sandbox": {"backend": {"bubblewrap": {}}}}]}
BESIDE: Final[dict[str, Any]] = {**BOXED, "workspace": {"root": "work"}}
SHARED: Final[dict[str, Any]] = {"tools": [{"sandbox": {"workspace": "read"}}]}
LISTED: Final[dict[str, Any]] = {**BOXED, "middlewares": ["sandbox_files"]}


def runs(code: str, find: str = "done", language: str = "python", **arguments: Any) -> See:
    """Whether a program comes to print ``find``."""

    async def see(scene: Scene) -> bool:
        bubblewrap(scene.folder)
        call = calling(("execute_code", {"code": code, "language": language, **arguments}))
        return find in (await scene.play(call, "done")).results[-1]

    return see


async def tools(scene: Scene) -> list[str]:
    bubblewrap(scene.folder)
    return [each.tool.name for each in scene.agent().plan.tools]


async def copied(scene: Scene) -> bool:
    """Whether a file of two megabytes gets into the sandbox."""
    bubblewrap(scene.folder)
    scene.write("big.txt", "x" * 2 * 2**20)
    played = await scene.play(calling(("create_sandbox", {"files": ["/big.txt"]})), "done")
    return "Copied" in played.results[-1]


async def kept(scene: Scene) -> list[str]:
    """Where a program's file is on disk, without the session's name."""
    await runs("open('made.txt', 'w'); print('done')")(scene)
    return [each.rsplit("/", 2)[0] for each in scene.files() if each.endswith("made.txt")]


async def forgotten(scene: Scene) -> bool:
    """Whether the files of a session that ran nothing for five days are gone."""
    old = scene.folder / ".zeus/sandboxes/old"
    old.mkdir(parents=True)
    os.utime(old, (time.time() - 5 * 86_400,) * 2)
    await runs("print('done')")(scene)
    return not old.exists()


async def issue(scene: Scene) -> bool:
    """Whether programs see the files of a rootfs that lies there."""
    (scene.folder / "work").mkdir(exist_ok=True)
    small_rootfs(scene.folder / "rootfs", "sh", "cat", "setpriv")
    return await runs("cat /etc/issue", "my own", "shell")(scene)  # type: ignore[no-any-return]


async def problems(scene: Scene) -> tuple[str, ...]:
    """The codes of the diagnostics."""
    bubblewrap(scene.folder)
    return scene.problems()


async def told(scene: Scene) -> int:
    """How many of thirty files section 14 names in the next run."""
    bubblewrap(scene.folder)
    code = "for number in range(30): open(f'number-{number:02}.txt', 'w')"
    played = await scene.play(calling(("execute_code", {"code": code})), "done")
    session = played.events[-1].session  # type: ignore[union-attr]
    again = await scene.play("done", "done", "done", session=session)
    system = again.requests[-1].system
    assert "# Files in the sandbox" in system, Section.SANDBOX
    return system.count("number-")


SANDBOXED: Final = (
    Flip("tool:sandbox.backend", {"bubblewrap": {"command": "nope"}}, tools,
         ["create_sandbox", "execute_code", "copy_from_sandbox"], [], {"tools": [{"sandbox": {}}]}),
    Flip("tool:sandbox.workspace", "read",
         runs("import os\nif os.path.exists('zeus.yaml'): print('done')"), False, True, BOXED),
    Flip("tool:sandbox.max_workspace_files", 1, runs("print('done')"), True, False, SHARED),
    Flip("tool:sandbox.timeout_seconds", 0.2, runs("import time; time.sleep(1); print('done')"), True, False, BOXED),
    Flip("tool:sandbox.max_timeout_seconds", 0.2,
         runs("import time; time.sleep(1); print('done')", timeout_seconds=30), True, False, BOXED),
    Flip("tool:sandbox.memory_mb", 64, runs("held = bytearray(128 * 2**20)\nprint('done')"), True, False, BOXED),
    Flip("tool:sandbox.max_processes", 2,
         runs("import os, time\nfor _ in range(5):\n    if os.fork() == 0: time.sleep(30)\nprint('done')"),
         True, False, BOXED),
    Flip("tool:sandbox.max_file_mb", 1, runs("open('a', 'wb').write(bytes(2 * 2**20))\nprint('done')"), True, False,
         BOXED),
    Flip("tool:sandbox.disk_mb", 1, runs("open('a', 'wb').write(bytes(2 * 2**20))\nprint('done')"), True, False, BOXED),
    Flip("tool:sandbox.max_files", 10,
         runs("for n in range(50): open(str(n), 'w')", "too many files"), False, True, BOXED),
    Flip("tool:sandbox.max_output_kb", 1, runs("print('x' * 2_000)\nprint('done')"), True, False, BOXED),
    Flip("tool:sandbox.max_result_chars", 200, runs("print('x' * 2_000)", "characters left out"), False, True, BOXED),
    Flip("tool:sandbox.max_copy_mb", 1, copied, True, False, BOXED),
    Flip("sandbox:bubblewrap.folder", "boxes", kept, [".zeus/sandboxes"], ["boxes"], BOXED),
    Flip("sandbox:bubblewrap.keep_days", 1, forgotten, False, True, BOXED),
    Flip("sandbox:bubblewrap.rootfs", "rootfs", issue, False, True, BESIDE),
    Flip("sandbox:bubblewrap.python", "/nowhere/python3", problems, (), ("options",), BOXED),
    Flip("sandbox:bubblewrap.command", "nope", tools, ["create_sandbox", "execute_code", "copy_from_sandbox"], [],
         BOXED),
    Flip("middleware:sandbox_files.max_tokens", 60, lambda scene: _fewer(scene, 30), False, True, LISTED),
    Flip("middleware:sandbox_files.max_files", 7, told, 30, 7, LISTED),
)  # fmt: skip


BARE: Final[dict[str, Any]] = {"tools": [{"shell": {"contain": "none"}}]}
SHELL: Final[dict[str, Any]] = {"tools": [{"shell": {}}]}
SHELL_TOOLS: Final = ["run_command", "read_output", "stop_command"]


def commands(text: str, find: str = "done", times: int = 1, **arguments: Any) -> See:
    """Whether the result of the last of ``times`` equal commands has ``find``."""

    async def see(scene: Scene) -> bool:
        need_bubblewrap()
        scene.write("a.txt", "a")
        call = calling(("run_command", {"command": text, **arguments}))
        return find in (await scene.play(*[call] * times, "done")).results[-1]

    return see


async def shell_tools(scene: Scene) -> list[str]:
    need_bubblewrap()
    return [each.tool.name for each in scene.agent().plan.tools]


SHELLED: Final = (
    Flip("tool:shell.contain", "none", commands("test -d /sys && echo done"), False, True, SHELL),
    Flip("tool:shell.network", True, commands("test -e /etc/hosts && echo done"), False, True, SHELL),
    Flip("tool:shell.show", ["/sys"], commands("test -d /sys && echo done"), False, True, SHELL),
    Flip("tool:shell.env", {"CI": "done"}, commands("echo $CI"), False, True, SHELL),
    Flip("tool:shell.timeout_seconds", 0.2, commands("sleep 1; echo done"), True, False, BARE),
    Flip("tool:shell.max_timeout_seconds", 0.2, commands("sleep 1; echo done", timeout_seconds=30), True, False, BARE),
    Flip("tool:shell.max_background", 1, commands("sleep 9", "Started", 2, background=True), True, False, BARE),
    Flip("tool:shell.max_output_kb", 1, commands("seq 9999", "are lost"), False, True, BARE),
    Flip("tool:shell.max_result_chars", 200, commands("seq 999", "characters left out"), False, True, BARE),
    Flip("tool:shell.max_files", 1, commands("echo done"), True, False, SHELL),
    Flip("tool:shell.command", "nope", shell_tools, SHELL_TOOLS, [], SHELL),
)  # fmt: skip


async def _fewer(scene: Scene, most: int) -> bool:
    return await told(scene) < most


DOCKER: Final[dict[str, Any]] = {"tools": [{"sandbox": {"backend": {"docker": {}}}}]}


def container(find: str) -> See:
    """Whether the command that makes a container holds ``find``."""

    async def see(scene: Scene) -> bool:
        return find in " ".join(made(_containers(scene)._options, "name", SandboxLimits()))

    return see


def _docker(scene: Scene) -> SandboxSessions:
    """The backend of the config, whose client is one that makes no containers."""
    # Zeus takes no program of its own from the project.
    programs = scene.folder.with_name(f"{scene.folder.name}-programs")
    programs.mkdir(exist_ok=True)
    for name in ("docker", "other"):
        (programs / name).write_text(Path("tests/plugins_bundled/sandboxes/fake_docker.sh").read_text())
        (programs / name).chmod(0o755)
    # A backend is given the variables of the process itself.
    own = {"PATH": f"{programs}:/usr/bin:/bin", "FAKE_DOCKER": str(scene.folder)}
    with patch.dict(os.environ, own):
        sandboxes = scene.agent().plan.context.sandboxes
    assert sandboxes is not None
    (backend,) = sandboxes.opened
    assert isinstance(backend, SandboxSessions)
    return backend


def _containers(scene: Scene) -> Docker:
    containers = _docker(scene).containment
    assert isinstance(containers, Docker)
    return containers


async def client(scene: Scene) -> str:
    return Path(_containers(scene)._client).name


async def docker_folder(scene: Scene) -> list[str]:
    box = await _docker(scene).create("s1")
    await box.write("made.txt", b"x")
    return [each.rsplit("/", 2)[0] for each in scene.files() if each.endswith("made.txt")]


async def docker_forgets(scene: Scene) -> bool:
    old = scene.folder / ".zeus/sandboxes/old"
    old.mkdir(parents=True)
    os.utime(old, (time.time() - 5 * 86_400,) * 2)
    await _docker(scene).create("s1")
    return not old.exists()


DOCKED: Final = (
    Flip("sandbox:docker.image", "mine:1", container("sleep mine:1"), False, True, DOCKER),
    Flip("sandbox:docker.command", "other", client, "docker", "other", DOCKER),
    Flip("sandbox:docker.runtime", "runsc", container("--runtime runsc"), False, True, DOCKER),
    Flip("sandbox:docker.cpus", 0.5, container("--cpus 0.5"), False, True, DOCKER),
    Flip("sandbox:docker.folder", "boxes", docker_folder, [".zeus/sandboxes"], ["boxes"], DOCKER),
    Flip("sandbox:docker.keep_days", 1, docker_forgets, False, True, DOCKER),
)
