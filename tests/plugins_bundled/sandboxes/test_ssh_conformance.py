"""What every backend must do, of programs on another machine: with walls and without, on two SSH servers."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from zeus_plugins.sandboxes.ssh.backend import Ssh
from zeus_plugins.sandboxes.ssh.options import Options

from tests.support.sandboxes import bubblewrap
from tests.support.ssh_server import Server, openssh_server, own_server
from zeus_runtime import SandboxBackend
from zeus_runtime.testing import SandboxConformance

pytestmark = pytest.mark.xdist_group("sandbox")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with own_server(tmp_path_factory.mktemp("ssh")) as server:
        yield server


@pytest.fixture(scope="module")
def openssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with openssh_server(tmp_path_factory.mktemp("ssh")) as server:
        yield server


class OverSsh(SandboxConformance):
    """The conformance class over a server of the tests."""

    wrap: ClassVar[str] = "bubblewrap"
    server: Server

    serves: ClassVar[str] = "own"

    @pytest.fixture(autouse=True)
    def _served(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        if self.wrap == "bubblewrap":
            bubblewrap(tmp_path)
        self.server, self.folder = request.getfixturevalue(self.serves), tmp_path

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        options = self.server.options(
            wrap=self.wrap, folder=str(self.folder / "there"), python=sys.executable
        )
        backend = Ssh(Options(**options), self.folder, os.environ)
        yield backend
        await backend.aclose()


class TestWalled(OverSsh):
    """With bubblewrap's walls there."""


class TestPlain(OverSsh):
    """Without walls."""

    wrap = "none"


class TestOpenSsh(OverSsh):
    """With walls, on OpenSSH's server."""

    serves = "openssh"
