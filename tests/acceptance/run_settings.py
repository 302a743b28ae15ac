"""How far a run may go, and what is tried again."""

from __future__ import annotations

from tests.acceptance.settings import Flip, Scene
from tests.acceptance.shared_settings import PRICED
from zeus_runtime.testing import calling

FLAKY = {"model": {"flaky": {}}, "plugins": {"files": ["probe.py"]}}


async def ending(scene: Scene) -> str:
    """How a run of two steps ends."""
    return (await scene.play(calling(("read_todos", {})), "done")).ending


async def circle(scene: Scene) -> str:
    """How a run ends that makes one call again and again."""
    return (await scene.play(*[calling(("read_todos", {}))] * 5, "done")).ending


async def own_models_ending(scene: Scene) -> str:
    """How a run of a slow model ends."""
    return (await scene.play()).ending


async def most_at_once(scene: Scene) -> str:
    """How many tools run at the same time."""
    calls = calling(*(("together", {}) for _ in range(5)))
    return max((await scene.play(calls, "done")).results)


async def waits(scene: Scene) -> list[float]:
    """The waits between attempts, in seconds."""
    return [round(event.wait_seconds, 4) for event in (await scene.play()).all("model_retry")]


RUNS = (
    Flip("limits.max_steps", 1, ending, "complete", "limit", {"tools": ["todos"]}),
    Flip(
        "limits.timeout_seconds",
        0.05,
        own_models_ending,
        "complete",
        "limit",
        {**FLAKY, "model": {"slow": {}}},
    ),
    Flip("limits.max_cost_usd", 0.01, ending, "complete", "limit", {**PRICED, "tools": ["todos"]}),
    Flip("limits.repeated_calls", 4, circle, "complete", "limit", {"tools": ["todos"]}),
    Flip(
        "limits.max_parallel_tools",
        1,
        most_at_once,
        "5",
        "1",
        {"tools": ["gauge"], "plugins": {"files": ["probe.py"]}},
    ),
    Flip("retry.attempts", 2, waits, [0.875, 1.75], [0.875], FLAKY),
    Flip("retry.initial_seconds", 2, waits, [0.875, 1.75], [1.75, 3.5], FLAKY),
    Flip("retry.factor", 3, waits, [0.875, 1.75], [0.875, 2.625], FLAKY),
    Flip("retry.max_seconds", 1.5, waits, [0.875, 1.75], [0.875, 1.3125], FLAKY),
    Flip("retry.jitter", 0, waits, [0.875, 1.75], [1.0, 2.0], FLAKY),
)
