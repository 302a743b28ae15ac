"""The tools of a run at any moment: those of its plan, and the current ones of opened toolsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import is_not
from typing import TYPE_CHECKING, Final

from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.tools import Tool, Toolset, check_tools, visible
from zeus_runtime.tools.deferred import is_loaded, loader
from zeus_runtime.tools.tool import JSON

if TYPE_CHECKING:
    from zeus_runtime.config.model import Mode
    from zeus_runtime.middleware.protocol import Middleware


_MOST_NAMES: Final = 3
"""In a text about tools that are left out."""


class Toolbox:
    """A run's tools, in the order in which the model sees them.

    Args:
        parts: fixed tools and opened toolsets.
        settings: ``PlannedComponent.setting`` of each of the first parts that is a toolset; empty for another part.
        reach: adds to a toolset's tool what it uses besides its options; the fixed tools have it from their plan.
        judge: says what the config names and these tools lack; asked once for each state of the toolsets.

    Attributes:
        refused: why some of the toolsets' tools cannot be offered, one text per problem.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[Tool] | Toolset],
        settings: Sequence[str] = (),
        reach: Callable[[Tool], Tool] = lambda tool: tool,
        judge: Callable[[Sequence[Tool]], Sequence[str]] = lambda tools: (),
    ) -> None:
        self._parts = list(parts)
        self._settings = settings
        self._reach = reach
        self._judge = judge
        self._judged: tuple[Sequence[Tool], Sequence[str]] = ((), ())
        self._toolsets = [part for part in parts if isinstance(part, Toolset)]
        self._current: list[Sequence[Tool]] = []
        self._is_changed = True
        self._made: tuple[Mode, Sequence[Tool], list[tuple[Tool, ToolSchema]]] | None = None
        self._givers: dict[str, Middleware] = {}
        self._tools: Sequence[Tool] = ()
        self._by_name: Mapping[str, Tool] = {}
        self._loader = loader(lambda: self.tools)
        self.refused: Sequence[str] = ()

    async def awaited(self, name: str) -> str:
        """Wait for a missing tool that a toolset may still provide.

        Returns:
            the reason why the tool is missing, for the model; empty if it is there, or if no toolset would provide it.
        """
        if self.find(name) is not None:
            return ""
        whys = [await toolset.awaited(name) for toolset in self.toolsets]
        return "" if self.find(name) is not None else " ".join(why for why in whys if why)

    def add(self, tools: Sequence[Tool], giver: Middleware | None = None) -> None:
        """Add fixed tools after the others.

        Args:
            giver: the middleware that their functions ask for; None if none of them will be called.
        """
        self._parts.append(tools)
        self._is_changed = True
        if giver is not None:
            self._givers.update({tool.name: giver for tool in tools})

    def giver_of(self, name: str) -> Middleware | None:
        """The middleware that gave the tool of this name; None for a tool of a component."""
        return self._givers.get(name)

    @property
    def tools(self) -> Sequence[Tool]:
        """The current tools; the same object as long as nothing has changed."""
        if not self._toolsets and not self._is_changed:
            return self._tools
        # Compared by identity: a toolset returns the same object until its tools change, so a step costs no comparison.
        current = [toolset.tools() for toolset in self._toolsets]
        if self._is_changed or any(map(is_not, current, self._current)):
            self._is_changed, self._current = False, current
            others = iter(current)
            self._tools = self._joined(
                [next(others) if isinstance(part, Toolset) else part for part in self._parts]
            )
            self._by_name = {tool.name: tool for tool in self._tools}
        return self._tools

    def find(self, name: str) -> Tool | None:
        """The tool of this name, if it exists now."""
        # Reading it refreshes `_by_name`.
        _ = self.tools
        return self._by_name.get(name)

    @property
    def lacks(self) -> Sequence[str]:
        """What the config names and the toolsets that are open now do not have, one text per problem."""
        if not self._toolsets:
            return ()
        tools = self.tools
        if self._judged[0] is not tools:
            self._judged = tools, self._judge(tools)
        return self._judged[1]

    @property
    def by_name(self) -> Mapping[str, Tool]:
        """A live mapping of the tools by name: each access sees the current tools."""
        return _ByName(self)

    @property
    def toolsets(self) -> Sequence[Toolset]:
        """The opened toolsets."""
        return self._toolsets

    def schemas(self, mode: Mode, state: Callable[[str], JSON]) -> tuple[ToolSchema, ...]:
        """The schemas of a request: the tools that ``mode`` shows and whose schema is not deferred.

        Args:
            state: returns a tool's stored value in the session, by name.
        """
        tools, made = self.tools, self._made
        # The mode and the very tools are the key; a loaded schema is looked up each time, below.
        if made is None or made[0] != mode or made[1] is not tools:
            schemas = [
                (shown.tool, ToolSchema(shown.name, shown.description, shown.parameters))
                for shown in visible(tools, mode)
            ]
            made = self._made = mode, tools, schemas
        return tuple(schema for tool, schema in made[2] if is_loaded(tool, state))

    def _joined(self, given: Sequence[Sequence[Tool]]) -> Sequence[Tool]:
        """All tools; a toolset's tool is left out if it is broken or has the name of another tool."""
        # Tools of the config have precedence wherever their line is: a server must not replace one by taking its name.
        fixed = {self._loader.name} | {
            tool.name
            for part, tools in zip(self._parts, given, strict=True)
            if not isinstance(part, Toolset)
            for tool in tools
        }
        refused: list[str] = []
        taken: dict[tuple[str, str, str], list[str]] = {}
        joined: dict[str, Tool] = {}
        for part, tools, setting in zip(self._parts, given, chain(self._settings, repeat("")), strict=False):
            for tool in tools:
                problems = check_tools([tool]) if isinstance(part, Toolset) else []
                refused += problems
                if isinstance(part, Toolset) and (tool.name in fixed or tool.name in joined):
                    other = joined.get(tool.name)
                    between = tool.category, _named(tool), "" if other is None else _named(other)
                    taken.setdefault(between, []).append(tool.name)
                elif not problems:
                    joined[tool.name] = self._reach(tool.within(setting)) if setting else tool
        self.refused = (*refused, *(_left_out(*between, names) for between, names in taken.items()))
        tools_now = list(joined.values())
        if any(tool.deferred for tool in tools_now):
            tools_now.append(self._loader)
        return tuple(tools_now)


def _named(tool: Tool) -> str:
    return f" ({', '.join(tool.facts)})" if tool.facts else ""


def _left_out(category: str, left: str, kept: str, names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(map(repr, names[:_MOST_NAMES])) + (f" and {more:,} more" if more > 0 else "")
    are, which = ("are", "one is") if len(names) == 1 else ("each are", "ones are")
    stays = kept and f", the other stays{kept}"
    return (
        f"two tools {are} named {listed}, so the {category} {which} left out{left}{stays}; give its server another"
        " prefix, or disable the other tool's component"
    )


class _ByName(Mapping[str, Tool]):
    """A live mapping of a run's tools: approval rules must also find a tool that a toolset added a moment ago."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def __getitem__(self, name: str) -> Tool:
        tool = self._toolbox.find(name)
        if tool is None:
            raise KeyError(name)
        return tool

    def __iter__(self) -> Iterator[str]:
        return iter([tool.name for tool in self._toolbox.tools])

    def __len__(self) -> int:
        return len(self._toolbox.tools)
