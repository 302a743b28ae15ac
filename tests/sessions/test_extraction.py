"""Facts are extracted from sessions in the background, once each, and can be undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from tests.support.agents import Answer, PositionModel, call, calling, write_agent
from tests.support.databases import execute, storage
from zeus_runtime import Agent, FailedRunError
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.models.errors import ModelError
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.run.cost_limit import spent_before
from zeus_runtime.sessions.extraction import _known, _messages
from zeus_runtime.store.thread_log import StepEntry


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


async def test_facts_of_documents_stay_untrusted_whatever_the_model_cites(
    tmp_path: Path, database_url: str
) -> None:
    """A tool's text that the model ascribes to the user is known by its words."""

    def facts(asked: dict[str, Any]) -> list[dict[str, Any]]:
        user, _, result, final = (each["number"] for each in asked["messages"])
        assert [each["by"] for each in asked["messages"]] == ["user", "agent", "tool", "agent"]
        return [
            fact("The invoices of Acme are paid within ninety days", result),
            fact("Payments of Acme go to the bank in Zurich", user),
            fact("The contract ends in May", final),
            fact("The user wants to know about Acme", user),
            fact("Nobody said this", 99),
        ]

    model = Extractor(facts)
    answers = [model._answer]

    def answer(request: ModelRequest) -> Answer:
        if request.purpose == "memory":
            return answers[0](request)
        if request.messages[-1].type == "tool":
            return "The contract ends in May."
        return calling(call("read_contract", "c1"), text="I look.")

    model._answer = answer
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION IF NOT EXISTS vector")
    text = storage(database_url) + "memory: {user: ann, embeddings: static, extract: end_of_session}\n"
    config = write_agent(tmp_path, text, plugin=READING)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        await agent.run("I want to know about Acme.")
    assert await kept(tmp_path, database_url) == [
        ("Payments of Acme go to the bank in Zurich", "project_resource", "untrusted"),
        ("The contract ends in May", "project_resource", "untrusted"),
        ("The invoices of Acme are paid within ninety days", "project_resource", "untrusted"),
        ("The user wants to know about Acme", "user", "trusted"),
    ]


async def test_every_n_prompts_in_the_background(tmp_path: Path, database_url: str) -> None:
    model = Extractor(lambda asked: [fact("The user likes tea", asked["messages"][0]["number"])])
    async with agent_of(tmp_path, database_url, model, "{every: 2}") as agent:
        first = await agent.run("I like tea.")
    assert model.questions == [], "one prompt is not enough"
    async with agent_of(tmp_path, database_url, model, "{every: 2}") as agent:
        await agent.run("I said so.", session=first.session)
    assert len(model.questions) == 1
    assert [each["number"] for each in model.questions[0]["messages"]] == [1, 2, 3, 4]


async def test_a_session_that_an_earlier_process_left_is_done_after_the_next_start(
    tmp_path: Path, database_url: str
) -> None:
    def fails(_: dict[str, Any]) -> list[dict[str, Any]]:
        raise ModelError("down", kind="server")

    async with agent_of(tmp_path, database_url, Extractor(fails)) as agent:
        await agent.run("I live in Lyon.")
    assert await kept(tmp_path, database_url) == []
    model = Extractor(lambda asked: [fact(asked["messages"][0]["text"], asked["messages"][0]["number"])])
    async with agent_of(tmp_path, database_url, model) as agent:
        await agent.run("I drink green tea.")
    assert [each[0] for each in await kept(tmp_path, database_url)] == [
        "I drink green tea.",
        "I live in Lyon.",
    ]


async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_and_then_passed_over(
    tmp_path: Path,
) -> None:
    model = PositionModel(lambda request: "ok" if request.purpose != "memory" else "no JSON")
    for _ in range(2):
        async with agent_of(tmp_path, "sqlite:///.zeus/zeus.db", model) as agent:
            await agent.run("I live in Lyon.", session=None)
            states = [each.batch.state for each in await memory_of(agent).batches.listed()]
    assert states == ["unreadable"], "the next start does not pay for it again"
    assert sum(each.purpose == "memory" for each in model.requests) == 4


