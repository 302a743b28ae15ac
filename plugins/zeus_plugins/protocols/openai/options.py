"""Options of ``openai``."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, dataclass


@dataclass(frozen=True)
class Options:
    """What the YAML may say under `openai:`."""

    ignore: Annotated[
        tuple[str, ...],
        Doc("Parameters of requests to ignore, such as temperature, instead of refusing them."),
    ] = ()
    cancel_on_disconnect: Annotated[
        bool,
        Doc("Whether a client that closes its connection cancels the turn; background responses continue."),
    ] = True
