"""How a model is asked to reason: the config's effort or budget as settings of a request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.config.model import ReasoningAmount
    from zeus_runtime.models.profiles import ModelProfile

EFFORT_BUDGETS: Final = {"minimal": 1_024, "low": 1_024, "medium": 2_048, "high": 4_096}
"""The budget of an effort, in tokens, for models that take only budgets; litellm's numbers."""

ANSWER_TOKENS: Final = 4_096
"""Tokens of the answer beside the budget, if no maximum is set: litellm's number, sent on both wires."""

_LEAST_BUDGETS: Final = {"anthropic": 1_024}
"""The smallest budgets that providers take ("Extended thinking")."""


def takes_budget(profile: ModelProfile) -> bool:
    """Whether the model takes a budget in tokens."""
    return profile.reasoning in ("budget", "both")


def reasoning_settings(asked: ReasoningAmount | None, profile: ModelProfile) -> Mapping[str, Any]:
    """The settings that ask a model to reason, in the words of chat completions.

    Args:
        asked: the config's ``reasoning``; its budget comes before its effort where the model takes one.
    """
    if asked is None or profile.reasoning == "none":
        return {}
    budget = asked.budget_tokens if takes_budget(profile) else None
    if budget is None and profile.reasoning == "budget":
        budget = EFFORT_BUDGETS.get(asked.effort or "")
        if budget is None:
            return {}
    if budget is not None:
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return {} if asked.effort is None else {"reasoning_effort": asked.effort}


def budget_of(settings: Mapping[str, Any]) -> int:
    """The tokens that ``reasoning_settings`` set aside for reasoning; 0 for an effort."""
    budget: int = settings.get("thinking", {}).get("budget_tokens", 0)
    return budget


def misfits(
    asked: ReasoningAmount, profile: ModelProfile, options: Mapping[str, Any], max_tokens: int | None
) -> Iterator[tuple[str, str, str]]:
    """Why a model cannot be asked so: key of ``reasoning``, message and remedy.

    Args:
        options: those of the model's component.
        max_tokens: the most tokens of an answer that a request asks for; None if the config does not say.
    """
    name = profile.name
    if profile.reasoning == "none":
        yield (
            "",
            f"no table says that {name!r} reasons",
            (
                "choose another model, or remove `reasoning`; if the model does reason, write `reasoning: effort`,"
                f" `budget` or `both` under profiles.models.{name}"
            ),
        )
        return
    is_by_effort = asked.effort is not None and (asked.budget_tokens is None or not takes_budget(profile))
    if asked.budget_tokens is not None and not takes_budget(profile) and asked.effort is None:
        yield "budget_tokens", f"{name!r} takes no budget of tokens for its reasoning", "write `effort`"
    elif is_by_effort and profile.efforts is not None and asked.effort not in profile.efforts:
        levels = ", ".join(profile.efforts)
        hint = f"write one of: {levels}" if levels else "remove `reasoning`"
        yield "effort", f"{name!r} does not take the effort {asked.effort!r}", hint
    settings = reasoning_settings(asked, profile)
    extra = options.get("extra")
    for twice in (
        each for each in ("thinking", "reasoning_effort") if isinstance(extra, Mapping) and each in extra
    ):
        yield "", f"{twice!r} in `extra` of {name!r} says it too", f"remove {twice!r}"
    if not (budget := budget_of(settings)):
        return
    key = "effort" if is_by_effort else "budget_tokens"
    told = f"the effort {asked.effort!r} is a budget of" if is_by_effort else "the budget is"
    least = _LEAST_BUDGETS.get(profile.provider, 1)
    if budget < least:
        yield (
            key,
            f"{told} {budget:,} tokens, and {name!r} takes at least {least:,}",
            f"write {least} or more",
        )
    if max_tokens is not None and budget >= max_tokens:
        yield (
            key,
            (
                f"{told} {budget:,} tokens, which must be less than the {max_tokens:,} of max_tokens of {name!r},"
                " because reasoning and answer share them"
            ),
            "raise max_tokens, or ask for less reasoning",
        )
    most = profile.max_output_tokens
    if max_tokens is None and most is not None and budget + ANSWER_TOKENS > most:
        yield (
            key,
            (
                f"{told} {budget:,} tokens; {name!r} gives at most {most:,}, and {ANSWER_TOKENS:,} of them are for the"
                " answer"
            ),
            "ask for less reasoning, or set max_tokens",
        )
    if profile.provider == "anthropic" and options.get("temperature") not in (None, 1):
        yield key, f"{name!r} takes no temperature while it reasons", "remove the temperature of the model"
