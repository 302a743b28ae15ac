"""Build the resources of a run from a Plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.context import Archive
from zeus_runtime.events import Notice
from zeus_runtime.middleware.contexts import RunContext
from zeus_runtime.plan.redaction import behind_mask, masked_for
from zeus_runtime.plan.subagents import bound_to_agents
from zeus_runtime.prompt import time_section
from zeus_runtime.prompt.project import (
    NO_PROJECT,
    ProjectSection,
    names_and_budget,
    project_files,
    project_section,
)
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.links import ChainedModel, PolicyModel
from zeus_runtime.run.notes import RunNotes
from zeus_runtime.run.resources import RunResources
from zeus_runtime.run.toolbox import Toolbox
from zeus_runtime.run.usage import Metered, UsageMeter
from zeus_runtime.tools import Tool
from zeus_runtime.tools.calling_tool import calling

if TYPE_CHECKING:
    from zeus_runtime.config import Ref
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.run.delegated_task import Delegate
    from zeus_runtime.run.links import OpenModel
    from zeus_runtime.tools import Toolset


def run_resources(
    plan: Plan,
    model: Model,
    session: str,
    approvals: ApprovalBroker | None = None,
    delegate: Delegate | None = None,
    opened: Mapping[str, Toolset] | None = None,
    known: Redactor | None = None,
    recorded: Callable[[Model], Model] = lambda model: model,
    chain: Sequence[OpenModel] = (),
    summary: Sequence[OpenModel] = (),
    vision: Sequence[OpenModel] = (),
) -> RunResources:
    """The resources of one run on ``session``: the agent's shared parts, and new middlewares.

    Args:
        approvals: asks the run's user; None for a simulation.
        delegate: gives tasks to the plan's agents; None for a simulation.
        opened: the open toolsets by component name; without them the run has only the plan's own tools.
        known: the known secrets; None for a simulation.
        recorded: wraps the further models, of the chain and of middlewares, in a recorder if calls are recorded.
        chain: the models of the plan's chain, instead of ``model``.
        summary: the models of policies, instead of the running model.
        vision: the models that describe pictures.
    """
    known = known or Redactor()
    secrets = masked_for(plan, known)

    def linked(models: Sequence[OpenModel]) -> list[ChainedModel]:
        return [ChainedModel(each, lambda opened: behind_mask(recorded(opened), secrets)) for each in models]

    links = linked(chain)
    model = links[0] if links else behind_mask(model, secrets)
    approvals = approvals or ApprovalBroker()
    counter = plan.token_counter
    meter = UsageMeter(plan.profile, counter, limit_usd=plan.config.limits.max_cost_usd, session=session)
    toolbox = toolbox_of(plan, opened or {})
    kept = plan.config.archive
    archive = Archive(
        plan.context.workspace.runtime,
        session,
        max_age_days=kept.max_age_days,
        max_megabytes=kept.max_megabytes,
    )
    for_policies = role_model(plan, "summary", linked(summary), meter)
    memory = plan.context.memory and plan.context.memory.for_session(session)
    notes = RunNotes(secrets)
    context = RunContext(
        **(vars(plan.context) | {"memory": memory}),
        session=session,
        model=for_policies or Metered(model, meter, plan.profile),
        open_model=lambda ref: _open_metered(plan, ref, meter, secrets, recorded),
        last_request=lambda: meter.asked,
        counter=counter,
        archive=archive,
        approvals=approvals,
        tools=toolbox.by_name,
        secrets=secrets,
        notes=notes,
        notify=lambda code, message: meter.notify(Notice(code, message)),
        model_profile=for_policies.profile if for_policies else plan.context.profile,
    )

    # The middlewares have the context already; it is changed in place, so that they see the model that is asked now.
    def follow(to: RunResources) -> None:
        meter.follow(to.profile, to.counter)
        context.follow(for_policies or Metered(to.model, meter, to.profile), to.profile, to.counter)

    middlewares: list[tuple[str, Middleware]] = []
    for planned in plan.middlewares:
        with calling(None):
            middleware = planned.create(context)
        # Asked for again: there may be more than when the plan was made, such as for the first skill of a folder.
        given = map(plan.reach.of, planned.tools(plan.context))
        toolbox.add(bound_to_agents(given, plan.agents), giver=middleware)
        middlewares.append((planned.name, middleware))
    return RunResources(
        model=model,
        toolbox=toolbox,
        middlewares=middlewares,
        # Tools of opened toolsets are known only now, and the stable sections may describe tools.
        stable=plan.stable_with(toolbox.tools) if opened else plan.stable,
        clock_section=time_section(datetime.now().astimezone(), plan.config.prompt.time),
        limits=plan.config.limits,
        profile=plan.profile,
        output_reserve_tokens=plan.models[0].output_reserve_tokens,
        meter=meter,
        counter=counter,
        tool_counts=plan.tool_counts,
        archive=archive,
        approvals=approvals,
        workspace=plan.context.workspace,
        delegate=delegate,
        secrets=secrets,
        known=known,
        project=_project(plan, secrets),
        output=plan.output,
        agent=plan.config.name,
        reasoning=plan.models[0].reasoning,
        chain=links,
        chain_rules=plan.config.chain if links else None,
        memory=memory,
        follow=follow,
        notes=notes,
        describes=_describes(plan, role_model(plan, "vision", linked(vision), meter)),
    )


def _describes(plan: Plan, model: PolicyModel | None) -> PolicyModel | None:
    """The model that describes pictures; None if each model of the agent takes them itself."""
    return None if all(each.profile.vision for each in plan.models) else model


def role_model(plan: Plan, role: str, links: Sequence[ChainedModel], meter: UsageMeter) -> PolicyModel | None:
    """The model for a part of the work, counted at the prices of the one that answers; None without one.

    Args:
        role: the key under ``models``.
    """
    from zeus_runtime.config.model import ModelChain

    if not links:
        return None
    written = getattr(plan.config.models, role)
    move_on = written.move_on if isinstance(written, ModelChain) else ()
    return PolicyModel(links, move_on, lambda link: Metered(link, meter, link.planned.profile))


def _project(plan: Plan, secrets: Redactor) -> ProjectSection:
    """The project's instructions, read now, and masked before they are counted and cut."""
    setting = names_and_budget(plan.config.project_instructions)
    if setting is None:
        return NO_PROJECT
    read = project_files(plan.context.workspace, setting.files)
    files = [each._replace(text=secrets.text(each.text)) for each in read]
    return project_section(files, setting.max_tokens, plan.token_counter.text)


def toolbox_of(plan: Plan, opened: Mapping[str, Toolset]) -> Toolbox:
    """The tools listed under ``tools:``, including those of opened toolsets; middlewares add theirs later."""
    fixed: dict[str, list[Tool]] = {}
    for planned in plan.tools:
        if planned.kind == "tool":
            fixed.setdefault(planned.component, []).append(planned.tool)
    parts: list[Sequence[Tool] | Toolset] = [
        opened.get(each.name) or fixed.pop(each.name, []) for each in plan.toolsets
    ]
    settings = [each.setting if each.name in opened else "" for each in plan.toolsets]

    def judge(tools: Sequence[Tool]) -> Sequence[str]:
        return plan.misfits_with(tools, opened)

    return Toolbox([*parts, *fixed.values()], settings, plan.reach.of, judge)


def _open_metered(
    plan: Plan,
    ref: str | Ref,
    meter: UsageMeter,
    secrets: Redactor,
    recorded: Callable[[Model], Model],
) -> Model:
    model = behind_mask(recorded(plan.open_model(ref)), secrets)
    return Metered(model, meter, plan.context.profile_of(model.name))
