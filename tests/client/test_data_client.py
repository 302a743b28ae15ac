"""The typed clients: memory, knowledge, files, sessions in parts, context and backtests, over a real service."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.serving.test_http_users import MARK, with_base
from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import TOKEN, service_of, serving
from zeus_runtime.client import (
    AsyncServiceClient,
    ServiceChangedError,
    ServiceClient,
    ServiceNotFoundError,
    ServiceRequestError,
)
from zeus_runtime.client.sending import AsyncMethod, SyncMethod
from zeus_runtime.store.threads import Owner

AGENT = "memory: {user: ann}\nmiddlewares: [resources]\n"


def test_both_clients_have_the_same_methods_with_the_same_words() -> None:
    found = [
        [name for name, each in vars(client).items() if isinstance(each, kind)]
        for client, kind in ((AsyncServiceClient, AsyncMethod), (ServiceClient, SyncMethod))
    ]
    assert found[0] == found[1] != []
    for name in found[0]:
        first, second = getattr(AsyncServiceClient, name), getattr(ServiceClient, name)
        assert inspect.signature(first) == inspect.signature(second)
        assert inspect.getdoc(first) == inspect.getdoc(second) is not None, name


async def test_what_an_agent_remembers_and_knows(tmp_path: Path) -> None:
    write_agent(tmp_path, AGENT)
    await with_base(tmp_path, Owner("ann"))
    async with (
        serving(service_of(tmp_path, script("Done."))) as http,
        AsyncServiceClient(str(http.base_url), TOKEN) as client,
    ):
        saved = await client.add_memory("The user lives in Graz.")
        assert (saved.outcome, saved.memory.content) == ("stored", "The user lives in Graz.")
        (found,) = await client.search_memories("where in Graz")
        assert found.id == saved.memory.id
        assert found.final_score is not None
        seen = await client.memory(found.id)
        changed = await client.change_memory(seen, content="The user lives in Linz.")
        assert (changed.version, changed.content) == (2, "The user lives in Linz.")
        with pytest.raises(ServiceChangedError):
            await client.change_memory(seen, content="The user lives in Wels.")
        assert [each["version"] for each in await client.memory_history(found.id)] == [1, 2]
        for fruit in ("apples", "pears", "plums"):
            await client.add_memory(f"The user planted {fruit} in the garden.")
        first = await client.memories(limit=3)
        rest = await client.memories(limit=3, cursor=first.next)
        assert ([len(first), len(rest)], rest.next) == ([3, 1], None)
        await client.delete_memory(found.id)
        with pytest.raises(ServiceNotFoundError):
            await client.memory(found.id)
        with pytest.raises(ServiceRequestError, match="not saved"):
            await client.add_memory("The user has the key AKIAIOSFODNN7EXAMPLE.")
        profile = await client.profile()
        written = await client.change_profile(profile, {"username": "Ann"})
        assert written.fields["username"]["value"] == "Ann"
        with pytest.raises(ServiceChangedError):
            await client.change_profile(profile, {"username": "Bob"})
        (base,) = await client.knowledge_bases()
        assert (base.name, base.documents) == ("handbook", 1)
        (file,) = (await client.knowledge_base("handbook")).files
        assert file["ready"] is True
        (hit,) = await client.search_knowledge("handbook", "second door")
        assert MARK in hit.content
        assert "Doors" in hit.citation
        assert (await client.memory_stats())["active"] == 3


async def test_sessions_files_context_and_backtests(tmp_path: Path) -> None:
    write_agent(tmp_path, AGENT, tools="[probe, filesystem]")
    (tmp_path / "orders.txt").write_text("The late orders are 17 and 23.")
    model = script(
        calling(call("write_file", "a", path="report.md", content="# Late\n")), "Two.", "Again.", "Last."
    )
    async with serving(service_of(tmp_path, model)) as http:

        def work() -> None:
            with ServiceClient(str(http.base_url), TOKEN) as client:
                events = list(client.run("Which are late?", attachments=[tmp_path / "orders.txt"]))
                assert "17 and 23" in str(model.requests[0])
                session = client.sessions()[0].session
                (artifact,) = client.artifacts(session)
                assert client.artifact(session, artifact.path) == b"# Late\n"
                written = next(each["number"] for each in client.messages(session) if each["role"] == "tool")
                (change,) = client.message_changes(session, written)["changes"]
                assert (change["path"], change["lines"]) == (artifact.path, ["+# Late\n"])
                (about,) = client.messages(session)[0]["additional_kwargs"]["references"]
                assert client.message_file(session, 1, about["copy"]).endswith(b"17 and 23.")
                (found,) = client.search_sessions("WHICH are late")
                assert (found.session, found.number) == (session, 1)
                fork = client.fork_session(session, 2)
                turn = client.resume_turn(fork.session)
                list(client.events(run=turn.run))
                assert client.turn(turn.run).answer == "Two."
                assert client.roll_back(session, 1) == 3
                assert client.archive_session(session).data["archived_ms"] is not None
                assert [each.session for each in client.sessions()] == [fork.session]
                assert [each.session for each in client.sessions(archived=True)] == [session]
                client.restore_session(session)
                assert b"Which are late?" in client.export_session(session, form="markdown")
                page = client.messages(fork.session, limit=2)
                assert ([each["number"] for each in page], page.next is None) == ([1, 2], False)
                steps = client.context_steps(fork.session)["steps"]
                assert [each["number"] for each in steps] == [1, 2]
                assert client.context(fork.session)["step"]["number"] == 2
                assert client.context_why(fork.session, text="17 and 23")["found"]
                assert client.plan("test")["agent"] == "test"
                assert client.session_plan(fork.session)["own"] is False
                assert client.validate("test", "name: [")["ok"] is False
                job = client.begin_backtest([fork.session], {"none": "[resources]"})
                while job.state == "running":
                    job = client.backtest(job.id)
                assert (job.state, [each["policy"] for each in job.outcomes]) == (
                    "complete",
                    ["present", "none"],
                )
                assert events[-1].ends

        await asyncio.to_thread(work)


def test_a_signature_of_a_method_is_that_of_its_request() -> None:
    told: Any = inspect.signature(ServiceClient.begin_turn)
    assert list(told.parameters) == ["session", "prompt", "attachments", "queue", "key"]
