"""Calls an embedding model through litellm, in batches and with a timeout; search continues after any failed call.

Creating it imports no heavy library and sends nothing; it only looks for the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from zeus_plugins.embeddings.litellm_embeddings.known import Known, known
from zeus_plugins.embeddings.litellm_embeddings.options import Options
from zeus_plugins.embeddings.litellm_embeddings.recent import Recent
from zeus_runtime.plugin import MissingError, OptionsError
from zeus_runtime.plugin.embedding import Calibration, Embedder, EmbeddingUnavailableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_runtime.plugin import PlanContext

_UNUSED_KEY: Final = "unused"
"""A placeholder key for servers that need none: litellm's OpenAI client refuses to start without a key."""


class _Never(int):
    """A 0 that is truthy: litellm 1.106 uses ``max_retries or 2`` for OpenAI embeddings, so a plain 0 would retry."""

    def __bool__(self) -> bool:
        return True


_NEVER: Final = _Never(0)


def create(options: Options, context: PlanContext) -> LitellmEmbedder:
    """Return the embedder for the model in the options.

    Raises:
        MissingError: the key is missing; the error names the variable.
        OptionsError: the model's dimension is not known, or options contradict each other.
    """
    for wrong in options.wrong():
        raise OptionsError(wrong.message, remedy=wrong.hint or "", where=".".join(map(str, wrong.path)))
    facts = known(options.model)
    dimension = options.dimension or facts.dimension
    assert dimension is not None, "checked by options.wrong()"
    return LitellmEmbedder(
        options,
        model=facts.name,
        dimension=dimension,
        calibration=replace(
            facts.calibration,
            **dict(zip(("cosine_zero", "cosine_one"), options.cosines(facts.calibration), strict=True)),
        ),
        api_key=_key(options, facts, context.environ),
    )


def _key(options: Options, facts: Known, environ: Mapping[str, str]) -> str | None:
    if options.api_key is not None:
        return options.api_key.reveal()
    for name in facts.keys:
        if environ.get(name, "").strip():
            return environ[name].strip()
    if options.api_base is not None:
        return _UNUSED_KEY
    if facts.keys:
        raise MissingError(
            f"the embedding model {options.model!r} needs a key, and {' or '.join(facts.keys)} is not set",
            remedy=f"Set {facts.keys[0]} in the environment or in .env, or choose `static`, which needs no key",
        )
    return None


class LitellmEmbedder(Embedder):
    """A model called through ``litellm.aembedding``.

    Args:
        options: what the YAML says.
        api_key: None if the provider's library authenticates by itself.
    """

    def __init__(
        self, options: Options, *, model: str, dimension: int, calibration: Calibration, api_key: str | None
    ) -> None:
        self.model = model
        self.dimension = dimension
        self.calibration = calibration
        self._options = options
        self._api_key = api_key
        self._recent = Recent(options.cache_size)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"]
    ) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            if text.strip():
                rows.setdefault(text, []).append(row)
        for text in list(rows) if purpose == "query" else ():
            vector = self._recent.get(text)
            if vector is not None:
                vectors[rows.pop(text)] = vector
        wanted = list(rows)
        for start in range(0, len(wanted), self._options.batch_size):
            batch = wanted[start : start + self._options.batch_size]
            for text, vector in zip(batch, await self._ask(batch, purpose), strict=True):
                vectors[rows[text]] = vector
                if purpose == "query":
                    self._recent.put(text, vector)
        return vectors

    async def _ask(self, texts: list[str], purpose: Literal["memory", "query"]) -> NDArray[np.float32]:
        import asyncio
        from datetime import UTC, datetime

        from zeus_plugins.models.litellm.library import library
        from zeus_plugins.models.litellm.redirects import unredirected
        from zeus_runtime.plugin.model import model_error

        litellm = await library()
        self._need_key(litellm)
        query = purpose == "query"
        seconds = self._options.timeout_seconds if query else self._options.batch_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                answer = await unredirected(
                    litellm.aembedding(**self._arguments(texts, query=query, seconds=seconds))
                )
        except TimeoutError as error:
            raise self._unavailable(f"took longer than {seconds:g} s") from error
        except Exception as error:
            failure = model_error(error, now=datetime.now(UTC))
            remedy = "Check the provider's key" if failure.kind == "auth" else failure.remedy
            raise self._unavailable(f"failed: {failure.message}", remedy) from error
        return self._checked(answer, len(texts))

    def _need_key(self, litellm: Any) -> None:
        """Look for the key, where litellm without one would send another provider's.

        Raises:
            EmbeddingUnavailableError: the key or the address is missing; the error names the variable.
        """
        from zeus_plugins.models.litellm.key_variables import variables_of
        from zeus_plugins.models.litellm.own_keys import (
            may_go_without_key,
            provider_of,
            reach,
        )

        model = self._options.model
        provider = provider_of(litellm, model)
        if may_go_without_key(litellm, provider, model, "embedding"):
            return
        found = reach(litellm, model, self._options.api_base)
        if not found.base:
            raise self._unavailable(
                "needs the address of its server", "Write it in the YAML: memory.embeddings.litellm.api_base"
            )
        self._api_key = self._api_key or found.key
        if not self._api_key:
            name = variables_of(provider)[0]
            raise self._unavailable(
                f"needs a key, and {name} is not set",
                f"Set {name} in the environment, or memory.embeddings.litellm.api_key in the YAML",
            )

    def _arguments(self, texts: list[str], *, query: bool, seconds: float) -> dict[str, Any]:
        from zeus_runtime.plugin.model import well_formed

        options = self._options
        asked = options.dimension if options.ask_dimension else None
        arguments: dict[str, Any] = {
            **options.extra,
            **(options.query_extra if query else options.memory_extra),
            "model": options.model,
            "input": [well_formed(text) for text in texts],
            "dimensions": asked,
            "api_key": self._api_key,
            "api_base": options.api_base,
            "timeout": seconds,
        }
        given = {key: value for key, value in arguments.items() if value is not None}
        return {**given, "num_retries": 0, "max_retries": _NEVER}

    def _checked(self, answer: Any, count: int) -> NDArray[np.float32]:
        """The vectors of an answer, in the order of its texts and of length 1.

        Raises:
            EmbeddingUnavailableError: the answer does not have one vector for each text.
            OptionsError: the vectors have another dimension.
        """
        import numpy as np

        try:
            entries = [entry if isinstance(entry, dict) else vars(entry) for entry in answer.data]
            places = [entry.get("index", place) for place, entry in enumerate(entries)]
            rows = [np.asarray(entry["embedding"], dtype=np.float32) for entry in entries]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unavailable(f"returned an answer without vectors: {error}") from error
        if sorted(places) != list(range(count)):
            raise self._unavailable(f"returned {len(rows)} vectors for {count} texts")
        for row in rows:
            if row.shape != (self.dimension,):
                raise OptionsError(
                    f"the embedding model {self._options.model!r} returned {row.size} numbers for a text, "
                    f"not {self.dimension}",
                    remedy=f"Set embeddings.litellm.dimension to {row.size}, then run `zeus memory reindex`",
                )
        vectors = np.stack(rows)[np.argsort(places)]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not (lengths > 0).all():
            raise self._unavailable("returned vectors without a direction")
        scaled: NDArray[np.float32] = vectors / lengths
        return scaled

    def _unavailable(self, what: str, remedy: str | None = None) -> EmbeddingUnavailableError:
        return EmbeddingUnavailableError(f"the embedding model {self._options.model!r} {what}", remedy=remedy)
