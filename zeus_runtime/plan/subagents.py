"""The planned sub-agents of an agent: each has a separate config, or this config with changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from zeus_runtime.config import ConfigError
from zeus_runtime.config.yaml.tree import find
from zeus_runtime.escaping import word
from zeus_runtime.frozen import dataclass
from zeus_runtime.plan.agent_documents import laid_over, own_document
from zeus_runtime.plan.apart import set_apart
from zeus_runtime.plan.checks.asking_order import asks_user
from zeus_runtime.plan.checks.conflicts import searches_knowledge, shares_model, unpriced
from zeus_runtime.plan.validated import check_loaded

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Document
    from zeus_runtime.config.model import Mode, SubAgent
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.events import Notice
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.tools import PlannedTools
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools import Tool
    from zeus_runtime.tools.gate import Gate
    from zeus_runtime.tools.quota import Quota


@dataclass(frozen=True)
class PlannedAgent:
    """One agent under ``agents``.

    Args:
        name: its name there.
        spec: its entry in the YAML.
        checked: its config.
        plan: exactly what it runs.
        notices: the unused keys of its config, and of its agents' configs.
    """

    name: str
    spec: SubAgent
    checked: Checked = field(repr=False)
    plan: Plan
    notices: tuple[Notice, ...] = ()


class MakePlan(Protocol):
    """The type of ``plan.make_plan``."""

    def __call__(self, checked: Checked, *, mode: Mode, above: Above, leaf: bool) -> Plan: ...


@dataclass(frozen=True)
class Above:
    """What a sub-agent's plan gets from the plans above it.

    Args:
        files: the configs above it, the outermost first; None for standard input.
        depth_left: how many levels of agents may still follow.
        priced: whether an agent above it has a cost limit.
        asked: whether an agent above it asks the user before tools run.
        outermost: the config whose database all of them share; None for the outermost itself.
        tools: the parent's tools.
        gate: the parent's access to files.
        quota: how much the parent, and those above it, may have files.
    """

    files: tuple[Path | None, ...] = ()
    depth_left: int | None = None
    priced: bool = False
    asked: bool = False
    outermost: Config | None = None
    tools: PlannedTools | None = None
    gate: Gate | None = None
    quota: Quota | None = None


def planned_agents(
    checked: Checked, plan: Plan, given: PlannedTools, above: Above, left: int, make_plan: MakePlan
) -> Mapping[str, PlannedAgent]:
    """Every agent under ``agents``, the agents that tools bring, and their agents.

    Args:
        left: how many levels of agents may still follow.
        make_plan: makes the plan of each; an argument, because a plan contains its agents' plans.

    Raises:
        ConfigError: a config is not valid, the configs form a circle or are nested too deep, or no tool can reach the
            agents.
    """
    agents = {**given.agents, **checked.config.agents}
    limits = checked.config.limits
    if not any(planned.tool.starts_agents for planned in plan.tools):
        raise _refused(
            checked, "agents-unused", "no tool gives these agents work", (), "add `subagents` to `tools`"
        )
    if left <= 0:
        raise _refused(
            checked,
            "agents-too-deep",
            "agents are nested deeper than limits.max_subagent_depth of the outermost one allows",
            (),
            "raise it there, or let these agents work without agents of their own",
        )
    below = Above(
        (*above.files, _file(checked.document)),
        left - 1,
        priced=above.priced or limits.max_cost_usd is not None,
        asked=above.asked or asks_user(plan.middlewares),
        outermost=above.outermost or plan.config,
        tools=given,
        gate=plan.context.workspace.gate,
        quota=plan.context.workspace.quota,
    )
    return {name: _planned(checked, name, spec, plan.mode, below, make_plan) for name, spec in agents.items()}


def bound_to_agents(tools: Iterable[Tool], agents: Mapping[str, PlannedAgent]) -> tuple[Tool, ...]:
    """The tools, those that start agents with the agents' plans in their setting: a task does what its agent does."""
    if not agents:
        return tuple(tools)
    facts = {name: tuple(_facts(word(name), each)) for name, each in agents.items()}
    return tuple(
        replace(each.within(_setting(agents)), agent_facts=facts) if each.starts_agents else each
        for each in tools
    )


