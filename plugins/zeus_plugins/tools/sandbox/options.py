"""The YAML options of the sandbox tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Final, Literal

from zeus_runtime.plugin import Doc, Minimum, Misfit, Ref, RefTo, Surroundings, dataclass
from zeus_runtime.plugin.sandbox import SandboxLimit, SandboxLimits

_BUBBLEWRAP: Final = Ref("bubblewrap")
_MEGABYTE: Final = 2**20


@dataclass(frozen=True)
class Options:
    """Options of ``sandbox``. A limit that the backend cannot enforce is an error."""

    backend: Annotated[
        Ref,
        RefTo("sandbox"),
        Doc("The backend that isolates the code; if it is not available, no code runs."),
    ] = field(default=_BUBBLEWRAP)
    require_isolation: Annotated[
        bool,
        Doc(
            "A backend whose programs can reach a network, or see files other than their own, is an error; false "
            "allows it."
        ),
    ] = True
    workspace: Annotated[
        Literal["read", "write"] | None,
        Doc(
            "Programs also read, or read and write, the workspace with the rights of `workspace.access`, and start in "
            "it; null: they do not see it. Only with the backend bubblewrap."
        ),
    ] = None
    max_workspace_files: Annotated[
        int,
        Doc("With workspace: most files of it; their rights are looked up before each program."),
        Minimum(1),
    ] = 200_000
    timeout_seconds: Annotated[float, Doc("Time limit of one program, in seconds."), Minimum(0.1)] = 60.0
    max_timeout_seconds: Annotated[
        float, Doc("Longest time limit that the model may ask for instead, in seconds."), Minimum(0.1)
    ] = 600.0
    memory_mb: Annotated[int, Doc("Most memory for all processes of one program together."), Minimum(16)] = (
        512
    )
    max_processes: Annotated[int, Doc("Most processes and threads of one program."), Minimum(1)] = 64
    max_file_mb: Annotated[int, Doc("Size of the largest file."), Minimum(1)] = 64
    disk_mb: Annotated[
        int, Doc("Most disk space for a session's files; temporary files may take as much again."), Minimum(1)
    ] = 256
    max_files: Annotated[int, Doc("Most files and folders of a session."), Minimum(10)] = 20_000
    max_output_kb: Annotated[
        int, Doc("Most output of a program; a program that prints more is ended."), Minimum(1)
    ] = 2_048
    max_result_chars: Annotated[
        int,
        Doc("Most characters of the output that the model gets, taken from its beginning and its end."),
        Minimum(200),
    ] = 20_000
    max_copy_mb: Annotated[
        int, Doc("Size of the largest file that is copied between workspace and sandbox."), Minimum(1)
    ] = 16

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report the limit of a workspace that programs do not see."""
        if self.workspace is None and "max_workspace_files" in around.written:
            yield Misfit(
                ("max_workspace_files",),
                "max_workspace_files has no effect without workspace",
                "add `workspace: read` or `workspace: write`, or remove this line",
                "no-effect",
            )

    def described(self) -> Iterator[str]:
        """Yield what `zeus plan` says of the tools."""
        if self.workspace is not None:
            verb = "read and write" if self.workspace == "write" else "read"
            yield f"programs {verb} the workspace, with the rights of workspace.access"

    def limits(self, seconds: float | None = None) -> SandboxLimits:
        """The limits of one program.

        Args:
            seconds: the time limit that the model asked for; None for ``timeout_seconds``.
        """
        asked = self.timeout_seconds if seconds is None else min(seconds, self.max_timeout_seconds)
        return SandboxLimits(
            seconds=asked,
            memory_bytes=self.memory_mb * _MEGABYTE,
            processes=self.max_processes,
            file_bytes=self.max_file_mb * _MEGABYTE,
            disk_bytes=self.disk_mb * _MEGABYTE,
            files=self.max_files,
            output_bytes=self.max_output_kb * 1024,
        )


KEEPS: Final[dict[str, SandboxLimit]] = {
    "timeout_seconds": "seconds",
    "max_timeout_seconds": "seconds",
    "memory_mb": "memory",
    "max_processes": "processes",
    "max_file_mb": "file_size",
    "disk_mb": "disk",
    "max_files": "files",
    "max_output_kb": "output",
}
"""Each option with the backend's limit that enforces it."""
