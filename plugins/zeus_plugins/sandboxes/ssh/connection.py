"""The connection to the other machine: made when it is needed, made again when it was lost, to that machine only."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh

from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.sandbox import SandboxUnavailableError

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.options import Options

_KEEPALIVE_SECONDS = 10
_KEEPALIVE_COUNT = 3


class SshConnection:
    """A connection that is there when it is asked for.

    Args:
        options: as the YAML has them.
        directory: what relative paths start at.
        environ: where ``SSH_AUTH_SOCK`` is looked for.
    """

    def __init__(self, options: Options, directory: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._directory = directory
        self._environ = environ
        self._turn = asyncio.Lock()
        self._held: asyncssh.SSHClientConnection | None = None
        self._sftp: asyncssh.SFTPClient | None = None

    @property
    def name(self) -> str:
        """The machine, for messages."""
        return self._options.host

    async def open(self) -> asyncssh.SSHClientConnection:
        """The connection, made if it is not there any more.

        Raises:
            SandboxUnavailableError: it cannot be made, with the reason and what to do.
        """
        async with self._turn:
            if self._held is None or self._held.is_closed():
                self._sftp = None
                self._held = await self._connected()
            return self._held

    async def files(self) -> asyncssh.SFTPClient:
        """The other machine's files, over the same connection.

        Raises:
            SandboxUnavailableError: there is no connection, or its server gives no files.
        """
        connection = await self.open()
        async with self._turn:
            if self._sftp is None:
                try:
                    self._sftp = await connection.start_sftp_client(path_errors="surrogateescape")
                except asyncssh.Error as error:
                    raise SandboxUnavailableError(
                        f"{self.name} gives no files over SFTP: {error.reason}",
                        remedy="Let its SSH server have the subsystem sftp.",
                    ) from None
            return self._sftp

    def drop(self, dead: asyncssh.SSHClientConnection) -> None:
        """Give up a connection that is believed dead; the next one is made anew, if it is not there already."""
        if self._held is dead:
            dead.abort()
            self._held = None
            self._sftp = None

    async def close(self) -> None:
        """End the connection."""
        if self._held is not None:
            held, self._held, self._sftp = self._held, None, None
            held.close()
            await held.wait_closed()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        options = self._options
        known = self._known_hosts()
        seen = _Seen()
        keys: dict[str, Any] = {}
        if options.key is not None:
            keys = {"client_keys": [self._key()], "agent_path": None}
        elif "SSH_AUTH_SOCK" in self._environ:
            keys = {"agent_path": self._environ["SSH_AUTH_SOCK"]}
        try:
            async with asyncio.timeout(options.connect_seconds):
                return await asyncssh.connect(
                    options.host,
                    options.port,
                    config=None,
                    known_hosts=known,
                    username=options.user or getpass.getuser(),
                    password=_revealed(options.password),
                    keepalive_interval=_KEEPALIVE_SECONDS,
                    keepalive_count_max=_KEEPALIVE_COUNT,
                    client_factory=lambda: seen,
                    **keys,
                )
        except asyncssh.HostKeyNotVerifiable:
            raise self._not_trusted(known, seen) from None
        except asyncssh.PermissionDenied as error:
            raise SandboxUnavailableError(
                f"{self.name} does not let {options.user or 'this user'} in: {error.reason}",
                remedy="Name the user and a key that the machine knows (`user`, `key`), or start ssh-agent.",
            ) from None
        except TimeoutError:
            raise SandboxUnavailableError(
                f"{self.name} did not answer within {options.connect_seconds:g} seconds",
                remedy="Look whether it runs, or raise connect_seconds.",
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise SandboxUnavailableError(
                f"{self.name} port {options.port} cannot be reached over SSH: {getattr(error, 'reason', error)}",
                remedy="Look at host and port, and whether its SSH server runs.",
            ) from None

    def _known_hosts(self) -> asyncssh.SSHKnownHosts:
        path = self._place(self._options.known_hosts)
        try:
            return asyncssh.import_known_hosts(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SandboxUnavailableError(
                f"{self._options.known_hosts}, which must have the key of {self.name}, cannot be read: "
                f"{getattr(error, 'strerror', None) or error}",
                remedy=self._add_remedy(),
            ) from None

    def _key(self) -> asyncssh.SSHKey:
        options = self._options
        assert options.key is not None
        try:
            return asyncssh.read_private_key(self._place(options.key), _revealed(options.passphrase))
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError) as error:
            given = "" if options.passphrase is None else " with this passphrase"
            raise SandboxUnavailableError(
                f"the key {options.key} cannot be used{given}: {error}",
                remedy="Name a private key of OpenSSH, and `passphrase: ${…}` if it has one.",
            ) from None
        except OSError as error:
            raise SandboxUnavailableError(
                f"the key {options.key} cannot be read: {error.strerror}", remedy="Correct `key`."
            ) from None

    def _not_trusted(self, known: asyncssh.SSHKnownHosts, seen: _Seen) -> SandboxUnavailableError:
        shown = f" ({seen.key.get_fingerprint()})" if seen.key is not None else ""
        others = asyncssh.match_known_hosts(known, self._options.host, "", self._options.port)
        if any(others):
            return SandboxUnavailableError(
                f"{self.name} has another key{shown} than {self._options.known_hosts} says; another machine may answer",
                remedy="If the machine was made anew: remove its old line (ssh-keygen -R) and "
                + self._add_remedy()[0].lower()
                + self._add_remedy()[1:],
            )
        return SandboxUnavailableError(
            f"the key of {self.name}{shown} is not in {self._options.known_hosts}, so it could be any machine",
            remedy=self._add_remedy(),
        )

    def _add_remedy(self) -> str:
        port = "" if self._options.port == 22 else f"-p {self._options.port} "
        line = f"ssh-keyscan {port}{shlex.quote(self._options.host)} >> {self._options.known_hosts}"
        return f"Add its key (`{line}`) and compare the fingerprint with the machine's own (ssh-keygen -lf)."

    def _place(self, path: str) -> Path:
        return self._directory / os.path.expanduser(path)  # noqa: PTH111 - pathlib raises where there is no home


class _Seen(asyncssh.SSHClient):
    """Remembers the key of a machine that nobody knows, and does not trust it."""

    key: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.key = key
        return False


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
