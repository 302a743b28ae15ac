"""The models of a plan: one, or a chain in which the next one answers if one fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zeus_runtime.frozen import dataclass
from zeus_runtime.models.profiles import ModelProfile, lookup, written_profile
from zeus_runtime.models.reasoning import ANSWER_TOKENS, budget_of, reasoning_settings
from zeus_runtime.plan.components import PlannedComponent, planned_component

if TYPE_CHECKING:
    from zeus_runtime.config import Ref
    from zeus_runtime.config.model import ModelChain
    from zeus_runtime.config.yaml.tree import Path
    from zeus_runtime.context.prompt_cost import ToolCounts
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.plan.validated import Checked


@dataclass(frozen=True)
class PlannedModel:
    """A model of a plan.

    Args:
        component: the component that runs it.
        profile: its limits and prices.
        counter: the config's counter; None for that of the profile.
        context: the plan's context with this model's profile, which it is created with.
    """

    component: PlannedComponent
    profile: ModelProfile
    counter: PlannedComponent | None
    context: PlanContext = field(repr=False)

    @cached_property
    def token_counter(self) -> Counter:
        """Counts tokens as the model's provider does."""
        return counter_of(self.counter, self.context)

    @cached_property
    def tool_counts(self) -> ToolCounts:
        """The tokens of the tools, counted once for all runs."""
        from zeus_runtime.context.prompt_cost import ToolCounts

        return ToolCounts(self.token_counter)

    @property
    def output_reserve_tokens(self) -> int:
        """The tokens of the window to reserve for the answer."""
        return output_reserve_tokens(self.component.options, self.profile, budget_of(self.reasoning))

    @cached_property
    def reasoning(self) -> Mapping[str, Any]:
        """The settings of a request that ask it to reason."""
        return reasoning_settings(self.context.config.reasoning, self.profile)

    @property
    def notes(self) -> Sequence[str]:
        """What its options say of it besides their values."""
        notes = getattr(self.component.value, "notes", None)
        return () if notes is None else tuple(notes(self.context))


def counter_of(counter: PlannedComponent | None, context: PlanContext) -> Counter:
    """What counts the tokens of the model that ``context`` has the profile of."""
    from zeus_runtime.context.tokens import counter_for

    if counter is None:
        return counter_for(context.profile)
    made: Counter = counter.create(context)
    return made


def output_reserve_tokens(
    options: Mapping[str, Any], profile: ModelProfile, reasoning_tokens: int = 0
) -> int:
    """The tokens of the window to reserve for the answer: the most that a request asks for, at most half of the window.

    Without a maximum in the config it is the budget for reasoning with the tokens of the answer beside it, else 0.
    """
    asked = most_answer_tokens(options, profile)
    if asked is None and reasoning_tokens:
        asked = reasoning_tokens + ANSWER_TOKENS
    return min(asked or 0, profile.max_input_tokens // 2)


def most_answer_tokens(options: Mapping[str, Any], profile: ModelProfile) -> int | None:
    """``max_tokens`` of the model's options, else ``profiles.models.NAME.max_output_tokens`` of the YAML, else None."""
    asked = options.get("max_tokens")
    if asked is None and profile.sources.get("max_output_tokens", "").startswith("profiles.models"):
        asked = profile.max_output_tokens
    return asked if isinstance(asked, int) else None


def planned_chain(
    checked: Checked, written: Ref | ModelChain, path: Path = ("model",)
) -> Sequence[tuple[PlannedComponent, ModelProfile]]:
    """The models that a config names at ``path``, with their profiles, the preferred one first.

    Raises:
        ConfigError: the options of one do not fit.
        UnknownModelError: nothing is known of one, and ``profiles.strict`` is set.
    """
    found = []
    for ref, place in _refs(written, path):
        component = planned_component(checked, "model", ref, place)
        found.append((component, _profile(component, checked)))
    return found


def planned_role(checked: Checked, role: str) -> Sequence[tuple[PlannedComponent, ModelProfile]]:
    """The models that a config names for a part of the work (``models``), the preferred one first; none if unset."""
    written = getattr(checked.config.models, role)
    return () if written is None else planned_chain(checked, written, ("models", role))


def _refs(written: Ref | ModelChain, path: Path) -> Iterator[tuple[Ref, Path]]:
    from zeus_runtime.config.ref import Ref

    if isinstance(written, Ref):
        yield written, path
        return
    for index, ref in enumerate(written.chain):
        yield ref, (*path, "chain", index)


def planned_models(
    chain: Sequence[tuple[PlannedComponent, ModelProfile]],
    counter: PlannedComponent | None,
    context: PlanContext,
) -> tuple[PlannedModel, ...]:
    """The models with what a run needs of each."""
    return tuple(
        PlannedModel(component, profile, counter, replace(context, profile=profile))
        for component, profile in chain
    )


def _profile(model: PlannedComponent, checked: Checked) -> ModelProfile:
    name = model.options.get("model")
    if not isinstance(name, str):
        return written_profile(model.name, overrides=checked.config.profiles, homes=checked.homes)
    table = checked.model_table()
    return lookup(name, overrides=checked.config.profiles, homes=checked.homes, table=table)
