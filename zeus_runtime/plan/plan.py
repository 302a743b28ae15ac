"""The Plan: exactly what will run, frozen before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from zeus_runtime.frozen import dataclass
from zeus_runtime.models.profiles import ModelProfile, notices
from zeus_runtime.plan.checks.asking_order import with_approvals
from zeus_runtime.plan.checks.conflicts import refuse_conflicts
from zeus_runtime.plan.checks.middleware_order import harmful_orders
from zeus_runtime.plan.checks.misfits import late_misfits
from zeus_runtime.plan.components import (
    PlannedComponent,
    PlannedMiddleware,
    planned_component,
    planned_middlewares,
    planned_toolsets,
)
from zeus_runtime.plan.fingerprint import plan_digest
from zeus_runtime.plan.models import PlannedModel, planned_chain, planned_models, planned_role
from zeus_runtime.plan.reach import ToolReach, reach_of
from zeus_runtime.plan.servers import implied_component
from zeus_runtime.plan.services import PlannedMemory, model_of, plan_context, planned_memory
from zeus_runtime.plan.tools import PlannedOff, PlannedTool, PlannedTools, planned_tools
from zeus_runtime.plan.workspace import planned_workspace
from zeus_runtime.prompt import Section, stable_sections
from zeus_runtime.tools import Tool, Toolset, visible

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Diagnostic, Ref
    from zeus_runtime.config.model import Mode
    from zeus_runtime.context.prompt_cost import ToolCounts
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.models import Model
    from zeus_runtime.notice import Notice
    from zeus_runtime.plan.output import PlannedOutput
    from zeus_runtime.plan.subagents import Above, PlannedAgent
    from zeus_runtime.plan.validated import Checked


@dataclass(frozen=True)
class Plan:
    """Exactly what will run.

    Args:
        config: the typed Config.
        mode: the mode it runs in.
        profile: the model's limits and prices.
        model, counter, middlewares, checkpointer: components with their options; without a counter, the profile's is
            used.
        fallbacks: the further models of a chain, in their order.
        summary: the models of policies' own calls; empty for the running model.
        vision: the models that describe pictures for a model that takes none; empty for none.
        memory: the components of long-term memory; None without it.
        toolsets: the tool components.
        opens: those of them whose tools are known only when the agent runs.
        unopened: the toolset that planning made of each, which tells of its tools before a run opens another.
        tools: every tool, in the order in which the model sees them.
        stable: sections 1 to 6.
        stable_with: makes sections 1 to 6 with other tools than the plan's.
        misfits_with: what the config's lines say about tools and arguments that open toolsets do not have.
        off: tool components that cannot work here.
        context: the context that components other than middlewares are created with.
        open_model: opens a model by its name or Ref, for a middleware.
        reach: what tools use besides their options; an approval is bound to it.
        agents: the agents that it may give tasks to, by name.
        output: the form of its answers; None for a text.
        notices: what the user should know before the run.
        warnings: those of the notices that have a position in the config.
        digest: SHA-256 of everything that decides what the model sees and what may run.
    """

    config: Config
    mode: Mode
    profile: ModelProfile
    model: PlannedComponent
    counter: PlannedComponent | None
    memory: PlannedMemory | None
    toolsets: tuple[PlannedComponent, ...]
    middlewares: tuple[PlannedMiddleware, ...]
    checkpointer: PlannedComponent
    tools: tuple[PlannedTool, ...]
    stable: Mapping[Section, str]
    context: PlanContext = field(repr=False)
    open_model: Callable[[str | Ref], Model] = field(repr=False)
    stable_with: Callable[[Sequence[Tool]], Mapping[Section, str]] = field(repr=False)
    misfits_with: Callable[[Sequence[Tool], Mapping[str, Toolset]], Sequence[str]] = field(
        default=lambda _tools, _opened: (), repr=False, compare=False
    )
    opens: tuple[PlannedComponent, ...] = ()
    unopened: tuple[Toolset, ...] = field(default=(), repr=False, compare=False)
    fallbacks: tuple[PlannedModel, ...] = ()
    summary: tuple[PlannedModel, ...] = ()
    vision: tuple[PlannedModel, ...] = ()
    reach: ToolReach = field(default_factory=ToolReach, repr=False)
    agents: Mapping[str, PlannedAgent] = field(default_factory=dict)
    output: PlannedOutput | None = None
    off: tuple[PlannedOff, ...] = ()
    notices: tuple[Notice, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    digest: str = ""

    @property
    def token_counter(self) -> Counter:
        """Counts tokens as the model's provider does."""
        return self.models[0].token_counter

    @cached_property
    def models(self) -> tuple[PlannedModel, ...]:
        """The model, and the further ones of a chain."""
        context = replace(self.context, profile=self.profile)
        return (PlannedModel(self.model, self.profile, self.counter, context), *self.fallbacks)

    @property
    def roles(self) -> Mapping[str, tuple[PlannedModel, ...]]:
        """The models for parts of the work, by their keys under ``models``, the preferred one of each first."""
        return {"summary": self.summary, "vision": self.vision}

    @property
    def picture_profile(self) -> ModelProfile:
        """The profile of the model that looks at pictures: the agent's, or that of ``models.vision`` in its place."""
        return self.vision[0].profile if self.vision and not self.profile.vision else self.profile

    @property
    def tool_counts(self) -> ToolCounts:
        """The tokens of the tools, counted once for all runs."""
        return self.models[0].tool_counts


