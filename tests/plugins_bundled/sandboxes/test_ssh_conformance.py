"""What every backend must do, of programs on another machine: with walls and without, on two SSH servers."""

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
        self.server = request.getfixturevalue(self.serves)

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        there = self.server.folder / f"there-{self.wrap}"
        backend = one_backend(self.server, self.wrap, there)
        yield backend
        await backend.aclose()
        for each in there.iterdir():
            shutil.rmtree(each)


@cache
def one_backend(server: Server, wrap: str, there: Path) -> Ssh:
    """The same one for all tests, since it asks the machine only once what it has."""
    options = server.options(wrap=wrap, folder=str(there), python=sys.executable)
    return Ssh(Options(**options), there.parent, os.environ)


class TestWalled(OverSsh):
    """With bubblewrap's walls there."""


class TestPlain(OverSsh):
    """Without walls."""

    wrap = "none"


class TestOpenSsh(OverSsh):
    """With walls, on OpenSSH's server."""

    serves = "openssh"
