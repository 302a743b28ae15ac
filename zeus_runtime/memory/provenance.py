"""Whose words a memory has: its source, found by the words where a model saves it, and shown beside them. Pure.

A document can tell a model what to remember. So the source is never the model's choice: a text that has more of a
result's words than of the user's is the document's, stays ``untrusted`` and never replaces a trusted memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zeus_runtime.memory.items import Source
from zeus_runtime.memory.retrieval.analysis import search_tokens

ORIGINS: Final[Mapping[Source, str]] = {
    "user": "",
    "ai": "your note",
    "knowledge_base": "from a document",
    "project_resource": "from a file or tool",
}
"""How a memory's source is told to a model; the user's words are the default."""


def source_of_tool(name: str) -> Source | None:
    """The source of a text from this tool; None for a tool that shows memories, whose sources are in them."""
    if name.startswith("memory_"):
        return None
    return "knowledge_base" if name == "search_knowledge_base" else "project_resource"


def source_of_words(
    content: str, said: Iterable[str], documents: Iterable[tuple[Source, str]], otherwise: Source
) -> Source:
    """The source of the document that has more words of ``content`` than each of ``said``; else ``otherwise``."""
    words = set(search_tokens(content))
    own = max((_share(words, text) for text in said), default=0.0)
    best, source = max(((_share(words, text), each) for each, text in documents), default=(0.0, otherwise))
    return source if best > own else otherwise


class TurnSources:
    """Whose words the results of one turn have: each result is read once, however often is asked."""

    def __init__(self) -> None:
        self._read = 0
        self._sources: list[Source] = []
        self._having: dict[str, list[int]] = {}
        """Of each word the documents that have it, by their number in ``_sources``."""

    def document_of(self, content: str, said: str, results: Sequence[tuple[str, str]]) -> Source | None:
        """The source of the document that has more words of ``content`` than ``said`` has; None if none has.

        Args:
            results: of the turn so far, the name of the tool and the text: those of the last time, and then later ones.
        """
        # Only new results: a step must not read the whole turn again.
        for at in range(self._read, len(results)):
            self._note(*results[at])
        self._read = len(results)
        words = set(search_tokens(content))
        shared = Counter(number for word in words for number in self._having.get(word, ()))
        if not shared:
            return None
        # Of equal ones the first result, so that the answer does not depend on the order of a set.
        number, most = max(shared.items(), key=lambda each: (each[1], -each[0]))
        return self._sources[number] if most > len(words & set(search_tokens(said))) else None

    def _note(self, tool: str, text: str) -> None:
        source = source_of_tool(tool)
        if source is None:
            return
        for word in set(search_tokens(text)):
            self._having.setdefault(word, []).append(len(self._sources))
        self._sources.append(source)


def _share(words: set[str], text: str) -> float:
    return len(words & set(search_tokens(text))) / max(1, len(words))
