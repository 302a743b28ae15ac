"""Options of the vector store `pgvector`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from zeus_runtime import Doc, Maximum, Minimum


@dataclass(frozen=True)
class Options:
    exact: Annotated[
        Literal["auto", "always", "never"],
        Doc(
            "auto compares every vector in reach up to exact_up_to of them and asks an HNSW index beyond; always never "
            "asks one; never asks it whenever there is one."
        ),
    ] = "auto"
    exact_up_to: Annotated[
        int, Doc("Vectors in reach that are all compared; about 0.4 ms for a thousand."), Minimum(0)
    ] = 20_000
    ef_search: Annotated[
        int,
        Doc("Candidates that HNSW keeps while it searches: more find more and take longer."),
        Minimum(1),
        Maximum(1_000),
    ] = 100
