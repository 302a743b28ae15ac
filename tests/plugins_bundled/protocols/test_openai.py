"""The protocol `openai`, asked by the official client."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from langchain_core.messages import AIMessage
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError, OpenAI
from zeus_plugins.protocols.openai.answer import TurnAnswer, _change
from zeus_plugins.protocols.openai.options import Options
from zeus_plugins.protocols.openai.protocol import OpenAI as Protocol

from tests.serving.test_http_keys import bearer, made, ready_database
from tests.support.agents import PositionModel, call, calling, script
from tests.support.serving import TOKEN, until
from tests.support.talking import CHAT_TOOLS, RESPONSE_TOOLS, Talking, talking
from zeus_runtime.cli.remote.turns import pending_of
from zeus_runtime.client.results import ServiceApproval, result_of
from zeus_runtime.config.ref import Ref
from zeus_runtime.plugin.model import ModelPiece, ModelRequest
from zeus_runtime.serving.http.hub import StoppingError
from zeus_runtime.serving.http.principals import Principal
from zeus_runtime.serving.http.routes.approvals import waiting_call
from zeus_runtime.serving.http.service import Service
from zeus_runtime.store.service_audit import entries
from zeus_runtime.store.threads import Owner
from zeus_runtime.tools.approval import PendingApproval
from zeus_runtime.tools.approval_form import question_and_form
from zeus_runtime.tools.preview import Preview
from zeus_runtime.tools.question import question_lines

NATIVE = Ref("openai")


def client_of(native: httpx.AsyncClient, token: str = TOKEN, **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{native.base_url}/v1".replace("//v1", "/v1"), api_key=token, **more)


@asynccontextmanager
async def asked(
    folder: Path, url: str | None = None, **options: Any
) -> AsyncIterator[tuple[AsyncOpenAI, httpx.AsyncClient, Talking]]:
    async with (
        talking(folder, replace(NATIVE, options=options), url=url) as (native, _, model),
        client_of(native) as client,
    ):
        yield client, native, model


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_a_conversation_stays_in_one_session_and_counts_its_tokens(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, model):
        models = [each.id async for each in client.models.list()]
        first = await client.chat.completions.create(
            model="test", messages=[{"role": "system", "content": "Be brief."}, user("hello")]
        )
        said = first.choices[0].message
        messages: Any = [
            {"role": "system", "content": "Be brief."},
            user("hello"),
            said.model_dump(exclude_none=True),
            user("more"),
        ]
        second = await client.chat.completions.create(model="test", messages=messages)
        sessions = (await native.get("/v1/sessions")).json()
        mine = [each for each in model.requests[1].messages if each.type == "human"]
    assert models == ["test"]
    assert first.choices[0].finish_reason == "stop"
    assert said.content is not None
    assert said.content.endswith("hello")
    assert second.choices[0].message.content == "Answer 2 to: more"
    assert first.usage is not None
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (100, 10)
    assert first.usage.prompt_tokens_details is not None
    assert first.usage.prompt_tokens_details.cached_tokens == 40
    assert len(sessions) == 1
    assert str(mine[0].content).count("Be brief.") == 1, "the instructions are told once"
    assert "Be brief." not in str(mine[1].content)


async def test_two_equal_beginnings_are_two_sessions_and_another_branch_is_a_third(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, model):
        ask = client.chat.completions.create
        for _ in range(2):
            first = await ask(model="test", messages=[user("hello")])
        said = first.choices[0].message.model_dump(exclude_none=True)
        await ask(model="test", messages=[user("hello"), said, user("one")])
        await ask(model="test", messages=[user("hello"), said, user("two")])
        await ask(model="test", messages=[user("hello"), said, user("three")])
        sessions = (await native.get("/v1/sessions")).json()
    assert len(sessions) == 3
    branch = str(model.requests[-1].messages[-1].content)
    assert "assistant: Answer 1 to: hello" in branch, "a branch of a session that went on knows what was said"
    assert branch.endswith("three")


@pytest.mark.parametrize("streams", [False, True])
async def test_the_clients_tool_runs_at_the_client(tmp_path: Path, database_url: str, streams: bool) -> None:
    async with asked(tmp_path, database_url) as (client, native, model):

        async def ask(messages: Any) -> Any:
            if not streams:
                made = await client.chat.completions.create(model="test", messages=messages, tools=CHAT_TOOLS)
                return made.choices[0]
            async with client.chat.completions.stream(
                model="test",
                messages=messages,
                tools=CHAT_TOOLS,
                stream_options={"include_usage": True},
            ) as stream:
                async for _ in stream:
                    pass
                final = await stream.get_final_completion()
            assert final.usage is not None
            assert final.usage.completion_tokens == 10, "of this answer alone"
            return final.choices[0]

        first = await ask([user("the weather?")])
        (wanted,) = first.message.tool_calls
        assert (first.finish_reason, wanted.function.name) == ("tool_calls", "get_weather")
        assert json.loads(wanted.function.arguments) == {"city": "Pylos"}
        assert first.message.content == "I will look."
        called = {
            "role": "assistant",
            "content": "I will look.",
            "tool_calls": [wanted.model_dump(include={"id", "type", "function"})],
        }
        called["tool_calls"][0]["function"] = {
            "name": "get_weather",
            "arguments": wanted.function.arguments,
        }
        result = {"role": "tool", "tool_call_id": wanted.id, "content": "rain"}
        second = await ask([user("the weather?"), called, result])
        assert second.message.content == "It said: rain"
        assert (await native.get("/v1/approvals")).json() == []
        assert len((await native.get("/v1/sessions")).json()) == 1
        runs = [each["session"] for each in (await native.get("/v1/sessions")).json()]
        turns = (await native.get(f"/v1/sessions/{runs[0]}/runs")).json()
        assert [each["state"] for each in turns] == ["complete"]
    names = [each.name for each in model.requests[0].tools]
    assert "get_weather" in names


async def test_a_result_is_missing_or_nobody_asked_for_it(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, _, _model):
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("the weather?")], tools=CHAT_TOOLS)
        said = first.choices[0].message.model_dump(exclude_none=True)
        messages: Any = [user("the weather?"), said]
        with pytest.raises(BadRequestError, match="must be from the user"):
            await ask(model="test", messages=messages, tools=CHAT_TOOLS)
        wrong: Any = {"role": "tool", "tool_call_id": "other", "content": "x"}
        with pytest.raises(BadRequestError, match="no call of this conversation has the id 'other'"):
            await ask(model="test", messages=[*messages, wrong], tools=CHAT_TOOLS)
        elsewhere: Any = [user("never said"), said, {**wrong, "tool_call_id": "w1"}]
        with pytest.raises(BadRequestError, match="no call waits"):
            await ask(model="test", messages=elsewhere, tools=CHAT_TOOLS)
        clash: Any = [{"type": "function", "function": {"name": "record", "parameters": {}}}]
        with pytest.raises(BadRequestError, match="the agent has a tool of this name"):
            await ask(model="test", messages=[user("x")], tools=clash)


async def test_an_approval_is_a_call_of_the_clients_tool_or_a_text(tmp_path: Path) -> None:
    approval: Any = [
        {
            "type": "function",
            "function": {"name": "zeus_approval", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    async with asked(tmp_path) as (client, native, model):
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("record it")], tools=approval)
        (wanted,) = first.choices[0].message.tool_calls or ()
        told = json.loads(wanted.function.arguments)  # type: ignore[union-attr]
        assert (told["tool"], told["arguments"]) == ("record", {"text": "draft"})
        assert "lines" not in told, "the client's function may have no such parameter"
        said = first.choices[0].message.model_dump(exclude_none=True)

        def answered(text: str) -> Any:
            result = {"role": "tool", "tool_call_id": wanted.id, "content": text}
            return [user("record it"), said, result]

        with pytest.raises(BadRequestError, match="must be `approve` or `reject`"):
            await ask(model="test", messages=answered("perhaps"), tools=approval)
        twice = '{"decision": "reject", "reason": "no", "decision": "approve"}'
        with pytest.raises(BadRequestError, match="a key is there twice"):
            await ask(model="test", messages=answered(twice), tools=approval)
        for more in ("arguments", "answer", "always"):
            text = json.dumps({"decision": "approve", more: {"text": "mine"}})
            with pytest.raises(BadRequestError, match=f"has no '{more}'"):
                await ask(model="test", messages=answered(text), tools=approval)
        assert not (tmp_path / "effects.txt").exists()
        mine = '{"decision": "approve", "changed": {"text": "mine"}, "instruction": "Be brief."}'
        second = await ask(model="test", messages=answered(mine), tools=approval)
        assert second.choices[0].message.content is not None
        assert "recorded: mine" in second.choices[0].message.content
        assert "The user adds: Be brief." in second.choices[0].message.content
        assert (tmp_path / "effects.txt").read_text() == "mine\n"

        texts = await ask(model="test", messages=[user("record again")])
        content = texts.choices[0].message.content or ""
        (pending,) = (await native.get("/v1/approvals")).json()
        assert pending["id"] in content
        assert (texts.model_extra or {})["zeus"]["approvals"][0]["id"] == pending["id"]
        messages: Any = [
            user("record again"),
            texts.choices[0].message.model_dump(exclude_none=True),
            user("never mind"),
        ]
        after = await ask(model="test", messages=messages)
        assert after.choices[0].message.content is not None
        assert (await native.get("/v1/approvals")).json() == [], "the user withdrew it"
        assert (tmp_path / "effects.txt").read_text() == "mine\n"
    assert all("zeus_approval" not in [one.name for one in each.tools] for each in model.requests)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_the_audit_log_has_each_decision_with_its_session_and_key(tmp_path: Path, api: str) -> None:
    """Only the service's own route told the audit log of a decision."""
    approval: Any = [{"type": "function", "function": {"name": "zeus_approval", "parameters": {}}}]
    database = await ready_database(tmp_path)
    key = await made(database)
    served = talking(tmp_path, NATIVE, database=database)
    async with served as (native, _, _model), client_of(native, key) as client:
        if api == "chat":
            ask = client.chat.completions.create
            first = await ask(model="test", messages=[user("record it")], tools=approval)
            (wanted,) = first.choices[0].message.tool_calls or ()
            said = first.choices[0].message.model_dump(exclude_none=True)
            result = {"role": "tool", "tool_call_id": wanted.id, "content": "reject"}
            await ask(model="test", messages=cast(Any, [user("record it"), said, result]), tools=approval)
        else:
            response = await client.responses.create(model="test", input="record it")
            (request,) = response.output
            no = {"approval_request_id": request.id, "approve": False, "type": "mcp_approval_response"}
            with pytest.raises(BadRequestError, match="has no 'changed'"):
                await client.responses.create(
                    model="test", input=cast(Any, [{**no, "changed": {}}]), previous_response_id=response.id
                )
            given = cast(Any, [no])
            await client.responses.create(model="test", input=given, previous_response_id=response.id)
        (session,) = (await native.get("/v1/sessions", headers=bearer(key))).json()
        every = await entries(database)
        rows = [each for each in every if each.decision]
    path = "/v1/chat/completions" if api == "chat" else "/v1/responses"
    asked = [(each.agent, each.session) for each in every if each.action == f"POST {path}"]
    # A refused request is about no session yet.
    assert [each for each in asked if each[1]] == [("test", session["session"])] * 2
    told = [
        (each.action, each.decision, each.session, each.agent, each.user_id, each.caller) for each in rows
    ]
    assert told == [("decide", "reject", session["session"], "test", "ann", f"key:{key.split('_')[1]}")]
    assert rows[0].subject


