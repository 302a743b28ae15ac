"""Stored accounts: one encrypted file each; the key is in the keyring or in a file that only the user can read."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.plugin import OptionsError, accounts_folder, zeus_command

if TYPE_CHECKING:
    from types import ModuleType

    from zeus_plugins.tools.mcp.servers import PlannedServer

_SERVICE: Final = "zeus-runtime"
_ENTRY: Final = "accounts"
_SECRET_KEYS: Final = frozenset(
    {"access_token", "refresh_token", "id_token", "client_secret", "registration_access_token"}
)
"""Keys whose values are secret in RFC 6749, RFC 7591 and OpenID Connect."""
_LOCK_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_ROOM_BYTES: Final = 16_384
"""More than the size of an account's file."""


def account_store(
    server: PlannedServer, environ: Mapping[str, str], learn: Callable[[str, str], None] | None = None
) -> AccountStore:
    """The store of a server's account: in the user's Home, because a project may be shared.

    Args:
        environ: the environment of the process itself.

    Raises:
        OptionsError: the process has no home folder.
    """
    folder = accounts_folder(environ)
    if folder is None:
        raise OptionsError("there is no folder for accounts: neither HOME nor XDG_CONFIG_HOME is set")
    return AccountStore(folder, server.name, server.spec.address or "", learn)


class AccountStore:
    """One server's account.

    Args:
        folder: the folder of all accounts.
        name: the server's name.
        address: the server's address, so that an account is not used for another server with the same name.
        learn: registers a secret to mask: a token each time it is read or written, others when Zeus gets them.
    """

    def __init__(
        self, folder: Path, name: str, address: str, learn: Callable[[str, str], None] | None = None
    ) -> None:
        self._learn = learn
        self._folder = folder
        self.name = name
        self._address = address
        # A digest: a server's name may have characters that a file's name must not have.
        digest = hashlib.sha256(f"{name}\n{address}".encode()).hexdigest()[:24]
        self._path = folder / f"{digest}.account"

    @property
    def written_at(self) -> float | None:
        """The time at which the account was last written, in seconds since the epoch; None without an account."""
        try:
            return self._path.stat().st_mtime
        except OSError:
            return None

    def read(self) -> Mapping[str, Any] | None:
        """The stored account; None if there is none.

        Raises:
            OptionsError: it cannot be decrypted or read.
        """
        from cryptography.fernet import Fernet, InvalidToken

        with self._readable():
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return None
            # The keys come one by one: the keyring is asked only if the key of the file does not fit.
            for key in self._keys():
                with suppress(InvalidToken):
                    kept: Mapping[str, Any] = json.loads(Fernet(key).decrypt(content))
                    self._mask(kept)
                    return kept
        raise OptionsError(
            f"the account of {self.name!r} cannot be decrypted: it is damaged, its key has changed, or the keyring"
            " with the key does not answer",
            remedy="Unlock the keyring, or authorise the account again:"
            f" {zeus_command('auth', 'login', self.name, is_argument=True)}",
        )

    def check(self) -> None:
        """Check that an account can be stored, before the user is asked or a single-use token is used.

        Raises:
            OptionsError: the key is damaged, other users can read it, or the folder is not writable.
        """
        with self._readable():
            self._make_folder()
            self._key()
            with self._new() as made:
                made.write_bytes(bytes(_ROOM_BYTES))

    def write(self, account: Mapping[str, Any]) -> None:
        """Store an account atomically: a reader gets the old account or the new one.

        Raises:
            OptionsError: the key is damaged, other users can read it, or the folder is not writable.
        """
        from cryptography.fernet import Fernet

        self._mask(account)
        text = json.dumps({"name": self.name, "address": self._address, **account})
        with self._readable():
            self._make_folder()
            packed = Fernet(self._key()).encrypt(text.encode())
            with self._new() as made:
                descriptor = os.open(made, os.O_WRONLY)
                with os.fdopen(descriptor, "wb") as writer:
                    writer.write(packed)
                    writer.flush()
                    os.fsync(descriptor)
                made.replace(self._path)

    def learn(self, key: str, secret: Any) -> None:
        """Have a secret of this account masked from now on; nothing happens if it is no text."""
        if self._learn is not None and isinstance(secret, str) and secret:
            self._learn(secret, f"accounts.{self.name}.{key}")

    def learn_held(self, held: Mapping[str, Any]) -> None:
        """Have the secrets masked that a part of an account, or an answer of an authorisation server, holds."""
        for key in _SECRET_KEYS & held.keys():
            self.learn(key, held[key])

    def _mask(self, account: Mapping[str, Any]) -> None:
        for part in ("tokens", "client"):
            self.learn_held(account.get(part) or {})

    def delete(self) -> bool:
        """Delete the account; False if there was none."""
        with self._readable():
            existed = self._path.exists()
            self._path.unlink(missing_ok=True)
        return existed

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other processes from renewing this account while the context is open: a refresh token can be used once.

        Raises:
            OptionsError: another process has held the lock for too long.
        """
        from filelock import FileLock, Timeout

        with self._readable():
            self._make_folder()
        lock = FileLock(self._path.with_suffix(".lock"), mode=0o600, thread_local=False)
        clock = asyncio.get_running_loop().time
        until = clock() + _LOCK_SECONDS
        with self._readable():
            while not lock.is_locked:
                try:
                    # A longer timeout would block the event loop: filelock sleeps in the thread.
                    lock.acquire(timeout=0)
                except Timeout:
                    if clock() > until:
                        raise OptionsError(
                            f"the account of {self.name!r} is being renewed by another process",
                            remedy="Try again when it has ended.",
                        ) from None
                    await asyncio.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of the file system into an error with a remedy."""
        try:
            yield
        except OSError as error:
            raise OptionsError(
                f"the accounts in {self._folder} cannot be read or written: {error.strerror or error}",
                remedy="Make yourself the owner of that folder and make it writable, or set XDG_CONFIG_HOME to another"
                " folder.",
            ) from None

    @contextmanager
    def _new(self) -> Iterator[Path]:
        """An empty file beside the account, readable for the user only; deleted at the end unless it was moved."""
        made = self._path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}.new")
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            yield made
        finally:
            made.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _keys(self) -> Iterator[bytes]:
        """The keys that an account may be encrypted with: the file's, then the keyring's. Reading creates neither."""
        kept = self._key_of_file()
        if kept is not None:
            yield kept
        found = _from_keyring()
        if found is not None:
            yield found

    def _key(self) -> bytes:
        """The key that encrypts accounts from now on; created if there is none."""
        found = self._key_of_file() or _from_keyring() or self._made_in_keyring()
        if found is None:
            self._make_key(self._key_file)
            found = self._key_of_file()
        assert found is not None
        return found

    def _made_in_keyring(self) -> bytes | None:
        """A new key in the system's keyring; None if the keyring cannot store it.

        If several processes try at once, only one creates the key.
        """
        from cryptography.fernet import Fernet
        from filelock import FileLock

        with FileLock(self._folder / "keyring.lock", mode=0o600, timeout=_LOCK_SECONDS), suppress(Exception):
            keyring = _keyring()
            if keyring.get_keyring().priority > 0 and not keyring.get_password(_SERVICE, _ENTRY):
                keyring.set_password(_SERVICE, _ENTRY, Fernet.generate_key().decode())
        return _from_keyring()

    @property
    def _key_file(self) -> Path:
        return self._folder / "key"

    def _key_of_file(self) -> bytes | None:
        """The key in the file; None if there is no such file."""
        file = self._key_file
        if not file.exists():
            return None
        _refuse_open(file)
        key = file.read_bytes()
        if not _is_key(key):
            raise OptionsError(
                f"the key of the accounts, {file}, is damaged",
                remedy="Restore it from a backup, or remove it and authorise again: zeus auth login NAME.",
            )
        return key

    def _make_key(self, file: Path) -> None:
        """Create a new key file atomically, because another process may create or read it at the same moment."""
        from cryptography.fernet import Fernet

        self._make_folder()
        made = file.with_name(f"key.{os.getpid()}.{os.urandom(4).hex()}.new")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as writer:
            writer.write(Fernet.generate_key())
            writer.flush()
            # The accounts that it encrypts are synced too: without the key they could not be read.
            os.fsync(writer.fileno())
        try:
            with suppress(FileExistsError):
                # A rename would replace a key with which another process has already encrypted an account.
                os.link(made, file)
        finally:
            made.unlink()


