"""Options of the eviction policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Tunable, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings

PAGED_TOOLS = ("ls", "glob", "grep", "read_file", "write_file", "edit_file", "write_todos")
"""Tools with paged or short results (SPEC section 7)."""


@dataclass(frozen=True)
class Options:
    max_tokens: Annotated[
        int | None,
        Doc("A tool result with more tokens is moved to a file and shown as a preview; null: no limit."),
        Tunable((1_000, 2_000, 4_000, 8_000, 16_000, 32_000, None)),
        Minimum(1),
    ] = 20_000
    max_fraction: Annotated[
        float | None,
        Doc("Caps every limit at this share of the input limit; null: limits apply as written."),
        Minimum(0.0001),
        Maximum(1),
    ] = None
    tools: Annotated[
        Mapping[str, Annotated[int, Minimum(1)] | None],
        Doc("Limits of single tools, by name, which override max_tokens and exclude; null: never evict."),
    ] = field(default_factory=dict)
    exclude: Annotated[
        tuple[str, ...],
        Doc(
            "Tools whose results are not evicted on arrival. Recall is also excluded: its results would be evicted"
            " again."
        ),
    ] = PAGED_TOOLS
    max_user_tokens: Annotated[
        int | None,
        Doc("A user's message with more tokens is moved to a file, too; null: no limit."),
        Minimum(1),
    ] = 50_000
    preview_lines: Annotated[int, Doc("Lines in the preview."), Minimum(0), Tunable((0, 5, 10, 20, 40))] = 10
    preview_line_chars: Annotated[int, Doc("Maximum characters of a line in the preview."), Minimum(1)] = 500

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report unknown tools, and limits that no message can reach."""
        yield from around.unknown_tools(self.exclude, ("exclude",), also=PAGED_TOOLS)
        yield from around.unknown_tools(self.tools, ("tools",), also=PAGED_TOOLS)
        if self.max_fraction is not None:
            return
        yield from around.above_window(self.max_tokens, ("max_tokens",))
        yield from around.above_window(self.max_user_tokens, ("max_user_tokens",))
        for name, limit in self.tools.items():
            yield from around.above_window(limit, ("tools", name))
