"""The Plan: exactly what will run, frozen before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from zeus_runtime.agent.asked import changed_after_asking
from zeus_runtime.agent.build import Build
from zeus_runtime.agent.components import (
    PlannedComponent,
    inner_component,
    planned_component,
    planned_components,
)
from zeus_runtime.agent.digest import plan_digest
from zeus_runtime.agent.misfits import misfits
from zeus_runtime.agent.sandboxes import Sandboxes
from zeus_runtime.agent.servers import IMPLIED, refuse_servers
from zeus_runtime.agent.services import (
    PlannedMemory,
    knowledge_service,
    memory_service,
    opened_model,
    planned_memory,
    sandbox_backend,
)
from zeus_runtime.agent.workspace import planned_workspace
from zeus_runtime.config import ConfigError, Diagnostic
from zeus_runtime.config.mcp import Connectors
from zeus_runtime.errors import UnavailableError
from zeus_runtime.frozen import dataclass
from zeus_runtime.models.profiles import ModelProfile, lookup, notices
from zeus_runtime.prompt import Section, stable_sections
from zeus_runtime.tools import Tool, Toolset, check_tools, visible
from zeus_runtime.tools.modes import showing

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.agent.middleware import Middleware
    from zeus_runtime.agent.subagents import Above, PlannedAgent
    from zeus_runtime.config import Config
    from zeus_runtime.config.model import Mode
    from zeus_runtime.context.fixed import ToolCounts
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.notice import Notice
    from zeus_runtime.plugins import Kind, Plugin
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
class Plan:
    """Exactly what will run.

    Args:
        config: the typed Config.
        mode: the mode it runs in.
        profile: the model's limits and prices.
        model, counter, middlewares, checkpointer: components with their options; no counter means the profile's.
        memory: what long-term memory works with; None without it.
        toolsets: the tool components.
        opens: those of them whose tools are known only when the agent runs.
        tools: every tool, in the order the model sees them.
        stable: sections 1 to 6.
        stable_with: sections 1 to 6 with other tools than the plan's.
        off: tool components that cannot work here.
        build: what components are created with.
        agents: whom it may give work to, by name.
        notices: what the user should know before the run.
        digest: SHA-256 of all that decides what the model sees and what may run.
    """

    config: Config
    mode: Mode
    profile: ModelProfile
    model: PlannedComponent
    counter: PlannedComponent | None
    memory: PlannedMemory | None
    toolsets: tuple[PlannedComponent, ...]
    middlewares: tuple[PlannedComponent, ...]
    checkpointer: PlannedComponent
    tools: tuple[PlannedTool, ...]
    stable: Mapping[Section, str]
    build: Build = field(repr=False)
    stable_with: Callable[[Sequence[Tool]], Mapping[Section, str]] = field(repr=False)
    opens: tuple[PlannedComponent, ...] = ()
    agents: Mapping[str, PlannedAgent] = field(default_factory=dict)
    off: tuple[PlannedOff, ...] = ()
    notices: tuple[Notice, ...] = ()
    digest: str = ""

    @cached_property
    def token_counter(self) -> Counter:
        """Counts tokens as the model's provider does."""
        from zeus_runtime.context.tokens import counter_for

        if self.counter is None:
            return counter_for(self.profile)
        made: Counter = self.counter.create(self.build)
        return made

    @cached_property
    def tool_counts(self) -> ToolCounts:
        """What the tools take, counted once for all runs."""
        from zeus_runtime.context.fixed import ToolCounts

        return ToolCounts(self.token_counter)


