"""Whose words a memory has: its source, found by the words where a model saves it, and shown beside them. Pure.

A document can tell a model what to remember. So the source is never the model's choice: a text that has more of a
result's words than of the user's is the document's, stays ``untrusted`` and never replaces a trusted memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def _share(words: set[str], text: str) -> float:
    return len(words & set(search_tokens(text))) / max(1, len(words))
