"""Options of the vector store `pgvector`."""

from __future__ import annotations

from typing import Annotated, Literal

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    exact: Annotated[
        Literal["auto", "always", "never"],
        Doc(
            "When to compare all vectors. auto: use an HNSW index if more than exact_up_to vectors are in reach and not"
            " kept in the process. always: use no index. never: use an index whenever there is one, and keep no vectors"
            " in the process."
        ),
    ] = "auto"
    exact_up_to: Annotated[
        int, Doc("Up to this many vectors in reach, the server compares them one by one."), Minimum(0)
    ] = 20_000
    ef_search: Annotated[
        int,
        Doc("Candidates that HNSW keeps during a search: more candidates find more and take longer."),
        Minimum(1),
        Maximum(1_000),
    ] = 100
    kept_mb: Annotated[
        int,
        Doc(
            "Megabytes of vectors that a process keeps for repeated queries and compares itself; 0: the server"
            " compares all. 100,000 vectors of 256 dimensions take 175."
        ),
        Minimum(0),
    ] = 256
