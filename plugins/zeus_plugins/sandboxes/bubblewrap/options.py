"""Options of the sandbox component `bubblewrap`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``bubblewrap``. Paths are relative to the working directory."""

    folder: Annotated[
        str, Executes(folder="sessions"), Doc("The folder with a subfolder for each session's files.")
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc("Files of sessions that ran no program for this many days are removed; null: never."),
        Minimum(0),
    ] = 30
    rootfs: Annotated[
        str | None,
        Executes(shown=True),
        Doc(
            "A folder that programs see as /, read-only; it needs /bin/sh, and may not be in or around the workspace. "
            "null: the host's /usr and the files that its programs need."
        ),
    ] = None
    python: Annotated[
        str | None,
        Executes(),
        Doc(
            "The Python that programs get; null: the one Zeus runs on, or /usr/bin/python3. With rootfs, a path in it "
            "(null: /usr/bin/python3)."
        ),
    ] = None
    command: Annotated[str, Executes(), Doc("The bubblewrap program.")] = "bwrap"