async def test_undo_takes_back_and_refuses_after_later_changes(tmp_path: Path, database_url: str) -> None:
    def facts(asked: dict[str, Any]) -> list[dict[str, Any]]:
        number, known = asked["messages"][0]["number"], [each["id"] for each in asked["known"]]
        return [fact("The user lives in Berlin", number, replaces=known)]

    async with agent_of(tmp_path, database_url, Extractor(facts)) as agent:
        old = (await memory_of(agent).add_explicit_memory("The user lives in Lyon")).item
        await agent.run("I moved to Berlin.")
    async with agent_of(tmp_path, database_url, PositionModel(lambda _: "ok"), "off") as agent:
        memory = memory_of(agent)
        (new,) = await memory.list_memories()
        assert old is not None
        assert new.content == "The user lives in Berlin"
        (listed,) = await memory.batches.listed()
        edited = await memory.update_memory(new.id, content="The user lives in Berlin-Mitte")
        with pytest.raises(UsageError, match=f"later changes of {edited.id} depend on it"):
            await memory.batches.undo(listed.batch.id)
        assert [each.id for each in await memory.list_memories()] == [new.id], "nothing was changed"


async def test_undo_restores_what_was_replaced(tmp_path: Path, database_url: str) -> None:
    def facts(asked: dict[str, Any]) -> list[dict[str, Any]]:
        number, known = asked["messages"][0]["number"], [each["id"] for each in asked["known"]]
        return [fact("The user lives in Berlin", number, replaces=[*known, "mem_0"])] * 2

    async with agent_of(tmp_path, database_url, Extractor(facts)) as agent:
        old = (await memory_of(agent).add_explicit_memory("The user lives in Lyon")).item
        await agent.run("I moved to Berlin.")
    async with agent_of(tmp_path, database_url, PositionModel(lambda _: "ok"), "off") as agent:
        memory = memory_of(agent)
        (listed,) = await memory.batches.listed()
        assert old is not None
        assert {each.content for each in await memory.list_memories()} == {
            "The user lives in Lyon",
            "The user lives in Berlin",
        }, "an unknown id replaces nothing, and the fact is kept"
        assert listed.outcomes == {"stored": 1, "duplicate": 1}
        undone = await memory.batches.undo(listed.batch.id)
        assert [each.id for each in await memory.list_memories()] == [old.id]
        assert len(undone.removed) == 1
        with pytest.raises(UsageError, match="undone already"):
            await memory.batches.undo(listed.batch.id)
        with pytest.raises(UsageError, match="no batch"):
            await memory.batches.undo("batch_0")


async def test_a_cost_limit_holds_for_extractions_too(tmp_path: Path) -> None:
    """The long answer spent the turn's money, so that the extraction has to wait."""
    for limit, purposes in ((0.03, ["turn"]), (9, ["turn", "memory"])):
        model = PositionModel(lambda _: "word " * 5_000)
        text = (
            "memory: {user: ann, embeddings: static, extract: end_of_session}\n"
            f"limits: {{max_cost_usd: {limit}, repeated_calls: null}}\n"
        )
        config = write_agent(tmp_path / str(limit), text)
        async with Agent.from_config(config, directory=config.parent, model=model) as agent:
            await agent.run("Hello.")
        assert list(dict.fromkeys(each.purpose for each in model.requests)) == purposes


async def test_a_damaged_entry_of_the_ledger_keeps_no_session_from_being_extracted(tmp_path: Path) -> None:
    model = PositionModel(lambda _: "Hello.")
    text = (
        "memory: {user: ann, embeddings: static, extract: end_of_session}\n"
        "limits: {max_cost_usd: 9, repeated_calls: null}\n"
    )
    config = write_agent(tmp_path, text)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await agent.run("Hello.")).session
        log = await agent.log()
        await log.append_step(await log.find(session), StepEntry(99, 0, '{"number": '))
    assert "memory" in [each.purpose for each in model.requests]


