"""The other machine: its capabilities, which are queried once, and one connection to it for each event loop."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.sandboxes.ssh.options import Options
from zeus_runtime.plugin.sandbox import (
    SandboxCapabilities,
    SandboxError,
    SandboxLimit,
    SandboxUnavailableError,
    system_programs,
)

if TYPE_CHECKING:
    import asyncio

    from zeus_plugins.sandboxes.ssh.asking import Far
    from zeus_plugins.sandboxes.ssh.connection import SshConnection

_WALLED: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)
_PLAIN: Final[frozenset[SandboxLimit]] = frozenset({"seconds", "memory", "file_size", "output"})


class Machine:
    """A machine that is reached over SSH.

    Args:
        options: the options from the YAML.
        directory: the base of relative paths on this machine.
        environ: the environment with ssh-agent's variables.
    """

    def __init__(self, options: Options, directory: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._directory = directory
        self._environ = environ
        self._seen: Mapping[str, Any] | None = None
        self._refused: SandboxUnavailableError | None = None
        self._held: tuple[Far, SshConnection] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return self._options.host

    @property
    def root(self) -> str:
        """The absolute path of the sessions' folders there; known after ``check``."""
        assert self._seen is not None
        return str(self._seen["root"])

    @property
    def capabilities(self) -> SandboxCapabilities:
        walled = self._options.wrap == "bubblewrap"
        has_python = self._seen is None or self._seen["python"]
        return SandboxCapabilities(
            boundary="machine",
            network=not walled,
            languages=("python", "shell") if has_python else ("shell",),
            limits=_WALLED if walled else _PLAIN,
            isolated=walled,
            machine=self._address(),
        )

    def _address(self) -> str:
        user = f"{self._options.user}@" if self._options.user else ""
        port = f" port {self._options.port}" if self._options.port != 22 else ""
        return f"{user}{self._options.host}{port}"

    def check(self) -> None:
        """Query the machine over a separate connection, once; the answer is kept."""
        if self._refused is not None:
            raise self._refused
        if self._seen is not None:
            return
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        try:
            _need_library()
            # A plan may be built in a thread whose event loop is already running.
            with ThreadPoolExecutor(1) as beside:
                self._seen = beside.submit(asyncio.run, self._look()).result()
        except SandboxUnavailableError as error:
            self._refused = error
            raise

    def reached(self) -> tuple[Far, SshConnection]:
        """Return the machine's questions and connection for the running event loop.

        Raises:
            SandboxUnavailableError: asyncssh is not installed.
        """
        _need_library()
        import asyncio

        loop = asyncio.get_running_loop()
        if self._held is None or self._loop is not loop:
            # A connection belongs to one event loop, and ends with it.
            self._loop, self._held = loop, self._connection()
        return self._held

    async def aclose(self) -> None:
        """Close the connection; the next question opens a new one."""
        import asyncio

        held, self._held = self._held, None
        if held is not None and self._loop is asyncio.get_running_loop():
            far, line = held
            await far.close()
            await line.close()

    async def _look(self) -> Mapping[str, Any]:
        far, line = self._connection()
        try:
            return await far.look()
        except SandboxError as error:
            raise SandboxUnavailableError(error.message, remedy=error.remedy) from None
        finally:
            await far.close()
            await line.close()

    def _connection(self) -> tuple[Far, SshConnection]:
        with system_programs():  # asyncssh looks for libraries with a compiler when it is imported
            from zeus_plugins.sandboxes.ssh.asking import Far
            from zeus_plugins.sandboxes.ssh.connection import SshConnection

        line = SshConnection(self._options, self._directory, self._environ)
        return Far(line, self._options), line


def _need_library() -> None:
    if find_spec("asyncssh") is None:
        raise SandboxUnavailableError(
            "the backend ssh needs asyncssh", remedy="Run pip install 'zeus-runtime[ssh]'."
        )
