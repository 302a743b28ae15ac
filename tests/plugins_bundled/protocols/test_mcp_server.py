"""The protocol `mcp`, asked by the SDK's client, with and without a session of the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
)
from pydantic import TypeAdapter
from sse_starlette.sse import AppStatus

from tests.serving.test_http_keys import made, ready_database
from tests.serving.test_two_services import two_databases
from tests.support.agents import call, calling, script
from tests.support.serving import TOKEN, until
from tests.support.serving import serving as serving_service
from tests.support.talking import Talking, talking
from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import RunError
from zeus_runtime.plugin.protocol import ProtocolCaller, ProtocolService, ServedProtocol, UsageError
from zeus_runtime.registry import discover
from zeus_runtime.serving.http.principals import Principal
from zeus_runtime.serving.http.protocols import protocols_of
from zeus_runtime.serving.http.service import Service
from zeus_runtime.store.service_audit import entries
from zeus_runtime.store.threads import Owner
from zeus_runtime.testing import ProtocolConformance

MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


class TestProtocol(ProtocolConformance):
    def protocol(self, service: ProtocolService) -> ServedProtocol:
        from zeus_plugins.protocols.mcp.options import Options
        from zeus_plugins.protocols.mcp.protocol import create

        return create(Options(), service)


@asynccontextmanager
async def connected(
    native: httpx.AsyncClient, mode: Any = "auto", token: str = TOKEN, **more: Any
) -> AsyncIterator[Client]:
    head = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=head, timeout=30) as http:
        transport = streamable_http_client(f"{str(native.base_url).rstrip('/')}/mcp", http_client=http)
        async with Client(transport, mode=mode, **more) as client:
            yield client


@asynccontextmanager
async def serving(folder: Path, url: str | None = None) -> AsyncIterator[tuple[httpx.AsyncClient, Talking]]:
    async with talking(folder, Ref("mcp"), url=url) as (native, _, model):
        yield native, model


def facts(answer: Any) -> Any:
    return answer.structured_content


@MODES
async def test_a_client_calls_the_agent_and_goes_on_with_its_session(
    tmp_path: Path, database_url: str, mode: str
) -> None:
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async def approve(context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert "draft" in params.message
        return ElicitResult(action="accept", content={"approve": True})

    async with (
        serving(tmp_path, database_url) as (native, _model),
        connected(native, mode, elicitation_callback=approve) as client,
    ):
        (tool,) = (await client.list_tools()).tools
        first = await client.call_tool("test", {"prompt": "hello"})
        session = facts(first)["session"]
        second = await client.call_tool(
            "test", {"prompt": "record it", "session": session}, progress_callback=progress
        )
        listed = await client.read_resource("zeus://sessions")
        shown = await client.read_resource(f"zeus://sessions/{session}")
        states = [each["state"] for each in (await native.get(f"/v1/sessions/{session}/runs")).json()]
    assert tool.name == "test"
    assert facts(first)["answer"] == "Answer 1 to: hello"
    assert facts(second)["answer"] == "It said: recorded: draft"
    assert told == ["record", "record"], "before and after the decision"
    assert [each["session"] for each in json.loads(listed.contents[0].text)] == [session]  # type: ignore[union-attr]
    assert [each["role"] for each in json.loads(shown.contents[0].text)][:2] == ["user", "assistant"]  # type: ignore[union-attr]
    assert states == ["complete", "complete"]
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


@MODES
async def test_the_audit_log_has_what_a_user_decides_in_an_elicitation(tmp_path: Path, mode: str) -> None:
    database = await ready_database(tmp_path)
    key = await made(database)

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"approve": True})

    async with (
        talking(tmp_path, Ref("mcp"), database=database) as (native, _, _model),
        connected(native, mode, key, elicitation_callback=elicit) as client,
    ):
        session = facts(await client.call_tool("test", {"prompt": "record it"}))["session"]
        rows = [each for each in await entries(database) if each.decision]
    told = [(each.decision, each.session, each.agent, each.user_id, each.caller) for each in rows]
    assert told == [("approve", session, "test", "ann", f"key:{key.split('_')[1]}")]


@MODES
async def test_a_user_who_declines_rejects_and_one_who_dismisses_leaves_the_call_waiting(
    tmp_path: Path, mode: str
) -> None:
    actions = iter(["decline", "cancel"])

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action=next(actions))  # type: ignore[arg-type]

    async with (
        serving(tmp_path) as (native, _model),
        connected(native, mode, elicitation_callback=elicit) as client,
    ):
        declined = await client.call_tool("test", {"prompt": "record it"})
        dismissed = await client.call_tool("test", {"prompt": "record it"})
        (pending,) = (await native.get("/v1/approvals")).json()
        after = await client.call_tool(
            "test", {"prompt": "never mind", "session": facts(dismissed)["session"]}
        )
        assert (await native.get("/v1/approvals")).json() == []
    assert "rejected" in facts(declined)["answer"]
    assert dismissed.is_error
    assert facts(dismissed)["error"] == "approval_needed"
    assert facts(dismissed)["approvals"][0]["id"] == pending["id"]
    assert "never mind" in facts(after)["answer"]
    assert not (tmp_path / "effects.txt").exists()


@MODES
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_call_that_is_decided_elsewhere_goes_on_and_its_user_hears_of_an_answer_that_does_not_count(
    tmp_path: Path, mode: str, action: Any
) -> None:
    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        (pending,) = (await native.get("/v1/approvals")).json()
        decided = await native.post(f"/v1/approvals/{pending['id']}", json={"decision": "approve"})
        assert decided.is_success
        return ElicitResult(action=action)

    async with (
        serving(tmp_path) as (native, _model),
        connected(native, mode, elicitation_callback=elicit) as client,
    ):
        answer = await client.call_tool("test", {"prompt": "record it"})
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        await until(native, turn["run"], "complete")
    assert answer.is_error == (action == "decline")
    if answer.is_error:
        told = answer.content[0].text  # type: ignore[union-attr]
        assert "was approved already, by the user, at 2" in told
        assert f"session: {session['session']}" in told
    else:
        assert facts(answer)["answer"] == "It said: recorded: draft"
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


RAW: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="decline")


async def never(context: Any, params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError("these requests are sent without the SDK's answers")


async def sent(
    client: Client, before: InputRequiredResult | None = None, **answers: ElicitResult
) -> CallToolResult | InputRequiredResult:
    """One request without a session: of a prompt, or with answers to what a result asked."""
    params = CallToolRequestParams(
        name="test",
        arguments={} if before else {"prompt": "go"},
        request_state=before.request_state if before else None,
        input_responses=answers or None,
    )
    return await client.session.send_request(CallToolRequest(params=params), RAW)


@asynccontextmanager
async def two_asked(
    folder: Path,
) -> AsyncIterator[tuple[Any, httpx.AsyncClient, InputRequiredResult, str, str]]:
    """A way to send requests, after one whose two calls, of `record` and of `write_file`, wait; and their ids."""
    (folder / "a.txt").write_text("old\n")
    calls = call("record", "r1", text="draft"), call("write_file", "w1", path="a.txt", content="new\n")
    model = script(calling(*calls), "End.")
    async with (
        talking(folder, Ref("mcp"), model=model, tools="[probe, filesystem]") as (native, _, _model),
        connected(native, "2026-07-28", elicitation_callback=never) as client,
    ):
        first = await sent(client)
        assert isinstance(first, InputRequiredResult)
        ids = {each["tool_name"]: each["id"] for each in (await native.get("/v1/approvals")).json()}
        yield partial(sent, client), native, first, ids["record"], ids["write_file"]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_request_with_an_answer_that_is_refused_decides_nothing(
    tmp_path: Path, is_first: bool
) -> None:
    """The first call was approved although the request was refused, and ran after both were rejected."""
    async with two_asked(tmp_path) as (send, native, first, record, write):
        (tmp_path / "a.txt").write_text("other\n")
        await native.get(f"/v1/approvals/{write}")  # somebody else sees another change
        names = (record, write) if is_first else (write, record)
        refused = await send(first, **dict.fromkeys(names, YES))
        assert refused.is_error
        assert "another change now than the one that you saw" in refused.content[0].text
        assert len((await native.get("/v1/approvals")).json()) == 2
        rejected = await send(first, **dict.fromkeys(names, NO))
    assert not rejected.is_error
    assert not (tmp_path / "effects.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "other\n"


async def test_an_answer_after_another_decision_is_an_error_that_says_which_and_decides_nothing(
    tmp_path: Path,
) -> None:
    async with two_asked(tmp_path) as (send, native, first, record, write):
        assert (await native.post(f"/v1/approvals/{record}", json={"decision": "reject"})).is_success
        late = await send(first, **{record: YES, write: YES})
        assert late.is_error
        assert f"{record} was rejected already, by the user, at 2" in late.content[0].text
        assert [each["id"] for each in (await native.get("/v1/approvals")).json()] == [write]
        # One that says the same does no harm, nor does the same request once more.
        for _ in range(2):
            done = await send(first, **{record: NO, write: YES})
            assert done.content[0].text == "End."
    assert not (tmp_path / "effects.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
async def test_another_answer_about_a_decided_call_that_has_not_run_is_an_error_whichever_state_it_has(
    tmp_path: Path, is_new: bool, is_alone: bool
) -> None:
    """With the state of the answer that asked about the other call alone it was dropped, and the call ran."""
    async with two_asked(tmp_path) as (send, native, first, record, write):
        rest = await send(first, **{record: YES})
        assert list(rest.input_requests) == [write]
        state = rest if is_new else first
        more = {} if is_alone else {write: YES}
        late = await send(state, **{record: NO, **more})
        assert late.is_error
        assert f"{record} was approved already, by the user, at 2" in late.content[0].text
        assert [each["id"] for each in (await native.get("/v1/approvals")).json()] == [write]
        assert not (tmp_path / "effects.txt").exists()
        # The same answer does no harm.
        again = await send(state, **{record: YES})
        assert list(again.input_requests) == [write]
        done = await send(state, **{record: YES, write: YES})
        assert done.content[0].text == "End."
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


async def test_an_answer_for_an_id_that_was_not_asked_about_is_an_error_that_names_it(tmp_path: Path) -> None:
    """It was dropped without a word, beside an answer that counted."""
    async with two_asked(tmp_path) as (send, native, first, record, write):
        for answers in ({record: YES}, {record: YES, write: YES}, {}):
            wrong = await send(first, **answers, other=YES)
            assert wrong.is_error
            assert "no call with the id 'other'" in wrong.content[0].text
        assert len((await native.get("/v1/approvals")).json()) == 2
    assert not (tmp_path / "effects.txt").exists()


async def test_an_error_names_the_calls_that_wait_now(tmp_path: Path) -> None:
    dismissed = ElicitResult(action="cancel")
    async with two_asked(tmp_path) as (send, _native, first, record, write):
        left = await send(first, **{record: NO, write: dismissed})
        assert left.is_error
        assert record not in left.content[0].text
        assert f"write_file ({write})" in left.content[0].text
        assert [each["id"] for each in facts(left)["approvals"]] == [write]


async def test_an_old_state_with_an_answer_to_a_later_question_decides_nothing_and_names_it(
    tmp_path: Path,
) -> None:
    model = script(*(calling(call("record", f"r{each}", text=f"{each}")) for each in (1, 2)), "End.")
    async with (
        talking(tmp_path, Ref("mcp"), model=model) as (native, _, _model),
        connected(native, "2026-07-28", elicitation_callback=never) as client,
    ):
        first = await sent(client)
        assert isinstance(first, InputRequiredResult)
        (former,) = first.input_requests or ()
        second = await sent(client, first, **{former: YES})
        assert isinstance(second, InputRequiredResult)
        (waits,) = second.input_requests or ()
        wrong = await sent(client, first, **{waits: YES})
        assert isinstance(wrong, CallToolResult)
        assert wrong.is_error
        assert repr(waits) in wrong.content[0].text  # type: ignore[union-attr]
        assert former not in wrong.content[0].text  # type: ignore[union-attr]
        assert [each["id"] for each in (await native.get("/v1/approvals")).json()] == [waits]
    assert (tmp_path / "effects.txt").read_text() == "1\n"


async def test_a_decision_that_is_refused_is_told_while_its_call_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decide(self: ProtocolCaller, *_: Any, **__: Any) -> None:
        raise UsageError("that decision is not possible")

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    monkeypatch.setattr(ProtocolCaller, "decide", decide)
    async with (
        serving(tmp_path) as (native, _model),
        connected(native, "legacy", elicitation_callback=elicit) as client,
    ):
        answer = await client.call_tool("test", {"prompt": "record it"})
    assert answer.is_error
    assert "that decision is not possible" in answer.content[0].text  # type: ignore[union-attr]


async def test_a_prompt_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (native, _model), connected(native) as client:
        assert (await client.call_tool("test", {"prompt": " "})).is_error
        assert (await native.get("/v1/sessions")).json() == []
        session = facts(await client.call_tool("test", {"prompt": "record it"}))["session"]
        waiting = (await native.get("/v1/approvals")).json()
        assert (await client.call_tool("test", {"prompt": " ", "session": session})).is_error
        assert (await native.get("/v1/approvals")).json() == waiting != []
        (turn,) = (await native.get(f"/v1/sessions/{session}/runs")).json()
    assert turn["state"] == "waiting"


@MODES
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_clients_user_sees_the_diff_and_approves_no_other(
    tmp_path: Path, mode: str, elsewhere: bool
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\n")
    model = script(calling(call("write_file", "w1", path="notes.txt", content="new\n")), "done")
    asked: list[str] = []

    async def approve(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        if elsewhere:  # the file changes, and somebody else looks at the change that the call would make now
            notes.write_text("one\nprecious\n")
            (pending,) = (await native.get("/v1/approvals")).json()
            assert "- precious" in (await native.get(f"/v1/approvals/{pending['id']}")).text
        return ElicitResult(action="accept", content={"approve": True})

    async with (
        talking(tmp_path, Ref("mcp"), model=model, tools="[probe, filesystem]") as (native, _, _model),
        connected(native, mode, elicitation_callback=approve) as client,
    ):
        answer = await client.call_tool("test", {"prompt": "write"})
        waits = (await native.get("/v1/approvals")).json()
    (question,) = asked
    assert "  /notes.txt: 2 removed, 1 added\n    - one\n    - two\n    + new" in question
    assert answer.is_error == elsewhere == bool(waits)
    assert notes.read_text() == ("one\nprecious\n" if elsewhere else "new\n")
    if elsewhere:
        assert "another change now than the one that you saw" in answer.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "state",
    [
        "",
        "run.3",
        "[",
        "[" * 9_000,
        '["r", -1, {}]',
        '["r", 1, {"a": 2}]',
        '["r", 1, {"a": ["", 1]}]',
        "[3, 1, {}]",
        '["r", "1", {}]',
    ],
)
async def test_a_state_that_the_server_did_not_give_is_refused(tmp_path: Path, state: str) -> None:
    async with serving(tmp_path) as (native, _), connected(native, "2026-07-28") as client:
        answer = await client.session.send_request(
            CallToolRequest(params=CallToolRequestParams(name="test", arguments={}, request_state=state)),
            CallToolResult,
        )
    assert "not one that this server gave" in answer.content[0].text  # type: ignore[union-attr]


@MODES
async def test_a_client_without_elicitation_is_told_what_waits(tmp_path: Path, mode: str) -> None:
    async with serving(tmp_path) as (native, _model), connected(native, mode) as client:
        answer = await client.call_tool("test", {"prompt": "record it"})
        (pending,) = (await native.get("/v1/approvals")).json()
    assert answer.is_error
    assert facts(answer)["approvals"][0]["id"] == pending["id"]
    assert pending["id"] in answer.content[0].text  # type: ignore[union-attr]


@MODES
async def test_a_client_that_shows_the_texts_of_a_run_shows_no_unseen_character(
    tmp_path: Path, mode: str
) -> None:
    hiding, seen = "a\u202eb\u200bc\x1bd", "a\\u202eb\\u200bc\\x1bd"
    async with serving(tmp_path) as (native, _model), connected(native, mode) as client:
        answered = await client.call_tool("test", {"prompt": hiding})
        session = facts(answered)["session"]
        unknown = await client.call_tool("test", {"prompt": "x", "session": hiding})
        more = await client.call_tool("test", {"prompt": "x", hiding: 1})
        shown = (await client.read_resource(f"zeus://sessions/{session}")).contents[0]
        with pytest.raises(MCPError) as caught:
            await client.call_tool(hiding, {"prompt": "x"})
    assert answered.content[0].text == f"Answer 1 to: {seen}"  # type: ignore[union-attr]
    assert facts(answered)["answer"] == f"Answer 1 to: {hiding}"
    for each in (answered, unknown, more):
        assert not set(each.content[0].text) & set("\u202e\u200b\x1b")  # type: ignore[union-attr]
    assert not set(shown.text) & set("\u202e\u200b\x1b")  # type: ignore[union-attr]
    assert hiding in json.loads(shown.text)[0].values()  # type: ignore[union-attr]
    assert caught.value.message == f"Unknown tool: {seen}"


@MODES
async def test_an_error_of_any_kind_shows_no_secret_and_no_unseen_character(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
    (tmp_path / ".env").write_text(f"API_KEY={secret}\n")

    async def fails(*_: Any) -> None:
        raise RuntimeError(f"\u202e {secret}")

    monkeypatch.setattr(ProtocolCaller, "messages", fails)
    async with serving(tmp_path) as (native, _model), connected(native, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("zeus://sessions/session_0")
        with pytest.raises(MCPError) as prompted:
            await client.get_prompt(f"\u202e {secret}")
    assert caught.value.message == "\\u202e <secret:API_KEY>"
    assert secret not in f"{prompted.value.message} {prompted.value.data}"
    assert "RuntimeError" in caplog.text
    assert secret not in caplog.text


async def test_an_error_before_any_method_shows_no_secret_and_no_unseen_character(tmp_path: Path) -> None:
    secret = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
    (tmp_path / ".env").write_text(f"API_KEY={secret}\n")
    kinds = {"Accept": "application/json, text/event-stream"}
    wrong: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": [f"\u202e {secret}"]}
    async with serving(tmp_path) as (native, _model):
        invalid = await native.post("/mcp", json=wrong, headers=kinds)
        version = await native.post(
            "/mcp", json={"jsonrpc": "2.0", "method": "x"}, headers={**kinds, "MCP-Protocol-Version": secret}
        )
    said, requested = invalid.json()["error"]["message"], version.json()["error"]["data"]["requested"]
    assert "Validation error" in said
    assert r"\u202e <secret:API_KEY>" in said
    assert requested == "<secret:API_KEY>"
    assert secret not in f"{invalid.text} {version.text}"


@MODES
async def test_a_cancelled_call_cancels_the_turn(tmp_path: Path, database_url: str, mode: str) -> None:
    async with serving(tmp_path, database_url) as (native, model), connected(native, mode) as client:
        calling = asyncio.create_task(client.call_tool("test", {"prompt": "hang"}))
        await asyncio.wait_for(model.began.wait(), 10)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await asyncio.wait_for(model.ended.wait(), 5)
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        await until(native, turn["run"], "cancelled")


async def test_a_service_that_stops_cancels_no_turn(tmp_path: Path) -> None:
    async def call(native: httpx.AsyncClient) -> None:
        async with connected(native, "legacy") as client:
            await client.call_tool("test", {"prompt": "hang"})

    async with serving(tmp_path) as (native, model):
        calling = asyncio.create_task(call(native))
        await asyncio.wait_for(model.began.wait(), 10)
    await asyncio.gather(calling, return_exceptions=True)
    async with serving(tmp_path) as (native, model):
        (session,) = (await native.get("/v1/sessions")).json()
        (turn,) = (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        assert turn["state"] == "running"
        await asyncio.wait_for(model.began.wait(), 10)


async def test_a_call_that_waits_is_told_that_the_service_stops_though_its_stream_has_heard_so_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's streams look for SIGTERM twice a second, and end with it unless they are told otherwise."""
    monkeypatch.setattr(AppStatus, "original_handler", None)
    monkeypatch.setattr(AppStatus, "should_exit", False)

    async def call(native: httpx.AsyncClient) -> CallToolResult:
        answer: Any = None
        with suppress(ExceptionGroup):  # the goodbye to a service that is gone by now
            async with connected(native, "legacy") as client:
                answer = await client.call_tool("test", {"prompt": "hang"})
        return answer

    async with serving(tmp_path) as (native, model):
        calling = asyncio.create_task(call(native))
        await asyncio.wait_for(model.began.wait(), 10)
        AppStatus.handle_exit()
        await asyncio.sleep(0.6)
    answer = await calling
    assert answer.is_error
    assert "the service stops" in answer.content[0].text  # type: ignore[union-attr]


