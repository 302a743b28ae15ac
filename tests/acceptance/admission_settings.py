"""What is remembered: the keys below ``memory``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from tests.acceptance.settings import Flip, Scene, See
from tests.acceptance.shared_settings import PROBED, remembering
from zeus_runtime.testing import ScriptedModel


def saved(*texts: str, scope: str = "user", confidence: float = 0.9) -> See:
    """What becomes of the last of several memories that the agent saves: the outcome, or why it was rejected."""

    async def see(scene: Scene) -> str | None:
        memory = remembering(scene)
        for text in texts:
            last = await memory.add_extracted_memory(text, scope=scope, confidence=confidence)
        await memory.aclose()
        return last.code or last.outcome

    return see


async def rememberer(scene: Scene) -> str:
    memory = remembering(scene)
    await memory.add_explicit_memory("The user plays the piano")
    (item,) = await memory.list_memories()
    await memory.aclose()
    return item.scope_id


async def embedded_by(scene: Scene) -> bool:
    memory = remembering(scene)
    item = (await memory.add_explicit_memory("The user plays the piano")).item
    await memory.aclose()
    assert item is not None
    assert item.embedding is not None
    return item.embedding.model == "letters-1"


async def vectors_noted(scene: Scene) -> bool:
    await rememberer(scene)
    return "vectors.txt" in scene.files()


async def backend_noted(scene: Scene) -> bool:
    await rememberer(scene)
    return "backend.txt" in scene.files()


async def extractions_of_an_hour_ago(scene: Scene) -> int:
    memory = remembering(scene)
    await memory.add_extracted_memory("The user plays the piano", confidence=1.0)
    await memory.aclose()
    with closing(sqlite3.connect(scene.folder / ".zeus/zeus.db")) as connection, connection:
        connection.execute("UPDATE extraction_log SET at_ms = at_ms - 3600000")
    used = (await memory.check_rate_limit()).used
    await memory.aclose()
    return used


async def pianos(scene: Scene) -> tuple[int, bool]:
    """How many of seven memories a search finds, and whether a prompt gets any."""
    memory = remembering(scene)
    for name in ("Ann", "Bob", "Cem", "Dan", "Eve", "Fay", "Gus"):
        await memory.add_explicit_memory(f"{name} has played the piano since school")
    found = await memory.search_memories("piano")
    await memory.aclose()
    return len(found), bool(memory.format_memories_for_prompt(found).text)


async def batches_of(scene: Scene) -> list[tuple[str, str]]:
    """Of each call for memories, after two agents with a prompt each, its kind and how many messages it was about."""
    model = ScriptedModel(["Hello.", "Hello again.", *[_ANSWER] * 6])
    async with scene.agent(model) as agent:
        first = await agent.run("I play the piano.")
    # An agent for each prompt: closing one finishes its extraction, which may else read the next prompt already.
    async with scene.agent(model) as agent:
        await agent.run("And the cello.", session=first.session)
    memory = remembering(scene)
    found = await memory.batches.listed()
    await memory.aclose()
    return sorted((each.batch.kind, str(each.batch.last_seq)) for each in found)


_ANSWER = json.dumps(
    {
        "facts": [
            {
                "content": "The user plays the piano",
                "memory_type": "fact",
                "scope": "user",
                "confidence": 1.0,
                "sources": [1],
                "subject": None,
                "valid_from": None,
                "valid_until": None,
                "replaces": [],
            }
        ]
    }
)


TABS = (
    "The user prefers tabs over spaces for indentation in code",
    "The user prefers tabs over spaces for indentation",
)
THEME = tuple(
    f"The user prefers the {theme} theme in editor, terminal, browser, notes and desktop"
    for theme in ("dark", "light")
)


REMEMBERING: dict[str, Any] = {"memory": {"embeddings": "static"}}


def remembering_with(**thresholds: float) -> dict[str, Any]:
    return {"memory": {"embeddings": "static", "thresholds": thresholds}}


_AT_EACH_END = [("extraction", "2"), ("extraction", "4")]

ADMITTED = (
    Flip("memory.extract", "end_of_session", batches_of, [], _AT_EACH_END, REMEMBERING),
    Flip(
        "memory.extract.every",
        3,
        batches_of,
        [("extraction", "4")],
        [],
        {"memory": {"embeddings": "static", "extract": {"every": 2}}},
    ),
    Flip(
        "memory.consolidate_after",
        1,
        batches_of,
        _AT_EACH_END,
        [("consolidation", "0"), *_AT_EACH_END],
        {"memory": {"embeddings": "static", "extract": "end_of_session"}},
    ),
    Flip("memory.user", "ann", rememberer, "local", "ann", REMEMBERING),
    Flip("memory.project", "p", saved("a whole text", scope="project"), "no_scope", "stored", REMEMBERING),
    Flip(
        "memory.role",
        "viewer",
        saved("a whole text", scope="project"),
        "stored",
        "forbidden",
        {"memory": {"project": "p", "embeddings": "static"}},
    ),
    Flip("memory.embeddings", "letters", embedded_by, False, True, {"memory": {}, **PROBED}),
    Flip("memory.backend", "jotted", backend_noted, False, True, {**REMEMBERING, **PROBED}),
    Flip("memory.vector_store", "noted", vectors_noted, False, True, {**REMEMBERING, **PROBED}),
    Flip(
        "memory.thresholds.min_confidence",
        0.95,
        saved("a whole text"),
        "stored",
        "low_confidence",
        REMEMBERING,
    ),
    Flip("memory.thresholds.duplicate_threshold", 1, saved(*TABS), "duplicate", "stored", REMEMBERING),
    Flip(
        "memory.thresholds.related_threshold",
        1,
        saved(*THEME),
        "superseded",
        "stored",
        remembering_with(related_words=1),
    ),
    Flip(
        "memory.thresholds.related_words",
        1,
        saved(*THEME),
        "superseded",
        "stored",
        remembering_with(related_threshold=1),
    ),
    Flip(
        "memory.thresholds.max_extractions", 0, saved("a whole text"), "stored", "rate_limited", REMEMBERING
    ),
    Flip("memory.thresholds.extraction_window_hours", 0.5, extractions_of_an_hour_ago, 1, 0, REMEMBERING),
    Flip("memory.thresholds.min_length", 13, saved("a whole text"), "stored", "too_short", REMEMBERING),
    Flip("memory.thresholds.max_length", 11, saved("a whole text"), "stored", "too_long", REMEMBERING),
    Flip("memory.thresholds.top_k", 2, pianos, (5, True), (2, True), REMEMBERING),
    Flip("memory.thresholds.max_prompt_characters", 9, pianos, (5, True), (5, False), REMEMBERING),
)
