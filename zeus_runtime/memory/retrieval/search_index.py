"""The index by which memories are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from zeus_runtime.memory.permissions import Reach
from zeus_runtime.memory.retrieval.in_memory_search import Links
from zeus_runtime.memory.retrieval.lexical import Lexicon
from zeus_runtime.memory.vectors import VectorStore

_LITTLE: Final = 4_000
"""Memories within reach of which a question takes a few milliseconds."""


@dataclass(frozen=True)
class SearchIndex:
    """The words and the vectors of memories, as far as they were asked for. For one thread at a time.

    Args:
        links: which vector belongs to which entry of the lexicon.
    """

    vectors: VectorStore
    lexicon: Lexicon = field(default_factory=Lexicon)
    links: Links = field(default_factory=Links)

    def is_at_hand(self, parts: Sequence[Reach], user_id: str) -> bool:
        """Whether all that a question needs of these is in memory, and little: no work for another thread."""
        if not self.vectors.transactional:
            return False
        kept = self.lexicon.kept(parts, user_id)
        return kept is not None and kept <= _LITTLE
