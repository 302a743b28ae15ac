"""A plan as JSON: exactly what will run, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.plan.chosen_embeddings import EmbeddingsInUse
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.registry import Plugin
    from zeus_runtime.tools import Connection
    from zeus_runtime.tools.gate import Gate


def plan_object(checked: Checked, plan: Plan) -> dict[str, Any]:
    """The whole plan, secrets not masked except in ``values``."""
    from zeus_runtime.plan.prompt_sources import prompt_sources

    return {
        "agent": plan.config.name,
        "description": plan.config.description,
        "config": checked.document.source,
        "mode": plan.mode,
        "digest": plan.digest,
        "instructions": instructions_source(checked, plan),
        "project_instructions": project_files_shown(plan),
        "model": _component_object(plan.model),
        "model_notes": plan.models[0].notes,
        "profile": plan.profile,
        "reasoning": plan.models[0].reasoning,
        "fallbacks": [
            {
                **_component_object(each.component),
                "model_notes": each.notes,
                "profile": each.profile,
                "reasoning": each.reasoning,
            }
            for each in plan.fallbacks
        ],
        **{
            role: [
                {**_component_object(each.component), "model_notes": each.notes, "profile": each.profile}
                for each in models
            ]
            for role, models in plan.roles.items()
        },
        "middlewares": [_component_object(each) for each in plan.middlewares],
        "counter": plan.counter and _component_object(plan.counter),
        "memory": _memory_object(checked, plan),
        "checkpointer": _component_object(plan.checkpointer),
        "tools": [
            {
                "name": each.tool.name,
                "category": each.tool.category,
                "access": each.tool.access,
                "showing": each.showing,
                "component": each.component,
                "plugin": _plugin_object(each.plugin),
            }
            for each in plan.tools
        ],
        "files": reach_object(checked, plan),
        "agents": _agents_object(plan),
        "executes": parts_object(checked),
        "servers": [{"name": each.name, "category": each.category} for each in planned_servers(plan)],
        "prompt": {str(name): text for name, text in plan.stable.items()},
        "prompt_sources": {
            str(name): source.as_json() for name, source in prompt_sources(checked, plan).items()
        },
        "values": _values_object(checked, plan),
        "notices": [{"code": notice.code, "message": notice.message} for notice in plan.notices],
    }


def _values_object(checked: Checked, plan: Plan) -> list[dict[str, Any]]:
    from zeus_runtime.plan.config_values import effective_values

    return [
        {"path": each.path, "value": each.value, "written": [mark._asdict() for mark in each.marks]}
        for each in effective_values(checked, plan)
    ]


def parts_object(checked: Checked) -> list[dict[str, Any]]:
    """The parts that would be executed, each with whether the user allowed it."""
    from zeus_runtime.plan.parts_with_subagents import all_parts

    return [
        {
            "kind": each.kind,
            "name": each.name,
            "digest": each.digest,
            "where": each.where,
            "trusted": checked.trust.allows(each),
            "reads_on": each.reads_on,
        }
        for each in all_parts(checked)
    ]


def planned_servers(plan: Plan) -> list[Connection]:
    """The servers that a run starts; none is started."""
    return [each for toolset in plan.unopened for each in toolset.status()]


def instructions_source(checked: Checked, plan: Plan) -> str | None:
    """The file of the instructions, or their place in the YAML; None without any."""
    written = plan.config.instructions
    if written is None:
        return None
    return str(checked.document.position(("instructions",))) if isinstance(written, str) else written.file


def project_files_shown(plan: Plan) -> list[str] | None:
    """The files with the project's instructions, the nearest last; None where they are off."""
    from zeus_runtime.prompt.project import names_and_budget, project_files

    setting = names_and_budget(plan.config.project_instructions)
    if setting is None:
        return None
    found = project_files(plan.context.workspace, setting.files)
    return [f"{each.path} (not read: {each.problem})" if each.problem else each.path for each in found]


def lacks(plan: Plan) -> Mapping[str, str]:
    """What the memory backend does not do, and what happens instead."""
    return {} if plan.context.memory is None else plan.context.memory.lacks


