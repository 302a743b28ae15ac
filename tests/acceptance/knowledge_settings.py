"""What the settings of knowledge bases change."""

from __future__ import annotations

from tests.acceptance.settings import Flip, Scene, See
from tests.support.knowledge import knowledge
from zeus_runtime.memory.items import Caller
from zeus_runtime.testing import calling

GIVEN = {"tools": ["knowledge"], "knowledge": ["handbook"]}


async def _fill(scene: Scene) -> None:
    text = "\n\n".join(f"# Part {number}\n\nBread of part {number}." for number in range(30))
    path = scene.folder / "docs.md"
    path.write_text(text)
    async with knowledge("sqlite:///.zeus/zeus.db", scene.folder, caller=Caller("local")) as service:
        await service.add("handbook", [path])


async def offered(scene: Scene) -> bool:
    """Whether the model has a tool to search."""
    request = (await scene.play("done")).requests[0]
    return any(each.name == "search_knowledge_base" for each in request.tools)


def passages(top_k: int | None = None) -> See:
    """How many passages a search gives."""

    async def see(scene: Scene) -> int:
        await _fill(scene)
        asked = {"query": "bread", **({} if top_k is None else {"top_k": top_k})}
        played = await scene.play(calling(("search_knowledge_base", asked)), "done")
        return sum(line.startswith("[") for line in played.results[0].splitlines())

    return see


async def pages(scene: Scene) -> bool:
    """Whether a document of 700 characters comes by pages."""
    scene.write("long.txt", "x" * 700)
    played = await scene.play(calling(("parse_resource_file", {"path": "/long.txt"})), "done")
    return "page 1 of 2" in played.results[0]


LINKED = (Flip("knowledge", ["handbook"], offered, False, True, {"tools": ["knowledge"]}),)
KNOWLEDGE = (
    Flip("tool:knowledge.top_k", 2, passages(), 5, 2, GIVEN),
    Flip("tool:knowledge.max_top_k", 1, passages(20), 20, 1, GIVEN),
    Flip("tool:knowledge.page_chars", 500, pages, False, True, GIVEN),
)
