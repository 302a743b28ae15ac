"""Accounts at rest: one encrypted file each, the key in the system's keyring or in a file only the user can read."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime import OptionsError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from zeus_plugins.tools.mcp.servers import Server

_SERVICE: Final = "zeus-runtime"
_ENTRY: Final = "accounts"
_LOCK_SECONDS: Final = 60


def account_store(server: Server, environ: Mapping[str, str]) -> AccountStore:
    """Where a server's account is kept: beside the user's Home, not in the project, which may be shared."""
    configured = environ.get("XDG_CONFIG_HOME")
    base = Path(configured) if configured else Path(environ.get("HOME") or Path.home()) / ".config"
    address = server.spec.address or ""
    return AccountStore(base / "zeus" / "accounts", server.name, address)


class AccountStore:
    """One server's account.

    Args:
        folder: where accounts are.
        name: the server's name.
        address: its address: an account is not used for another server of the same name.
    """

    def __init__(self, folder: Path, name: str, address: str) -> None:
        self._folder = folder
        self.name = name
        self._address = address
        digest = hashlib.sha256(f"{name}\n{address}".encode()).hexdigest()[:24]
        self._path = folder / f"{digest}.account"

    @property
    def written_at(self) -> float | None:
        """When it was last written, in seconds since the epoch; None if there is none."""
        try:
            return self._path.stat().st_mtime
        except FileNotFoundError:
            return None

    def read(self) -> Mapping[str, Any] | None:
        """What is kept; None if there is nothing.

        Raises:
            OptionsError: it cannot be decrypted or read.
        """
        from cryptography.fernet import InvalidToken

        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        fernet = self._fernet()
        try:
            kept: Mapping[str, Any] = json.loads(fernet.decrypt(content))
        except (InvalidToken, ValueError):
            raise OptionsError(
                f"the account of {self.name!r} cannot be decrypted: its key has changed",
                remedy=f"Authorise it again: zeus auth login {self.name}.",
            ) from None
        return kept

    def check(self) -> None:
        """That an account can be kept, before anybody is asked for one.

        Raises:
            OptionsError: the key is damaged, or others can read it.
        """
        self._fernet()

    def write(self, account: Mapping[str, Any]) -> None:
        """Keep an account, in one step: a reader sees the former or this one."""
        self._make_folder()
        temporary = self._path.with_suffix(f".{os.getpid()}.new")
        text = json.dumps({"name": self.name, "address": self._address, **account})
        temporary.touch(mode=0o600)
        temporary.write_bytes(self._fernet().encrypt(text.encode()))
        temporary.replace(self._path)

    def delete(self) -> bool:
        """Forget the account; False if there was none."""
        existed = self._path.exists()
        self._path.unlink(missing_ok=True)
        return existed

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """While inside, no other process renews this account: a refresh token is good for one use only.

        Raises:
            OptionsError: another process has held it too long.
        """
        from filelock import FileLock, Timeout

        self._make_folder()
        lock = FileLock(self._path.with_suffix(".lock"), thread_local=False)
        try:
            await asyncio.to_thread(lock.acquire, timeout=_LOCK_SECONDS)
        except Timeout:
            raise OptionsError(
                f"the account of {self.name!r} is being renewed by another process",
                remedy="Try again when it has ended.",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _fernet(self) -> Fernet:
        from cryptography.fernet import Fernet

        file = self._folder / "key"
        if not file.exists():
            key = _from_keyring()
            if key is not None:
                return Fernet(key)
            self._make_key(file)
        _refuse_open(file)
        try:
            return Fernet(file.read_bytes())
        except ValueError:
            raise OptionsError(
                f"the key of the accounts, {file}, is damaged",
                remedy="Put it back from a backup, or remove it and authorise again: zeus auth login NAME.",
            ) from None

    def _make_key(self, file: Path) -> None:
        """A new key, there at once and whole: another process may want it in the same moment."""
        from cryptography.fernet import Fernet

        self._make_folder()
        made = file.with_name(f"key.{os.getpid()}.{os.urandom(4).hex()}.new")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as writer:
            writer.write(Fernet.generate_key())
        try:
            with suppress(FileExistsError):
                os.link(made, file)
        finally:
            made.unlink()


def _refuse_open(file: Path) -> None:
    """Raise if others may read the key: as good as the accounts themselves."""
    status = file.stat()
    if os.name == "posix" and status.st_mode & 0o077:
        raise OptionsError(
            f"the key of the accounts, {file}, can be read by others (mode {status.st_mode & 0o777:03o})",
            remedy=f"Make it yours alone (chmod 600 {file}); if others were on this machine, remove it and authorise"
            " the accounts again: zeus auth login NAME.",
        )


def _from_keyring() -> str | None:
    """The key in the system's keyring, made there if it is new; None where no keyring works."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    from cryptography.fernet import Fernet

    backend = keyring.get_keyring()
    if backend.priority <= 0:
        return None
    try:
        key = keyring.get_password(_SERVICE, _ENTRY)
        if key is None:
            keyring.set_password(_SERVICE, _ENTRY, Fernet.generate_key().decode())
            key = keyring.get_password(_SERVICE, _ENTRY)
    except KeyringError:
        return None
    return key
