"""From a Plan to the live things a run works with."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from zeus_runtime.agent.run import Outfit
from zeus_runtime.context import Budget
from zeus_runtime.models.retry import with_retry
from zeus_runtime.prompt import time_section
from zeus_runtime.tools import Tool

if TYPE_CHECKING:
    from zeus_runtime.agent.middleware import Middleware
    from zeus_runtime.agent.plan import Plan
    from zeus_runtime.models.interface import Model


def open_model(plan: Plan) -> Model:
    """The plan's model, with retry around it."""
    model: Model = plan.model.create(plan.build)
    return with_retry(model, plan.config.retry)


def fresh_outfit(plan: Plan, model: Model) -> Outfit:
    """What one run works with: shared parts, and middlewares of its own."""
    middlewares: list[tuple[str, Middleware]] = [
        (planned.name, planned.create(plan.build)) for planned in plan.middlewares
    ]
    tools: list[Tool] = [planned.tool for planned in plan.tools if planned.kind == "tool"]
    for _, middleware in middlewares:
        tools.extend(middleware.tools())
    return Outfit(
        model=model,
        tools=tools,
        middlewares=middlewares,
        stable=plan.stable,
        clock_section=time_section(datetime.now().astimezone(), plan.config.prompt.time),
        limits=plan.config.limits,
        budget=Budget(plan.profile.max_input_tokens, plan.profile.max_output_tokens or 0),
        profile=plan.profile,
    )