async def test_wrong_calls_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (native, model), connected(native) as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("other", {"prompt": "x"})
        for arguments in ({}, {"prompt": 3}, {"prompt": " "}, {"prompt": "x", "more": 1}):
            assert (await client.call_tool("test", arguments)).is_error
        absent = await client.call_tool("test", {"prompt": "x", "session": "session_0"})
        assert absent.is_error
        for uri in ("zeus://other", "zeus://sessions/session_0"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
    assert not model.requests


async def test_the_sessions_of_other_agents_are_listed_although_one_agents_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = two_databases(tmp_path)
    one, other = (each.of(None) for each in service.hosting)
    async with (
        serving_service(
            service, protocols=protocols_of(discover(environ={}), [Ref("mcp")], service)
        ) as native,
        connected(native) as client,
    ):
        session = (await native.post("/v1/sessions", json={"agent": "other"})).json()["session"]
        with monkeypatch.context() as patched:
            patched.setattr(one, "sessions", unread)
            listed, told = (await client.read_resource("zeus://sessions")).contents
            assert [each["session"] for each in json.loads(listed.text)] == [session]  # type: ignore[union-attr]
            assert told.text == "The sessions of these agents could not be read: one."  # type: ignore[union-attr]
            patched.setattr(other, "sessions", unread)
            with pytest.raises(MCPError, match="is away"):
                await client.read_resource("zeus://sessions")


async def unread(**_: Any) -> Any:
    raise RunError("the database is away")


async def test_nobody_reaches_anothers_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def caller(self: Service, token: str | None) -> Principal:
        return Principal(str(token), Owner(str(token)), frozenset({"run", "read", "approve"}))

    monkeypatch.setattr(Service, "caller", caller)
    async with (
        serving(tmp_path) as (native, _model),
        connected(native, token="ann") as ann,
        connected(native, token="bob") as bob,
    ):
        mine = facts(await ann.call_tool("test", {"prompt": "hello"}))["session"]
        assert (await bob.call_tool("test", {"prompt": "x", "session": mine})).is_error
        with pytest.raises(MCPError):
            await bob.read_resource(f"zeus://sessions/{mine}")
        assert json.loads((await bob.read_resource("zeus://sessions")).contents[0].text) == []  # type: ignore[union-attr]


async def test_errors_before_a_route_are_errors_of_json_rpc(tmp_path: Path) -> None:
    async with serving(tmp_path) as (native, _):
        answers = {
            "not_found": await native.post("/mcp/nowhere", json={}),
            "http": await native.put("/mcp", json={}),
            "too_large": await native.post("/mcp", content=b"x" * 4_000_001),
            "unauthorized": await native.post("/mcp", json={}, headers={"Authorization": "Bearer wrong"}),
            "wrong_host": await native.post("/mcp", json={}, headers={"Host": "elsewhere.example"}),
        }
    statuses = {name: each.status_code for name, each in answers.items()}
    assert statuses == {
        "not_found": 404,
        "http": 405,
        "too_large": 413,
        "unauthorized": 401,
        "wrong_host": 421,
    }
    for name, answer in answers.items():
        told = answer.json()
        assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", None, -32600), name
        assert told["error"]["data"] == {"code": name}
        assert told["error"]["message"]
    assert answers["unauthorized"].headers["www-authenticate"] == "Bearer"


async def test_a_title_shows_no_part_of_a_secret_that_the_prompt_has_further_on(tmp_path: Path) -> None:
    masked, cut = "long-A1-" + "x9y8" * 38, "other-B2-" + "k7j6" * 8
    (tmp_path / ".env").write_text(f"LONG_TOKEN={masked}\nOTHER_TOKEN={cut}\n")
    async with serving(tmp_path) as (native, _), connected(native) as client:
        await client.call_tool("test", {"prompt": f"Use {masked} and {cut}."})
        (session,) = (await native.get("/v1/sessions")).json()
    assert session["title"] == "Use <secret:LONG_TOKEN> and <secret:OTHER_TOKEN>."