def embeddings_shown(checked: Checked, plan: Plan) -> EmbeddingsInUse | None:
    """What will embed; None where a server would have to be asked for the user's choice, which no plan does."""
    from zeus_runtime.config.sqlite_url import database_file, is_sqlite
    from zeus_runtime.memory.embedding_choice import stored_in_file
    from zeus_runtime.plan.chosen_embeddings import embeddings_in_use

    url, memory = plan.config.storage.url, plan.config.memory
    if not is_sqlite(url):
        return None
    file, stored = database_file(url, checked.directory), None
    if file is not None and memory is not None:
        stored = stored_in_file(file, memory.user)
    return embeddings_in_use(checked, plan, stored)


def reach_object(checked: Checked, plan: Plan) -> dict[str, Any]:
    """The folders, rules and protected files."""
    gate = plan.context.workspace.gate
    assert gate is not None, "a plan's workspace has its policy"
    lines = _lines(gate)
    lifting = {(rule.written, rule.right) for rule in gate.policy.floor.lifting}
    return {
        "folders": {
            "/": _root(checked, gate.mounts.root),
            **{prefix: str(host) for prefix, host in plan.context.workspace.routes.items()},
        },
        "rules": [
            {
                "pattern": pattern,
                "right": right,
                "written": str(checked.document.position(("workspace", "access", pattern), "key")),
                "lifts_protection": (pattern, right) in lifting,
            }
            for pattern, right in lines
        ],
        # A sub-agent must keep the rules of the agents above it too, which start at their workspaces.
        "rules_above": [
            {"pattern": pattern, "right": right, "root": root} for root, pattern, right in _lines_above(gate)
        ],
        "protected": list(gate.protected()),
        "past_rules": [each.tool.name for each in plan.tools if each.tool.past_workspace],
    }


def _lines(gate: Gate) -> Mapping[tuple[str, str], None]:
    """The rules of ``workspace.access``, each as it is written."""
    return dict.fromkeys((rule.written, rule.right) for rule in gate.policy.rules.rules)


def _lines_above(gate: Gate) -> Mapping[tuple[str, str, str], None]:
    """The root and the rules of each agent above, without those that the agent has itself for the same root."""
    found: dict[tuple[str, str, str], None] = {}
    above = gate.above
    while above is not None:
        found |= {(str(above.mounts.root), *line): None for line in _lines(above)}
        above = above.above
    own = {(str(gate.mounts.root), *line) for line in _lines(gate)}
    return {line: None for line in found if line not in own}


def _root(checked: Checked, root: Path) -> str:
    # The plan of a session, or of another user, has that one's folder.
    is_for_each = checked.config.workspace.per == "session" and not checked.session
    return str(root.parent / "<session>" if is_for_each else root)


def _agents_object(plan: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        name: {
            **asdict(each.spec),
            "source": each.checked.document.source,
            "instructions": instructions_source(each.checked, each.plan),
            "mode": each.plan.mode,
            "digest": each.plan.digest,
            "model": _component_object(each.plan.model),
            "middlewares": [_component_object(used) for used in each.plan.middlewares],
            "tools": [tool.tool.name for tool in each.plan.tools],
            "files": reach_object(each.checked, each.plan),
            "values": _values_object(each.checked, each.plan),
            "agents": _agents_object(each.plan),
        }
        for name, each in plan.agents.items()
    }


def _memory_object(checked: Checked, plan: Plan) -> dict[str, Any] | None:
    if plan.memory is None:
        return None
    used = embeddings_shown(checked, plan)
    component = plan.memory.embeddings if used is None else used.component
    return {
        "backend": _component_object(plan.memory.backend),
        "lacks": dict(lacks(plan)),
        "embeddings": component and _component_object(component),
        "embeddings_by": None if used is None else used.by,
        "vector_store": _component_object(plan.memory.vector_store),
        "extract": plan.config.memory and plan.config.memory.extract,
        "consolidate_after": plan.config.memory and plan.config.memory.consolidate_after,
    }


def _component_object(planned: PlannedComponent) -> dict[str, Any]:
    return {
        "name": planned.name,
        "options": dict(planned.options),
        "plugin": _plugin_object(planned.plugin),
    }


def _plugin_object(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "source": plugin.source,
    }
