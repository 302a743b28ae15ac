"""The connection to the other machine: opened on demand, reopened after a loss, and only to the known host key."""

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
    """A connection that is opened on demand.

    Args:
        options: the options from the YAML.
        directory: the base of relative paths.
        environ: the environment with ``SSH_AUTH_SOCK``.
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
        """The machine's name in messages."""
        return self._options.host

    async def open(self) -> asyncssh.SSHClientConnection:
        """Return the connection; open it if needed.

        Raises:
            SandboxUnavailableError: it cannot be opened; the error has the reason and the remedy.
        """
        async with self._turn:
            if self._held is None or self._held.is_closed():
                self._sftp = None
                self._held = await self._connected()
            return self._held

    async def files(self) -> asyncssh.SFTPClient:
        """Return SFTP access to the other machine's files, over the same connection.

        Raises:
            SandboxUnavailableError: there is no connection, or its server does not support SFTP.
        """
        connection = await self.open()
        async with self._turn:
            if self._sftp is None:
                try:
                    self._sftp = await connection.start_sftp_client(path_errors="surrogateescape")
                except asyncssh.Error as error:
                    raise SandboxUnavailableError(
                        f"{self.name} does not support SFTP: {error.reason}",
                        remedy="Enable the subsystem sftp in its SSH server.",
                    ) from None
            return self._sftp

    def drop(self, dead: asyncssh.SSHClientConnection) -> None:
        """Close a connection that seems dead, unless it was already replaced; the next use opens a new one."""
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
                f"{self.name} does not accept the login of {options.user or 'this user'}: {error.reason}",
                remedy="Set `user` and a `key` that the machine accepts, or start ssh-agent.",
            ) from None
        except TimeoutError:
            raise SandboxUnavailableError(
                f"{self.name} did not answer within {options.connect_seconds:g} seconds",
                remedy="Check whether it is running, or raise connect_seconds.",
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise SandboxUnavailableError(
                f"{self.name} port {options.port} cannot be reached over SSH: {getattr(error, 'reason', error)}",
                remedy="Check host and port, and whether its SSH server is running.",
            ) from None

    def _known_hosts(self) -> asyncssh.SSHKnownHosts:
        path = self._place(self._options.known_hosts)
        try:
            return asyncssh.import_known_hosts(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SandboxUnavailableError(
                f"{self._options.known_hosts}, which must contain the key of {self.name}, cannot be read: "
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
                remedy="Set `key` to an OpenSSH private key, and `passphrase: ${…}` if it has one.",
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
                f"{self.name} has another key{shown} than in {self._options.known_hosts}; it may be another machine",
                remedy="If the machine was reinstalled: remove its old line (ssh-keygen -R) and "
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
        return f"Add its key (`{line}`) and compare the fingerprint with the one on the machine (ssh-keygen -lf)."

    def _place(self, path: str) -> Path:
        # Only a default still has its `~`.
        return self._directory / os.path.expanduser(path)  # noqa: PTH111 - pathlib raises if there is no home


class _Seen(asyncssh.SSHClient):
    """Records an unknown machine's key for the error message, and does not trust it."""

    key: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.key = key
        return False


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
