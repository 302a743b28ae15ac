"""The embedding model that a user chose, which is stored in the database and not in the YAML."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config import ConfigError, Secret
from zeus_runtime.errors import MissingError, OptionsError, ZeusError
from zeus_runtime.plan.components import planned_component
from zeus_runtime.plan.redaction import opened_embedder

if TYPE_CHECKING:
    from zeus_runtime.config import Ref
    from zeus_runtime.memory.embedding import Embedder
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked

REMEDY: Final = (
    "Choose another (`zeus memory embeddings use NAME`) or the config's (`zeus memory embeddings reset`)."
)


class EmbeddingsInUse(NamedTuple):
    """The component that embeds a user's memories and queries.

    Args:
        component: the component; None where the user's choice cannot be used.
        by: who chose it: the ``user``, the ``config``, or the ``default``.
        problem: why the user's choice cannot be used; None if it can.
    """

    component: PlannedComponent | None
    by: str
    problem: ZeusError | None = None


def embeddings_in_use(checked: Checked, plan: Plan, stored: str | None) -> EmbeddingsInUse:
    """The component that embeds the memories of the config's user.

    Args:
        stored: the user's choice from the database; None without one.
    """
    from zeus_runtime.memory.embedding_choice import chosen_ref

    memory = plan.config.memory
    assert memory is not None, "the caller has seen to it"
    assert plan.memory is not None, "as the config has memory"
    if stored is None:
        return EmbeddingsInUse(plan.memory.embeddings, "default" if memory.embeddings is None else "config")
    user = memory.user
    try:
        return EmbeddingsInUse(chosen_component(checked, user, chosen_ref(stored, user)), "user")
    except ZeusError as error:
        return EmbeddingsInUse(None, "user", error)


def chosen_component(checked: Checked, user: str, choice: Ref) -> PlannedComponent:
    """The component of a user's choice, with typed options.

    Raises:
        MissingError: there is no such component.
        OptionsError: its options do not fit, or they contain a key.
    """
    whose = f"the embedding model {choice.name!r} that {user!r} chose"
    try:
        planned = planned_component(checked, "embedding", choice, ("memory", "embeddings"))
    except MissingError as error:
        hint = f"{error.remedy}; {REMEDY[0].lower()}{REMEDY[1:]}" if error.remedy else REMEDY
        raise MissingError(f"{whose} is not there: {error.message}", remedy=hint) from None
    except ConfigError as error:
        why = "; ".join(each.message for each in error.diagnostics)
        raise OptionsError(f"{whose} has wrong options: {why}", remedy=REMEDY) from None
    for each in vars(planned.value or planned).values():
        if isinstance(each, Secret):
            raise OptionsError(
                f"{whose} has a key among its options, which the database would keep for anyone to read",
                remedy="Leave the key out and set the provider's variable in the environment or in .env.",
            )
    # The choice is not written in the YAML, so no position would be right.
    return replace(planned, diagnostic=None)


def chosen_embedder(checked: Checked, user: str, choice: Ref, context: PlanContext) -> Embedder:
    """The embedding model of a user's choice, opened.

    Raises:
        MissingError: there is no such component, or its key or one of its packages is missing.
        OptionsError: its options do not fit, or they contain a key.
    """
    return opened_embedder(checked, chosen_component(checked, user, choice), context)