def make_plan(
    checked: Checked, *, mode: Mode | None = None, above: Above | None = None, leaf: bool = False
) -> Plan:
    """What ``checked`` will run, in ``mode`` or the config's own.

    Args:
        above: what it is part of, where it is a sub-agent's.
        leaf: its own ``agents`` are shown and not planned.

    Raises:
        ConfigError: the parts do not fit together: a tool twice, a money limit without a price, a missing file.
        MissingError: a component, its plugin or its dependency is not there.
    """
    config = checked.config if mode is None else replace(checked.config, mode=mode)
    model = planned_component(checked, "model", config.model, ("model",))
    profile = _profile(model, checked)
    build = Build(
        config=config,
        directory=checked.directory,
        homes=checked.homes,
        environ=checked.environ,
        profile=profile,
        workspace=planned_workspace(checked),
        profile_of=lambda name: lookup(
            name, overrides=config.profiles, homes=checked.homes, table=checked.model_table()
        ),
    )
    bare = build
    memory = planned_memory(checked)
    build = replace(
        build,
        open_model=lambda ref: opened_model(checked, bare, ref),
        memory=None if memory is None else memory_service(checked, memory, bare),
        open_component=lambda kind, ref: inner_component(checked, kind, ref, bare),
        sandboxes=Sandboxes(lambda ref: sandbox_backend(checked, bare, ref)),
        knowledge=knowledge_service(checked, bare) if config.knowledge else None,
    )
    toolsets = (*_implied(checked), *planned_components(checked, "tool", config.tools, "tools"))
    middlewares = planned_components(checked, "middleware", config.middlewares, "middlewares")
    counter = (
        None
        if config.counter is None
        else planned_component(checked, "counter", config.counter, ("counter",))
    )
    checkpointer = planned_component(checked, "checkpointer", config.checkpointer, ("checkpointer",))
    opens: list[tuple[PlannedComponent, Toolset]] = []
    off: list[PlannedOff] = []
    made: list[tuple[PlannedComponent, Middleware]] = []
    tools = tuple(_tools(toolsets, middlewares, build, config.mode, opens, off, made))
    kept = (memory.embeddings, memory.vector_store) if memory is not None else ()
    single = [each for each in (model, counter, *kept, checkpointer) if each is not None]

    stable_with = _stable(checked, config)
    _refuse_misfits(
        checked, build, [*single, *toolsets, *middlewares], [planned.tool for planned in tools], opens, made
    )
    plan = Plan(
        config=config,
        mode=config.mode,
        profile=profile,
        model=model,
        counter=counter,
        memory=memory,
        toolsets=toolsets,
        middlewares=middlewares,
        checkpointer=checkpointer,
        tools=tools,
        stable=stable_with([planned.tool for planned in tools]),
        stable_with=stable_with,
        opens=tuple(planned for planned, _ in opens),
        build=build,
        off=tuple(off),
        notices=(
            *checked.notices,
            *(each for each in notices(profile) if each.code != "unknown-model"),
            *map(_off_notice, off),
        ),
    )
    if config.agents and not leaf:
        from zeus_runtime.agent.subagents import Above, planned_agents

        agents = planned_agents(checked, plan, above or Above())
        told = [notice for each in agents.values() for notice in each.notices] if above is None else []
        plan = replace(plan, agents=agents, notices=(*plan.notices, *told))
    return replace(plan, digest=plan_digest(plan))


def _stable(checked: Checked, config: Config) -> Callable[[Sequence[Tool]], Mapping[Section, str]]:
    """Sections 1 to 6 as a function of the tools."""

    def stable_with(given: Sequence[Tool]) -> Mapping[Section, str]:
        return stable_sections(
            config.prompt,
            mode=config.mode,
            agent_name=config.name,
            workspace="/",
            tools=visible(given, config.mode),
            homes=checked.homes,
            position=checked.document.position,
        )

    return stable_with


def _off_notice(off: PlannedOff) -> Notice:
    from zeus_runtime.notice import Notice

    return Notice("tools_off", f"The tools of {off.component} are off: {off.reason}")