def _facts(name: str, agent: PlannedAgent) -> Iterator[str]:
    """What a person who approves a task must know of its agent, and of the agents that this one may start."""
    plan = agent.plan
    servers = [
        word(each.name) for toolset in plan.unopened for each in toolset.status() if each.state != "disabled"
    ]
    may = (["write"] if _may_write(plan) else []) + (["run commands"] if _may_execute(plan) else [])
    yield f"sub-agent {name}: config {word(str(agent.checked.document.source))}"
    reaches = f"servers {', '.join(servers)}" if servers else "no servers"
    yield f"sub-agent {name}: may {' and '.join(may) or 'only read'}, {reaches}"
    for below, each in plan.agents.items():
        yield from _facts(f"{name}/{word(below)}", each)


def _setting(agents: Mapping[str, PlannedAgent]) -> str:
    """The part of ``Tool.setting`` that says which agents a tool starts, hashed."""
    parts = [
        # A plan's digest has neither the settings of its tools and toolsets nor the place of its workspace.
        [
            name,
            plan.digest,
            [each.tool.setting for each in plan.tools],
            [each.setting for each in plan.unopened],
            plan.context.workspace.folders_identity(),
        ]
        for name, plan in sorted((name, each.plan) for name, each in agents.items())
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _planned(
    checked: Checked, name: str, spec: SubAgent, mode: Mode, above: Above, make_plan: MakePlan
) -> PlannedAgent:
    own = _own(checked, name, spec, above).working_for(checked)
    own = replace(own, place=checked.place or (checked.config.user,), session=checked.session)
    if checked.apart is not None:
        own = set_apart(own, checked.apart)
    # A read-only parent never gets an agent that writes; one that shares its config and sets no mode follows its mode.
    has_mode = spec.config is not None or "mode" in (spec.overrides or {})
    planned_mode = own.config.mode if mode == "agent" and has_mode else mode
    try:
        plan = make_plan(own, mode=planned_mode, above=above, leaf=spec.config is None)
    except ConfigError as error:
        raise _blamed(checked, name, error) from None
    # An agent that works for a limited one spends from the same limit, so its models need prices too.
    if above.priced and (
        names := unpriced(each.profile for each in (*plan.models, *plan.summary, *plan.vision))
    ):
        raise _refused(
            checked,
            "unknown-price",
            f"limits.max_cost_usd cannot be kept: no price is known for {names[0]!r}",
            (name,),
            "give its prices under profiles.models of that agent, or drop the limit",
        )
    if above.asked and _may_write(plan) and not asks_user(plan.middlewares):
        raise _refused(
            checked,
            "agents-unasked",
            f"{name} may have tools that write and asks nobody, though this agent lists a middleware that does",
            (name,),
            "list that middleware in its config too; {approve: {mode: run_everything}} says that it runs unasked",
        )
    unused = _unused(name, own, above) if spec.config is not None else ()
    told = (*unused, *(each for below in plan.agents.values() for each in below.notices))
    return PlannedAgent(name, spec, own, plan, told)


def _may_write(plan: Plan) -> bool:
    """Whether it has tools that write, or servers, whose tools are known only when they run."""
    writes = any(each.tool.access == "write" and each.showing == "callable" for each in plan.tools)
    return writes or (plan.mode == "agent" and bool(plan.opens))


def _may_execute(plan: Plan) -> bool:
    """Whether it has tools that run commands or code, besides those of servers."""
    callable_tools = (each.tool for each in plan.tools if each.showing == "callable")
    return any(each.commands or each.category in ("sandbox", "shell") for each in callable_tools)


_DEPTH: Final = ("limits", "max_subagent_depth")

_OUTERMOST: Final[Mapping[tuple[str, ...], str]] = {
    ("storage",): "its sessions are kept and put away with those of the outermost agent",
    ("checkpointer",): "its sessions are kept and put away with those of the outermost agent",
    ("retention",): "its sessions are kept and put away with those of the outermost agent",
    _DEPTH: "the outermost agent's limit holds for all below it",
}
"""Keys that only the outermost agent's config decides, and why."""

_AGENTS: Final[tuple[tuple[str, ...], ...]] = (("agents",), ("limits", "max_subagents"), _DEPTH)
"""Keys that mean nothing for an agent without agents."""


def _unused(name: str, own: Checked, above: Above) -> Iterator[Notice]:
    """A notice for each key of a sub-agent's config that differs from the outermost one, whose value is used."""
    from zeus_runtime.events import Notice

    document, outermost = own.document, above.outermost
    for key, reason in _OUTERMOST.items():
        value = attrgetter(".".join(key))
        if document.get(key) is not None and value(own.config) != value(outermost):
            yield Notice(
                "agents-unused-key",
                f"{document.position(key)}: {'.'.join(key)} is not used while {name} works as a sub-agent: {reason}.",
            )


def _own(checked: Checked, name: str, spec: SubAgent, above: Above) -> Checked:
    """The config of an agent, checked."""
    is_plain = not spec.overrides and spec.instructions is None and spec.output is None
    if spec.config is None and is_plain and _model_for(checked, spec) is None:
        return _leaf(checked, spec)
    try:
        document = own_document(checked, name, spec)
        if spec.config is not None and (file := _file(document)) in above.files:
            again = (*above.files[above.files.index(file) :], file)
            circle = " → ".join(path.name for path in again if path is not None)
            raise _refused(
                checked, "agents-circle", f"agents go round in a circle: {circle}", (name, "config")
            )
        for key in _AGENTS if spec.config is None else ():
            if _laid_over(checked, name, key):
                raise _refused(
                    checked,
                    "agents-unused-key",
                    "a sub-agent that shares this config has no agents of its own",
                    (name, "overrides", *key),
                    f"remove it here, or write the agents in a file of their own and name it at agents.{name}.config",
                )
        for key, reason in _OUTERMOST.items():
            if _laid_over(checked, name, key):
                raise _refused(
                    checked,
                    "agents-unused-key",
                    f"a sub-agent has no {'.'.join(key)} of its own: {reason}",
                    (name, "overrides", *key),
                    "remove it here, or write it at the top level",
                )
        document = _with_own(checked, name, spec, document)
        own = check_loaded(
            document, directory=checked.directory, environ=checked.given_environ, trust=checked.trust
        )
    except ConfigError as error:
        raise _blamed(checked, name, error) from None
    return own if spec.config is not None else _leaf(own, spec)


def _laid_over(checked: Checked, name: str, key: tuple[str, ...]) -> bool:
    return find(checked.document.root, ("agents", name, "overrides", *key)) is not None


def _leaf(own: Checked, spec: SubAgent) -> Checked:
    """A config shared with the parent, without its agents and without linked knowledge that it cannot search."""
    config = own.config
    if spec.context != "fork":
        # A fork keeps the tool that lists the agents: it is part of the prefix that the provider has cached.
        config = replace(config, agents={})
    if spec.output is None and "output" not in (spec.overrides or {}):
        # The form of the parent's answer is not that of a task's.
        config = replace(config, output=None)
    if "knowledge" not in (spec.overrides or {}) and not searches_knowledge(config):
        config = replace(config, knowledge=())
    return replace(own, config=config)


def _with_own(checked: Checked, name: str, spec: SubAgent, document: Document) -> Document:
    """The agent's config, with its model, and the instructions and the form of answers that its entry gives."""
    if (model := _model_for(checked, spec)) is not None:
        document = laid_over(
            document, document.root._replace(value={**document.root.value, "model": model}), shared=True
        )
    for key in ("instructions", "output"):
        written = find(checked.document.root, ("agents", name, key))
        if getattr(spec, key) is None or written is None:
            continue
        if key in spec.overrides:
            raise _refused(
                checked,
                "agents-twice",
                f"the agent {name!r} has {key} in two places",
                (name, "overrides", key),
                f"keep agents.{name}.{key}, and remove this key",
            )
        sections = {**document.root.value, key: written}
        document = laid_over(document, document.root._replace(value=sections), shared=spec.config is None)
    return document


def _model_for(checked: Checked, spec: SubAgent) -> Node | None:
    """The model that sub-agents of this config get; None for one that keeps its own or its parent's."""
    if checked.config.models.subagents is None or not shares_model(spec):
        return None
    return find(checked.document.root, ("models", "subagents"))


def _blamed(checked: Checked, name: str, error: ConfigError) -> ConfigError:
    """The same problems, preceded by one that names the agent whose config has them."""
    # An inner agent's error names its agent already.
    if any(each.code.startswith("agents-") for each in error.diagnostics):
        return error
    told = checked.diagnostic(
        "agents-invalid", f"the config of the agent {name!r} is not valid", ("agents", name)
    )
    return ConfigError([told, *error.diagnostics])


def _file(document: Document) -> Path | None:
    return None if document.path is None else document.path.resolve()


def _refused(
    checked: Checked, code: str, message: str, path: tuple[str, ...], hint: str | None = None
) -> ConfigError:
    return ConfigError([checked.diagnostic(code, message, ("agents", *path), hint=hint)])
