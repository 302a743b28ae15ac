"""A Plan's digest: two plans with the same digest run the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from zeus_runtime.plan.components import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.models import PlannedModel
    from zeus_runtime.plan.plan import Plan


def plan_digest(plan: Plan) -> str:
    """SHA-256 of everything that decides what the model sees and what may run."""
    parts = {
        "model": [plan.model.name, plan.model.options],
        # An unset key is left out, so that it does not change the digest of a config without it.
        **({"chain": _chain(plan)} if plan.config.chain else {}),
        **{name: _role(plan, name) for name, models in plan.roles.items() if models},
        **({"reasoning": [each.reasoning for each in plan.models]} if plan.config.reasoning else {}),
        "counter": plan.counter and [plan.counter.name, plan.counter.options],
        "memory": plan.memory
        and [
            [plan.memory.embeddings.name, plan.memory.embeddings.options],
            [plan.memory.vector_store.name, plan.memory.vector_store.options],
            # An unset backend is left out, so that it does not change the digest of a config without it.
            {name: value for name, value in as_json(plan.config.memory).items() if (name, value) != _UNSET},
            *([[plan.memory.backend.name, plan.memory.backend.options]] if _has_backend(plan) else []),
        ],
        "mode": plan.mode,
        "mcp": [as_json(plan.config.mcp_servers), as_json(plan.config.connectors)],
        "opens": [[each.name, each.options] for each in plan.opens],
        "tools": [
            [tool.tool.name, tool.tool.description, tool.tool.parameters, tool.showing] for tool in plan.tools
        ],
        "middlewares": [[each.name, each.options] for each in plan.middlewares],
        "stable": plan.stable,
        "prompt": as_json(plan.config.prompt),
        **({"knowledge": list(plan.config.knowledge)} if plan.config.knowledge else {}),
        **(
            {"project_instructions": as_json(plan.config.project_instructions)}
            if plan.config.project_instructions
            else {}
        ),
        **(
            {"output": [plan.output.schema, plan.output.strategy, plan.output.repairs]} if plan.output else {}
        ),
        "workspace": as_json(plan.config.workspace),
        "limits": as_json(plan.config.limits),
        "retry": as_json(plan.config.retry),
        "profile": _known(plan.profile),
        # Masked is the default, left out so that it does not change the digest of a config without the key.
        **({"secrets": plan.config.secrets.to_model} if plan.config.secrets.to_model != "mask" else {}),
        **(
            {"agents": {name: [each.plan.digest, as_json(each.spec)] for name, each in plan.agents.items()}}
            if plan.agents
            else {}
        ),
    }
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _chain(plan: Plan) -> list[object]:
    """The settings of the chain, and its further models with what is known of them."""
    settings = as_json(plan.config.chain)
    return [{key: value for key, value in settings.items() if key != "chain"}, _models(plan.fallbacks)]


def _role(plan: Plan, name: str) -> list[object]:
    """The models for a part of the work with what is known of them, and the settings of their chain."""
    return [as_json(getattr(plan.config.models, name)), _models(plan.roles[name])]


def _models(models: Sequence[PlannedModel]) -> list[object]:
    return [[each.component.name, each.component.options, _known(each.profile)] for each in models]


def _known(profile: ModelProfile) -> list[object]:
    """The facts of a model that decide what it is sent: limits, how tokens are counted, whether it sees pictures."""
    return [profile.max_input_tokens, profile.max_output_tokens, profile.tokenizer, profile.vision]


_UNSET: Final = ("backend", None)


def _has_backend(plan: Plan) -> bool:
    return plan.config.memory is not None and plan.config.memory.backend is not None