def _implied(checked: Checked) -> tuple[PlannedComponent, ...]:
    """The component of the MCP servers, where there are some and ``tools`` does not place it."""
    from zeus_runtime.config import Ref

    config = checked.config
    if not (config.mcp_servers or config.connectors != Connectors()):
        return ()
    refuse_servers(checked)
    if any(ref.name == IMPLIED for ref in config.tools):
        return ()
    return (planned_component(checked, "tool", Ref(IMPLIED), ("mcpServers",)),)


def _profile(model: PlannedComponent, checked: Checked) -> ModelProfile:
    name = model.options.get("model")
    if not isinstance(name, str):
        return ModelProfile(name=model.name)
    table = checked.model_table()
    return lookup(name, overrides=checked.config.profiles, homes=checked.homes, table=table)


def _tools(
    toolsets: Sequence[PlannedComponent],
    middlewares: Sequence[PlannedComponent],
    build: Build,
    mode: Mode,
    opens: list[tuple[PlannedComponent, Toolset]],
    off: list[PlannedOff],
    made_middlewares: list[tuple[PlannedComponent, Middleware]],
) -> Iterator[PlannedTool]:
    """Every tool; components that say that they cannot work here are added to ``off``."""
    known: dict[str, Tool] = {}
    for planned in toolsets:
        try:
            made = planned.create(build)
        except UnavailableError as error:
            reason = f"{error.message}. {error.remedy or ''}".strip()
            off.append(PlannedOff(planned.name, planned.plugin, reason))
            continue
        if isinstance(made, Toolset):
            opens.append((planned, made))
            continue
        for tool in made:
            known.setdefault(tool.name, tool)
            yield PlannedTool(tool, showing(tool, mode), planned.name, planned.plugin)
    for planned in middlewares:
        middleware: Middleware = planned.create(replace(build, tools=known))
        made_middlewares.append((planned, middleware))
        for tool in middleware.tools():
            known.setdefault(tool.name, tool)
            yield PlannedTool(tool, showing(tool, mode), planned.name, planned.plugin, planned.kind)


def _refuse_misfits(
    checked: Checked,
    build: Build,
    components: Sequence[PlannedComponent],
    tools: Sequence[Tool],
    opens: Sequence[tuple[PlannedComponent, Toolset]],
    middlewares: Sequence[tuple[PlannedComponent, Middleware]],
) -> None:
    problems: list[Diagnostic] = [
        checked.diagnostic("tool-conflict", message, ("tools",)) for message in check_tools(tools)
    ]
    live = [planned.name for planned, _ in opens]
    problems += [
        checked.diagnostic(
            "tool-conflict", f"the component {name!r} is listed twice", ("tools",), hint="keep one of the two"
        )
        for index, name in enumerate(live)
        if name in live[:index]
    ]
    names = [ref.name for ref in checked.config.middlewares]
    problems += [
        checked.diagnostic(
            "middleware-twice",
            f"the middleware {name!r} is listed twice",
            ("middlewares", index),
            hint="keep one of the two lines",
        )
        for index, name in enumerate(names)
        if name in names[:index]
    ]
    if checked.config.knowledge and "knowledge" not in [ref.name for ref in checked.config.tools]:
        problems.append(
            checked.diagnostic(
                "knowledge-unused",
                "knowledge bases are linked, but nothing gives the model the tools to search them",
                ("knowledge",),
                hint="add `- knowledge` to tools, or drop this key",
            )
        )
    problems += misfits(
        checked,
        components,
        build,
        tools,
        lambda name: any(toolset.may_have(name) for _, toolset in opens),
    )
    problems += changed_after_asking(checked, middlewares)
    if checked.config.limits.max_cost_usd is not None and None in (
        build.profile.input_cost_per_token,
        build.profile.output_cost_per_token,
    ):
        problems.append(
            checked.diagnostic(
                "unknown-price",
                f"limits.max_cost_usd cannot be kept: no price is known for {build.profile.name!r}",
                ("limits", "max_cost_usd"),
                hint="give input_cost_per_token and output_cost_per_token under profiles.models, or drop the limit",
            )
        )
    if problems:
        raise ConfigError(problems)
