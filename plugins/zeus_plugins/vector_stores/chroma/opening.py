"""Opens ChromaDB: a folder, which one process at a time uses, or a server, which many share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.checkpointer import claim, make_private, without_password

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCK: Final = "zeus.lock"
_NOT_INSTALLED: Final = "Install it: pip install 'chromadb>=1.5'"


@dataclass
class SharedFolder:
    """A folder that this process has open, for all its stores.

    Attributes:
        client: ChromaDB's.
        users: how many stores use it.
        shared: what its users know of its contents, by a name.
    """

    client: Any
    give_back: Callable[[], None]
    users: int = 1
    shared: dict[str, Any] = field(default_factory=dict)


_OPEN: Final[dict[Path, SharedFolder]] = {}
"""By the resolved path: a folder's lock belongs to the process, and so does ChromaDB's own client of a path."""
_OPENING: Final = Lock()


def open_folder(folder: Path) -> SharedFolder:
    """Open a folder, or share it if this process has it open; ``close_folder`` gives it back.

    Raises:
        MissingError: another process has it open, or it cannot be used.
    """
    # Held while the folder is opened, so that two threads of this process do not claim it twice.
    with _OPENING:
        known = _OPEN.get(folder.resolve())
        if known is not None:
            known.users += 1
            return known
        give_back = _claimed(folder)
        try:
            found = SharedFolder(_persistent_client(folder), give_back)
        # An interrupt too: a lock that stays would refuse the folder until the process ends.
        except BaseException:
            give_back()
            raise
        _OPEN[folder.resolve()] = found
        return found


def close_folder(folder: Path, opened: SharedFolder, last: Callable[[], None]) -> None:
    """Give a folder back.

    Args:
        last: called before it is closed, if nobody else in this process uses it.
    """
    with _OPENING:
        opened.users -= 1
        if opened.users:
            return
        # Before the lock is given back, so that no other thread gets the closed client.
        del _OPEN[folder.resolve()]
        try:
            last()
            opened.client.close()
        finally:
            opened.give_back()


def open_server(url: str, headers: Mapping[str, str]) -> Any:
    """ChromaDB's client of a server.

    Raises:
        MissingError: the server cannot be reached or used.
    """
    chromadb = _chromadb()
    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    with explained(url):
        try:
            return chromadb.HttpClient(
                host=parts.hostname or "",
                port=parts.port or (443 if is_safe else 80),
                ssl=is_safe,
                headers=dict(headers),
                settings=_settings(chromadb),
            )
        except ValueError as error:  # its word for a server that does not answer
            raise _unusable(url, str(error)) from error


@contextmanager
def explained(place: str | Path) -> Iterator[None]:
    """Raise ChromaDB's errors in the user's terms.

    Raises:
        MissingError: the folder or the server cannot be used now.
    """
    import httpx
    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, httpx.HTTPError) as error:
        raise _unusable(place, str(error) or type(error).__name__) from error


def _unusable(place: str | Path, why: str) -> MissingError:
    if isinstance(place, Path):
        return MissingError(
            f"the vector store chroma cannot use the folder {str(place)!r}: {why}",
            remedy="Remove the folder: its vectors are made again from the memories and knowledge bases.",
        )
    return MissingError(
        f"the vector store chroma cannot use the server {without_password(place)}: {why}",
        remedy="Start it, such as `chroma run --path FOLDER`, or correct memory.vector_store.chroma.url.",
    )


def _claimed(folder: Path) -> Callable[[], None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        give_back = claim(folder / _LOCK)
    except OSError as error:
        raise MissingError(
            f"the vector store chroma cannot use the folder {str(folder)!r}: {error.strerror}",
            remedy="Make it writable, or set memory.vector_store to {chroma: {path: another folder}}.",
        ) from error
    if give_back is None:
        raise MissingError(
            f"the vector store chroma is in use: another process has the folder {str(folder)!r} open",
            remedy=(
                "Wait until it ends. Several processes can share a server ({chroma: {url: ...}}), sqlite or pgvector:"
                " set memory.vector_store."
            ),
        )
    return give_back


def _refuse_links(folder: Path) -> None:
    """Refuse a folder with a link in it: ChromaDB would write where the link leads, and a repository can bring one.

    Raises:
        MissingError: there is a link in the folder or below.
    """
    for each in folder.rglob("*"):
        if each.is_symlink():
            raise MissingError(
                f"the vector store chroma cannot use the folder {str(folder)!r}: {str(each)!r} is a link",
                remedy="Remove the link, or the folder: its vectors are made again from memories and knowledge bases.",
            )


def _persistent_client(folder: Path) -> Any:
    _refuse_links(folder)
    chromadb = _chromadb()
    try:
        make_private(folder / "chroma.sqlite3")
        return chromadb.PersistentClient(path=str(folder), settings=_settings(chromadb))
    except Exception as error:
        raise MissingError(
            f"the vector store chroma cannot open the folder {str(folder)!r}: {error}",
            remedy="Remove the folder: its vectors are made again from the memories and knowledge bases.",
        ) from error


def _settings(chromadb: Any) -> Any:
    class GivenSettings(chromadb.Settings):  # type: ignore[misc]
        """ChromaDB's settings from its arguments alone.

        A variable of the environment could send the user's login to any server, and one of `.env` name classes to
        import.
        """

        @classmethod
        def settings_customise_sources(cls, _: object, init_settings: Any, **__: object) -> tuple[Any, ...]:
            return (init_settings,)

    return GivenSettings(anonymized_telemetry=False)


def _chromadb() -> Any:
    try:
        import chromadb
    except ImportError as error:
        raise MissingError(
            f"the vector store chroma cannot be used: {error}", remedy=_NOT_INSTALLED
        ) from error
    return chromadb
