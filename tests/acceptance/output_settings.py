"""The keys under `output`, of an agent and of a sub-agent, one by one, and what each changes."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.agent_settings import NAME, given, work
from tests.acceptance.settings import Flip, Scene
from zeus_runtime.events import RunCompleted
from zeus_runtime.testing import ScriptedModel, calling

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CLOSED = {**COUNT, "additionalProperties": False}
FORMED = {"output": {"schema": COUNT}}


async def value(scene: Scene) -> Any:
    """The JSON value of the answer."""
    scene.write("count.json", json.dumps(COUNT))
    (ending,) = [each for each in (await scene.play('{"n": 3}')).events if isinstance(each, RunCompleted)]
    return ending.output


async def way(scene: Scene) -> str:
    """How the model gives the answer."""
    output = scene.agent().plan.output
    return "" if output is None else output.strategy


async def asked(scene: Scene) -> int:
    """How often a model is asked whose answers never fit."""
    return len((await scene.play(*["no JSON"] * 5)).requests)


async def its_schema(scene: Scene) -> Any:
    """The schema of the sub-agent's answers."""
    scene.write("count.json", json.dumps(COUNT))
    output = scene.agent().plan.agents[NAME].plan.output
    return None if output is None else output.schema


async def its_way(scene: Scene) -> str:
    """How the sub-agent gives its answer."""
    output = scene.agent().plan.agents[NAME].plan.output
    return "" if output is None else output.strategy


async def it_was_asked(scene: Scene) -> int:
    """How often a sub-agent is asked whose answers never fit."""
    model = ScriptedModel([calling(("task", work("work"))), *["no JSON"] * 6])
    async with scene.agent(model) as agent:
        _ = [event async for event in agent.stream("go")]
    return len(model.requests) - 2


OUTPUTS = (
    Flip("output.schema", COUNT, value, None, {"n": 3}),
    Flip("output.schema.file", "count.json", value, None, {"n": 3}),
    Flip("output.strategy", "prompt", way, "tool", "prompt", FORMED),
    Flip("output.repairs", 0, asked, 3, 1, FORMED),
    Flip("agents.*.output.schema", COUNT, its_schema, None, COUNT, given()),
    Flip("agents.*.output.schema.file", "count.json", its_schema, None, COUNT, given()),
    Flip("agents.*.output.strategy", "prompt", its_way, "tool", "prompt", given(**FORMED)),
    Flip("agents.*.output.repairs", 0, it_was_asked, 3, 1, given(**FORMED)),
    Flip(
        "profiles.models.*.response_schema",
        False,
        way,
        "response_format",
        "tool",
        {"output": {"schema": CLOSED}},
    ),
)
