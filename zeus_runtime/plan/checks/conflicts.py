"""Conflicts that a schema cannot express: parts that are valid by themselves but do not fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_runtime.config import ConfigError
from zeus_runtime.plan.checks.asking_order import approvals_unused, changed_after_asking
from zeus_runtime.plan.checks.misfits import misfits
from zeus_runtime.plan.checks.reasoning import reasoning_refused
from zeus_runtime.tools import check_tools

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Diagnostic
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.components import PlannedComponent, PlannedMiddleware
    from zeus_runtime.plan.tools import PlannedTools
    from zeus_runtime.plan.validated import Checked


def refuse_conflicts(
    checked: Checked,
    context: PlanContext,
    components: Sequence[PlannedComponent],
    middlewares: Sequence[PlannedMiddleware],
    given: PlannedTools,
    chain: Sequence[tuple[PlannedComponent, ModelProfile]],
    others: Sequence[ModelProfile] = (),
    seeing: Sequence[ModelProfile] = (),
    *,
    is_part: bool = False,
) -> Sequence[Diagnostic]:
    """Check that the parts of a plan fit together.

    Args:
        checked: the config.
        context: the plan's context.
        components: all but the middlewares.
        middlewares: the middlewares, in the order of the YAML.
        given: the tools of all.
        chain: every model that answers, with its profile.
        others: the profiles of the models of policies.
        seeing: those of the models that describe pictures.
        is_part: whether this is a sub-agent's plan, which may share its parent's config and not use all of it.

    Returns:
        the warnings.

    Raises:
        ConfigError: with every problem, not only the first.
    """
    problems = [
        *_tools_twice(checked, given),
        *_middlewares_twice(checked),
        *_prefixes_twice(checked),
        *_knowledge_unused(checked),
        *misfits(checked, [*components, *middlewares], context, given),
        *changed_after_asking(checked, middlewares),
        *(() if is_part else approvals_unused(checked, middlewares)),
        *_price_unknown(checked, [*(profile for _, profile in chain), *others, *seeing]),
        *(() if is_part else _subagents_unused(checked, given)),
        *reasoning_refused(checked, chain),
        *_blind(checked, seeing),
        *(() if is_part else _vision_unused(checked, [profile for _, profile in chain], seeing, given)),
    ]
    if any(each.severity == "error" for each in problems):
        raise ConfigError(problems)
    return problems


def _tools_twice(checked: Checked, given: PlannedTools) -> Iterator[Diagnostic]:
    for message in check_tools(given.bare):
        yield checked.diagnostic("tool-conflict", message, ("tools",))
    for _, name in _again([planned.name for planned, _ in given.opens]):
        message = f"the component {name!r} is listed twice"
        yield checked.diagnostic("tool-conflict", message, ("tools",), hint="keep one of the two")


def _middlewares_twice(checked: Checked) -> Iterator[Diagnostic]:
    for index, name in _again([ref.name for ref in checked.config.middlewares]):
        yield checked.diagnostic(
            "middleware-twice",
            f"the middleware {name!r} is listed twice",
            ("middlewares", index),
            hint="keep one of the two lines",
        )


def _prefixes_twice(checked: Checked) -> Iterator[Diagnostic]:
    servers = {name: each for name, each in checked.config.mcp_servers.items() if not each.disabled}
    prefixes = [each.prefix_for(name) for name, each in servers.items()]
    for index, prefix in _again(prefixes):
        # Who drops the prefix of several servers means it.
        if not prefix:
            continue
        name, former = list(servers)[index], list(servers)[prefixes.index(prefix)]
        found = checked.diagnostic(
            "mcp-prefix",
            f"the names of its tools begin with `{prefix}__`, as do those of the server {former!r}: where both have a"
            " tool of one name, only one is offered",
            ("mcpServers", name, *(() if servers[name].prefix is None else ("prefix",))),
            hint="give the servers different prefixes",
        )
        yield replace(found, severity="warning")


def _again(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each repeated name, with the index of the repetition."""
    for index, name in enumerate(names):
        if name in names[:index]:
            yield index, name


def _knowledge_unused(checked: Checked) -> Iterator[Diagnostic]:
    if checked.config.knowledge and not searches_knowledge(checked.config):
        yield checked.diagnostic(
            "knowledge-unused",
            "knowledge bases are linked, but nothing gives the model the tools to search them",
            ("knowledge",),
            hint="add `- knowledge` to tools, or drop this key",
        )


def _subagents_unused(checked: Checked, given: PlannedTools) -> Iterator[Diagnostic]:
    agents = [*given.agents.values(), *checked.config.agents.values()]
    if checked.config.models.subagents is None or any(shares_model(each) for each in agents):
        return
    yield checked.diagnostic(
        "model-unused",
        "no sub-agent uses this model: " + ("each has its own" if agents else "this agent has none"),
        ("models", "subagents"),
        hint="remove it",
    )


def _blind(checked: Checked, seeing: Sequence[ModelProfile]) -> Iterator[Diagnostic]:
    from zeus_runtime.config import Ref

    for index, profile in enumerate(seeing):
        if profile.vision:
            continue
        place = () if isinstance(checked.config.models.vision, Ref) else ("chain", index)
        yield checked.diagnostic(
            "no-vision",
            f"no table says that {profile.name!r} takes pictures, so it cannot describe them",
            ("models", "vision", *place),
            hint="name a model that takes pictures; for a custom model, set profiles.models.NAME.vision",
        )


def _vision_unused(
    checked: Checked, models: Sequence[ModelProfile], seeing: Sequence[ModelProfile], given: PlannedTools
) -> Iterator[Diagnostic]:
    has_agents = bool(checked.config.agents or given.agents)
    if not seeing or has_agents or not all(each.vision for each in models):
        return
    found = checked.diagnostic(
        "model-unused",
        f"{models[0].name!r} takes pictures itself, so this model describes none",
        ("models", "vision"),
        hint="remove it",
    )
    yield replace(found, severity="warning")


def shares_model(agent: SubAgent) -> bool:
    """Whether a sub-agent takes its model from ``models.subagents``; a fork keeps the model that cached its prefix."""
    return agent.config is None and agent.context != "fork" and "model" not in agent.overrides


def searches_knowledge(config: Config) -> bool:
    """Whether the model gets the tools that search the linked knowledge bases."""
    return any(ref.name == "knowledge" for ref in config.tools)


def _price_unknown(checked: Checked, profiles: Sequence[ModelProfile]) -> Iterator[Diagnostic]:
    if checked.config.limits.max_cost_usd is None:
        return
    for name in unpriced(profiles):
        yield checked.diagnostic(
            "unknown-price",
            f"limits.max_cost_usd cannot be kept: no price is known for {name!r}",
            ("limits", "max_cost_usd"),
            hint="give input_cost_per_token and output_cost_per_token under profiles.models, or drop the limit",
        )


def unpriced(profiles: Iterable[ModelProfile]) -> Sequence[str]:
    """The names of the models whose price is not known."""
    return [each.name for each in profiles if None in (each.input_cost_per_token, each.output_cost_per_token)]
