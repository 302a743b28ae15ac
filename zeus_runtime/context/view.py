"""The view: the part of the history that is sent, as a pure function of the history and the admitted edits.

A view is a value: it never changes, though the history behind it grows. One more message or one more edit makes a new
view, at the cost of only the new part; nothing scans the history.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from zeus_runtime.context.edits import DropBefore, Edit, Pin, Summarize
from zeus_runtime.context.history import Past, quarter_bytes
from zeus_runtime.context.items import SUMMARY_SEQ, Item, Survival, source_of
from zeus_runtime.context.replacement_messages import replaced, summary_message

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens import Counter


@dataclass(frozen=True)
class Effect:
    """The effect of an edit on a view.

    Args:
        tokens_after: the tokens of the view's messages with the edit applied.
        touched: the ``seq`` of the first message that would be shown differently.
        message: the message that would be shown instead, for edits that replace one.
        message_tokens: the tokens of ``message``.
    """

    tokens_after: int
    touched: int
    message: BaseMessage | None = None
    message_tokens: int = 0


@dataclass(frozen=True)
class _Extent:
    """The messages of a view: pinned ones from before the cut, the summary, and all from ``first`` to ``upto``."""

    upto: int
    number: int
    first: int = 1
    head: tuple[int, ...] = ()
    summary: BaseMessage | None = None
    summary_tokens: int = 0
    pinned: frozenset[int] = frozenset()
    tokens: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)


class View(Sequence["BaseMessage"]):
    """The messages that a model call sends, in order. Made by ``fold``, ``extended`` and ``applied``; immutable."""

    def __init__(self, past: Past, extent: _Extent) -> None:
        self._past = past
        self._extent = extent
        # Order of a view: pinned messages from before the cut, the summary, then `first` to `upto` without gaps.
        self._lead = len(extent.head) + (extent.summary is not None)
        self._length = self._lead + max(0, extent.upto - extent.first + 1)
        self._items: dict[int, Item] = {}
        self._arrived: tuple[int, Sequence[Item]] | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the messages, without system prompt and tools."""
        return self._extent.tokens

    @property
    def by_source(self) -> Mapping[str, int]:
        """The tokens of the messages by source."""
        return self._extent.by_source

    @property
    def first(self) -> int:
        """The ``seq`` from which on every message is shown; pinned ones may precede it."""
        return self._extent.first

    @property
    def upto(self) -> int:
        """The last ``seq`` that the view covers."""
        return self._extent.upto

    @property
    def length(self) -> int:
        """The number of messages that are shown."""
        return self._length

    @property
    def edits(self) -> int:
        """The number of edits that made this view."""
        return self._extent.number

    @property
    def pinned(self) -> frozenset[int]:
        """The ``seq`` of every message that stays for ever."""
        return self._extent.pinned

    @property
    def summary(self) -> BaseMessage | None:
        """The summary of the messages that left the view, if there is one."""
        return self._extent.summary

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> BaseMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BaseMessage]: ...
    def __getitem__(self, index: int | slice) -> BaseMessage | Sequence[BaseMessage]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._length))]
        seq = self.seq(index)
        return self._extent.summary if seq == SUMMARY_SEQ else self._version(seq)[0]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[BaseMessage]:
        for index in range(self._lead):
            yield self[index]
        messages, shown = self._past.messages, self._past.shown
        for seq in range(self._extent.first, self._extent.upto + 1):
            # Each request reads every message several times.
            yield self._version(seq)[0] if seq in shown else messages[seq - 1]

    def seq(self, index: int) -> int:
        """The place in the history of the message at ``index``; 0 for the summary.

        Raises:
            IndexError: the view has no such index.
        """
        if not -self._length <= index < self._length:
            raise IndexError(index)
        index %= self._length
        if index >= self._lead:
            return self._extent.first + index - self._lead
        return self._extent.head[index] if index < len(self._extent.head) else SUMMARY_SEQ

    def index(self, seq: object, start: int = 0, stop: int | None = None) -> int:
        """The index in the view of the message ``seq`` of the history.

        Raises:
            ValueError: the message is not shown.
        """
        if isinstance(seq, int) and self.shown(seq):
            if seq >= self._extent.first:
                return seq - self._extent.first + self._lead
            return self._extent.head.index(seq)
        raise ValueError(f"message {seq} is not shown")

    def item(self, index: int) -> Item:
        """The message at ``index``, with its tokens, class and source."""
        seq = self.seq(index)
        if seq == SUMMARY_SEQ:
            assert self._extent.summary is not None
            return Item(seq, self._extent.summary, self._extent.summary_tokens, "normal", "summary")
        return self.item_of(seq)

    def item_of(self, seq: int) -> Item:
        """The message ``seq`` of the history as this view shows it, or would if it had not left."""
        item = self._items.get(seq)
        if item is None:
            message, tokens = self._version(seq)
            item = Item(seq, message, tokens, self._survival(seq, message), source_of(message))
            # A view is immutable, so an item that was made is right for ever.
            self._items[seq] = item
        return item

    def items(self) -> Iterator[Item]:
        """Every message of the view, with its tokens, class and source."""
        return (self.item(index) for index in range(self._length))

    def arrived(self, after: int) -> Sequence[Item]:
        """The messages with a ``seq`` above ``after``, oldest first; the policies of a step share one answer."""
        # From the end backwards, so that a step costs as much as is new, not as much as the view has.
        if self._arrived is None or self._arrived[0] != after:
            new: list[Item] = []
            for place in range(self._length - 1, -1, -1):
                item = self.item(place)
                if item.seq <= after:
                    break
                new.append(item)
            self._arrived = after, tuple(new[::-1])
        return self._arrived[1]

    def original(self, seq: int) -> BaseMessage:
        """The message as it is in the history.

        Raises:
            IndexError: the view does not cover such a message.
        """
        if not 1 <= seq <= self._extent.upto:
            raise IndexError(seq)
        return self._past.messages[seq - 1]

    def original_tokens(self, seq: int) -> int:
        """The tokens of the message as it is in the history."""
        self.original(seq)
        return self._past.counted(seq)

    def written_ms(self, seq: int) -> int | None:
        """When the message was written, in UTC milliseconds; None where that is not known."""
        return self._past.written_ms.get(seq)

    def shown(self, seq: int) -> bool:
        """Whether the message is in the view, whole or replaced."""
        # The set is asked before the tuple, whose search takes a step for each pinned message.
        return self._extent.first <= seq <= self._extent.upto or (
            seq in self._extent.pinned and seq in self._extent.head
        )

    def evicted(self, seq: int) -> bool:
        """Whether a pointer replaced the message."""
        return self._past.was_evicted(seq, self._extent.number)

    def truncated(self, call_id: str) -> bool:
        """Whether arguments of the call were shortened."""
        return self._past.was_truncated(call_id, self._extent.number)

    def group(self, seq: int) -> range:
        """The ``seq`` of the message's tool group: an answer with calls and its results; any other message alone."""
        start = seq
        while start > 1 and self.original(start).type == "tool":
            start -= 1
        end = start
        if self.original(start).type == "ai":
            while end < self._extent.upto and self.original(end + 1).type == "tool":
                end += 1
        return range(start, end + 1)

    def leaving(self, edit: Edit) -> Sequence[int]:
        """The ``seq`` of every message that ``edit`` would remove from the view or show differently."""
        if isinstance(edit, DropBefore | Summarize):
            end = min(edit.seq, self._extent.upto + 1)
            return [seq for seq in range(self._extent.first, end) if seq not in self._extent.pinned]
        return [] if isinstance(edit, Pin) else [edit.seq]

    def effect(self, edit: Edit) -> Effect:
        """The effect of ``edit``, which need not be admissible, but must name messages that the view covers."""
        extent = self._extent
        if isinstance(edit, Pin):
            # The place behind the last message: a pin changes none.
            return Effect(extent.tokens, extent.upto + 1)
        if isinstance(edit, DropBefore | Summarize):
            gone = sum(self._version(seq)[1] for seq in self.leaving(edit))
            after = extent.tokens - gone - extent.summary_tokens
            touched = extent.first
            if isinstance(edit, DropBefore):
                return Effect(after, touched)
            message = summary_message(edit.content)
            tokens = self._past.count(message)
            return Effect(after + tokens, touched, message, tokens)
        shown, before = self._version(edit.seq)
        message = replaced(shown, edit)
        tokens = self._past.count(message)
        return Effect(extent.tokens - before + tokens, edit.seq, message, tokens)

    def extended(self, upto: int) -> View:
        """This view with the history's messages up to ``upto`` added."""
        extent, past = self._extent, self._past
        if upto <= extent.upto:
            return self
        by_source = dict(extent.by_source)
        tokens = extent.tokens
        for seq in range(extent.upto + 1, upto + 1):
            counted = past.counted(seq)
            source = source_of(past.messages[seq - 1])
            by_source[source] = by_source.get(source, 0) + counted
            tokens += counted
        return View(past, _changed(extent, upto=upto, tokens=tokens, by_source=by_source))

    def applied(self, edit: Edit, effect: Effect | None = None) -> View:
        """This view with ``edit`` admitted.

        Args:
            effect: the result of ``effect(edit)``, if it is already known.
        """
        effect = effect or self.effect(edit)
        extent = self._extent
        # Views share one past. An edit of an older view gets a copy of it, so that newer views do not change.
        past = self._past.going_on(extent.number)
        number = past.number
        if isinstance(edit, Pin):
            # The whole tool group: providers refuse a call without its result, and a result without its call.
            pinned = extent.pinned | (set(self.group(edit.seq)) if self.shown(edit.seq) else set())
            return View(past, _changed(extent, number=number, pinned=pinned))
        # The summary of an earlier cut leaves with the messages; a new summary contains it.
        by_source: Tally[str] = Tally(extent.by_source)
        if isinstance(edit, DropBefore | Summarize):
            for seq in self.leaving(edit):
                message, tokens = self._version(seq)
                by_source[source_of(message)] -= tokens
            if extent.summary is not None:
                by_source["summary"] -= extent.summary_tokens
            if effect.message is not None:
                by_source["summary"] += effect.message_tokens
            between = range(extent.first, min(edit.seq, extent.upto + 1))
            return View(
                past,
                _Extent(
                    upto=extent.upto,
                    number=number,
                    first=max(extent.first, edit.seq),
                    head=(*extent.head, *(seq for seq in between if seq in extent.pinned)),
                    summary=effect.message,
                    summary_tokens=effect.message_tokens,
                    pinned=extent.pinned,
                    tokens=effect.tokens_after,
                    # Unary plus drops the sources that have no tokens left.
                    by_source=+by_source,
                ),
            )
        shown, before = self._version(edit.seq)
        assert effect.message is not None
        by_source[source_of(shown)] += effect.message_tokens - before
        past.show(edit, effect.message, effect.message_tokens)
        return View(past, _changed(extent, number=number, tokens=effect.tokens_after, by_source=+by_source))

    def _version(self, seq: int) -> tuple[BaseMessage, int]:
        return self._past.version(seq, self._extent.number)

    def _survival(self, seq: int, message: BaseMessage) -> Survival:
        if seq in self._extent.pinned:
            return "pinned"
        if self.evicted(seq) or (message.type == "tool" and message.name in self._past.replayable):
            return "replayable"
        return "normal"