async def left_waiting(
    client: AsyncOpenAI, api: str, prompt: str
) -> tuple[Sequence[str], Callable[..., Awaitable[Any]]]:
    """The names of the calls that wait after a prompt, and a function that decides about calls in one request.

    It takes pairs of a name and ``approve``, ``reject`` or ``unfit``: an approval that does not fit the call. An answer
    of a chat becomes a part of its conversation.
    """
    if api == "chat":
        approval: Any = [{"type": "function", "function": {"name": "zeus_approval", "parameters": {}}}]
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user(prompt)], tools=approval)
        said: list[Any] = [user(prompt), first.choices[0].message.model_dump(exclude_none=True)]
        unfit = '{"decision": "approve", "changed": {"comand": "y"}}'

        async def answer(*decisions: tuple[str, str]) -> Any:
            results = [
                {"role": "tool", "tool_call_id": name, "content": unfit if word == "unfit" else word}
                for name, word in decisions
            ]
            answered = await ask(model="test", messages=[*said, *results], tools=approval)
            said.extend([*results, answered.choices[0].message.model_dump(exclude_none=True)])
            return answered

        return [each.id for each in first.choices[0].message.tool_calls or ()], answer
    response = await client.responses.create(model="test", input=prompt)

    async def respond(*decisions: tuple[str, str]) -> Any:
        items = [
            {
                "approval_request_id": name,
                "approve": word != "reject",
                "type": "mcp_approval_response",
                **({"reason": "no reason goes with an approval"} if word == "unfit" else {}),
            }
            for name, word in decisions
        ]
        previous = response.id
        return await client.responses.create(
            model="test", input=cast(Any, items), previous_response_id=previous
        )

    return [cast(str, each.id) for each in response.output], respond


