"""What is seen of the settings of the SSH sandbox: whether the machine is reached, and what is kept there."""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.acceptance.settings import Flip, Scene, See
from tests.support.sandboxes import bubblewrap
from tests.support.ssh_server import PASSWORD, Server, keys, own_server
from zeus_runtime.plugin.sandbox import SandboxBackend

FAR: Final[dict[str, Any]] = {"tools": [{"sandbox": {"backend": {"ssh": {}}}}]}
OPEN: Final[dict[str, Any]] = {
    "tools": [{"sandbox": {"require_isolation": False, "backend": {"ssh": {"wrap": "none"}}}}]
}
PLAIN: Final[dict[str, Any]] = {"tools": [{"sandbox": {"backend": {"ssh": {"wrap": "none"}}}}]}


@contextmanager
def served(scene: Scene, **server: Any) -> Iterator[Server]:
    """A server that the config leads to, as far as it does not lead elsewhere."""
    bubblewrap(scene.folder)
    with own_server(scene.folder / "server", **server) as running:
        config: Any = copy.deepcopy(dict(scene.config))
        ssh = config["tools"][0]["sandbox"]["backend"]["ssh"]
        config["tools"][0]["sandbox"]["backend"]["ssh"] = {
            **running.options(python=sys.executable),
            **ssh,
        }
        scene.config = config
        yield running


def off(because: str, *, other_key: bool = False, **server: Any) -> See:
    """Whether the tools are off, and the reason holds ``because``."""

    async def see(scene: Scene) -> bool:
        keys(scene.folder / "other")
        with served(scene, **server) as running:
            if other_key:
                (scene.folder / "other/key").replace(running.folder / "key")
            return any(because in each.reason for each in scene.agent().plan.off)

    return see


async def problems(scene: Scene) -> tuple[str, ...]:
    with served(scene):
        return scene.problems()


async def folder(scene: Scene) -> list[str]:
    """Where a file of a session is in the home folder there."""
    with served(scene) as running:
        backend = _backend(scene)
        await (await backend.create("s1")).write("made.txt", b"x")
        await backend.aclose()
        return [str(each.parents[1].relative_to(running.home)) for each in running.home.rglob("made.txt")]


async def forgets(scene: Scene) -> bool:
    """Whether the files of a session that ran nothing for five days are gone."""
    with served(scene) as running:
        old = running.home / ".zeus/sandboxes/old"
        old.mkdir(parents=True)
        os.utime(old, (time.time() - 5 * 86_400,) * 2)
        backend = _backend(scene)
        await backend.create("s1")
        await backend.aclose()
        return not old.exists()


def _backend(scene: Scene) -> SandboxBackend:
    sandboxes = scene.agent().plan.context.sandboxes
    assert sandboxes is not None
    (backend,) = sandboxes.opened
    return backend


SSHED: Final = (
    Flip("tool:sandbox.require_isolation", False, problems, ("options",), (), PLAIN),
    Flip("sandbox:ssh.host", "127.0.0.2", off("cannot be reached"), False, True, FAR),
    Flip("sandbox:ssh.user", "somebody", off("does not accept the login of somebody"), False, True, FAR),
    Flip("sandbox:ssh.port", 1, off("cannot be reached"), False, True, FAR),
    Flip("sandbox:ssh.key", "other/key", off("does not accept the login"), False, True, FAR),
    Flip("sandbox:ssh.passphrase", "right", off("cannot be used", passphrase="right"), True, False, FAR),
    Flip("sandbox:ssh.password", PASSWORD, off("does not accept the login", other_key=True), True, False, FAR),
    Flip("sandbox:ssh.known_hosts", "nowhere", off("cannot be read"), False, True, FAR),
    Flip("sandbox:ssh.wrap", "none", problems, (), ("options",), FAR),
    Flip("sandbox:ssh.bwrap", "nope", off("nope is not installed there"), False, True, FAR),
    Flip("sandbox:ssh.python", "nope", off("cannot run programs"), False, True, FAR),
    Flip("sandbox:ssh.folder", "boxes", folder, [".zeus/sandboxes"], ["boxes"], OPEN),
    Flip("sandbox:ssh.keep_days", 1, forgets, False, True, OPEN),
    Flip("sandbox:ssh.connect_seconds", 0.1,
         off("did not answer within 0.1 seconds", answers_after_seconds=1.0), False, True, FAR),
)  # fmt: skip
