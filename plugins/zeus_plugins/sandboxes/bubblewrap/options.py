"""What the YAML can say of the bubblewrap sandbox."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``bubblewrap``. Relative paths start at the working directory."""

    folder: Annotated[
        str, Executes(), Doc("Where each session's files are kept, in a folder of its own.")
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc("Files of sessions that ran no program for longer are removed; null keeps any age."),
        Minimum(0),
    ] = 30
    rootfs: Annotated[
        str | None,
        Executes(),
        Doc(
            "A folder that programs see as /, read-only; it needs /bin/sh, and may not be in or around the workspace. "
            "null: the host's /usr and what programs of it need."
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
