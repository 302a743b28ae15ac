"""The tools of a plan: whose each is, which come only when the agent runs, and which are off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zeus_runtime.errors import UnavailableError
from zeus_runtime.frozen import dataclass
from zeus_runtime.plan.components import tools_of
from zeus_runtime.tools import Tool, Toolset
from zeus_runtime.tools.gate import calling
from zeus_runtime.tools.modes import MODE_TABLE, showing

if TYPE_CHECKING:
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.plan.build import Build
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.registry import Kind, Plugin
    from zeus_runtime.tools.modes import Showing


@dataclass(frozen=True)
class PlannedTool:
    """A tool, how the mode shows it, and whose it is: the component's name and kind, a toolset or a middleware."""

    tool: Tool
    showing: Showing
    component: str
    plugin: Plugin
    kind: Kind = "tool"


@dataclass(frozen=True)
class PlannedOff:
    """A tool component that is off: what it needs is not there, and the run goes on without its tools.

    Args:
        component: its name in YAML.
        plugin: who brings it.
        reason: what is missing, and what to do.
    """

    component: str
    plugin: Plugin
    reason: str


@dataclass(frozen=True)
class PlannedTools:
    """What the tool components and middlewares of a plan give when they are created once to see it.

    Args:
        tools: every tool that is known before the agent runs, in the order the model sees them.
        opens: the tool components whose tools are known only when it runs, and what each gave.
        off: those that cannot work here.
        middlewares: the plan's, and what each gave.
        above: those of the agent whose config this one shares, which may speak of them too.
    """

    tools: tuple[PlannedTool, ...]
    opens: tuple[tuple[PlannedComponent, Toolset], ...]
    off: tuple[PlannedOff, ...]
    middlewares: tuple[tuple[PlannedComponent, Middleware], ...]
    above: PlannedTools | None = None

    @property
    def bare(self) -> Sequence[Tool]:
        """The tools themselves."""
        return [planned.tool for planned in self.tools]

    @property
    def agents(self) -> Mapping[str, SubAgent]:
        """The agents that the tools bring, by name."""
        return {name: agent for tool in self.bare for name, agent in tool.agents.items()}

    def without_agents(self) -> PlannedTools:
        """These without the tools that give work to agents, for who may have none."""
        return replace(self, tools=tuple(each for each in self.tools if not each.tool.starts_agents))

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may join when the agent runs, or the one above has it."""
        above = self.above
        return any(toolset.may_have(name) for _, toolset in self.opens) or (
            above is not None and (above.may_have(name) or any(tool.name == name for tool in above.bare))
        )

    def may_have_like(self, pattern: str) -> bool:
        """Whether a tool whose name fits this glob pattern may join when the agent runs, or the one above has one."""
        above = self.above
        return any(toolset.may_have_like(pattern) for _, toolset in self.opens) or (
            above is not None
            and (above.may_have_like(pattern) or any(fnmatchcase(tool.name, pattern) for tool in above.bare))
        )


def planned_tools(
    toolsets: Sequence[PlannedComponent], middlewares: Sequence[PlannedComponent], build: Build
) -> PlannedTools:
    """Create each component once; a middleware is given the tools that stand above it."""
    tools: list[PlannedTool] = []
    opens: list[tuple[PlannedComponent, Toolset]] = []
    off: list[PlannedOff] = []
    made: list[tuple[PlannedComponent, Middleware]] = []
    known: dict[str, Tool] = {}

    def add(owner: PlannedComponent, given: Iterable[Tool]) -> None:
        for tool in given:
            known.setdefault(tool.name, tool)
            # A category that is none is a conflict, found when all parts are there.
            shown = showing(tool, build.config.mode) if tool.category in MODE_TABLE else "hidden"
            tools.append(PlannedTool(tool, shown, owner.name, owner.plugin, owner.kind))

    for planned in toolsets:
        try:
            given: Toolset | Iterable[Tool] = planned.create(build)
        except UnavailableError as error:
            reason = f"{error.message}. {error.remedy or ''}".strip()
            off.append(PlannedOff(planned.name, planned.plugin, reason))
            continue
        if isinstance(given, Toolset):
            opens.append((planned, given))
        else:
            add(planned, given)
    for planned in middlewares:
        with calling(None):
            middleware: Middleware = planned.create(replace(build, tools=known))
        made.append((planned, middleware))
        with planned.blamed("tools"), calling(None):
            given = tools_of(middleware.tools())
        add(planned, given)
    return PlannedTools(tuple(tools), tuple(opens), tuple(off), tuple(made))