def make_plan(
    checked: Checked, *, mode: Mode | None = None, above: Above | None = None, leaf: bool = False
) -> Plan:
    """The plan of ``checked``, in ``mode`` or the config's own.

    Args:
        above: the parent, for a sub-agent's plan.
        leaf: whether its own ``agents`` are shown but not planned.

    Raises:
        ConfigError: the parts do not fit together: a tool twice, a cost limit without a price, a missing file.
        MissingError: a component, its plugin or its dependency is missing.
    """
    config = checked.config if mode is None else replace(checked.config, mode=mode)
    chain = planned_chain(checked, checked.config.model)
    for_summary = planned_role(checked, "summary")
    for_vision = planned_role(checked, "vision")
    model, profile = chain[0]
    memory = planned_memory(checked)
    toolsets = (*implied_component(checked), *planned_toolsets(checked))
    middlewares = with_approvals(checked, planned_middlewares(checked))
    # Before the context and the tools: components are created with a workspace whose access rules hold already.
    files = planned_workspace(checked, config.mode, (*toolsets, *middlewares), above)
    context = plan_context(checked, config, profile, files, memory)
    counter = planned_component(checked, "counter", config.counter, ("counter",)) if config.counter else None
    checkpointer = planned_component(checked, "checkpointer", config.checkpointer, ("checkpointer",))
    kept = (memory.embeddings, memory.vector_store, memory.backend) if memory is not None else ()
    reach = reach_of(context, kept)
    given = planned_tools(toolsets, middlewares, context, reach)
    if not config.agents and (leaf or agents_left(config, above) == 0):
        given = given.without_agents()
    if leaf and above is not None:
        given = replace(given, above=above.tools)
    fallbacks = planned_models(chain[1:], counter, context)
    summary = planned_models(for_summary, None, context)
    vision = planned_models(for_vision, None, context)
    further = (each.component for each in (*fallbacks, *summary, *vision))
    single = [each for each in (model, *further, counter, *kept, checkpointer) if each is not None]
    profiles = [profile for _, profile in chain]
    told = refuse_conflicts(
        checked,
        context,
        [*single, *toolsets],
        middlewares,
        given,
        chain,
        [profile for _, profile in for_summary],
        [profile for _, profile in for_vision],
        is_part=above is not None,
    )
    output = _output(checked, profiles, given)
    stable_with = _stable(checked, config, output)
    warnings = (*told, *harmful_orders(checked, middlewares))
    plan = Plan(
        config=config,
        mode=config.mode,
        profile=context.profile,
        model=model,
        counter=counter,
        memory=memory,
        toolsets=toolsets,
        middlewares=middlewares,
        checkpointer=checkpointer,
        tools=given.tools,
        stable=stable_with(given.bare),
        stable_with=stable_with,
        misfits_with=_late(checked, [*toolsets, *middlewares], context, given),
        opens=tuple(planned for planned, _ in given.opens),
        unopened=tuple(toolset for _, toolset in given.opens),
        fallbacks=fallbacks,
        summary=summary,
        vision=vision,
        context=context,
        reach=reach,
        output=output,
        open_model=lambda ref: model_of(checked, context, ref),
        off=given.off,
        notices=(
            *checked.notices,
            *(
                each
                for one in (*profiles, *(each.profile for each in (*summary, *vision)))
                for each in notices(one)
                if each.code != "unknown-model"
            ),
            *map(_off_notice, given.off),
            *map(_warning_notice, warnings),
        ),
        warnings=warnings,
    )
    if (config.agents or given.agents) and not leaf:
        plan = _with_agents(checked, plan, given, above)
    # Last, because the digest covers the digests of the agents.
    return replace(plan, digest=plan_digest(plan))


