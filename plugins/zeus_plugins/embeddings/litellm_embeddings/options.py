"""What the YAML says of an embedding model behind litellm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Final

from zeus_runtime.plugin import Destination, Doc, Maximum, Minimum, Secret, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.embedding import Calibration

_OURS: Final = {
    "model": "model",
    "input": None,
    "dimensions": "dimension",
    "api_key": "api_key",
    "api_base": "api_base",
    "base_url": "api_base",
    "timeout": "timeout_seconds",
    "num_retries": None,
    "max_retries": None,
    "drop_params": None,
}
"""Arguments of litellm that ``extra`` may not set, with the option that does."""


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {litellm: {model: text-embedding-3-large, dimension: 1024}}}``."""

    model: Annotated[
        str,
        Destination(signs=("://", "arn:", "?", "#", "%", "\\")),
        Doc("The model as litellm names it: `text-embedding-3-large`, `ollama/nomic-embed-text`."),
    ] = "text-embedding-3-small"
    dimension: Annotated[
        int | None,
        Doc("Numbers in a vector; asked of the provider as `dimensions`. Without it the model's own."),
        Minimum(1),
        Maximum(65_536),
    ] = None
    ask_dimension: Annotated[
        bool, Doc("false for a model that has one dimension only and refuses to be asked for it.")
    ] = True
    api_key: Annotated[
        Secret | None, Doc("The provider's key; without it the provider's usual variable is read.")
    ] = None
    api_base: Annotated[str | None, Destination(), Doc("URL of a compatible server or proxy.")] = None
    timeout_seconds: Annotated[
        float,
        Doc("How long a search waits for its vector; then it goes on by words alone."),
        Minimum(0.001),
    ] = 2.0
    batch_timeout_seconds: Annotated[
        float, Doc("How long one batch of memories may take; nobody waits for it."), Minimum(0.001)
    ] = 60.0
    batch_size: Annotated[int, Doc("Texts in one request."), Minimum(1), Maximum(256)] = 256
    cache_size: Annotated[
        int, Doc("Queries whose vectors are kept in memory; 0 keeps none."), Minimum(0), Maximum(1_000_000)
    ] = 512
    cosine_zero: Annotated[
        float | None,
        Doc(
            "Nine in ten memories that have nothing to do with a query have a lower cosine with it; "
            "for a model Zeus does not know."
        ),
        Minimum(-1),
        Maximum(1),
    ] = None
    cosine_one: Annotated[
        float | None,
        Doc(
            "Nine in ten memories that answer a query have a lower cosine with it; for a model Zeus does not know."
        ),
        Minimum(-1),
        Maximum(1),
    ] = None
    extra: Annotated[
        Mapping[str, Any],
        Destination(signs=("/", "\\", "?", "#")),
        Doc("Further arguments of litellm's embedding, as they are."),
    ] = field(default_factory=dict)
    query_extra: Annotated[
        Mapping[str, Any],
        Destination(signs=("/", "\\", "?", "#")),
        Doc("Those of queries alone: `input_type: search_query`."),
    ] = field(default_factory=dict)
    memory_extra: Annotated[
        Mapping[str, Any],
        Destination(signs=("/", "\\", "?", "#")),
        Doc("Those of memories alone: `input_type: search_document`."),
    ] = field(default_factory=dict)

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Options that no embedding model could be made of."""
        return self.wrong()

    def wrong(self) -> Iterator[Misfit]:
        """What is wrong with the options by themselves."""
        from zeus_plugins.embeddings.litellm_embeddings.known import known
        from zeus_runtime.plugin import Misfit

        for name in ("extra", "query_extra", "memory_extra"):
            for key in getattr(self, name):
                if key in _OURS:
                    own = _OURS[key]
                    hint = f"Use `{own}`" if own else "Zeus sets it itself: remove it"
                    yield Misfit((name, key), f"{name} may not set {key!r}", hint)
        facts = known(self.model)
        if self.dimension is None and facts.dimension is None:
            yield Misfit(
                ("model",),
                f"the dimension of the embedding model {self.model!r} is not known",
                "Give `dimension: N`, and `ask_dimension: false` if the model has no other",
            )
        zero, one = self.cosines(facts.calibration)
        if not zero < one:
            yield Misfit(
                ("cosine_zero" if self.cosine_zero is not None else "cosine_one",),
                f"cosine_zero ({zero:g}) must be below cosine_one ({one:g})",
                "Give both as measured: of unrelated texts, and of texts that say the same",
            )

    def cosines(self, usual: Calibration) -> tuple[float, float]:
        """The cosines of unrelated texts and of texts that say the same; where none are given, the usual ones."""
        return (
            usual.cosine_zero if self.cosine_zero is None else self.cosine_zero,
            usual.cosine_one if self.cosine_one is None else self.cosine_one,
        )
