"""What the tables of settings share: configs, and what is looked at in more than one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.acceptance.settings import Scene, See
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.testing import calling

PRICES = {"max_input_tokens": 9_000, "input_cost_per_token": 1, "output_cost_per_token": 10}
PRICED = {"model": "acme-1", "profiles": {"models": {"acme-1": PRICES}}}
PROBED = {"plugins": {"files": ["probe.py"]}, "middlewares": ["seen"]}
FILES = {"tools": [{"filesystem": {}}]}


async def problems(scene: Scene) -> tuple[str, ...]:
    """The codes of the diagnostics."""
    return scene.problems()


def remembering(scene: Scene) -> MemoryService:
    memory = scene.agent().plan.context.memory
    assert memory is not None
    return memory


async def tool_names(scene: Scene) -> list[str]:
    """The tools in the model's request."""
    (request,) = (await scene.play("done")).requests
    return [tool.name for tool in request.tools]


def tool(name: str, /, *also: tuple[str, Mapping[str, Any]], **arguments: Any) -> See:
    """What a tool answers in a folder with a few files; with ``also``, the last of several calls."""

    async def see(scene: Scene) -> str:
        scene.write("three.txt", "one\ntwo\nthree\n")
        scene.write("wide.txt", "x" * 30)
        scene.write("long.txt", "word\n" * 500)
        scene.write("sub/venv/a.log", "log")
        scene.write("sub/b.log", "log")
        scene.write("aaa.txt", "a" * 40 + "b\n")
        steps = [calling(each) for each in (*also, (name, arguments))]
        return (await scene.play(*steps, "done")).results[-1]

    return see


def seen(name: str) -> See:
    """What a middleware was given."""

    async def see(scene: Scene) -> Any:
        await scene.play("done")
        return json.loads((scene.folder / "seen.json").read_text())[name]

    return see
