"""Files that users uploaded for their sessions: each user's own, under a name from its content, for some days."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import LimitError, NotFoundError, UsageError
from zeus_runtime.store.session_lock import NO_LOCKS
from zeus_runtime.tools.own_folders import UPLOADS, opened

if TYPE_CHECKING:
    from zeus_runtime.serving.http.settings import ServiceLimits
    from zeus_runtime.store.threads import Owner

_DAY_SECONDS: Final = 86_400
_LOCK: Final = ".lock"


@dataclass(frozen=True)
class Uploads:
    """The uploaded files of a service. Every method blocks on the disk.

    Args:
        directory: the service's working directory.
        limits: how much users may have.
    """

    directory: Path
    limits: ServiceLimits

    def put(self, owner: Owner | None, digest: str, data: bytes) -> bool:
        """Keep a file; False if the user has it already.

        Args:
            digest: SHA-256 of ``data`` in hex.

        Raises:
            UsageError: it is not.
            LimitError: the user has uploaded too much.
        """
        if hashlib.sha256(data).hexdigest() != digest:
            raise UsageError("the body has another SHA-256 than its address", remedy="Send the whole file.")
        name, now = self._name(owner, digest), time.time()
        # By descriptor, without following links: a project can bring `.zeus` as a link to any folder.
        with opened(self.directory / UPLOADS, create=True, mode=0o700) as folder, _locked(folder):
            # Here, because only uploads add files: no timer is needed.
            self._forget_old(folder, now)
            prefix = name.partition(".")[0]
            own = {each: status for each, status in _entries(folder) if each.startswith(prefix)}
            if name in own:
                # Its days begin anew, so that a file that was just sent again is there for the prompt.
                os.utime(name, (now, now), dir_fd=folder)
                return False
            if sum(each.st_size for each in own.values()) + len(data) > self.limits.files_bytes:
                raise LimitError(
                    f"your uploaded files would have more than {self.limits.files_bytes:,} bytes",
                    remedy=f"Delete some, or wait: each is deleted after {self.limits.files_max_age_days:g} days.",
                )
            # With the dot, a file that is not whole yet does not count as one of the user's.
            part = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
        return True

    def size(self, owner: Owner | None, digest: str) -> int:
        """The bytes of a file.

        Raises:
            NotFoundError: the user has no such file.
        """
        with self._found(owner, digest) as (_, _, status):
            return status.st_size

    def read(self, owner: Owner | None, digest: str) -> bytes:
        """The content of a file.

        Raises:
            NotFoundError: the user has no such file, or no more.
        """
        with self._found(owner, digest) as (folder, name, _):
            # Not to wait for the writer of a pipe that took the file's place.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()

    def hand_over(self, owner: Owner | None, to: Owner | None, digest: str) -> None:
        """Keep a user's file for another user too.

        Raises:
            NotFoundError: the user has no such file, or no more.
            LimitError: the other user has uploaded too much.
        """
        self.put(to, digest, self.read(owner, digest))

    def delete(self, owner: Owner | None, digest: str) -> None:
        """Delete a file.

        Raises:
            NotFoundError: the user has no such file, or no more.
        """
        with self._found(owner, digest) as (folder, name, _):
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _found(self, owner: Owner | None, digest: str) -> Iterator[tuple[int, str, os.stat_result]]:
        """The folder of a user's file, open, with the file's name and status there. No link is followed, as in ``put``.

        Raises:
            NotFoundError: the user has no such file, also if it goes inside the block.
        """
        name = self._name(owner, digest)
        try:
            with opened(self.directory / UPLOADS) as folder:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not S_ISREG(status.st_mode):
                    raise FileNotFoundError(name)
                yield folder, name, status
        except FileNotFoundError:
            raise NotFoundError(
                f"you have no file {digest!r}", remedy="Upload it: PUT /v1/files/SHA256."
            ) from None

    def _name(self, owner: Owner | None, digest: str) -> str:
        user, project = ("", "") if owner is None else (owner.user, owner.project or "")
        whose = hashlib.sha256("\0".join((user, project)).encode()).hexdigest()[:32]
        return f"{whose}.{digest}"

    def _forget_old(self, folder: int, now: float) -> None:
        oldest = now - self.limits.files_max_age_days * _DAY_SECONDS
        for name, status in _entries(folder):
            if status.st_mtime < oldest:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)


@contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Keep other uploads out, of this process and of others: each counts the files that are there before its own."""
    import fcntl

    descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        try:
            # The lock belongs to the opened file, so threads of one process wait for each other too.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            # Some network file systems have no locks; there, two uploads at once may pass the limit.
            if error.errno not in NO_LOCKS:
                raise
        # So that it is never old, and removed while another upload waits for it.
        os.utime(descriptor)
        yield
    finally:
        os.close(descriptor)


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for each in found:
            # Another request may delete one meanwhile.
            with suppress(FileNotFoundError):
                if each.is_file(follow_symlinks=False):
                    yield each.name, each.stat()
