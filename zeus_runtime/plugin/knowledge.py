"""Knowledge bases: search in ingested documents, and the conversion of files to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.knowledge.convert import convert_file as convert_file
    from zeus_runtime.knowledge.service import KnowledgeService as KnowledgeService

_ROOMS = {
    "KnowledgeService": "knowledge.service",
    "convert_file": "knowledge.convert",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
