"""Knowledge bases: search in ingested documents, and the conversion of files and of bytes to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.knowledge.convert import UnreadableError as UnreadableError
    from zeus_runtime.knowledge.convert import convert_file as convert_file
    from zeus_runtime.knowledge.convert import markdown_of as markdown_of
    from zeus_runtime.knowledge.encodings import guessed_encoding as guessed_encoding
    from zeus_runtime.knowledge.encodings import marked_encoding as marked_encoding
    from zeus_runtime.knowledge.service import KnowledgeService as KnowledgeService

_ROOMS = {
    "KnowledgeService": "knowledge.service",
    "UnreadableError": "knowledge.convert",
    "convert_file": "knowledge.convert",
    "guessed_encoding": "knowledge.encodings",
    "markdown_of": "knowledge.convert",
    "marked_encoding": "knowledge.encodings",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
