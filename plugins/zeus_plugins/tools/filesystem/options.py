"""What the YAML can say of the filesystem tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import AccessLayer


@dataclass(frozen=True)
class Options:
    """Options of ``filesystem``. Patterns are file or folder names (``*.pyc``), or paths when they hold a ``/``."""

    read_only: Annotated[bool, Doc("Give no write_file and edit_file.")] = False
    max_read_lines: Annotated[int, Doc("Lines one read_file returns."), Minimum(1)] = 2_000
    max_line_chars: Annotated[int, Doc("Characters after which a line is cut."), Minimum(20)] = 2_000
    max_result_chars: Annotated[int, Doc("Characters after which any result is cut."), Minimum(1_000)] = (
        60_000
    )
    max_results: Annotated[int, Doc("Entries of ls and glob, matching lines of grep."), Minimum(1)] = 200
    max_write_bytes: Annotated[int, Doc("Largest file written or edited, in bytes."), Minimum(1)] = 10_000_000
    timeout_seconds: Annotated[float, Doc("How long one call may search or read."), Minimum(0.01)] = 20.0
    ignore: Annotated[tuple[str, ...], Doc("What glob and grep pass over, besides .git and .zeus.")] = (
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
            "Files that no tool changes, besides those that are protected in any case; `workspace.access` says more."
        ),
    ] = ()

    def access_layer(self, mode: str) -> AccessLayer | None:
        """``protected``, for every tool."""
        from zeus_runtime.plugin.files import Patterns

        return Patterns(self.protected, "filesystem.protected") if self.protected else None

    @property
    def passed_over(self) -> tuple[str, ...]:
        """What glob and grep pass over."""
        return (".git", ".zeus", *self.ignore)
