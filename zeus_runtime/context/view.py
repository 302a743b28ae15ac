"""The view: what of the history is sent, as a pure function of the history and the admitted edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from zeus_runtime.context.edits import Edit

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True)
class Item:
    """One message of the view; ``seq`` is its place in the history, from 1."""

    seq: int
    message: BaseMessage


class View(Sequence["BaseMessage"]):
    """A sequence of messages: the history from ``first`` on. Taking one costs nothing, however long the history.

    Args:
        history: all messages, ``seq`` 1 first; it may grow meanwhile, the view does not.
        first: the ``seq`` of the first message shown.
        length: how much of the history counts.
    """

    def __init__(self, history: Sequence[BaseMessage], *, first: int, length: int) -> None:
        self._history = history
        self.first = first
        self._length = max(0, length - first + 1)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> BaseMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BaseMessage]: ...
    def __getitem__(self, index: int | slice) -> BaseMessage | Sequence[BaseMessage]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._history[self.first - 1 + index % self._length]

    def __iter__(self) -> Iterator[BaseMessage]:
        for offset in range(self._length):
            yield self._history[self.first - 1 + offset]

    def item(self, index: int) -> Item:
        """The message at ``index`` with its place in the history."""
        place = index % self._length if -self._length <= index < self._length else index
        return Item(self.first + place, self[index])


def fold(history: Sequence[BaseMessage], edits: Sequence[Edit], length: int | None = None) -> View:
    """``view = fold(history, edits)``.

    Args:
        history: all messages, ``seq`` 1 first.
        edits: the admitted ones, in order.
        length: how many messages of the history count; all by default.
    """
    first = max((edit.seq for edit in edits), default=1)
    return View(history, first=first, length=len(history) if length is None else length)
