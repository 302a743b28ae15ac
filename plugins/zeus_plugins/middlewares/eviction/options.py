"""Options of the eviction policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings

PAGED_TOOLS = ("ls", "glob", "grep", "read_file", "write_file", "edit_file", "write_todos")
"""Tools that page what they give, or whose results are short (SPEC section 7)."""


@dataclass(frozen=True)
class Options:
    max_tokens: Annotated[
        int | None,
        Doc("A tool result with more tokens goes to a file and is shown as a preview; null: none does."),
        Minimum(1),
    ] = 20_000
    max_fraction: Annotated[
        float | None,
        Doc(
            "No limit is more than this share of the input limit, whatever its number says; null: as written."
        ),
        Minimum(0.0001),
        Maximum(1),
    ] = None
    tools: Annotated[
        Mapping[str, Annotated[int, Minimum(1)] | None],
        Doc("Limits of single tools, by name, in place of max_tokens and exclude; null: never."),
    ] = field(default_factory=dict)
    exclude: Annotated[
        tuple[str, ...],
        Doc("Tools whose results stay as they are; so do those of recall, which would be moved away again."),
    ] = PAGED_TOOLS
    max_user_tokens: Annotated[
        int | None,
        Doc("A user's message with more tokens goes to a file, too; null: none does."),
        Minimum(1),
    ] = 50_000
    preview_lines: Annotated[int, Doc("Lines of the preview."), Minimum(0)] = 10
    preview_line_chars: Annotated[int, Doc("Characters of a preview's line, at most."), Minimum(1)] = 500

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Tools that are not there, and limits that nothing could reach."""
        yield from around.unknown_tools(self.exclude, ("exclude",), also=PAGED_TOOLS)
        yield from around.unknown_tools(self.tools, ("tools",), also=PAGED_TOOLS)
        if self.max_fraction is not None:
            return
        yield from around.above_window(self.max_tokens, ("max_tokens",))
        yield from around.above_window(self.max_user_tokens, ("max_user_tokens",))
        for name, limit in self.tools.items():
            yield from around.above_window(limit, ("tools", name))
