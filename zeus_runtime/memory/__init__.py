"""Long-term memory: what is kept, what replaces what, what is shown to whom, and where it is found again.

The rules are pure: no database, clock or network. ``embedding`` and ``vectors`` say what the components are.
Each name is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.admission.comparison import TextVerdict as TextVerdict
    from zeus_runtime.memory.admission.comparison import compare as compare
    from zeus_runtime.memory.admission.decisions import Decision as Decision
    from zeus_runtime.memory.admission.decisions import Duplicate as Duplicate
    from zeus_runtime.memory.admission.decisions import Neighbour as Neighbour
    from zeus_runtime.memory.admission.decisions import Passed as Passed
    from zeus_runtime.memory.admission.decisions import Rejected as Rejected
    from zeus_runtime.memory.admission.decisions import StoredAlone as StoredAlone
    from zeus_runtime.memory.admission.decisions import Superseded as Superseded
    from zeus_runtime.memory.admission.gate import decide as decide
    from zeus_runtime.memory.admission.gate import validate as validate
    from zeus_runtime.memory.embedding import Calibration as Calibration
    from zeus_runtime.memory.embedding import Embedder as Embedder
    from zeus_runtime.memory.embedding import EmbeddingUnavailableError as EmbeddingUnavailableError
    from zeus_runtime.memory.items import Caller as Caller
    from zeus_runtime.memory.items import Embedding as Embedding
    from zeus_runtime.memory.items import MemoryItem as MemoryItem
    from zeus_runtime.memory.items import MemorySettingError as MemorySettingError
    from zeus_runtime.memory.items import MemorySettings as MemorySettings
    from zeus_runtime.memory.normalise import duplicate_key as duplicate_key
    from zeus_runtime.memory.permissions import Grant as Grant
    from zeus_runtime.memory.permissions import Reach as Reach
    from zeus_runtime.memory.permissions import may as may
    from zeus_runtime.memory.permissions import reach as reach
    from zeus_runtime.memory.retrieval.analysis import search_tokens as search_tokens
    from zeus_runtime.memory.retrieval.fusion import Fusion as Fusion
    from zeus_runtime.memory.retrieval.ranking import PromptMemories as PromptMemories
    from zeus_runtime.memory.retrieval.ranking import Ranked as Ranked
    from zeus_runtime.memory.retrieval.ranking import format_memories_for_prompt as format_memories_for_prompt
    from zeus_runtime.memory.retrieval.ranking import rank as rank
    from zeus_runtime.memory.screening.sensitive import injection_rule as injection_rule
    from zeus_runtime.memory.screening.sensitive import secret_rule as secret_rule
    from zeus_runtime.memory.vectors import Entry as Entry
    from zeus_runtime.memory.vectors import VectorQuery as VectorQuery
    from zeus_runtime.memory.vectors import VectorStore as VectorStore

_ROOMS = {
    "Calibration": "embedding",
    "Caller": "items",
    "TextVerdict": "admission.comparison",
    "Decision": "admission.decisions",
    "Duplicate": "admission.decisions",
    "Embedder": "embedding",
    "Embedding": "items",
    "EmbeddingUnavailableError": "embedding",
    "Entry": "vectors",
    "Fusion": "retrieval.fusion",
    "Grant": "permissions",
    "MemoryItem": "items",
    "MemorySettingError": "items",
    "MemorySettings": "items",
    "Neighbour": "admission.decisions",
    "Passed": "admission.decisions",
    "PromptMemories": "retrieval.ranking",
    "Ranked": "retrieval.ranking",
    "Reach": "permissions",
    "Rejected": "admission.decisions",
    "StoredAlone": "admission.decisions",
    "Superseded": "admission.decisions",
    "VectorQuery": "vectors",
    "VectorStore": "vectors",
    "compare": "admission.comparison",
    "decide": "admission.gate",
    "duplicate_key": "normalise",
    "format_memories_for_prompt": "retrieval.ranking",
    "injection_rule": "screening.sensitive",
    "may": "permissions",
    "rank": "retrieval.ranking",
    "reach": "permissions",
    "search_tokens": "retrieval.analysis",
    "secret_rule": "screening.sensitive",
    "validate": "admission.gate",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
