"""The tools of a run at any moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zeus_runtime.run.toolbox import Toolbox
from zeus_runtime.tools import Tool, Toolset


async def nothing(_arguments: Mapping[str, object]) -> str:
    return ""


class Offering(Toolset):
    """A toolset with tools of these names."""

    def __init__(self, *names: str) -> None:
        self._tools = [Tool(name, "It does nothing.", {"type": "object"}, nothing) for name in names]

    def tools(self) -> Sequence[Tool]:
        return self._tools


def test_a_broken_tool_of_a_toolset_is_left_out_and_said() -> None:
    toolbox = Toolbox([Offering("good", "no name")])
    assert [tool.name for tool in toolbox.tools] == ["good"]
    (problem,) = toolbox.refused
    assert "no name" in problem
