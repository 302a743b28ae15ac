"""What is left of all that is said of one person or project, one statement after the other, with and without vectors.

``data/stories.jsonl``: first facts that stand beside each other, then updates (new, old). Rules were mended while the
first two, and later the fifth to the eleventh, were looked at, and all of them while the one comparison was made.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.memory import service
from zeus_runtime.memory.service import MemoryService

STORIES = {
    story["story"]: story
    for line in (Path(__file__).parent / "data" / "stories.jsonl").read_text(encoding="utf-8").splitlines()
    if (story := json.loads(line))
}


class Later(StaticEmbedder):
    """The bundled table as a model that no write waits for."""

    quick = False


def memory_of(folder: Path, vectors: str) -> MemoryService:
    model = Later() if vectors == "later" else StaticEmbedder()
    return service(folder, embedder=model, words_only=vectors == "none")


TOLD = {
    name: (with_vectors, with_words)
    for name, with_vectors, with_words in [
        ("a marine biologist", 40, 35),
        ("a booking system", 42, 36),
        ("a paediatrician, in Chinese", 29, 28),
        ("an illustrator", 27, 23),
        ("a school teacher", 28, 22),
        ("a weather data platform", 35, 34),
        ("a café owner, in Chinese", 30, 30),
        ("a long-distance lorry driver", 30, 24),
        ("a video game", 35, 32),
        ("an Android developer, in Chinese", 32, 32),
        ("a retired engineer", 30, 29),
        ("a logistics team, in Chinese", 34, 32),
    ]
}
"""Each story to how many updates replace what they update, with vectors and by words alone."""
# The rules do not ask when a vector was made: two stories in each language test that late ones count.
LATER = (
    "a marine biologist",
    "a booking system",
    "a paediatrician, in Chinese",
    "a logistics team, in Chinese",
)


@pytest.mark.parametrize(
    ("name", "vectors"),
    [*product(TOLD, ("at once", "none")), *((name, "later") for name in LATER)],
)
async def test_no_fact_is_lost_and_an_update_replaces_what_it_updates(
    tmp_path: Path, name: str, vectors: str
) -> None:
    story, (with_vectors, with_words) = STORIES[name], TOLD[name]
    memory = memory_of(tmp_path, vectors)

    async def kept() -> set[str]:
        if vectors == "later":
            await memory.aclose()  # so that vectors are there
        return {item.content for item in await memory.list_memories(limit=500)}

    for text in story["facts"]:
        await memory.add_explicit_memory(text)
    after = await kept()
    assert set(story["facts"]) - after == set()
    replaced = 0
    for new, old in story["updates"]:
        await memory.add_explicit_memory(new)
        before, after = after, await kept()
        assert before - after <= {old}, new
        replaced += before - after == {old}
    assert replaced >= (with_words if vectors == "none" else with_vectors)
    await memory.aclose()
