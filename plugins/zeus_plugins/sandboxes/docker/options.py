"""What the YAML can say of the docker sandbox."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``docker``. The image needs sh, tar and sleep, and python3 for Python."""

    image: Annotated[str, Executes(), Doc("What containers are made of; it must be there or be pulled.")] = (
        "python:3.13-slim"
    )
    command: Annotated[str, Executes(), Doc("The command line client: docker, or podman.")] = "docker"
    runtime: Annotated[
        str | None,
        Executes(),
        Doc("The container runtime, such as runsc (gVisor); null: the engine's own."),
    ] = None
    cpus: Annotated[float, Doc("Processors that one program may use."), Minimum(0.01)] = 1.0
    folder: Annotated[
        str, Executes(), Doc("Where each session's files are kept, in a folder of its own.")
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc("Files of sessions that ran no program for longer are removed; null keeps any age."),
        Minimum(0),
    ] = 30
