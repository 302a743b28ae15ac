"""Options of the vector store `pgvector`."""

from __future__ import annotations

from typing import Annotated, Literal

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    exact: Annotated[
        Literal["auto", "always", "never"],
        Doc(
            "auto asks an HNSW index where more than exact_up_to vectors are in reach and not kept in the process; "
            "always never asks one; never asks it whenever there is one, and keeps nothing."
        ),
    ] = "auto"
    exact_up_to: Annotated[int, Doc("Vectors in reach that the server compares one by one."), Minimum(0)] = (
        20_000
    )
    ef_search: Annotated[
        int,
        Doc("Candidates that HNSW keeps while it searches: more find more and take longer."),
        Minimum(1),
        Maximum(1_000),
    ] = 100
    kept_mb: Annotated[
        int,
        Doc(
            "Megabytes of vectors that a process keeps of what it asks again, and compares itself; 0 leaves all to the "
            "server. 100,000 vectors of 256 dimensions take 175."
        ),
        Minimum(0),
    ] = 256
