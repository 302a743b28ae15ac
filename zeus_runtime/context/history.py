"""The text shown in place of each message, stored under the number of the edit that decided it.

So an older view still shows the same as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.context.edits import Evict, TruncateArguments

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass
class Past:
    """The data that all views of one session share; it only grows.

    Args:
        messages: the history, ``seq`` 1 first.
        count: counts the tokens of a message.
        replayable: names of tools whose results can be fetched again.
        written_ms: when each message was written, by ``seq``, in UTC milliseconds, where that is known.
        tokens: the tokens of the messages counted so far.
        shown: (edit number, message, tokens) by ``seq``, oldest first.
        evicted, truncated: the number of the edit, by ``seq`` and by call id.
        number: the number of edits.
    """

    messages: Sequence[BaseMessage]
    count: Callable[[BaseMessage], int]
    replayable: frozenset[str] = frozenset()
    written_ms: Mapping[int, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    shown: dict[int, list[tuple[int, BaseMessage, int]]] = field(default_factory=dict)
    evicted: dict[int, int] = field(default_factory=dict)
    truncated: dict[str, int] = field(default_factory=dict)
    number: int = 0

    def counted(self, seq: int) -> int:
        """The tokens of a message as it is in the history; each message is counted once."""
        while len(self.tokens) < seq:
            self.tokens.append(self.count(self.messages[len(self.tokens)]))
        return self.tokens[seq - 1]

    def version(self, seq: int, number: int) -> tuple[BaseMessage, int]:
        """A message as it was shown after ``number`` edits, and its tokens."""
        # The newest first: most views are of the last edit.
        for at, message, tokens in reversed(self.shown.get(seq, ())):
            if at <= number:
                return message, tokens
        return self.messages[seq - 1], self.counted(seq)

    def was_evicted(self, seq: int, number: int) -> bool:
        """Whether a pointer replaced the message after ``number`` edits."""
        return seq in self.evicted and self.evicted[seq] <= number

    def was_truncated(self, call_id: str, number: int) -> bool:
        """Whether arguments of the call were shortened after ``number`` edits."""
        return call_id in self.truncated and self.truncated[call_id] <= number

    def going_on(self, number: int) -> Past:
        """The past for the edit after the ``number``-th: this one, or a branch if this one has a later edit."""
        past = self if self.number == number else self.branch(number)
        past.number = number + 1
        return past

    def show(self, edit: Evict | TruncateArguments, message: BaseMessage, tokens: int) -> None:
        """Remember the text that the newest edit shows in a message's place."""
        self.shown.setdefault(edit.seq, []).append((self.number, message, tokens))
        if isinstance(edit, Evict):
            self.evicted[edit.seq] = self.number
        else:
            self.truncated[edit.call_id] = self.number

    def branch(self, number: int) -> Past:
        """A separate copy, as it was after ``number`` edits."""
        return Past(
            self.messages,
            self.count,
            self.replayable,
            self.written_ms,
            # Shared with the branch: the counts are of the history, which no edit changes.
            self.tokens,
            {seq: [one for one in versions if one[0] <= number] for seq, versions in self.shown.items()},
            {seq: one for seq, one in self.evicted.items() if one <= number},
            {call: one for call, one in self.truncated.items() if one <= number},
            number,
        )


def quarter_bytes(message: BaseMessage) -> int:
    """Tokens of a message without a counter: a quarter of its UTF-8 bytes."""
    calls = getattr(message, "tool_calls", None)
    return 4 + (len(str(message.content).encode()) + (len(str(calls).encode()) if calls else 0)) // 4
