"""Containers of a real engine, where there is one: what every backend must do, and what they let through."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from zeus_plugins.sandboxes.docker.backend import Docker, sandboxes
from zeus_plugins.sandboxes.docker.options import Options

from tests.support.sandboxes import MEGABYTE, ran, small_rootfs
from zeus_runtime.plugin.sandbox import (
    OwnPrograms,
    Program,
    SandboxBackend,
    SandboxLimits,
    SandboxUnavailableError,
)
from zeus_runtime.testing import SandboxConformance

pytestmark = pytest.mark.xdist_group("sandbox")
IMAGE = "localhost/zeus-sandbox-test:1"
PROGRAMS = (
    "sh tar sleep cat printf env yes wc ls mkdir ln rm true id dd touch head grep mount unshare".split()
)


@cache
def engine() -> str:
    """The client of an engine that answers, with an image of this host's programs in it."""
    wanted = os.environ.get("ZEUS_TEST_CONTAINERS")
    reasons = []
    for name in [wanted] if wanted else ["podman", "docker"]:
        client = shutil.which(name)
        try:
            Docker(Options(command=client or name), OwnPrograms(os.environ)).check()
        except SandboxUnavailableError as error:
            reasons.append(error.message)
            continue
        return str(client)
    pytest.skip(f"no container engine here: {'; '.join(reasons)}")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    client = engine()
    python = Path("/usr/bin/python3").resolve()
    if not python.exists():
        pytest.skip("no /usr/bin/python3 here to make an image of")
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)
    small_rootfs(root, *PROGRAMS, python.name)
    (root / "usr/bin/python3").symlink_to(python.name)
    unneeded = shutil.ignore_patterns("test", "dist-packages", "__pycache__", "idlelib", "config-*")
    shutil.copytree(f"/usr/lib/{python.name}", root / f"usr/lib/{python.name}", ignore=unneeded)
    (root / "workspace").rmdir()
    for name in ("dev", "proc", "run", "sys", "tmp"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packing:
        subprocess.run([client, "import", "-", IMAGE], stdin=packing.stdout, check=True, capture_output=True)
    return IMAGE


def containers(folder: Path, image: str) -> SandboxBackend:
    return sandboxes(Options(command=engine(), image=image), folder, OwnPrograms(os.environ))


class TestConformance(SandboxConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, image: str) -> None:
        self.folder, self.image = tmp_path, image

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        backend = containers(self.folder, self.image)
        yield backend
        await backend.aclose()


async def test_a_container_holds_what_is_in_it(tmp_path: Path, image: str) -> None:
    box = await containers(tmp_path, image).create("s1")
    _, text = await ran(
        box,
        """
import os, socket
print(os.getuid(), [line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))])
for path in ('/etc/x', '/usr/x', '/x', '/run/x', '/var/tmp/x', '/dev/shm/../x'):
    try: open(path, 'w'); print('wrote', path)
    except OSError: pass
for address in (('169.254.169.254', 80), ('10.0.0.1', 80), ('8.8.8.8', 53)):
    try: socket.create_connection(address, 1); print('reached', address)
    except OSError: pass
print(sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo'])
""",
    )
    lines = text.splitlines()
    assert lines[0] == "65534 ['0000000000000000', '1']"
    assert lines[1:] == ["['lo']"]


async def test_memory_processes_and_disk_of_a_container_are_limited(tmp_path: Path, image: str) -> None:
    box = await containers(tmp_path, image).create("s1")
    outcome, _ = await ran(
        box,
        "held = bytearray(b'x') * (400 * 2**20)",
        memory_bytes=32 * MEGABYTE,
        disk_bytes=4 * MEGABYTE,
    )
    assert outcome.killed_by == "memory"
    _, text = await ran(
        box,
        """
import os, time
forks = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60)
        forks += 1
except OSError: print('refused after', forks)
""",
        processes=10,
    )
    assert int(text.split()[2]) <= 14
    outcome = await box.exec(
        Program(("dd", "if=/dev/zero", "of=big", "bs=1000000", "count=20")),
        SandboxLimits(disk_bytes=4 * MEGABYTE),
    )
    assert b"No space left" in outcome.output
