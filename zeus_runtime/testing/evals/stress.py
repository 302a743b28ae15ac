"""A config with every policy's trigger lowered, so that short work shows what otherwise hours would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import UsageError

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Ref
    from zeus_runtime.plan.plan import Plan

LEAST_SHARE: Final = 0.10
MOST_SHARE: Final = 0.25
SHARE: Final = 0.15
"""The trigger as a share of the input limit, in place of the usual 0.85."""

_KEEP: Final = 0.3
"""What is kept, as a share of the trigger."""

_PIECE: Final = 0.05
"""From which share of the trigger on a single message is large."""


def stressed(plan: Plan, share: float = SHARE) -> Config:
    """Return the plan's config with each policy's trigger at ``share`` of the input limit.

    The other thresholds change in proportion; disabled options and lower values stay. Options are found by their names,
    so other policies are included if their options are called ``trigger`` and ``keep``. The numbers are tokens, which
    also works if a model's window is only assumed. ``yaml_of`` returns the result as YAML.

    Args:
        plan: the plan of the config; its model determines the window.
        share: 0.10 to 0.25.

    Raises:
        UsageError: another share.
    """
    if not LEAST_SHARE <= share <= MOST_SHARE:
        raise UsageError(f"a stress share is {LEAST_SHARE} to {MOST_SHARE}, not {share}")
    trigger = round(share * plan.profile.max_input_tokens)
    lines = [
        replace(ref, options={**ref.options, **_lowered(ref.name, planned.options, trigger)})
        for ref, planned in zip(plan.config.middlewares, plan.middlewares, strict=True)
    ]
    return replace(plan.config, middlewares=tuple(lines))


def yaml_of(middlewares: tuple[Ref, ...]) -> str:
    """An overlay with these middlewares: ``zeus run --env stress`` with ``zeus.stress.yaml`` beside ``zeus.yaml``."""
    import yaml

    lines: list[Any] = [{ref.name: dict(ref.options)} if ref.options else ref.name for ref in middlewares]
    return yaml.safe_dump({"middlewares": lines}, sort_keys=False, allow_unicode=True)


def _lowered(name: str, options: Mapping[str, Any], trigger: int) -> dict[str, Any]:
    piece = max(1, round(_PIECE * trigger))
    sizes = {"trigger": {"tokens": trigger}, "keep": {"tokens": max(1, round(_KEEP * trigger))}}
    found: dict[str, Any] = {option: size for option, size in sizes.items() if option in options}
    for option, most in _thresholds(name, trigger, piece).items():
        if isinstance(options.get(option), int):
            found[option] = min(options[option], most)
    if name == "eviction":
        limits = options.get("tools", {})
        found["tools"] = {
            tool: None if limit is None else min(limit, piece) for tool, limit in limits.items()
        }
    return found


def _thresholds(name: str, trigger: int, piece: int) -> Mapping[str, int]:
    """Options of the bundled policies that say from when on they act, and how high they may be."""
    return {
        "eviction": {"max_tokens": piece, "max_user_tokens": trigger},
        "truncation": {"max_chars": 400, "min_saving_tokens": 0},
        "summarization": {"max_trigger_tokens": trigger},
        "history": {"max_messages": 6, "chunk": 2},
        "dedupe": {"min_tokens": 100},
    }.get(name, {})
