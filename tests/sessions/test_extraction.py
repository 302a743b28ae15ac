"""Facts are extracted from sessions in the background, once each, and can be undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Answer, PositionModel, write_agent
from tests.support.databases import execute, storage
from zeus_runtime import Agent
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.plugin.model import ModelRequest


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fact(content: str, *sources: int, **more: Any) -> dict[str, Any]:
    return {
        "content": content,
        "memory_type": "fact",
        "scope": "user",
        "confidence": 0.9,
        "sources": sources,
        "subject": None,
        "valid_from": None,
        "valid_until": None,
        "replaces": [],
        **more,
    }


class Extractor(PositionModel):
    """Answers prompts with "ok" and extractions by ``extract``, which gets the question."""

    def __init__(self, extract: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self.questions: list[dict[str, Any]] = []

        def answer(request: ModelRequest) -> Answer:
            if request.purpose != "memory":
                return "ok"
            asked = json.loads(str(request.messages[0].content))
            self.questions.append(asked)
            return json.dumps({"facts": extract(asked)})

        super().__init__(answer)


def agent_of(folder: Path, url: str, model: PositionModel, extract: str = "end_of_session") -> Agent:
    if url.startswith("postgres"):
        execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
    memory = f"memory: {{user: ann, embeddings: static, extract: {extract}}}\n"
    return Agent.from_config(write_agent(folder, storage(url) + memory), directory=folder, model=model)


def memory_of(agent: Agent) -> MemoryService:
    memory = agent.plan.context.memory
    assert memory is not None
    return memory


async def kept(folder: Path, url: str) -> list[tuple[str, str, str]]:
    memory = memory_of(agent_of(folder, url, PositionModel(lambda _: "ok"), "off"))
    try:
        return sorted((each.content, each.source, each.trust) for each in await memory.list_memories())
    finally:
        await memory.aclose()


async def test_facts_are_extracted_when_the_agent_closes(tmp_path: Path, database_url: str) -> None:
    model = Extractor(lambda asked: [fact("The user lives in Lyon", asked["messages"][0]["number"])])
    async with agent_of(tmp_path, database_url, model) as agent:
        result = await agent.run("I live in Lyon.")
        assert model.questions == [], "the answer did not wait"
    assert [each["text"] for each in model.questions[0]["messages"]] == ["I live in Lyon.", "ok"]
    assert await kept(tmp_path, database_url) == [("The user lives in Lyon", "user", "trusted")]

    async with agent_of(tmp_path, database_url, model) as agent:
        (listed,) = await memory_of(agent).batches.listed()
        assert (listed.batch.session, listed.outcomes) == (result.session, {"stored": 1})
        assert listed.batch.input_tokens > 0
        await agent.run("And I like tea.", session=result.session)
    assert len(model.questions) == 2
    assert [each["text"] for each in model.questions[1]["messages"]] == ["And I like tea.", "ok"], "only new"
    assert [each["content"] for each in model.questions[1]["known"]] == ["The user lives in Lyon"]
