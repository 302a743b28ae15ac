"""Options of the embedding component `litellm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Final

from zeus_plugins.models.litellm.extra import CERTIFICATES
from zeus_plugins.models.litellm.parameters import EMBEDDING
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
    "ssl_verify": None,
    "custom_llm_provider": "model",
}
"""Arguments of litellm that ``extra`` may not set, each with the option that sets it."""


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {litellm: {model: text-embedding-3-large, dimension: 1024}}}``."""

    model: Annotated[
        str,
        Destination(signs=("://", "arn:", "?", "#", "%", "\\")),
        Doc("The model's name in litellm: `text-embedding-3-large`, `ollama/nomic-embed-text`."),
    ] = "text-embedding-3-small"
    dimension: Annotated[
        int | None,
        Doc("Numbers in a vector; sent to the provider as `dimensions`. Default: the model's dimension."),
        Minimum(1),
        Maximum(65_536),
    ] = None
    ask_dimension: Annotated[
        bool, Doc("false for a model with one fixed dimension that refuses the parameter `dimensions`.")
    ] = True
    api_key: Annotated[
        Secret | None, Doc("The provider's key. Default: the value of the provider's usual variable.")
    ] = None
    api_base: Annotated[str | None, Destination(), Doc("URL of a compatible server or proxy.")] = None
    timeout_seconds: Annotated[
        float,
        Doc("How long a search waits for its vector; then it continues by words alone."),
        Minimum(0.001),
    ] = 2.0
    batch_timeout_seconds: Annotated[
        float, Doc("How long one batch of memories may take; it runs in the background."), Minimum(0.001)
    ] = 60.0
    batch_size: Annotated[int, Doc("Texts in one request."), Minimum(1), Maximum(256)] = 256
    cache_size: Annotated[
        int, Doc("Queries whose vectors are kept in memory; 0 keeps none."), Minimum(0), Maximum(1_000_000)
    ] = 512
    cosine_zero: Annotated[
        float | None,
        Doc(
            "The cosine below which nine in ten memories that are unrelated to a query lie; "
            "for a model that Zeus does not know."
        ),
        Minimum(-1),
        Maximum(1),
    ] = None
    cosine_one: Annotated[
        float | None,
        Doc(
            "The cosine below which nine in ten memories that answer a query lie; for a model that Zeus does not know."
        ),
        Minimum(-1),
        Maximum(1),
    ] = None
    extra: Annotated[
        Mapping[str, Any],
        Destination(
            signs=("/", "\\", "?", "#"), names_files=True, plain=tuple(sorted(EMBEDDING | _OURS.keys()))
        ),
        Doc("Further arguments of litellm's embedding call, passed on unchanged."),
    ] = field(default_factory=dict)
    query_extra: Annotated[
        Mapping[str, Any],
        Destination(
            signs=("/", "\\", "?", "#"), names_files=True, plain=tuple(sorted(EMBEDDING | _OURS.keys()))
        ),
        Doc("Further arguments for queries only: `input_type: search_query`."),
    ] = field(default_factory=dict)
    memory_extra: Annotated[
        Mapping[str, Any],
        Destination(
            signs=("/", "\\", "?", "#"), names_files=True, plain=tuple(sorted(EMBEDDING | _OURS.keys()))
        ),
        Doc("Further arguments for memories only: `input_type: search_document`."),
    ] = field(default_factory=dict)

    def default_keys(self) -> Sequence[str]:
        """Return the variables whose keys a request may carry, and the account with which it may sign in."""
        from zeus_plugins.embeddings.litellm_embeddings.known import known
        from zeus_plugins.models.litellm.key_variables import variables_taken, written_provider

        has_key = self.api_key is not None
        by_name = variables_taken(written_provider(self.model), has_key=has_key)
        return by_name if has_key else (*known(self.model).keys, *by_name)

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report options from which no embedding model can be created."""
        return self.wrong()

    def wrong(self) -> Iterator[Misfit]:
        """Report problems of the options that need no other part of the config."""
        from zeus_plugins.embeddings.litellm_embeddings.known import known
        from zeus_runtime.plugin import Misfit

        for name in ("extra", "query_extra", "memory_extra"):
            for key in getattr(self, name):
                if key in _OURS:
                    own = _OURS[key]
                    hint = f"Use `{own}`" if own else "Zeus sets it itself: remove it"
                    hint = CERTIFICATES if key == "ssl_verify" else hint
                    yield Misfit((name, key), f"{name} may not set {key!r}", hint)
        facts = known(self.model)
        if self.dimension is None and facts.dimension is None:
            yield Misfit(
                ("model",),
                f"the dimension of the embedding model {self.model!r} is not known",
                "Set `dimension: N`, and `ask_dimension: false` if the model supports only one dimension",
            )
        zero, one = self.cosines(facts.calibration)
        if not zero < one:
            yield Misfit(
                ("cosine_zero" if self.cosine_zero is not None else "cosine_one",),
                f"cosine_zero ({zero:g}) must be below cosine_one ({one:g})",
                "Set both to measured values: the cosine of unrelated texts, and of texts with the same meaning",
            )

    def cosines(self, usual: Calibration) -> tuple[float, float]:
        """Return the cosines of unrelated texts and of texts with the same meaning; ``usual`` where none are set."""
        return (
            usual.cosine_zero if self.cosine_zero is None else self.cosine_zero,
            usual.cosine_one if self.cosine_one is None else self.cosine_one,
        )
