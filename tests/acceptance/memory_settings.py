"""What is seen of the settings of the memory tools and of the memory middleware."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.acceptance.settings import Flip, Scene
from tests.acceptance.shared_settings import problems
from zeus_runtime import Agent
from zeus_runtime.plugin.memory import MemoryService
from zeus_runtime.testing import ScriptedModel, calling

See = Callable[[Scene], Awaitable[Any]]

_MEMORY: Final = {"user": "ann", "embeddings": "static"}
SAVING: Final = {"memory": _MEMORY, "tools": [{"memory": {}}]}
SHOWN: Final = {
    "memory": _MEMORY,
    "middlewares": [{"memory": {}}],
    "plugins": {"files": ["drawing.py"]},
}
DRAWN: Final = {**SHOWN, "middlewares": [{"memory": {"profile_after": 1}}]}

_DRAWING: Final = """
import json
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse

class Drawing:
    name = "drawing"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        notes = json.loads(request.messages[0].content)["notes"]
        line = {"field": "background", "value": "drawn by a model", "sources": [notes[0]["id"]]}
        yield ModelResponse(AIMessage(json.dumps([line])))

@hookimpl
def register_models():
    return [Component("drawing", create=lambda options, context: Drawing())]
"""


def _memory(agent: Agent) -> MemoryService:
    memory = agent.plan.context.memory
    assert memory is not None
    return memory


async def saved_as(scene: Scene) -> list[tuple[str, float]]:
    """Sources and confidences of what is kept after the user asked once and the agent saved twice."""
    texts = ("The user plays the cello", "The cat is called Momo")
    calls = calling(*(("memory_save", {"content": each, "asked": True}) for each in texts))
    async with scene.agent(ScriptedModel([calls, "Done.", calls, "Done."])) as agent:
        await agent.run("Please remember that.")
        kept = [(item.source, item.confidence) for item in await _memory(agent).list_memories()]
    return sorted(kept, reverse=True)


async def confidence_of_own_accord(scene: Scene) -> float:
    """Of a memory that nobody asked for."""
    call = calling(("memory_save", {"content": "The user plays the cello"}))
    async with scene.agent(ScriptedModel([call, "Done."])) as agent:
        await agent.run("I play the cello.")
        (item,) = await _memory(agent).list_memories()
    return item.confidence


async def searched(scene: Scene) -> int:
    """How many of six memories a search of the tool shows."""
    model = ScriptedModel([calling(("memory_search", {"query": "cello", "k": 6})), "Done."])
    async with scene.agent(model) as agent:
        for name in ("Ann", "Bea", "Cid", "Dan", "Eva", "Fay"):
            await _memory(agent).add_explicit_memory(f"{name} has heard the cello {'many times ' * 9}")
        await agent.run("Find it.")
    return str(model.requests[-1].messages[-1].content).count("- [mem_")


async def prompted(scene: Scene) -> int:
    """How many of six memories the prompt shows."""
    scene.write("drawing.py", _DRAWING)
    model = ScriptedModel(["Done."])
    async with scene.agent(model) as agent:
        for name in ("Ann", "Bea", "Cid", "Dan", "Eva", "Fay"):
            await _memory(agent).add_explicit_memory(f"{name} has heard the cello {'many times ' * 9}")
        await agent.run("Who has heard the cello?")
    return model.requests[0].system.count("- [mem_")


async def profiled(scene: Scene) -> list[str]:
    """The fields of the profile that the prompt of a second run shows."""
    scene.write("drawing.py", _DRAWING)
    model = ScriptedModel(["Done.", "Done."])
    async with scene.agent(model) as agent:
        memory = _memory(agent)
        await memory.profiles.edit("user", {"username": "Ann", "expertise_areas": "whales " * 40})
        await memory.add_explicit_memory("The user works as a marine biologist")
        await agent.run("Hello")
        await agent.run("Hello again")
    return re.findall(r"^- (\w+):", model.requests[1].system, re.MULTILINE)


REMEMBERED = (
    Flip("tool:memory.required", False, problems, ("no-memory",), (), {"tools": ["memory"]}),
    Flip("middleware:memory.required", False, problems, ("no-memory",), (), {"middlewares": ["memory"]}),
    Flip(
        "tool:memory.asked_per_message",
        1,
        saved_as,
        [("user", 1.0), ("user", 1.0)],
        [("user", 1.0), ("ai", 0.8)],
        SAVING,
    ),
    Flip("tool:memory.confidence", 0.9, confidence_of_own_accord, 0.8, 0.9, SAVING),
    Flip("tool:memory.max_results", 2, searched, 6, 2, SAVING),
    Flip("tool:memory.max_characters", 400, searched, 6, 2, SAVING),
    Flip("middleware:memory.top_k", 2, prompted, 6, 2, SHOWN),
    Flip("middleware:memory.max_characters", 400, prompted, 6, 2, SHOWN),
    Flip("middleware:memory.min_score", 1.0, prompted, 6, 0, SHOWN),
    Flip("middleware:memory.profile", False, profiled, ["username", "expertise_areas"], [], SHOWN),
    Flip(
        "middleware:memory.max_profile_characters",
        200,
        profiled,
        ["username", "expertise_areas"],
        ["username"],
        SHOWN,
    ),
    Flip(
        "middleware:memory.profile_after",
        1,
        profiled,
        ["username", "expertise_areas"],
        ["username", "profession", "expertise_areas"],
        SHOWN,
    ),
    Flip(
        "middleware:memory.profile_model",
        {"drawing": {}},
        profiled,
        ["username", "profession", "expertise_areas"],
        ["username", "background", "profession", "expertise_areas"],
        DRAWN,
    ),
)
