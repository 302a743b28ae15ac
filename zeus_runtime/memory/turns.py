"""Memories that are turns of a conversation: ``source_id`` is ``CONVERSATION#NUMBER``, the subject is the speaker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zeus_runtime.memory.items import MemoryItem

# `talk#3` and `a#b#12` are turns, `#3` and `talk#3a` are not.
_TURN = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


class ConversationTurn(NamedTuple):
    """The place of a memory in a conversation."""

    conversation: str
    number: int

    @property
    def source_id(self) -> str:
        return f"{self.conversation}#{self.number}"


def turn_of(source_id: str | None) -> ConversationTurn | None:
    """The turn that a ``source_id`` names: ``CONVERSATION#NUMBER``; None for any other."""
    found = None if source_id is None else _TURN.fullmatch(source_id)
    return None if found is None else ConversationTurn(found[1], int(found[2]))


def before(source_id: str | None) -> str | None:
    """The ``source_id`` of the turn before the one that ``source_id`` names; None where it names none."""
    turn = turn_of(source_id)
    return None if turn is None else turn._replace(number=turn.number - 1).source_id


def after(source_id: str | None) -> str | None:
    """The ``source_id`` of the turn after the one that ``source_id`` names; None where it names none."""
    turn = turn_of(source_id)
    return None if turn is None else turn._replace(number=turn.number + 1).source_id


def in_context(item: MemoryItem, previous: MemoryItem | None) -> str:
    """The text by which an item is embedded: a turn together with the one before it, which it may answer.

    Args:
        previous: the turn before, if it is there. Its text counts only if it is shown to the same persons.
    """
    if previous is None or not previous.is_searchable:
        return item.content
    shown = (previous.visibility, previous.created_by) == (item.visibility, item.created_by)
    return f"{previous.content}\n{item.content}" if shown else item.content
