"""The running tool call, on whose behalf the workspace opens files, and what a person approved for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from zeus_runtime.tools.access import ANY_TOOL
from zeus_runtime.tools.links import RESOLVED
from zeus_runtime.tools.mounts import Parts
from zeus_runtime.tools.paths import folded


class CallingTool(NamedTuple):
    """The tool call that opens files.

    Args:
        tool: its tool's name; None for files that the user names or middlewares read.
        approved: whether a person approved it.
        files: the only files, folded, that an approval covers: those that its question showed. None: all.
        of_session: whether files of the archive are opened as far as ``reading_kept`` allows; otherwise none is.
    """

    tool: str | None
    approved: bool = False
    files: frozenset[Parts] | None = None
    of_session: bool = True

    def covers(self, parts: Parts) -> bool:
        """Whether an approval covers an access to a file.

        Args:
            parts: its path with links resolved. A question that named a link did not show the file, and since then the
                link may lead to another one.
        """
        return self.approved if self.files is None else _folded(parts) in self.files

    def covers_way(self, parts: Parts) -> bool:
        """Whether an approval covers the making of a folder: the path of a file in it shows it too."""
        if self.files is None:
            return self.approved
        folder = _folded(parts)
        return any(each[: len(folder)] == folder for each in self.files)


def calling(
    tool: str | None,
    *,
    approved: bool = False,
    files: Iterable[Parts] | None = None,
    of_session: bool = False,
) -> AbstractContextManager[None]:
    """While inside, files are opened for a call of ``tool``; None: for the user or for middlewares.

    Args:
        approved: whether a person approved the call.
        files: the only files that an approval lets it change, which are also read without a question; None: all.
        of_session: without a tool, files of the archive are opened only if this is set, as far as ``reading_kept``
            allows: a path may be a link, which a program made. A tool always opens them so.
    """
    if tool is None and files is None and not approved:
        return Calling(_FOR_SESSION if of_session else _NO_TOOL, {})
    named = None if files is None else frozenset(map(_folded, files))
    return Calling(CallingTool(tool, approved, named, of_session or tool is not None), {})


class Calling:
    """A tool call while it opens files.

    A class, because a step enters it some 20 times, and a generator costs three times as much.

    Args:
        call: the tool call.
        linked_keys: results for it: the folders are searched once per call, and only if a file has several names. None:
            nothing is remembered.
    """

    __slots__ = ("_former", "_resolved", "call", "linked_keys")

    def __init__(
        self, call: CallingTool, linked_keys: dict[tuple[int, int], set[tuple[int, int]]] | None
    ) -> None:
        self.call = call
        self.linked_keys = linked_keys

    def __enter__(self) -> None:
        self._former = _CALL.set(self)
        is_set = self.call.tool is None and RESOLVED.get() is None
        self._resolved = None if is_set else RESOLVED.set(None if self.call.tool is None else {})

    def __exit__(self, *_: object) -> None:
        _CALL.reset(self._former)
        if self._resolved is not None:
            RESOLVED.reset(self._resolved)


_NO_TOOL: Final = CallingTool(None, of_session=False)
_FOR_SESSION: Final = CallingTool(None)
_UNKNOWN: Final = Calling(CallingTool(ANY_TOOL), None)
_CALL: Final[ContextVar[Calling]] = ContextVar("zeus_tool_call", default=_UNKNOWN)
"""Threads that a plugin starts do not inherit it: the default must be the strictest."""


def calling_now() -> Calling:
    """The tool call that opens files; outside of ``calling``, one with the least rights."""
    return _CALL.get()


_KEPT: ContextVar[Callable[[str], bool] | None] = ContextVar("zeus_kept_files", default=None)


@contextmanager
def reading_kept(may_read: Callable[[str], bool]) -> Iterator[None]:
    """While inside, those files and folders of the archive can be opened whose paths ``may_read`` allows."""
    token = _KEPT.set(may_read)
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept_now() -> Callable[[str], bool] | None:
    """Return the function given to ``reading_kept``; None outside of it, where nobody can open the archive."""
    return _KEPT.get()


def _folded(parts: Parts) -> Parts:
    return tuple(map(folded, parts))
