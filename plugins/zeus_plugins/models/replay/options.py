"""Options of the model component `replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from zeus_runtime.plugin import Doc, FileRelative, Minimum, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    """``{replay: {cassette: run.jsonl}}``."""

    cassette: Annotated[
        str, Doc("The recording (`zeus run --record FILE`), relative to this YAML file."), FileRelative()
    ]
    match: Annotated[
        Literal["messages", "strict", "order", "turn"],
        Doc(
            "The parts of a request that must equal the recording: the conversation and the tools' names (`messages`); "
            "also the system prompt, the tools' schemas and the settings (`strict`); only the order of calls (`order`)"
            "; the newest prompt and the answers since (`turn`: an unknown prompt gets the answers to the first one)."
        ),
    ] = "messages"
    pause_seconds: Annotated[float, Doc("Pause before each streamed piece."), Minimum(0)] = 0.0

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report a cassette that does not exist."""
        yield from around.missing_file(
            self.cassette, ("cassette",), "Record one with `zeus run --record FILE`, or correct the path"
        )
