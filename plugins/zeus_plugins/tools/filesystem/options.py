"""The YAML options of the filesystem tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import AccessLayer


@dataclass(frozen=True)
class Options:
    """Options of ``filesystem``. A pattern is a file or folder name (``*.pyc``), or a path if it contains a ``/``."""

    read_only: Annotated[bool, Doc("Do not offer write_file and edit_file.")] = False
    max_read_lines: Annotated[int, Doc("Most lines that one read_file returns."), Minimum(1)] = 2_000
    max_line_chars: Annotated[int, Doc("Characters after which a line is cut."), Minimum(20)] = 2_000
    max_result_chars: Annotated[int, Doc("Characters after which any result is cut."), Minimum(1_000)] = (
        60_000
    )
    max_results: Annotated[
        int, Doc("Most entries of ls and glob, and most matching lines of grep."), Minimum(1)
    ] = 200
    max_write_bytes: Annotated[
        int, Doc("Size of the largest file that may be written or edited, in bytes."), Minimum(1)
    ] = 10_000_000
    timeout_seconds: Annotated[
        float, Doc("Time limit for one search or read, in seconds."), Minimum(0.01)
    ] = 20.0
    ignore: Annotated[tuple[str, ...], Doc("Names that glob and grep skip, besides .git and .zeus.")] = (
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".DS_Store",
    )
    protected: Annotated[
        tuple[str, ...],
        Doc(
            "Files that no tool may change, besides those that are always protected; see `workspace.access`."
        ),
    ] = ()

    def access_layer(self, mode: str) -> AccessLayer | None:
        """The patterns of ``protected``, which apply to every tool."""
        from zeus_runtime.plugin.files import Patterns

        return Patterns(self.protected, "filesystem.protected") if self.protected else None

    @property
    def passed_over(self) -> tuple[str, ...]:
        """The patterns that glob and grep skip."""
        return (".git", ".zeus", *self.ignore)
