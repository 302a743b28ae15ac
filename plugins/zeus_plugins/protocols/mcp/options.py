"""Options of ``mcp``."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Pattern, dataclass


@dataclass(frozen=True)
class Options:
    """What the YAML may say under `mcp:`."""

    path: Annotated[
        str, Doc("The address of the server, below the service's own."), Pattern(r"^/[^{}?#]+$")
    ] = "/mcp"
