"""What turns texts into vectors: the interface of the embedding components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from zeus_runtime.errors import ZeusError, masking_errors
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.items import Embedding
    from zeus_runtime.tools.tool import JSON

    Vectors: TypeAlias = NDArray[np.float32]
    """Shape (texts, dimension), float32, each row of length 1 (or 0, where a text holds nothing the model knows)."""

Purpose: TypeAlias = Literal["memory", "query"]
"""Some models embed what is searched and what searches differently."""


class EmbeddingUnavailableError(ZeusError):
    """The model cannot be reached now: no key, no network, too slow. Work without vectors continues (exit 4)."""

    exit_code = 4
    code = "embedding-unavailable"


@dataclass(frozen=True)
class Calibration:
    """What a cosine of one embedding model means.

    Args:
        cosine_zero: nine in ten pairs of a query and an unrelated memory have less.
        cosine_one: a memory with this cosine surely answers the query; nine in ten answers have less.
        trust: 0 to 1; the weight of the strongest agreement alone, for texts that the model knows completely. The
            higher it is, the less common words count.
        duplicate: from which on a new text is looked at as a duplicate of an older one; None: the gate's setting,
            which is meant for text-embedding-3-small.
    """

    cosine_zero: float
    cosine_one: float
    trust: float
    duplicate: float | None = None


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text's vector: shape (dimension,), float32, length 1, and what its cosines mean."""

    vector: NDArray[np.float32]
    embedding: Embedding
    calibration: Calibration


@dataclass(frozen=True)
class WorkerFactory:
    """Creates a model in a worker process.

    Args:
        function: ``module:function``; it returns the ``Embedder``, and must be importable there.
        arguments: its arguments, as JSON.
    """

    function: str
    arguments: Mapping[str, JSON]


class Embedder(ABC):
    """One embedding model.

    Vectors are compared only with vectors of the same ``model`` and ``dimension``, so ``model`` names everything that
    makes a vector what it is, a version of a table too.
    """

    model: str
    dimension: int
    calibration: Calibration
    quick: bool = False
    """Answers in a millisecond, offline, so a write waits for it. Slower models write vectors later (backfill)."""
    worker: WorkerFactory | None = None
    """Creates the same model in worker processes, if it embeds on the interpreter's thread, so that an ingest of many
    texts uses further processors. None: it waits for a service, or uses several processors by itself.
    A subclass that changes ``embed`` must set it again, because workers would create the original class."""

    @abstractmethod
    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Vectors:
        """One vector for each text, in order.

        Raises:
            EmbeddingUnavailableError: the model cannot be asked now.
        """

    def coverage(self, text: str) -> float:
        """How much of ``text`` the model knows, 0 to 1: an English model knows little of a Chinese text."""
        return 1.0

    def of_a_kind(self, one: str, other: str) -> bool | None:
        """Whether two words or short phrases name values of one kind, such as colours; at once, without a model's call.

        None where that is not known. The gate asks it when a new text says something else of the same thing.
        """
        return None

    async def close(self) -> None:
        """Give back what is held open."""
        return


class MaskedEmbedder(Embedder):
    """``embedder`` behind the last point before a provider where known secrets are masked.

    Args:
        embedder: any embedding model.
        secrets: what is masked.
    """

    def __init__(self, embedder: Embedder, secrets: Redactor) -> None:
        self._embedder = embedder
        self._secrets = secrets
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.calibration = embedder.calibration
        self.quick = embedder.quick
        # Workers are given files' texts, which are masked when they are read.
        self.worker = embedder.worker

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Vectors:
        with masking_errors(self._secrets):
            return await self._embedder.embed([self._secrets.text(each) for each in texts], purpose=purpose)

    def coverage(self, text: str) -> float:
        return self._embedder.coverage(self._secrets.text(text))

    def of_a_kind(self, one: str, other: str) -> bool | None:
        return self._embedder.of_a_kind(self._secrets.text(one), self._secrets.text(other))

    async def close(self) -> None:
        await self._embedder.close()
