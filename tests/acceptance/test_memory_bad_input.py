"""What memory says where it cannot work: the component, the cause and the remedy, with the documented exit code."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from sqlalchemy import make_url

from tests.acceptance.test_bad_input import assert_told
from tests.cli.conftest import Project, Zeus
from tests.store.test_schema import at_revision_1
from tests.store.test_server import own_server
from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, write_agent
from tests.support.databases import LocalServer, execute, storage
from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest

__all__ = ["own_server"]

MEMORY = "memory: {user: ann, embeddings: static}\nmiddlewares: [memory]\n"
TEXT = "The user prefers the light theme"
VERBS = (
    ["memory", "list"],
    ["memory", "search", "theme"],
    ["memory", "add", TEXT],
    ["run", "zeus.yaml", "go"],
)


@pytest.mark.parametrize(
    ("url", "said", "remedy"),
    [
        ("postgresql://zeus:hunter2secret@127.0.0.1:1/zeus", "cannot be reached", "Start it"),
        ("sqlite:////proc/nowhere/zeus.db", "/proc/nowhere/zeus.db", "set storage.url to another place"),
    ],
    ids=["down", "unwritable"],
)
def test_a_database_that_cannot_be_used_is_named_by_every_command_of_memory(
    zeus: Zeus, project: Project, url: str, said: str, remedy: str
) -> None:
    project.agent("never", more=storage(url) + MEMORY)
    for words in VERBS:
        result = zeus(*words)
        if words[1] in ("list", "search") and url.startswith("sqlite"):
            assert_told(result, 0)
            continue
        assert_told(result, 4, said, remedy)
        assert "hunter2secret" not in result.out + result.err


def test_without_the_extension_vector_memory_says_what_a_superuser_has_to_do(
    zeus: Zeus, project: Project, postgres_url: str
) -> None:
    project.agent("hello", more=storage(postgres_url) + MEMORY)
    for words in VERBS:
        assert_told(zeus(*words), 4, "pgvector", "no extension 'vector'", "CREATE EXTENSION vector")
    execute(postgres_url, "CREATE EXTENSION vector")
    assert zeus("memory", "add", TEXT).exit_code == 0


def test_memory_refuses_the_older_schema_of_a_server_until_it_is_upgraded(
    zeus: Zeus, project: Project, postgres_url: str
) -> None:
    execute(postgres_url, "CREATE EXTENSION vector")
    asyncio.run(at_revision_1(postgres_url, project.folder))
    project.agent("hello", more=storage(postgres_url) + MEMORY)
    for words in VERBS:
        assert_told(zeus(*words), 4, "is older (0001)", "`zeus db upgrade`")
    assert zeus("db", "upgrade").exit_code == 0
    assert zeus("memory", "add", TEXT).exit_code == 0
    assert TEXT in zeus("memory", "list").out


ODD = """
import numpy as np
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.embedding import Calibration, Embedder


class Odd(Embedder):
    model, dimension, quick = "odd", 8, True
    calibration = Calibration(cosine_zero=0.1, cosine_one=0.9, trust=0.9, duplicate=0.8)

    async def embed(self, texts, *, purpose):
        return np.full((len(texts), DIMENSION), 0.5, np.float32)


@hookimpl
def register_embeddings():
    return [Component("odd", create=lambda options, context: Odd())]
"""


def test_vectors_of_another_dimension_than_the_model_s_are_refused(zeus: Zeus, project: Project) -> None:
    config = project.agent("hello", more="memory: {user: ann, embeddings: odd}\nmiddlewares: [memory]\n")
    project.write("odd.py", ODD.replace("DIMENSION", "9"))
    config.write_text(config.read_text().replace("[scripted.py]", "[scripted.py, odd.py]"))
    said = ("the embedding model odd gave vectors of shape (1, 9)", "its dimension is 8")
    assert_told(zeus("memory", "add", TEXT), 4, *said)
    assert_told(zeus("memory", "search", "theme", "--mode", "vector"), 4, *said)
    told = zeus("run", "zeus.yaml", "Which theme?")
    assert_told(told, 0, "by words alone", said[0])


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("{user: ''}", "memory"),
        ("{role: king}", "king"),
        ("{thresholds: {min_confidence: 2}}", "min_confidence"),
        ("{thresholds: {min_length: 50, max_length: 10}}", "max_length"),
        ("{thresholds: {top_k: -1}}", "top_k"),
        ("{users: ann}", "user"),
        ("yes please", "memory"),
    ],
)
def test_broken_settings_of_memory_exit_3_with_their_place(
    zeus: Zeus, project: Project, memory: str, said: str
) -> None:
    project.agent("never", more=f"memory: {memory}\n")
    for words in (["validate"], ["run", "zeus.yaml", "go"], ["memory", "list"]):
        assert_told(zeus(*words), 3, said, "zeus.yaml:6:")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MEMORY_MIN_CONFIDENCE", "much"), ("MEMORY_MAX_EXTRACTIONS", "-1"), ("MEMORY_MAX_LENGTH", "1")],
)
def test_a_broken_variable_of_memory_exits_3_with_its_name(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    project.agent("never", more=MEMORY)
    monkeypatch.setenv(variable, value)
    for words in (["run", "zeus.yaml", "go"], ["memory", "list"]):
        assert_told(zeus(*words), 3, variable)


def test_a_vector_store_of_another_database_is_named(zeus: Zeus, project: Project) -> None:
    project.agent(
        "never", more="memory: {vector_store: pgvector, embeddings: static}\nmiddlewares: [memory]\n"
    )
    for words in (["run", "zeus.yaml", "go"], ["memory", "add", TEXT]):
        assert_told(zeus(*words), 4, "pgvector", "memory.vector_store to sqlite")


@pytest.mark.xdist_group("own_server")
async def test_a_run_that_loses_its_server_at_a_save_goes_on_and_saves_once(
    tmp_path: Path, own_server: LocalServer
) -> None:
    name = f"zeus_{secrets.token_hex(4)}"
    execute(own_server.url, f"CREATE DATABASE {name}")
    url = make_url(own_server.url).set(database=name).render_as_string(hide_password=False)
    execute(url, "CREATE EXTENSION vector")
    stopping = [True]

    def answer(request: ModelRequest) -> AIMessage | str:
        step = sum(message.type == "ai" for message in request.messages)
        return "done" if step else calling(call("memory_save", "c0", content=TEXT))

    config = write_agent(tmp_path, storage(url) + MEMORY, tools="[memory]")
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        seen = []
        async for each in agent.stream("Remember my theme."):
            seen.append(each)
            if each.type == "tool_call" and stopping:
                stopping.clear()
                own_server.stop()
        ending = seen[-1]
        assert isinstance(ending, RunFailed), ending
        assert ending.exit_code in (1, 4)
        assert "--continue" in ending.message
        own_server.start()
        again = await events_of(agent.resume(ending.session))
        assert isinstance(again[-1], RunCompleted), again[-1]
        assert_paired(await agent.history(ending.session))
        memory = agent.plan.context.memory
        assert memory is not None
        assert [item.content for item in await memory.list_memories(status=None)] == [TEXT]
