"""Knowledge bases: documents cut into chunks, embedded, and found again by meaning and by words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.knowledge.convert import Converted as Converted
    from zeus_runtime.knowledge.convert import convert_file as convert_file
    from zeus_runtime.knowledge.index import Hit as Hit
    from zeus_runtime.knowledge.ingest import Ingested as Ingested
    from zeus_runtime.knowledge.ingest import Progress as Progress
    from zeus_runtime.knowledge.records import BaseInfo as BaseInfo
    from zeus_runtime.knowledge.service import KnowledgeService as KnowledgeService

_ROOMS = {
    "BaseInfo": "records",
    "Converted": "convert",
    "Hit": "index",
    "Ingested": "ingest",
    "KnowledgeService": "service",
    "Progress": "ingest",
    "convert_file": "convert",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