def _refuse_open(file: Path) -> None:
    """Raise if other users may read the key, since the key gives access to all accounts."""
    status = file.stat()
    if os.name == "posix" and status.st_mode & 0o077:
        raise OptionsError(
            f"the key of the accounts, {file}, can be read by other users (mode {status.st_mode & 0o777:03o})",
            remedy=f"Make it readable for you only (chmod 600 {file}). If this machine has other users, remove the key"
            " and authorise the accounts again: zeus auth login NAME.",
        )


def _is_key(key: bytes) -> bool:
    from cryptography.fernet import Fernet

    try:
        Fernet(key)
    except ValueError:
        return False
    return True


def _from_keyring() -> bytes | None:
    """The key in the system's keyring; None if no keyring works, or if it has no key."""
    with suppress(Exception):  # each keyring backend raises exceptions of its desktop
        keyring = _keyring()
        if keyring.get_keyring().priority > 0:
            key = (keyring.get_password(_SERVICE, _ENTRY) or "").encode()
            return key if _is_key(key) else None
    return None


def _keyring() -> ModuleType:
    """The library, with the backends that it found."""
    from zeus_runtime.plugin.sandbox import system_programs

    with system_programs():  # some backends look for libraries with a compiler
        import keyring

        keyring.get_keyring()
    return keyring