def fold(
    history: Sequence[BaseMessage],
    edits: Iterable[Edit],
    length: int | None = None,
    pins: Iterable[int] = (),
    counter: Counter | None = None,
    replayable: Iterable[str] = (),
    written_ms: Mapping[int, int] | None = None,
) -> View:
    """``view = fold(history, edits)``.

    Args:
        history: all messages, ``seq`` 1 first; it may grow meanwhile, the view does not.
        edits: the admitted ones, in order.
        length: how many messages of the history count; all by default.
        pins: the ``seq`` of messages that were pinned before any edit.
        counter: counts tokens; without one, a quarter of the UTF-8 bytes.
        replayable: names of tools whose results can be fetched again.
        written_ms: when each message was written, by ``seq``, in UTC milliseconds.
    """
    count = quarter_bytes if counter is None else counter.message
    # Not `or`: an empty mapping that grows later must stay the caller's.
    past = Past(history, count, frozenset(replayable), {} if written_ms is None else written_ms)
    view = View(past, _Extent(upto=0, number=0, pinned=frozenset(pins)))
    view = view.extended(len(history) if length is None else length)
    for edit in edits:
        view = view.applied(edit)
    return view


def _changed(extent: _Extent, **changes: Any) -> _Extent:
    return _Extent(**{**vars(extent), **changes})
