"""What the YAML says of an embedding model behind litellm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from zeus_runtime import Doc, Maximum, Minimum, Secret, dataclass


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {litellm: {model: text-embedding-3-large, dimension: 1024}}}``."""

    model: Annotated[
        str, Doc("The model as litellm names it: `text-embedding-3-large`, `ollama/nomic-embed-text`.")
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
    api_base: Annotated[str | None, Doc("URL of a compatible server or proxy.")] = None
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
    extra: Annotated[Mapping[str, Any], Doc("Further arguments of litellm's embedding, as they are.")] = (
        field(default_factory=dict)
    )
    query_extra: Annotated[Mapping[str, Any], Doc("Those of queries alone: `input_type: search_query`.")] = (
        field(default_factory=dict)
    )
    memory_extra: Annotated[
        Mapping[str, Any], Doc("Those of memories alone: `input_type: search_document`.")
    ] = field(default_factory=dict)