def _late(
    checked: Checked, components: Sequence[PlannedComponent], context: PlanContext, given: PlannedTools
) -> Callable[[Sequence[Tool], Mapping[str, Toolset]], Sequence[str]]:
    def found(tools: Sequence[Tool], opened: Mapping[str, Toolset]) -> Sequence[str]:
        opens = tuple((planned, opened.get(planned.name, made)) for planned, made in given.opens)
        return tuple(late_misfits(checked, components, context, replace(given, opens=opens), tools))

    return found


def agents_left(config: Config, above: Above | None) -> int:
    """How deep the agents of a plan may be nested: its own limit, or the depth that the plans above it leave."""
    given = None if above is None else above.depth_left
    return config.limits.max_subagent_depth if given is None else given


def _with_agents(checked: Checked, plan: Plan, given: PlannedTools, above: Above | None) -> Plan:
    from zeus_runtime.plan.subagents import Above, bound_to_agents, planned_agents

    left = agents_left(checked.config, above)
    agents = planned_agents(checked, plan, given, above or Above(), left, make_plan)
    # Nested agents pass theirs up in `PlannedAgent.notices`, so only the outermost plan adds them.
    told = [notice for each in agents.values() for notice in each.notices] if above is None else []
    # The agents' plans decide what a task does, so an approval of the tool binds them too.
    bound = bound_to_agents((each.tool for each in plan.tools), agents)
    tools = tuple(replace(each, tool=tool) for each, tool in zip(plan.tools, bound, strict=True))
    return replace(plan, agents=agents, tools=tools, notices=(*plan.notices, *told))


def _output(checked: Checked, profiles: Sequence[ModelProfile], given: PlannedTools) -> PlannedOutput | None:
    if checked.config.output is None:
        return None
    from zeus_runtime.plan.output import planned_output

    return planned_output(checked, checked.config.output, profiles, given)


def _stable(
    checked: Checked, config: Config, output: PlannedOutput | None
) -> Callable[[Sequence[Tool]], Mapping[Section, str]]:
    """Sections 1 to 6 as a function of the tools.

    Raises:
        ConfigError: the instructions are empty, or their file cannot be read.
    """
    from zeus_runtime.prompt.instructions import instructions_text

    instructions = instructions_text(config.instructions, diagnostic=checked.diagnostic)

    def stable_with(given: Sequence[Tool]) -> Mapping[Section, str]:
        sections = stable_sections(
            config.prompt,
            mode=config.mode,
            agent_name=config.name,
            workspace="/",
            tools=visible(given, config.mode),
            homes=checked.homes,
            instructions=instructions,
            position=checked.document.position,
        )
        if output is not None:
            sections[Section.MODE] = f"{sections[Section.MODE].rstrip()}\n\n{output.told}".lstrip()
        return sections

    return stable_with


def _off_notice(off: PlannedOff) -> Notice:
    from zeus_runtime.notice import Notice

    return Notice("tools_off", f"The tools of {off.component} are off: {off.reason}")


def _warning_notice(warning: Diagnostic) -> Notice:
    from zeus_runtime.notice import Notice

    return Notice(warning.code, str(warning))
