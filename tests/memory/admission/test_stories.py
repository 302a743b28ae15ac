"""What is left of all that is said of one person or project, one statement after the other, with and without vectors.

``data/stories.jsonl``: first facts that stand beside each other, then updates (new, old). The first two stories were
looked at while rules were mended, the last two written after that.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.memory import service

STORIES = {
    story["story"]: story
    for line in (Path(__file__).parent / "data" / "stories.jsonl").read_text(encoding="utf-8").splitlines()
    if (story := json.loads(line))
}


@pytest.mark.parametrize(
    ("name", "with_vectors", "with_words"),
    [
        ("a marine biologist", 39, 34),
        ("a booking system", 41, 35),
        ("a paediatrician, in Chinese", 29, 28),
        ("an illustrator", 27, 23),
    ],
)
@pytest.mark.parametrize("vectors", [True, False])
async def test_no_fact_is_lost_and_an_update_replaces_what_it_updates(
    tmp_path: Path, name: str, with_vectors: int, with_words: int, vectors: bool
) -> None:
    story = STORIES[name]
    memory = service(tmp_path, embedder=StaticEmbedder(), words_only=not vectors)

    async def said(text: str) -> set[str]:
        """What is gone after it."""
        before = {item.content for item in await memory.list_memories(limit=500)}
        await memory.add_explicit_memory(text)
        return before - {item.content for item in await memory.list_memories(limit=500)}

    lost = [(text, gone) for text in story["facts"] if (gone := await said(text))]
    assert lost == []
    assert len(await memory.list_memories(limit=500)) == len(story["facts"])
    replaced = [(new, old, await said(new)) for new, old in story["updates"]]
    assert [each for each in replaced if each[2] - {each[1]}] == []
    assert sum(bool(gone) for _, _, gone in replaced) >= (with_vectors if vectors else with_words)
    await memory.aclose()
