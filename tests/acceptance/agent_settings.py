"""The keys under `agents` and their limits, one by one, and what each changes."""

from __future__ import annotations

from typing import Any

from tests.acceptance.settings import Flip, Scene
from zeus_runtime.plugin.middleware import Section
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.testing import ScriptedModel, calling

NAME = "gpt-4o"
"""The agents' name here: the walk takes the model's for any name of the user's."""


def given(more: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "tools": ["gauge", "subagents"],
        "plugins": {"files": ["probe.py"]},
        "agents": {NAME: {"description": "Helps.", **spec}},
        **(more or {}),
    }


async def told(scene: Scene) -> str:
    """The line of the agent in the tool's description."""
    (tool,) = [each.tool for each in scene.agent().plan.tools if each.tool.name == "task"]
    return tool.description.splitlines()[-1]


async def its_model(scene: Scene) -> str:
    """The sub-agent's model."""
    scene.write("other.yaml", "version: 1\nmodel: gpt-4.1\n")
    return scene.agent().plan.agents[NAME].plan.profile.name


async def agents_listed(scene: Scene) -> list[str]:
    """The agents that the model may choose from."""
    (task,) = [each.tool for each in scene.agent().plan.tools if each.tool.name == "task"]
    names: Any = task.parameters
    assert list(scene.agent().plan.agents) == names["properties"]["agent"]["enum"]
    return list(names["properties"]["agent"]["enum"])


async def its_instructions(scene: Scene) -> str | None:
    """The instructions in the sub-agent's prompt."""
    scene.write("task.md", "Only Go.")
    core = scene.agent().plan.agents[NAME].plan.stable[Section.CORE]
    return core.partition("# Your instructions\n\n")[2] or None


async def its_steps(scene: Scene) -> int:
    """The sub-agent's limit of steps."""
    return scene.agent().plan.agents[NAME].plan.config.limits.max_steps


async def what_it_knows(scene: Scene) -> list[str]:
    """The messages of the sub-agent's first request."""
    model = ScriptedModel(
        [calling(("speak", {"words": 1})), calling(("task", work("work"))), "worked", "end"]
    )
    async with scene.agent(model) as agent:
        _ = [event async for event in agent.stream("go")]
    request: ModelRequest = model.requests[2]
    return [message.type for message in request.messages]


async def started(scene: Scene) -> int:
    """How many of two sub-agents work."""
    model = ScriptedModel([calling(("task", work("a")), ("task", work("b"))), *["worked"] * 3])
    async with scene.agent(model) as agent:
        events = [event async for event in agent.stream("go")]
    return sum(not each.is_error for each in events if each.type == "tool_call_result")


async def problems(scene: Scene) -> tuple[str, ...]:
    """The codes of the diagnostics."""
    return scene.problems()


def work(prompt: str) -> dict[str, str]:
    return {"description": "work", "prompt": prompt, "agent": NAME}


SHARED = ["human", "ai", "tool"]

AGENTS = (
    Flip("limits.max_subagents", 1, started, 2, 1, given()),
    Flip("limits.max_subagent_depth", 0, problems, (), ("agents-too-deep",), given()),
    Flip(
        "agents.*.description",
        "Works.",
        told,
        f"- {NAME} (knows nothing but your prompt): Helps.",
        f"- {NAME} (knows nothing but your prompt): Works.",
        given(),
    ),
    Flip(
        "tool:subagents.general",
        True,
        agents_listed,
        [NAME],
        ["general", NAME],
        {**given(), "tools": ["gauge", {"subagents": {}}]},
    ),
    Flip("agents.*.config", "other.yaml", its_model, "gpt-4o", "gpt-4.1", given()),
    Flip("agents.*.overrides", {"limits": {"max_steps": 7}}, its_steps, 200, 7, given()),
    Flip("agents.*.instructions", "Only Go.", its_instructions, None, "Only Go.", given()),
    Flip("agents.*.instructions.file", "task.md", its_instructions, None, "Only Go.", given()),
    Flip("agents.*.context", "fork", what_it_knows, ["human"], [*SHARED, "human"], given()),
    Flip(
        "agents.*.last_messages",
        1,
        what_it_knows,
        [*SHARED, "human"],
        ["human"],
        given(context="slice"),
    ),
    Flip(
        "agents.*.budget_tokens",
        1,
        what_it_knows,
        [*SHARED, "human"],
        ["human"],
        given(context="fork"),
    ),
)
