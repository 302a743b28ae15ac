"""The tools of a plan: the component of each, the tools that are known only at run time, and the ones that are off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zeus_runtime.errors import UnavailableError
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools import Tool, Toolset
from zeus_runtime.tools.modes import MODE_TABLE, showing

if TYPE_CHECKING:
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.plan.components import PlannedComponent, PlannedMiddleware
    from zeus_runtime.plan.reach import ToolReach
    from zeus_runtime.registry import Kind, Plugin
    from zeus_runtime.tools.modes import Showing


@dataclass(frozen=True)
class PlannedTool:
    """A tool, how the mode shows it, and its component's name and kind: ``tool`` or ``middleware``."""

    tool: Tool
    showing: Showing
    component: str
    plugin: Plugin
    kind: Kind = "tool"


@dataclass(frozen=True)
class PlannedOff:
    """A tool component that is off: a requirement is missing, and the run continues without its tools.

    Args:
        component: its name in YAML.
        plugin: the plugin that provides it.
        reason: what is missing, and what to do.
    """

    component: str
    plugin: Plugin
    reason: str


@dataclass(frozen=True)
class PlannedTools:
    """The tools of a plan's components and middlewares.

    Args:
        tools: every tool that is known before the agent runs, in the order in which the model sees them.
        opens: the tool components whose tools are known only at run time, and the toolset that each created.
        off: the components that cannot work here.
        above: the tools of the parent whose config this agent shares; the config may name those too.
    """

    tools: tuple[PlannedTool, ...]
    opens: tuple[tuple[PlannedComponent, Toolset], ...]
    off: tuple[PlannedOff, ...]
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
        """The same without the tools that give tasks to agents, for a plan that may have no agents."""
        return replace(self, tools=tuple(each for each in self.tools if not each.tool.starts_agents))

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may join at run time, or the parent has it."""
        above = self.above
        return any(toolset.may_have(name) for _, toolset in self.opens) or (
            above is not None and (above.may_have(name) or any(tool.name == name for tool in above.bare))
        )

    def may_have_like(self, pattern: str) -> bool:
        """Whether a tool that matches this glob pattern may join at run time, or the parent has one."""
        above = self.above
        return any(toolset.may_have_like(pattern) for _, toolset in self.opens) or (
            above is not None
            and (above.may_have_like(pattern) or any(fnmatchcase(tool.name, pattern) for tool in above.bare))
        )


def planned_tools(
    toolsets: Sequence[PlannedComponent],
    middlewares: Sequence[PlannedMiddleware],
    context: PlanContext,
    reach: ToolReach,
) -> PlannedTools:
    """Create each tool component once, and ask each middleware's class for its tools.

    Args:
        reach: what the tools use besides their options.
    """
    tools: list[PlannedTool] = []
    opens: list[tuple[PlannedComponent, Toolset]] = []
    off: list[PlannedOff] = []

    def add(owner: PlannedComponent, given: Iterable[Tool]) -> None:
        for tool in given:
            # An unknown category is a conflict, which is reported once all parts are known.
            shown = showing(tool, context.config.mode) if tool.category in MODE_TABLE else "hidden"
            tools.append(PlannedTool(reach.of(tool), shown, owner.name, owner.plugin, owner.kind))

    for planned in toolsets:
        try:
            given: Toolset | Iterable[Tool] = planned.create(context)
        except UnavailableError as error:
            reason = f"{error.message}. {error.remedy or ''}".strip()
            off.append(PlannedOff(planned.name, planned.plugin, reason))
            continue
        if isinstance(given, Toolset):
            opens.append((planned, given))
        else:
            add(planned, given)
    for middleware in middlewares:
        add(middleware, middleware.tools(context))
    return PlannedTools(tuple(tools), tuple(opens), tuple(off))
