"""The filesystem tools that an agent gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_plugins.tools.filesystem.changing import changing_tools
from zeus_plugins.tools.filesystem.finding import finding_tools
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.reading import reading_tools
from zeus_plugins.tools.filesystem.seen import SeenFiles
from zeus_runtime.plugin import ZeusError
from zeus_runtime.plugin.files import pattern_slip
from zeus_runtime.plugin.tool import Tool

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext


class PatternError(ZeusError):
    """A pattern in the options cannot be used (exit 3)."""

    exit_code = 3
    code = "pattern"


def create(options: Options, context: PlanContext) -> Sequence[Tool]:
    """``ls read_file write_file edit_file glob grep`` for the agent's workspace; ``read_only`` omits the two writers.

    Raises:
        PatternError: a pattern of the options expands to too many patterns, or matches nothing by mistake.
    """
    for pattern in (*options.ignore, *options.protected):
        is_protected = pattern in options.protected
        try:
            # `ignore` takes `build/` for a name.
            slip = pattern_slip(pattern, may_be_name=is_protected)
        except ValueError as error:
            raise PatternError(f"filesystem: {error}", remedy="Write several patterns.") from None
        if slip is not None:
            option = "protected" if is_protected else "ignore"
            raise PatternError(f"filesystem.{option}: {slip.message}", remedy=slip.remedy)
    files = context.workspace
    seen = None if options.read_only else SeenFiles(files, options.max_write_bytes)
    return [
        *reading_tools(files, options, seen, sees=context.takes_pictures),
        *(() if seen is None else changing_tools(files, options, seen)),
        *finding_tools(files, options),
    ]