@pytest.mark.parametrize(
    "words", [("reject", "approve"), ("approve", "reject"), ("approve", "approve")], ids="-".join
)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_two_answers_to_one_approval_in_one_request_are_refused(
    tmp_path: Path, api: str, words: tuple[str, str]
) -> None:
    """The last one counted. One approval has several names, so the names may differ."""
    async with asked(tmp_path) as (client, native, _model):
        (wanted,), answer = await left_waiting(client, api, "record it")
        for other in (wanted, f"{wanted}_0123456789abcdef"):
            with pytest.raises(BadRequestError, match="two results for"):
                await answer(*zip((wanted, other), words, strict=True))
        assert len((await native.get("/v1/approvals")).json()) == 1
        assert not (tmp_path / "effects.txt").exists()
        await answer((wanted, words[0]))
    assert (tmp_path / "effects.txt").exists() == (words[0] == "approve")


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_request_with_a_decision_that_is_refused_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """The first of two calls was approved although the request was refused, and ran after both were rejected."""
    monkeypatch.chdir(tmp_path)
    calls = [call("run_command", f"c{each}", command=f"echo x >> {each}.txt") for each in ("a", "b")]
    model = script(calling(*calls), "Done.")
    async with (
        talking(tmp_path, NATIVE, model=model, tools="[shell]", allow="[], mode: ask") as (native, _, _),
        client_of(native) as client,
    ):
        (first, second), answer = await left_waiting(client, api, "go")
        with pytest.raises(BadRequestError, match="cannot be decided so"):
            await answer((first, "approve"), (second, "unfit"))
        assert len((await native.get("/v1/approvals")).json()) == 2
        await answer((first, "reject"), (second, "reject"))
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("unclear", [{"approve": each} for each in ("true", "false", 1, 0, None)] + [{}])
async def test_an_approval_response_that_is_neither_true_nor_false_decides_nothing(
    tmp_path: Path, unclear: dict[str, Any]
) -> None:
    """It was stored as a rejection, which nobody had made."""
    two = calling(call("record", "r1", text="a"), call("record", "r2", text="b"))
    async with (
        talking(tmp_path, NATIVE, model=script(two, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        response = await client.responses.create(model="test", input="go")
        items: Any = [
            {"type": "mcp_approval_response", "approval_request_id": each.id, "approve": True}
            for each in response.output
        ]
        del items[1]["approve"]
        items[1] |= unclear
        with pytest.raises(BadRequestError, match=r"input\[1\].approve must be true or false") as refused:
            await client.responses.create(model="test", input=items, previous_response_id=response.id)
        assert refused.value.param == "input[1].approve"
        assert len((await native.get("/v1/approvals")).json()) == 2
        assert not (tmp_path / "effects.txt").exists()


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_decision_for_an_id_that_is_not_of_the_conversation_is_an_error_that_names_it(
    tmp_path: Path, api: str
) -> None:
    """It was dropped without a word, beside a decision that counted."""
    two = calling(call("record", "r1", text="a"), call("record", "r2", text="b"))
    async with (
        talking(tmp_path, NATIVE, model=script(two, two, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        (elsewhere, _), _ = await left_waiting(client, api, "elsewhere")
        (first, second), answer = await left_waiting(client, api, "go")
        prefix = first.partition("_")[0]
        for unknown in (f"{prefix}_0000abcd", elsewhere, first[:-1], f"{first}x", "r1"):
            for decided in ([(first, "approve")], [(first, "approve"), (second, "approve")], []):
                with pytest.raises(BadRequestError, match=f"conversation has the id '{unknown}'"):
                    await answer(*decided, (unknown, "approve"))
        assert len((await native.get("/v1/approvals")).json()) == 4
        await answer((first, "reject"))
        # Also beside one that is repeated.
        with pytest.raises(BadRequestError, match=f"conversation has the id '{elsewhere}'"):
            await answer((first, "reject"), (elsewhere, "approve"))
        assert len((await native.get("/v1/approvals")).json()) == 3
        assert not (tmp_path / "effects.txt").exists()


async def test_a_request_may_repeat_the_decisions_of_earlier_turns(tmp_path: Path) -> None:
    asks = [[calling(call("record", f"r{each}", text=each)), "Done."] for each in "ab"]
    async with (
        talking(tmp_path, NATIVE, model=script(*asks[0], *asks[1])) as (native, _, _model),
        client_of(native) as client,
    ):
        items: list[Any] = []
        previous: str | None = None
        for _ in asks:
            asked = await client.responses.create(model="test", input="go", previous_response_id=previous)
            given = {"type": "mcp_approval_response", "approval_request_id": asked.output[0].id}
            items.append({**given, "approve": True})
            done = await client.responses.create(
                model="test", input=cast(Any, items), previous_response_id=asked.id
            )
            assert done.output_text == "Done."
            previous = done.id
    assert (tmp_path / "effects.txt").read_text() == "a\nb\n"


async def test_two_results_of_one_call_of_the_clients_tool_are_refused(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, _native, _model):
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("weather?")], tools=CHAT_TOOLS)
        (wanted,) = first.choices[0].message.tool_calls or ()
        said = first.choices[0].message.model_dump(exclude_none=True)
        results = [{"role": "tool", "tool_call_id": wanted.id, "content": text} for text in ("rain", "sun")]
        messages: Any = [user("weather?"), said, *results]
        with pytest.raises(BadRequestError, match="two results for"):
            await ask(model="test", messages=messages, tools=CHAT_TOOLS)


async def test_an_approval_hides_nothing_from_a_client_that_prints_it(tmp_path: Path) -> None:
    hiding = "a\u202eb\x9b31m\u2028p\u0430ypal"
    model = PositionModel(lambda _request: calling(call("record", "r1", text=hiding)))
    async with talking(tmp_path, NATIVE, model=model) as (native, _, _model), client_of(native) as client:
        response = await client.responses.create(model="test", input="record it")
        ask = client.chat.completions.create
        approval: Any = [{"type": "function", "function": {"name": "zeus_approval", "parameters": {}}}]
        called = await ask(model="test", messages=[user("record it")], tools=approval)
        told = await ask(model="test", messages=[user("record it")])
    (request,) = response.output
    (wanted,) = called.choices[0].message.tool_calls or ()
    arguments = [request.arguments, wanted.function.arguments]  # type: ignore[union-attr]
    first = json.loads(arguments[0])
    assert first.pop("zeus_lines")
    assert [first, json.loads(arguments[1])["arguments"]] == [{"text": hiding}] * 2
    for text in (*arguments, told.choices[0].message.content or ""):
        assert "a\\u202eb\\u009b31m\\u2028p\\u0430ypal" in text
        assert text.isascii()
        assert text.isprintable()


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_an_approval_is_of_the_change_that_the_client_was_shown(
    tmp_path: Path, api: str, looks: bool
) -> None:
    """Somebody else may look at the call meanwhile, and see another change."""
    file = tmp_path / "a.md"
    file.write_text("old\n")
    model = script(calling(call("edit_file", "r1", path="a.md", old="old", new="new\u202e")), "Done.")
    approval: Any = [{"type": "function", "function": {"name": "zeus_approval", "parameters": {}}}]
    served = talking(tmp_path, NATIVE, model=model, tools="[probe, filesystem]")
    async with served as (native, _, _model), client_of(native) as client:
        if api == "chat":
            ask = client.chat.completions.create
            first = await ask(model="test", messages=[user("go")], tools=approval)
            (wanted,) = first.choices[0].message.tool_calls or ()
            told = json.loads(wanted.function.arguments)  # type: ignore[union-attr]
            lines, arguments = told["lines"], told["arguments"]
        else:
            response = await client.responses.create(model="test", input="go")
            (request,) = response.output
            arguments = json.loads(request.arguments)  # type: ignore[union-attr]
            lines = arguments.pop("zeus_lines")
        assert arguments == {"path": "a.md", "old": "old", "new": "new\u202e"}
        assert lines[-4:-1] == ["  /a.md: 1 removed, 1 added", "    - old", "    + new\\u202e"]
        (pending,) = (await native.get("/v1/approvals")).json()
        if looks:
            file.write_text("old and precious\n")
            assert (await native.get(f"/v1/approvals/{pending['id']}")).status_code == 200

        async def approve() -> None:
            if api == "chat":
                said = first.choices[0].message.model_dump(exclude_none=True)
                result = {"role": "tool", "tool_call_id": wanted.id, "content": "approve"}
                await ask(model="test", messages=cast(Any, [user("go"), said, result]), tools=approval)
            else:
                yes = {"approval_request_id": request.id, "approve": True, "type": "mcp_approval_response"}
                given = cast(Any, [yes])
                await client.responses.create(model="test", input=given, previous_response_id=response.id)

        if looks:
            with pytest.raises(BadRequestError, match="another change now than the one that you saw"):
                await approve()
        else:
            await approve()
    assert file.read_text() == ("old and precious\n" if looks else "new\u202e\n")


async def test_a_text_about_a_waiting_call_has_its_change(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("old\n")
    model = script(calling(call("write_file", "r1", path="a.md", content="new\n")))
    served = talking(tmp_path, NATIVE, model=model, tools="[probe, filesystem]")
    async with served as (native, _, _model), client_of(native) as client:
        told = await client.chat.completions.create(model="test", messages=[user("go")])
        (waiting,) = (told.model_extra or {})["zeus"]["approvals"]
        text = told.choices[0].message.content or ""
        assert '"    - old", "    + new"' in text
        seen = {"decision": "approve", "seen": waiting["seen"]}
        assert (await native.post(f"/v1/approvals/{waiting['id']}", json=seen)).status_code == 200


FACT = "of the MCP server small"
SAID: dict[str, tuple[dict[str, Any], str]] = {
    "id": ({"id": "b2"}, "post waits for approval (b2)"),
    "tool": ({"tool": "send"}, "send waits for approval (a1)"),
    "place": ({"place": "0.1", "schema": {"type": "object"}}, "post asks (a1)"),
    "arguments": ({"arguments": {"text": "b"}}, "  text: b"),
    "reason": ({"reason": "the rule `ask: post`"}, "  because: the rule `ask: post`"),
    "schema": (
        {"place": "0.1", "schema": {"properties": {"day": {"type": "string"}}}},
        "  answer: day (string)",
    ),
    "on_timeout": (
        {"expires_ms": 0, "on_timeout": "approve"},
        "  until 1970-01-01 00:00:00 UTC, then: approve",
    ),
    "expires_ms": ({"expires_ms": 0}, "  until 1970-01-01 00:00:00 UTC, then: reject"),
    "told": ({"told": {"text": "<not the secret:A>"}}, "  text: <not the secret:A>"),
    "interrupted": ({"interrupted": True}, "  It was begun before"),
    "begun_with": ({"interrupted": True, "begun_with": ({"text": "b"},)}, '  begun with: {"text": "b"}'),
    "outdated": ({"outdated": True}, "  It was asked under other settings of the tool"),
    "facts": ({"facts": (FACT,)}, f"  {FACT}"),
    "approved_before": ({"approved_before": True}, "  It was approved before, under other settings of post"),
    "approved_with": ({"approved_with": {"text": "b"}}, '  approved with: {"text": "b"}'),
    "preview": ({"preview": Preview(facts=(FACT,))}, f"  {FACT}"),
    "agent": ({"agent": "test/helper"}, "post waits for approval (a1); the sub-agent test/helper calls it"),
    "session_agent": ({"session_agent": "test"}, "post waits for approval (a1); the agent test calls it"),
    "user": ({"user": "ann"}, "post waits for approval (a1); the agent for ann calls it"),
    "project": ({"project": "argo"}, "post waits for approval (a1); the agent in argo calls it"),
}
"""A value of each field of an approval that its question tells, and the line about it."""
MEMBERS = {"id", "tool", "place", "arguments", "reason", "schema"}
"""Fields that a call of the client's tool has without lines."""
OF_SESSION = {"session_agent", "user", "project"}
"""Fields of the session, which its client made: a call of the client's tool leaves them out."""
UNSAID = {
    *("session", "run_id", "digest", "call_id", "may_remember", "needs_person", "created_ms", "decision"),
    *("decided_ms", "withdrawn", "shown", "workspace", "remembered_as", "written", "made_beside"),
}
ASKED = PendingApproval("a1", "s", "r", "0", "d", "post", {"text": "<secret:A>"})


@pytest.mark.parametrize("name", [each.name for each in fields(PendingApproval) if each.name not in UNSAID])
async def test_each_channel_says_each_field_of_an_approval(name: str) -> None:
    """A channel with a list of fields of its own left out the facts: a command that is not contained, say."""
    more, line = SAID[name]
    shown = replace(ASKED, **more)
    called, requested, texted = [await waiting_answer(shown) for _ in range(3)]
    called.asks_by_call()
    requested.asks_by_request()
    told = json.loads(called.calls[0].arguments)
    page = waiting_call(shown)
    remote = pending_of(result_of(ServiceApproval, json.loads(json.dumps(page))))
    channels = {
        "elicitation": question_and_form(shown)[0].split("\n"),
        "request": json.loads(requested.calls[0].arguments)["zeus_lines"],
        "page": [each["text"] for each in page["lines"]],
        "page, all of it": [each["text"] for each in page["whole"]],
        "--remote": [each.text for each in question_lines(remote)],
        **({} if name in MEMBERS | OF_SESSION else {"zeus_approval": told["lines"]}),
    }
    for channel, lines in channels.items():
        assert any(each.startswith(line) for each in lines), channel
    assert json.dumps(line)[1:-1] in texted.asks_by_text()
    if name in MEMBERS:
        bare = await waiting_answer(ASKED)
        bare.asks_by_call()
        assert told != json.loads(bare.calls[0].arguments)
    assert ("lines" in told) == (name not in MEMBERS | OF_SESSION), "the client's function may have no lines"


async def waiting_answer(shown: PendingApproval) -> TurnAnswer:
    """An answer that ended because this call waits."""

    async def approvals(_session: str) -> list[PendingApproval]:
        return [shown]

    turn = SimpleNamespace(session="s", request={})
    answer = TurnAnswer(cast(Any, SimpleNamespace(shown=approvals)), cast(Any, turn), 0)
    answer.ending = {"code": "approval_needed", "details": {"pending": [shown.as_json()]}}
    await answer._note_calls()
    return answer


async def test_a_text_about_a_sub_agents_call_names_the_sub_agent(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> AIMessage:
        if request.messages[-1].type == "tool":
            return AIMessage("done")
        if str(request.messages[0].content).endswith("go"):
            return calling(call("task", "t1", agent="helper", description="d", prompt="write it down"))
        return calling(call("record", "r1", text="draft"))

    agents = "agents: {helper: {description: Helps.}}\n"
    served = talking(
        tmp_path,
        NATIVE,
        model=PositionModel(answer),
        tools="[probe, subagents]",
        allow="[echo, task]",
        more=agents,
    )
    async with served as (native, _, _model), client_of(native) as client:
        told = await client.chat.completions.create(model="test", messages=[user("go")])
        response = await client.responses.create(model="test", input="go")
    assert "the sub-agent test/helper calls it" in str(told.choices[0].message.content)
    (request,) = response.output
    assert "the sub-agent test/helper calls it" in request.arguments  # type: ignore[union-attr]


def test_an_argument_of_the_name_of_our_lines_takes_no_place_of_theirs() -> None:
    forged = {"zeus_lines": ["no line changes"]}
    shown = PendingApproval("a1", "s", "r", "0", "d", "post", forged)
    answer = TurnAnswer(cast(Any, None), cast(Any, None), 0)
    answer.waiting.append({"id": "a1", "tool_name": "post", "parameters": forged, **_change(shown)})
    answer.asks_by_request()
    lines = json.loads(answer.calls[0].arguments)["zeus_lines"]
    assert lines[:2] == ["post waits for approval (a1)", '  zeus_lines: ["no line changes"]']


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_closing_the_stream_cancels_the_turn(tmp_path: Path, database_url: str, api: str) -> None:
    async with asked(tmp_path, database_url) as (client, native, model):
        stream: Any
        if api == "chat":
            stream = await client.chat.completions.create(model="test", messages=[user("hang")], stream=True)
        else:
            stream = await client.responses.create(model="test", input="hang", stream=True)
        async for each in stream:
            if "Thinking" in str(each):
                break
        await stream.close()
        await asyncio.wait_for(model.ended.wait(), 5)
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        assert (await until(native, turn["run"], "cancelled"))["state"] == "cancelled"


async def test_a_client_that_gives_up_waiting_cancels_too_unless_the_service_says_otherwise(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path / "a") as (client, native, model):
        with pytest.raises(Exception, match="timed out"):
            await client.with_options(timeout=1, max_retries=0).chat.completions.create(
                model="test", messages=[user("hang")]
            )
        await asyncio.wait_for(model.ended.wait(), 5)
    async with asked(tmp_path / "b", cancel_on_disconnect=False) as (client, native, model):
        stream = await client.chat.completions.create(model="test", messages=[user("hang")], stream=True)
        async for each in stream:
            if "Thinking" in str(each):
                break
        await stream.close()
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        assert turn["state"] == "running"
        await native.post(f"/v1/runs/{turn['run']}/cancel")
        await until(native, turn["run"], "cancelled")


@pytest.mark.parametrize("stops", [True, False])
async def test_a_client_that_closes_the_stream_of_a_service_that_stops_cancels_nothing(stops: bool) -> None:
    cancelled: list[str] = []

    async def cancel(run: str) -> None:
        cancelled.append(run)

    async def events() -> AsyncGenerator[bytes, None]:
        if stops:
            raise StoppingError("the service stops")
        yield b"data: {}"

    has_read = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            has_read.set()
            await asyncio.Event().wait()

    async def receive() -> Any:
        await has_read.wait()
        return {"type": "http.disconnect"}

    turn = SimpleNamespace(run="r1")
    answer = TurnAnswer(cast(Any, SimpleNamespace(cancel=cancel)), cast(Any, turn), 0)
    protocol = Protocol(Options(), cast(Any, SimpleNamespace(mask=lambda text: text)))
    gc.freeze()  # what other tests left takes seconds to look through
    await protocol._stream(answer, events())({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
    for _ in range(3):
        gc.collect()  # closes what the response left open
        await asyncio.sleep(0)
    assert cancelled == ([] if stops else ["r1"])


async def test_errors_have_openais_form_and_are_not_repeated(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, model):
        ask = client.chat.completions.create
        with pytest.raises(NotFoundError) as absent:
            await ask(model="other", messages=[user("x")])
        assert absent.value.code == "not_found"
        with pytest.raises(BadRequestError) as warm:
            await ask(model="test", messages=[user("x")], temperature=0.5)
        assert (warm.value.code, warm.value.param) == ("unsupported_parameter", "temperature")
        picture: Any = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
        with pytest.raises(BadRequestError, match="image_url"):
            await ask(model="test", messages=[picture])
        with pytest.raises(APIStatusError) as failed:
            await ask(model="test", messages=[user("fail")])
        assert failed.value.status_code == 500
        assert "on fire" in failed.value.message
        assert sum("fail" in str(each.messages[-1].content) for each in model.requests) == 1
        stream = await ask(model="test", messages=[user("fail")], stream=True)
        with pytest.raises(Exception, match="on fire"):
            async for _ in stream:
                pass
        async with client_of(native, "wrong") as stranger:
            with pytest.raises(APIStatusError) as refused:
                await stranger.models.list()
        assert refused.value.status_code == 401
        text = await native.post("/v1/chat/completions", content=b"[")
        assert text.status_code == 400
        assert text.json()["error"]["type"] == "invalid_request_error"
        for levels in (300, 100_000):
            body = b'{"model": "test", "metadata": ' + b"[" * levels + b"]" * levels + b"}"
            deep = await native.post("/v1/chat/completions", content=body)
            assert deep.status_code == 400
            assert deep.json()["error"]["type"] == "invalid_request_error"


async def test_a_request_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    own: Any = [{"type": "function", "function": {"name": "record", "parameters": {"type": "object"}}}]
    async with asked(tmp_path) as (client, native, _model):
        ask = client.chat.completions.create
        for wrong, tools in ((" ", CHAT_TOOLS), ("hello", own)):
            with pytest.raises(BadRequestError):
                await ask(model="test", messages=[user(wrong)], tools=tools)
        assert (await native.get("/v1/sessions")).json() == []
        first = await ask(model="test", messages=[user("record it")])
        said = first.choices[0].message.model_dump(exclude_none=True)
        waiting = (await native.get("/v1/approvals")).json()
        with pytest.raises(BadRequestError, match="the agent has a tool of this name"):
            await ask(model="test", messages=[user("record it"), said, user("never mind")], tools=own)
        assert (await native.get("/v1/approvals")).json() == waiting != []
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
    assert turn["state"] == "waiting"


async def test_a_service_may_let_parameters_pass(tmp_path: Path) -> None:
    async with asked(tmp_path, ignore=["temperature"]) as (client, _, _model):
        made = await client.chat.completions.create(
            model="test", messages=[user("x")], temperature=0.5, n=1, seed=None
        )
        assert made.choices[0].message.content == "Answer 1 to: x"


async def test_responses_continue_by_id_by_conversation_and_by_messages(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, _native, _model):
        create = client.responses.create
        first = await create(model="test", input="hello", instructions="Be brief.")
        second = await create(model="test", input="more", previous_response_id=first.id)
        assert second.output_text == "Answer 2 to: more"
        assert second.conversation == first.conversation
        branch = await create(model="test", input="else", previous_response_id=first.id)
        assert branch.conversation != first.conversation
        assert "Answer 1 to:" in branch.output_text, "a branch is a session that is told what was said"
        begun = await client.conversations.create()
        third = await create(model="test", input="third", conversation=begun.id)
        assert third.conversation is not None
        assert third.conversation.id == begun.id
        again: Any = [user("third"), *third.model_dump()["output"], user("fourth")]
        fourth = await create(model="test", input=again)
        assert fourth.output_text.startswith("user") is False
        stored = await client.responses.retrieve(second.id)
        assert (stored.status, stored.output_text) == ("completed", second.output_text)
        assert stored.usage is not None
        assert stored.usage.input_tokens_details.cached_tokens == 40
        await client.conversations.delete(begun.id)
        with pytest.raises(NotFoundError):
            await client.conversations.retrieve(begun.id)
        with pytest.raises(NotFoundError):
            await client.responses.retrieve("resp_0_0")


async def test_full_history_finds_the_session_of_responses(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, _model):
        first = await client.responses.create(model="test", input="hello")
        again: Any = [user("hello"), *first.model_dump()["output"], user("more")]
        second = await client.responses.create(model="test", input=again)
        assert second.output_text == "Answer 2 to: more"
        assert len((await native.get("/v1/sessions")).json()) == 1


async def test_a_response_calls_the_clients_tool_and_asks_for_approval(
    tmp_path: Path, database_url: str
) -> None:
    async with asked(tmp_path, database_url) as (client, _, _model):
        create = client.responses.create
        kinds: list[str] = []
        numbers: list[int] = []
        async with client.responses.stream(
            model="test", input="the weather?", tools=RESPONSE_TOOLS
        ) as stream:
            async for event in stream:
                kinds.append(event.type)
                numbers.append(event.sequence_number)
            first = await stream.get_final_response()
        assert numbers == list(range(len(numbers)))
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        message, wanted = first.output
        assert (message.type, wanted.type) == ("message", "function_call")
        result: Any = [{"type": "function_call_output", "call_id": wanted.call_id, "output": "rain"}]  # type: ignore[union-attr]
        second = await create(model="test", input=result, previous_response_id=first.id, tools=RESPONSE_TOOLS)
        assert second.output_text == "It said: rain"
        assert (await client.responses.retrieve(first.id)).output[1].type == "function_call", "as it was then"

        third = await create(model="test", input="record it")
        (request,) = third.output
        assert request.type == "mcp_approval_request"
        told = json.loads(request.arguments)
        assert told.pop("zeus_lines")[1:] == ["  text: draft", "  because: record is not on your allowlist"]
        assert told == {"text": "draft"}
        no: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": request.id,
            "approve": False,
            "reason": "not today",
        }
        fourth = await create(model="test", input=[no], previous_response_id=third.id)
        assert "not today" in fourth.output_text
        fifth = await create(model="test", input="record it", previous_response_id=fourth.id)
        yes: Any = {**no, "approval_request_id": fifth.output[0].id, "approve": True}
        del yes["reason"]
        sixth = await create(model="test", input=[yes], previous_response_id=fifth.id)
        assert sixth.output_text == "It said: recorded: draft"
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


def test_a_question_shows_the_form_whose_defaults_an_approval_answers_with() -> None:
    answer = TurnAnswer(cast(Any, None), cast(Any, None), 0)
    form = {"type": "object", "properties": {"wipe": {"type": "boolean", "default": True}}}
    question = {"id": "a1", "tool_name": "ask", "parameters": {"question": "Go on?"}, "answer_schema": form}
    answer.waiting.append(question)
    answer.asks_by_request()
    assert json.loads(answer.calls[0].arguments) == {"question": "Go on?", "answer_schema": form}
    assert '"default": true' in answer.asks_by_text()


async def test_a_background_response_outlives_its_reader_and_streams_on(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, model):
        begun = await client.responses.create(model="test", input="hello", background=True)
        assert begun.status in ("queued", "in_progress")
        for _ in range(200):
            done = await client.responses.retrieve(begun.id)
            if done.status == "completed":
                break
            await asyncio.sleep(0.02)
        assert done.output_text == "Answer 1 to: hello"
        events = [each async for each in await client.responses.retrieve(begun.id, stream=True)]
        rest = [
            each async for each in await client.responses.retrieve(begun.id, stream=True, starting_after=3)
        ]
        assert [each.sequence_number for each in events] == list(range(len(events)))
        assert rest == events[4:]
        hangs = await client.responses.create(model="test", input="hang", background=True, stream=True)
        async for each in hangs:
            if each.type == "response.output_text.delta":
                break
        await hangs.close()
        (running,) = [
            each
            for session in (await native.get("/v1/sessions")).json()
            for each in (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
            if each["state"] == "running"
        ]
        stopped = await client.responses.cancel(f"resp_{running['run']}_0")
        assert stopped.status == "cancelled"
        assert model.ended.is_set()


async def test_the_synchronous_client_streams(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, native, _model):

        def work() -> str:
            with OpenAI(base_url=f"{str(native.base_url).rstrip('/')}/v1", api_key=TOKEN) as client:
                chunks = client.chat.completions.create(
                    model="test", messages=[{"role": "user", "content": "hello"}], stream=True
                )
                return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)

        assert await asyncio.to_thread(work) == "Answer 1 to: hello"


async def test_no_prefix_leads_to_another_users_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def caller(self: Service, token: str | None) -> Principal:
        return Principal(str(token), Owner(str(token)), frozenset({"run", "read", "approve"}))

    monkeypatch.setattr(Service, "caller", caller)
    async with (
        talking(tmp_path, NATIVE) as (native, _, _model),
        client_of(native, "ann") as ann,
        client_of(native, "bob") as bob,
    ):
        first = await ann.responses.create(model="test", input="hello")
        again: Any = [user("hello"), *first.model_dump()["output"], user("more")]
        own = await bob.responses.create(model="test", input=again)
        assert own.conversation != first.conversation
        for path in ("previous_response_id", "conversation"):
            named = first.id if path == "previous_response_id" else first.conversation.id  # type: ignore[union-attr]
            with pytest.raises(NotFoundError):
                await bob.responses.create(model="test", input="x", **{path: named})  # type: ignore[arg-type]
        for call in (bob.responses.retrieve, bob.responses.cancel):
            with pytest.raises(NotFoundError):
                await call(first.id)  # type: ignore[operator]
        mine = await ann.responses.create(model="test", input=again)
        assert mine.conversation == first.conversation


async def test_a_call_waits_for_the_client_while_the_service_is_replaced(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, _, _model):
        first = await client.chat.completions.create(
            model="test", messages=[user("the weather?")], tools=CHAT_TOOLS
        )
    said = first.choices[0].message
    result = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "rain"}  # type: ignore[index]
    messages: Any = [user("the weather?"), said.model_dump(exclude_none=True), result]
    async with asked(tmp_path) as (client, _, model):
        second = await client.chat.completions.create(model="test", messages=messages, tools=CHAT_TOOLS)
        assert second.choices[0].message.content == "It said: rain"
    assert "get_weather" in [each.name for each in model.requests[0].tools]


async def test_errors_before_a_route_have_openai_s_form(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, native, _model):
        unknown = await native.post("/v1/chat/nowhere", json={})
        wrong_method = await native.get("/v1/chat/completions")
        large = await native.post("/v1/chat/completions", content=b"x" * 4_000_001)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b"x" * 1_000_000

        growing = await native.post("/v1/chat/completions", content=pieces())
        host = await native.get("/v1/models", headers={"Host": "elsewhere.example"})
        head = await native.get("/v1/models", headers={"X-Long": "x" * 31_900})
        other = await native.get("/v1/nowhere")
    found = {"unknown": unknown, "wrong method": wrong_method, "large": large, "growing": growing}
    statuses = {name: each.status_code for name, each in {**found, "host": host, "head": head}.items()}
    assert statuses == {
        "unknown": 404,
        "wrong method": 405,
        "large": 413,
        "growing": 413,
        "host": 421,
        "head": 431,
    }
    for name, answer in {**found, "host": host, "head": head}.items():
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", None), name
        assert error["message"], name
        assert answer.headers["x-should-retry"] == "false", name
    assert wrong_method.headers["allow"] == "POST"
    assert other.headers["content-type"] == "application/problem+json"


async def test_a_title_shows_no_part_of_a_secret_that_the_prompt_has_further_on(tmp_path: Path) -> None:
    masked, cut = "long-A1-" + "x9y8" * 38, "other-B2-" + "k7j6" * 8
    (tmp_path / ".env").write_text(f"LONG_TOKEN={masked}\nOTHER_TOKEN={cut}\n")
    async with asked(tmp_path) as (client, native, _):
        await client.chat.completions.create(model="test", messages=[user(f"Use {masked} and {cut}.")])
        (session,) = (await native.get("/v1/sessions")).json()
    assert session["title"] == "Use <secret:LONG_TOKEN> and <secret:OTHER_TOKEN>."


@pytest.mark.parametrize("streams", [False, True])
async def test_unseen_characters_are_escapes_in_the_json_that_a_client_may_print(
    tmp_path: Path, streams: bool
) -> None:
    text = "a\u202eb\u200bc\u009bd"
    async with asked(tmp_path) as (client, native, _):
        body = {"model": "test", "messages": [user(text)], "stream": streams}
        raw = (await native.post("/v1/chat/completions", json=body)).text
        responses = (
            await native.post("/v1/responses", json={"model": "test", "input": text, "stream": streams})
        ).text
        refused = (
            await native.post("/v1/chat/completions", json={"model": text, "messages": [user("x")]})
        ).text
        answer = await client.chat.completions.create(model="test", messages=[user(text)])
    for told in (raw, responses, refused):
        assert not set(told) & set("\u202e\u200b\u009b"), told
        assert "\\u202e" in told
    assert text in str(answer.choices[0].message.content)


OWN: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("buy", "zeus_approval")
]
BUYING = PositionModel(
    lambda request: (
        f"got {request.messages[-1].content}"
        if request.messages[-1].type == "tool"
        else calling(call("buy", "c1", item="model"))
    )
)


async def test_the_client_runs_its_tool_with_the_arguments_that_were_decided(tmp_path: Path) -> None:
    served = talking(tmp_path, NATIVE, model=BUYING, allow="[echo], ask: ['*']")
    async with served as (native, _, _model), client_of(native) as client:
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("go")], tools=OWN)
        mine = json.dumps({"decision": "approve", "changed": {"item": "person\u202e é"}})
        second = await ask(model="test", messages=[user("go"), *answered(first, mine)], tools=OWN)
    (wanted,) = second.choices[0].message.tool_calls or ()
    assert (wanted.id, wanted.function.name) == ("c1", "buy")  # type: ignore[union-attr]
    assert json.loads(wanted.function.arguments) == {"item": "person\u202e é"}  # type: ignore[union-attr]


def answered(completion: Any, text: str) -> list[Any]:
    said = completion.choices[0].message
    results = [{"role": "tool", "tool_call_id": each.id, "content": text} for each in said.tool_calls]
    return [said.model_dump(exclude_none=True), *results]


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_client_gets_what_came_after_a_call_was_decided_elsewhere(tmp_path: Path, api: str) -> None:
    """Each request with the decision was refused for the result of a call that the client was never sent."""
    served = talking(tmp_path, NATIVE, model=BUYING, allow="[echo], ask: ['*']")
    async with served as (native, _, _model), client_of(native) as client:

        async def decided() -> None:
            (pending,) = (await native.get("/v1/approvals")).json()
            body = {"decision": "approve", "changed": {"item": "person"}}
            assert (await native.post(f"/v1/approvals/{pending['id']}", json=body)).status_code == 200
            await no_call_waits(native)

        if api == "responses":
            buy: Any = [{"type": "function", "name": "buy", "parameters": {"type": "object"}}]
            response = await client.responses.create(model="test", input="go", tools=buy)
            (request,) = response.output
            await decided()
            no = {"approval_request_id": request.id, "approve": False, "type": "mcp_approval_response"}
            after = await client.responses.create(
                model="test", input=cast(Any, [no]), previous_response_id=response.id, tools=buy
            )
            (wanted,) = after.output
            assert json.loads(wanted.arguments) == {"item": "person"}  # type: ignore[union-attr]
            return
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("go")], tools=OWN)
        messages: Any = [user("go"), *answered(first, "reject")]
        await decided()
        for result in ("zeus_other", "c2"):
            unknown: Any = [*messages[:-1], {**messages[-1], "tool_call_id": result}]
            with pytest.raises(BadRequestError, match=f"has the id '{result}'"):
                await ask(model="test", messages=unknown, tools=OWN)
        with pytest.raises(BadRequestError, match="decided elsewhere: send its result without"):
            await ask(model="test", messages=[*messages, user("go on")], tools=OWN)
        second = await ask(model="test", messages=messages, tools=OWN)
        (called,) = second.choices[0].message.tool_calls or ()
        assert json.loads(called.function.arguments) == {"item": "person"}  # type: ignore[union-attr]
        third = await ask(model="test", messages=[*messages, *answered(second, "bought")], tools=OWN)
        assert "bought" in str(third.choices[0].message.content)


async def no_call_waits(native: httpx.AsyncClient) -> None:
    """The turn went on: it waits for the client's result, or is over."""
    (session,) = (await native.get("/v1/sessions")).json()
    (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
    while True:
        now = await until(native, turn["run"], "waiting", "complete")
        pending = (await native.get("/v1/approvals")).json()
        if now["state"] == "complete" or any(each["kind"] == "question" for each in pending):
            return
        await asyncio.sleep(0.02)


async def test_a_client_gets_the_answer_of_a_turn_whose_call_was_rejected_elsewhere(tmp_path: Path) -> None:
    served = talking(tmp_path, NATIVE, model=BUYING, allow="[echo], ask: ['*']")
    async with served as (native, _, _model), client_of(native) as client:
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("go")], tools=OWN)
        messages: Any = [user("go"), *answered(first, "approve")]
        (pending,) = (await native.get("/v1/approvals")).json()
        await native.post(
            f"/v1/approvals/{pending['id']}", json={"decision": "reject", "reason": "not today"}
        )

        await no_call_waits(native)
        second = await ask(model="test", messages=messages, tools=OWN)
    assert "not today" in str(second.choices[0].message.content)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_request_that_decides_one_of_three_calls_is_asked_about_the_others_at_once(
    tmp_path: Path, streams: bool, elsewhere: bool
) -> None:
    """It waited without a word until somebody decided them."""
    three = calling(*(call("record", f"r{each}", text=each) for each in "abc"))
    async with (
        talking(tmp_path, NATIVE, model=script(three, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        messages: Any = [user("go")]

        async def asked_now() -> list[Any]:
            """What the next answer asks, which becomes a part of the conversation."""
            ask = client.chat.completions.create
            if streams:
                chunks = [
                    each async for each in await ask(model="test", messages=messages, tools=OWN, stream=True)
                ]
                asked = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or ()]
            else:
                asked = list(
                    (await ask(model="test", messages=messages, tools=OWN)).choices[0].message.tool_calls
                    or ()
                )
            called = [
                {"id": each.id, "type": "function", "function": each.function.model_dump()} for each in asked
            ]
            messages.append(
                {"role": "assistant", **({"tool_calls": called} if called else {"content": "Done."})}
            )
            return asked

        first = await asked_now()
        left = [each.id for each in first]
        assert len(left) == 3
        while left:
            decided = left.pop(0)
            if elsewhere:
                body = {"decision": "approve"}
                assert (
                    await native.post(f"/v1/approvals/{decided.removeprefix('zeus_')}", json=body)
                ).is_success
                if not left:
                    await no_call_waits(native)
            messages.append({"role": "tool", "tool_call_id": decided, "content": "approve"})
            assert [each.id for each in await asked_now()] == left
    assert sorted((tmp_path / "effects.txt").read_text()) == sorted("a\nb\nc\n")


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_another_word_about_a_decided_call_that_has_not_run_is_an_error_that_says_how_it_was_decided(
    tmp_path: Path, api: str, elsewhere: bool
) -> None:
    """It was dropped with a 200, and the call ran."""
    two = calling(call("record", "r1", text="a"), call("record", "r2", text="b"))
    async with (
        talking(tmp_path, NATIVE, model=script(two, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        (first, second), answer = await left_waiting(client, api, "go")
        name = first.split("_")[1]
        if elsewhere:
            body = {"decision": "approve"}
            assert (await native.post(f"/v1/approvals/{name}", json=body)).is_success
        else:
            await answer((first, "approve"))
        for rest in ([], [(second, "approve")]):
            with pytest.raises(BadRequestError, match=f"{name} was approved already, by the user, at 2"):
                await answer((first, "reject"), *rest)
        with pytest.raises(BadRequestError, match="two results for"):
            await answer((first, "approve"), (f"{first}_0123456789abcdef", "reject"), (second, "approve"))
        (left,) = (await native.get("/v1/approvals")).json()
        assert left["id"] == second.split("_")[1]
        assert not (tmp_path / "effects.txt").exists()
        # The same word does no harm: alone it leads to the question about the other call.
        assert second in (await answer((first, "approve"))).model_dump_json()
        assert "Done." in (await answer((first, "approve"), (second, "approve"))).model_dump_json()
    assert sorted((tmp_path / "effects.txt").read_text()) == sorted("a\nb\n")


async def test_another_word_about_a_call_that_ran_is_an_error_beside_a_decision_that_counts(
    tmp_path: Path,
) -> None:
    model = script(*(calling(call("record", f"r{each}", text=f"{each}")) for each in (1, 2)), "Done.")
    async with talking(tmp_path, NATIVE, model=model) as (native, _, _model), client_of(native) as client:
        (first,), answer = await left_waiting(client, "responses", "go")
        (second,) = [each.id for each in (await answer((first, "approve"))).output]
        with pytest.raises(BadRequestError, match="was approved already"):
            await answer((first, "reject"), (second, "approve"))
        assert (tmp_path / "effects.txt").read_text() == "1\n"
        assert (await answer((first, "approve"), (second, "approve"))).output_text == "Done."
    assert (tmp_path / "effects.txt").read_text() == "1\n2\n"


@asynccontextmanager
async def both_waiting(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Callable[..., Any], Any]]:
    """A service, its chat, and the answer that waits for an approval and for a result of the client's own tool."""
    both = calling(call("record", "r1", text="a"), call("buy", "c1", item="model"))
    async with (
        talking(folder, NATIVE, model=script(both, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        ask = client.chat.completions.create
        yield native, ask, await ask(model="test", messages=[user("go")], tools=OWN)


async def test_a_result_of_the_client_counts_only_with_the_decisions_beside_it(tmp_path: Path) -> None:
    """The result was taken, the decision beside it dropped, and the decided call ran."""
    async with both_waiting(tmp_path) as (native, ask, first):
        said, *results = answered(first, "reject")
        (name,) = [each["tool_call_id"] for each in results if each["tool_call_id"] != "c1"]
        body = {"decision": "approve"}
        assert (await native.post(f"/v1/approvals/{name.removeprefix('zeus_')}", json=body)).is_success
        with pytest.raises(BadRequestError, match="was approved already"):
            await ask(model="test", messages=[user("go"), said, *results], tools=OWN)
        assert not (tmp_path / "effects.txt").exists()
        done = await ask(model="test", messages=[user("go"), *answered(first, "approve")], tools=OWN)
    assert done.choices[0].message.content == "Done."


async def test_a_client_whose_result_was_given_elsewhere_is_asked_about_the_call_beside_it(
    tmp_path: Path,
) -> None:
    async with both_waiting(tmp_path) as (native, ask, first):
        said, *results = answered(first, "mine")
        (mine,) = [each for each in results if each["tool_call_id"] == "c1"]
        (question,) = [
            each["id"] for each in (await native.get("/v1/approvals")).json() if each["kind"] == "question"
        ]
        body = {"decision": "approve", "changed": {"result": "a person's"}}
        assert (await native.post(f"/v1/approvals/{question}", json=body)).is_success
        with pytest.raises(BadRequestError, match="decided elsewhere: send its result without"):
            await ask(model="test", messages=[user("go"), said, mine, user("go on")], tools=OWN)
        again = await ask(model="test", messages=[user("go"), said, mine], tools=OWN)
    (left,) = again.choices[0].message.tool_calls or ()
    assert left.id.startswith("zeus_")


async def test_a_chat_whose_last_call_was_just_decided_elsewhere_gets_what_comes_since(
    tmp_path: Path,
) -> None:
    """While the turn ran, the answer was that no call waits for these results."""
    ends = asyncio.Event()

    class Slow(PositionModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            if request.messages[-1].type == "tool":
                await ends.wait()
            async for each in super().stream(request):
                yield each

    one = calling(call("record", "r1", text="a"))
    model = Slow(lambda request: "Done." if request.messages[-1].type == "tool" else one)
    async with talking(tmp_path, NATIVE, model=model) as (native, _, _model), client_of(native) as client:
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("go")], tools=OWN)
        (pending,) = (await native.get("/v1/approvals")).json()
        body = {"decision": "approve"}
        assert (await native.post(f"/v1/approvals/{pending['id']}", json=body)).is_success
        messages: Any = [user("go"), *answered(first, "approve")]
        stream = await ask(model="test", messages=messages, tools=OWN, stream=True)
        ends.set()
        told = [each.choices[0].delta.content or "" async for each in stream]
    assert "".join(told) == "Done."


async def test_a_response_to_one_of_two_approvals_asks_about_the_other_and_can_be_read_again(
    tmp_path: Path,
) -> None:
    two = calling(call("record", "r1", text="a"), call("record", "r2", text="b"))
    async with (
        talking(tmp_path, NATIVE, model=script(two, "Done.")) as (native, _, _model),
        client_of(native) as client,
    ):
        (first, second), answer = await left_waiting(client, "responses", "go")
        rest = await answer((first, "approve"))
        assert [each.id for each in rest.output] == [second]
        assert [each.id for each in (await client.responses.retrieve(rest.id)).output] == [second]
        yes: Any = [{"approval_request_id": second, "approve": True, "type": "mcp_approval_response"}]
        done = await client.responses.create(model="test", input=yes, previous_response_id=rest.id)
    assert done.output_text == "Done."


async def test_a_client_that_owes_a_result_is_told_so_though_its_approval_was_decided_elsewhere(
    tmp_path: Path,
) -> None:
    async with both_waiting(tmp_path) as (native, ask, first):
        said, *results = answered(first, "approve")
        (mine,) = [each for each in results if each["tool_call_id"].startswith("zeus_")]
        name = mine["tool_call_id"].removeprefix("zeus_")
        assert (await native.post(f"/v1/approvals/{name}", json={"decision": "reject"})).is_success
        with pytest.raises(BadRequestError, match="the result of the call 'c1' is missing"):
            await ask(model="test", messages=[user("go"), said, mine], tools=OWN)


async def test_changed_arguments_of_a_wrong_type_are_refused_with_their_place(tmp_path: Path) -> None:
    """A rule saw them before they were fitted to the tool, and the answer was 503."""
    model = script(calling(call("run_command", "c1", command="echo x >> a.txt")), "Done.")
    served = talking(tmp_path, NATIVE, model=model, tools="[shell]", allow="[], mode: ask")
    async with served as (native, _, _), client_of(native) as client:
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("go")], tools=OWN)
        wrong = {"decision": "approve", "changed": {"command": 7}}
        messages: Any = [user("go"), *answered(first, json.dumps(wrong))]
        with pytest.raises(BadRequestError, match="command: must be string, not 7"):
            await ask(model="test", messages=messages, tools=OWN)
        (pending,) = (await native.get("/v1/approvals")).json()
        refused = await native.post(f"/v1/approvals/{pending['id']}", json=wrong)
        assert refused.status_code == 422
        assert "command: must be string, not 7" in refused.text
        assert len((await native.get("/v1/approvals")).json()) == 1


async def test_a_client_gets_the_answer_of_a_turn_whose_call_a_person_answered(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, native, _model):
        ask = client.chat.completions.create
        first = await ask(model="test", messages=[user("the weather?")], tools=CHAT_TOOLS)
        (pending,) = (await native.get("/v1/approvals")).json()
        body = {"decision": "approve", "changed": {"result": "snow"}}
        assert (await native.post(f"/v1/approvals/{pending['id']}", json=body)).status_code == 200
        (turn,) = (await native.get(f"/v1/sessions/{pending['session']}/runs")).json()
        await until(native, turn["run"], "complete")
        messages: Any = [user("the weather?"), *answered(first, "rain")]
        second = await ask(model="test", messages=messages, tools=CHAT_TOOLS)
    assert second.choices[0].message.content == "It said: snow"