async def test_an_extraction_counts_against_its_turn_when_that_is_resumed(tmp_path: Path) -> None:
    """The second step of the turn fails; the agent closes, and its extraction is paid before the turn goes on."""

    def answer(request: ModelRequest) -> Answer:
        if request.purpose == "memory":
            return json.dumps({"facts": []}) + " " * 20_000
        if request.messages[-1].type == "tool":
            raise ModelError("it broke")
        return calling(call("read_contract", "c1"))

    text = (
        "memory: {user: ann, embeddings: static, extract: end_of_session}\n"
        "limits: {max_cost_usd: 9, repeated_calls: null}\n"
    )
    config = write_agent(tmp_path, text, plugin=READING)
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        with pytest.raises(FailedRunError) as failed:
            await agent.run("I want to know about Acme.")
    session = failed.value.session
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        (listed,) = await agent.memory.batches.listed()
        assert listed.batch.cost_usd
        log = (await agent._runner.connections()).log
        thread = await log.find(session)
        step = StepRecord.from_json((await log.steps(thread))[0].payload)
        without = await spent_before(log, thread, step.run_id, memory=None)
        assert await spent_before(log, thread, step.run_id, memory=agent.memory) == pytest.approx(
            without + listed.batch.cost_usd
        )
        assert await agent.memory.batches.spent(session, listed.batch.last_seq + 1) == 0


async def test_of_two_agents_that_extract_a_session_one_pays(tmp_path: Path, database_url: str) -> None:
    waiting, going = asyncio.Event(), asyncio.Event()

    class Slow(Extractor):
        async def stream(self, request: ModelRequest) -> Any:
            if request.purpose == "memory":
                waiting.set()
                await going.wait()
            async for piece in super().stream(request):
                yield piece

    models = [
        Slow(lambda asked: [fact("The user lives in Lyon", asked["messages"][0]["number"])]) for _ in "12"
    ]
    async with agent_of(tmp_path, database_url, models[0], "off") as off:
        session = (await off.run("I live in Lyon.")).session
    agents = [agent_of(tmp_path, database_url, model) for model in models]
    for agent in agents:
        await agent.memory.batches.set_due(session, "test")
    first = asyncio.create_task(agents[0]._runner._memory._extract(session))
    await waiting.wait()
    await agents[1]._runner._memory._extract(session)
    going.set()
    await first
    assert [len(model.questions) for model in models] == [1, 0]
    for agent in agents:
        await agent.aclose()
    assert await kept(tmp_path, database_url) == [("The user lives in Lyon", "user", "trusted")]


READING = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool(category="builtin", access="read")
async def read_contract() -> str:
    """Read the contract."""
    return "Invoices of Acme are paid within ninety days. Payments of Acme go to the bank in Zurich."


@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [read_contract])]
'''


@pytest.mark.parametrize(
    "message", [HumanMessage("{}"), ToolMessage("{}", name="read_file", tool_call_id="1")]
)
async def test_no_text_is_cut_in_the_middle_of_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: HumanMessage | ToolMessage
) -> None:
    """A secret that was not known when the message was stored is masked on its way out, if it is there as a whole."""
    secret = "argo-" + "a1B2c3D4" * 8
    said = message.model_copy(update={"content": f"{'tea ' * 495}{secret} {'tea ' * 100}"})
    asked: list[str] = []

    async def search(self: MemoryService, query: str, **_more: Any) -> list[Any]:
        asked.append(query)
        return []

    monkeypatch.setattr(MemoryService, "search_memories", search)
    texts = [each.text for each in _messages([(1, said)])]
    async with agent_of(tmp_path, "sqlite:///.zeus/zeus.db", PositionModel(lambda _: "ok"), "off") as agent:
        await _known(memory_of(agent), list(_messages([(1, said)])))
    assert len(texts[0]) > 2_000 or "argo" not in texts[0]
    assert all("argo" not in each for each in asked)
    assert len(asked) == (message.type == "human")
