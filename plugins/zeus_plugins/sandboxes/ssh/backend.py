"""Sandboxes on another machine, reached over SSH: one connection for all sessions, a folder there for each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.sandboxes.ssh.options import Options
from zeus_runtime import (
    OptionsError,
    SandboxCapabilities,
    SandboxError,
    SandboxLimit,
    SandboxUnavailableError,
    session_folder,
)

if TYPE_CHECKING:
    import asyncio

    from zeus_plugins.sandboxes.ssh.asking import Far
    from zeus_plugins.sandboxes.ssh.box import Box
    from zeus_plugins.sandboxes.ssh.connection import Line
    from zeus_runtime import Build

_log = logging.getLogger(__name__)

_WALLED: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)
_PLAIN: Final[frozenset[SandboxLimit]] = frozenset({"seconds", "memory", "file_size", "output"})


class Ssh:
    """The backend.

    Args:
        options: as the YAML has them.
        directory: what relative paths of this machine start at.
        environ: where ssh-agent is looked for.
    """

    def __init__(self, options: Options, directory: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._directory = directory
        self._environ = environ
        self._seen: Mapping[str, Any] | None = None
        self._refused: SandboxUnavailableError | None = None
        self._held: tuple[Far, Line] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, Box] = {}
        self._used: set[str] = set()

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
        )

    def check(self) -> None:
        """Asks the other machine, over a connection of its own; what it said once holds as long as this backend."""
        if self._refused is not None:
            raise self._refused
        if self._seen is not None:
            return
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        try:
            _need_library()
            # A plan may be made where an event loop runs already.
            with ThreadPoolExecutor(1) as beside:
                self._seen = beside.submit(asyncio.run, self._look()).result()
        except SandboxUnavailableError as error:
            self._refused = error
            raise

    async def create(self, session: str) -> Box:
        self.check()
        assert self._seen is not None
        from zeus_plugins.sandboxes.ssh.box import Box

        far, line = self._far()
        box = self._open.get(session)
        if box is None:
            folder = PurePosixPath(self._seen["root"]) / session_folder(Path(), session).name
            box = Box(far, line, session, str(folder), lambda: self._open.pop(session, None))
            is_first = not self._used
            self._open[session] = box
            self._used.add(session)
            days = self._options.keep_days
            if is_first and days:
                await far.ask({"do": "remove_older", "session": session, "days": days})
        return box

    async def remove(self, session: str) -> None:
        box = self._open.get(session)
        if box is not None:
            await box.close()
        await self._far()[0].ask({"do": "remove", "session": session})
        self._used.discard(session)

    async def aclose(self) -> None:
        if self._held is None:
            return
        far, line = self._far()
        try:
            if self._options.keep_days == 0:
                for session in sorted(self._used):
                    await self.remove(session)
        except (SandboxError, SandboxUnavailableError) as error:
            _log.warning("files of sessions stay on %s: %s", line.name, error.message)
        finally:
            for box in list(self._open.values()):
                await box.close()
            self._used.clear()
            self._held = None
            await far.close()
            await line.close()

    def _far(self) -> tuple[Far, Line]:
        _need_library()
        import asyncio

        from zeus_plugins.sandboxes.ssh.asking import Far
        from zeus_plugins.sandboxes.ssh.connection import Line

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A connection belongs to its event loop, and ends with it.
            self._loop, self._held = loop, None
            self._open.clear()
        if self._held is None:
            line = Line(self._options, self._directory, self._environ)
            self._held = Far(line, self._options), line
        return self._held

    async def _look(self) -> Mapping[str, Any]:
        from zeus_plugins.sandboxes.ssh.asking import Far
        from zeus_plugins.sandboxes.ssh.connection import Line

        line = Line(self._options, self._directory, self._environ)
        far = Far(line, self._options)
        try:
            return await far.look()
        except SandboxError as error:
            raise SandboxUnavailableError(error.message, remedy=error.remedy) from None
        finally:
            await far.close()
            await line.close()


def _need_library() -> None:
    if find_spec("asyncssh") is None:
        raise SandboxUnavailableError(
            "the backend ssh needs asyncssh", remedy="Run pip install 'zeus-runtime[ssh]'."
        )


def create(options: Options, build: Build) -> Ssh:
    """The backend of the config.

    Raises:
        OptionsError: a passphrase without the key that it is for.
    """
    if options.passphrase is not None and options.key is None:
        raise OptionsError(
            "ssh: there is a passphrase and no key that it is for",
            remedy="Name the key file with `key`, or remove `passphrase`: ssh-agent asks for it by itself.",
            where="passphrase",
        )
    return Ssh(options, build.directory, build.environ)
