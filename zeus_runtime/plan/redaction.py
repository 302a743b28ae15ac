"""The known secrets of an agent and its sub-agents, masked in events and for models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.frozen import copied

if TYPE_CHECKING:
    from zeus_runtime.config import Config
    from zeus_runtime.events import Event
    from zeus_runtime.memory.embedding import Embedder
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


def masked_for(plan: Plan, redactor: Redactor) -> Redactor:
    """The secrets that are masked for a plan's model and in its log."""
    return masked_by(plan.config, redactor)


def masked_by(config: Config, redactor: Redactor) -> Redactor:
    """The secrets that are masked for a config's model and in its log; none if the config allows them.

    A placeholder means its secret then too: the model may have it from an earlier run, a sub-agent or a person.
    """
    return Redactor(unmasked=redactor) if config.secrets.to_model == "allow" else redactor


def behind_mask(model: Model, secrets: Redactor) -> Model:
    """``model``, with ``secrets`` masked in its requests."""
    if not _may_know(secrets):
        return model
    from zeus_runtime.context import View
    from zeus_runtime.models.masking import Masked

    return Masked(model, secrets, View)


def _may_know(secrets: Redactor) -> bool:
    """Whether a secret is known, or may be learned while the agent runs."""
    return bool(secrets.forms or secrets.learned)


def opened_embedder(checked: Checked, planned: PlannedComponent, context: PlanContext) -> Embedder:
    """An embedding model, opened, with the secrets of the config and its family masked in its texts.

    Raises:
        MissingError: its key or one of its packages is missing.
        OptionsError: its options do not fit.
    """
    made: Embedder = planned.create(context)
    secrets = masked_by(checked.config, checked.secrets)
    if not _may_know(secrets):
        return made
    from zeus_runtime.memory.embedding import MaskedEmbedder

    return MaskedEmbedder(made, secrets)


def redacted(event: Event, redactor: Redactor) -> Event:
    """``event`` with every known secret masked at any depth; in approvals, only the known secrets are masked."""
    from zeus_runtime.events import ApprovalDecided, ApprovalRequested, RunFailed  # a plan needs none of them

    # `json` also masks short texts and passwords in URLs; a person approves the arguments as the model wrote them.
    mask = redactor.masked if isinstance(event, (ApprovalRequested, ApprovalDecided)) else redactor.json
    changes: dict[str, Any] = {}
    for name in event.__match_args__:
        value = getattr(event, name)
        if value and not isinstance(value, (int, float)) and (shown := mask(value)) is not value:
            changes[name] = shown
    if isinstance(event, RunFailed) and "pending" in event.details:
        changes["details"]["pending"] = redactor.masked(event.details["pending"])
    return copied(event, **changes) if changes else event
