"""Options of the sandbox component `docker`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``docker``. The image needs sh, tar and sleep, and python3 for Python."""

    image: Annotated[
        str, Executes(by_name=True), Doc("The image of the containers; it must be present or be pulled.")
    ] = "python:3.13-slim"
    command: Annotated[str, Executes(), Doc("The command line client: docker, or podman.")] = "docker"
    runtime: Annotated[
        str | None,
        Executes(),
        Doc("The container runtime, such as runsc (gVisor); null: the engine's default."),
    ] = None
    cpus: Annotated[float, Doc("Processors that one program may use."), Minimum(0.01)] = 1.0
    folder: Annotated[
        str, Executes(folder="sessions"), Doc("The folder with a subfolder for each session's files.")
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc("Files of sessions that ran no program for this many days are removed; null: never."),
        Minimum(0),
    ] = 30
