"""What every backend must do, of programs on another machine: with walls and without; by OpenSSH, if installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
from zeus_plugins.sandboxes.ssh.backend import sandboxes
from zeus_plugins.sandboxes.ssh.options import Options

from tests.support.sandboxes import bubblewrap
from tests.support.ssh_server import Server, openssh_server, own_server, sshd
from zeus_runtime.plugin.sandbox import SandboxBackend
from zeus_runtime.testing import SandboxConformance

pytestmark = pytest.mark.xdist_group("ssh")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    serves = own_server if sshd() is None else openssh_server
    with serves(tmp_path_factory.mktemp("ssh")) as running:
        yield running


class OverSsh(SandboxConformance):
    """The conformance class over a server of the tests."""

    wrap: ClassVar[str] = "bubblewrap"
    server: Server

    @pytest.fixture(autouse=True)
    def _served(self, server: Server, tmp_path: Path) -> None:
        if self.wrap == "bubblewrap":
            bubblewrap(tmp_path)
        self.server = server

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        there = self.server.folder / f"there-{self.wrap}"
        backend = one_backend(self.server, self.wrap, there)
        yield backend
        await backend.aclose()
        shutil.rmtree(there)
        there.mkdir()


@cache
def one_backend(server: Server, wrap: str, there: Path) -> SandboxBackend:
    """The same one for all tests, since it asks the machine only once what it has."""
    options = server.options(wrap=wrap, folder=str(there), python=sys.executable)
    return sandboxes(Options(**options), there.parent, os.environ)


class TestWalled(OverSsh):
    """With bubblewrap's walls there."""


class TestPlain(OverSsh):
    """Without walls."""

    wrap = "none"
