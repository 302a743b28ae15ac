"""The typed clients, over a real `zeus serve` that is killed in the middle of a stream."""

from __future__ import annotations

import asyncio
import threading
import traceback
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted_service import TOKEN, ScriptedService
from zeus_runtime.client import (
    AsyncServiceClient,
    ServiceApproval,
    ServiceBusyError,
    ServiceClient,
    ServiceError,
    ServiceEvent,
    ServiceNotFoundError,
    ServiceRequestError,
    ServiceUnauthorizedError,
    ServiceUnavailableError,
)
from zeus_runtime.client.errors import error_of
from zeus_runtime.client.results import InvalidAnswerError, event_of, result_of
from zeus_runtime.client.sse import EventLines
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.events import ApprovalRequested, RunCompleted, RunStarted, SubAgentEvent
from zeus_runtime.plugin import Redactor

pytestmark = pytest.mark.xdist_group("scripted_service")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedService]:
    options = "{openai: {ignore: [seed]}}"
    found = ScriptedService(tmp_path_factory.mktemp("service"), "--protocol", options, "--protocol", "mcp")
    found.start()
    yield found
    found.kill()


def numbers(events: list[ServiceEvent]) -> list[int]:
    return [each.number for each in events]


@pytest.mark.slow  # a service starts twice
async def test_a_stream_goes_on_over_a_killed_service_without_gap_or_doubling(
    service: ScriptedService,
) -> None:
    """The service is killed in the middle of an answer; the next one resumes the turn."""
    events: list[ServiceEvent] = []
    restarting: list[threading.Thread] = []

    def restart() -> None:
        service.kill()
        service.start()

    async with AsyncServiceClient(service.url, TOKEN) as client:
        async for event in client.run("count"):
            events.append(event)
            if len(events) == 6:
                restarting.append(threading.Thread(target=restart))
                restarting[0].start()
        restarting[0].join()
        session = (await client.sessions())[0].session
        stored = []
        async for event in client.events(session=session):
            stored.append(event)
            if event.ends:
                break
        turn = await client.turn(events[-1].run)
    assert numbers(events) == list(range(1, len(events) + 1))
    assert [each.data for each in events] == [each.data for each in stored]
    assert isinstance(events[-1].event, RunCompleted)
    assert turn.answer.split() == list(map(str, range(60)))
    assert "reset" in [each.data["type"] for each in events], "the pieces before the kill are void"


def test_a_session_without_asyncio(service: ScriptedService) -> None:
    with ServiceClient(service.url, TOKEN) as client:
        (agent,) = client.agents()
        begun = client.begin_session(title="A talk", key="same")
        again = client.begin_session(title="A talk", key="same")
        first = client.begin_turn(begun.session, "hello", key="k")
        second = client.begin_turn(begun.session, "hello", key="k")
        events = list(client.events(run=first.run))
        rest = list(client.events(run=first.run, after=events[-2].number))
        assert list(client.events(run=first.run, after=events[-1].number)) == []
        turn = client.turn(first.run)
        messages = client.messages(begun.session)
        client.delete_session(begun.session)
        with pytest.raises(ServiceNotFoundError):
            client.session(begun.session)
    assert agent.name == "test"
    assert (begun.session, begun.title) == (again.session, "A talk")
    assert first.run == second.run
    assert rest == events[-1:]
    ending = events[-1].event
    assert any(isinstance(each.event, RunStarted) for each in events)
    assert isinstance(ending, RunCompleted)
    assert ending.origin is not None
    assert ending.origin.run == first.run
    assert (turn.state, turn.answer, turn.is_over) == ("complete", "You said: hello", True)
    assert [each["role"] for each in messages] == ["user", "assistant"]


async def test_a_run_with_a_known_key_is_the_same_turn_in_the_same_session(service: ScriptedService) -> None:
    async with AsyncServiceClient(service.url, TOKEN) as client:
        first = [each async for each in client.run("hello", key="twice")]
        second = [each async for each in client.run("hello", key="twice")]
    with ServiceClient(service.url, TOKEN) as client_without_asyncio:
        third = list(client_without_asyncio.run("hello", key="twice"))
    assert [each.data for each in first] == [each.data for each in second] == [each.data for each in third]


def test_a_file_that_is_not_there_leaves_no_session(service: ScriptedService) -> None:
    with ServiceClient(service.url, TOKEN) as client:
        before = [each.session for each in client.sessions()]
        with pytest.raises(FileNotFoundError):
            next(client.run("look", attachments=[service.folder / "nowhere.txt"]))
        assert [each.session for each in client.sessions()] == before


async def test_a_call_is_decided_and_the_turn_goes_on(service: ScriptedService) -> None:
    async with AsyncServiceClient(service.url, TOKEN) as client:
        events = [each async for each in client.run("record it")]
        assert events[-1].waits
        (asked,) = [each.event for each in events if isinstance(each.event, ApprovalRequested)]
        shown = await client.approval(asked.id)
        assert shown.parameters == {"text": "draft"}
        with pytest.raises(ServiceRequestError):
            await client.decide(asked.id, "approve", changed={"nonsense": 1})
        with pytest.raises(ServiceBusyError) as busy:
            await client.begin_turn(asked.session, "more")
        with pytest.raises(ServiceRequestError, match="another change"):
            await client.decide(asked.id, "approve", seen="another")
        await client.decide(asked.id, "approve", changed={"text": "final"}, seen=shown.seen)
        rest = [each async for each in client.events(run=events[-1].run, after=events[-1].number)]
        with pytest.raises(ServiceRequestError, match="was approved already"):
            await client.decide(asked.id, "reject")
    assert (busy.value.status, busy.value.code, busy.value.exit_code) == (409, "busy", 2)
    assert isinstance(rest[-1].event, RunCompleted)
    assert (service.folder / "effects.txt").read_text().endswith("final\n")


async def test_a_turn_is_cancelled(service: ScriptedService) -> None:
    async with AsyncServiceClient(service.url, TOKEN) as client:
        async for each in client.run("hang"):
            if each.data["type"] == "text":
                await client.cancel(each.run)
        assert each.data["code"] == "cancelled"
        assert (await client.turn(each.run)).state in ("running", "cancelled")
        # One that waits ends without an event.
        waits = [each async for each in client.run("record it")][-1]
        assert (await client.cancel(waits.run)).state == "cancelled"
        assert [each async for each in client.events(run=waits.run, after=waits.number)] == []


async def test_wrong_tokens_and_addresses_are_told(service: ScriptedService) -> None:
    async with AsyncServiceClient(service.url, "wrong") as client:
        with pytest.raises(ServiceUnauthorizedError) as refused:
            await client.agents()
        with pytest.raises(ServiceUnauthorizedError):
            async for _ in client.events(session="session_0"):
                pass
    assert (refused.value.code, refused.value.exit_code) == ("unauthorized", 4)
    assert "Bearer" in str(refused.value)
    async with AsyncServiceClient("http://127.0.0.1:9", TOKEN, patience_seconds=0.1) as nowhere:
        with pytest.raises(ServiceUnavailableError, match="does not answer"):
            await nowhere.agents()
        with pytest.raises(ServiceUnavailableError, match="does not answer"):
            async for _ in nowhere.events(session="session_0"):
                pass
    with ServiceClient(f"{service.url}/health?", TOKEN) as other, pytest.raises(ServiceError):
        other.agents()
    with pytest.raises(ValueError, match="either run or session"):
        next(ServiceClient(service.url, TOKEN).events())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "http://",
        "ftp://a",
        "http://ann:secret@[::1",
        "http://a:b:c",
        "http://a:99999",
        "http://xn--",
    ],
)
def test_an_address_that_is_not_one_is_refused_without_being_shown(url: str) -> None:
    for kind in (ServiceClient, AsyncServiceClient):
        with pytest.raises(ServiceRequestError, match="not an address") as refused:
            kind(url, TOKEN)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "a b", "tok\u00e9n", "a\nb", "a\x7fb"])
def test_a_token_that_does_not_fit_into_a_header_is_refused_without_being_shown(token: str) -> None:
    for kind in (ServiceClient, AsyncServiceClient):
        with pytest.raises(ServiceUnauthorizedError) as refused:
            kind("http://localhost", token)
        assert not token or token not in str(refused.value)


def test_an_error_shows_the_address_without_its_secrets() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/agents"):
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=[] if request.url.path.endswith("/s") else "text" * 3)

    client = ServiceClient("http://ann:secret@service/zeus?token=secret", TOKEN, patience_seconds=0)
    client._http = httpx.Client(base_url=client._http.base_url, transport=httpx.MockTransport(answer))
    for ask in (client.agents, lambda: client.session("s"), client.approvals):
        with pytest.raises(ServiceError, match="http://service/zeus") as told:
            ask()
        assert "secret" not in str(told.value)


def test_an_address_that_is_a_secret_as_a_whole_is_not_told_in_part() -> None:
    url = "http://127.0.0.1:1/part-of-it"
    known = Redactor().adding({url: "ADDRESS"})
    mask_before_cutting(known)
    with pytest.raises(ServiceError, match="the service at <secret:ADDRESS>") as told:
        ServiceClient(url, TOKEN, patience_seconds=0).agents()
    assert "part-of-it" not in str(told.value)


def test_a_lost_connection_repeats_a_request_only_where_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []

    def send(self: Any, method: str, path: str, **_: Any) -> httpx.Response:
        sent.append(f"{method} {path}")
        if len(sent) % 2:
            raise httpx.ReadError("gone")
        return httpx.Response(200, json={"run": "r", "session": "s", "state": "queued"})

    monkeypatch.setattr(httpx.Client, "request", send)
    client = ServiceClient("http://localhost:1", TOKEN)
    assert client.begin_turn("s", "x").run == "r"
    assert sent == ["POST /v1/sessions/s/runs"] * 2
    with pytest.raises(ServiceUnavailableError):
        client.decide("a", "approve")
    assert len(sent) == 3


_TURN = {"run": "r", "session": "s", "state": "queued"}
_STOPPING = {"code": "stopping", "detail": "the service is stopping"}


def _answering(*answers: Any) -> tuple[ServiceClient, list[str]]:
    """A client whose requests get these answers in turn, and the paths that it asked."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        found = answers[len(asked) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    client = ServiceClient("http://service", TOKEN)
    client._http = httpx.Client(base_url="http://service", transport=httpx.MockTransport(answer))
    return client, asked


@pytest.mark.parametrize(
    "away",
    [
        httpx.ConnectError("refused"),
        httpx.Response(502, text="<html>Bad gateway</html>"),
        httpx.Response(503, json=_STOPPING),
        httpx.Response(504, text="late"),
    ],
)
def test_a_safe_request_waits_for_a_service_that_was_there(away: Any) -> None:
    there = httpx.Response(200, json=_TURN)
    client, asked = _answering(there, away, there, away)
    client.turn("r")
    assert client.turn("r").run == "r"
    with pytest.raises(ServiceUnavailableError):
        client.decide("a", "approve")
    assert asked == ["/v1/runs/r"] * 3 + ["/v1/approvals/a"]
    never, asked = _answering(away)
    with pytest.raises(ServiceUnavailableError):
        never.turn("r")
    assert len(asked) == 1, "an address that is wrong is told at once"


def test_a_service_that_lacks_something_is_not_asked_again() -> None:
    lacks = httpx.Response(503, json={"code": "missing", "detail": "no embedding model"})
    client, asked = _answering(httpx.Response(200, json=_TURN), lacks)
    client.turn("r")
    with pytest.raises(ServiceUnavailableError, match="no embedding model"):
        client.turn("r")
    assert len(asked) == 2


def test_a_stream_continues_after_a_proxy_that_does_not_reach_the_service() -> None:
    lines = 'id: 1\ndata: {"type": "complete", "run": "a/b"}\n\n'
    client, asked = _answering(
        httpx.Response(502, text="<html>"), httpx.Response(504), httpx.Response(200, text=lines)
    )
    assert [each.number for each in client.events(run="a/b")] == [1]
    assert asked == ["/v1/runs/a%2Fb/events"] * 3
    ended, asked = _answering(httpx.Response(204))
    assert list(ended.events(session="../x?")) == []
    assert asked == ["/v1/sessions/..%2Fx%3F/events"]


_ECHO = f"got Authorization: Bearer {TOKEN}, and {b64encode(b'ann:Pr0xy-Passw0rd-77').decode()} for a proxy"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        (500, f"<h1>Bad gateway</h1> {_ECHO}"),
        (502, f"<h1>Bad gateway</h1> {_ECHO}"),
        (401, {"code": "unauthorized", "detail": _ECHO, "remedy": _ECHO, "where": _ECHO}),
        (0, f"illegal header line: {_ECHO}"),
    ],
)
@pytest.mark.parametrize("asks", ["turn", "events"])
async def test_an_error_that_quotes_an_answer_shows_no_secret_of_the_client(
    answer: tuple[int, Any], is_async: bool, asks: str
) -> None:
    """A proxy's page shows what it was sent."""
    address, limits = "http://ann:Pr0xy-Passw0rd-77@service", {"patience_seconds": 0.0}
    status, told = answer

    def answered(_: httpx.Request) -> httpx.Response:
        if not status:
            raise httpx.RemoteProtocolError(told)
        return httpx.Response(status, **{"text" if isinstance(told, str) else "json": told})

    async def asked() -> object:
        transport = httpx.MockTransport(answered)
        if is_async:
            caller = AsyncServiceClient(address, TOKEN, **limits)
            caller._http = httpx.AsyncClient(base_url=address, transport=transport)
            return await (caller.turn("r") if asks == "turn" else anext(caller.events(run="r")))
        client = ServiceClient(address, TOKEN, **limits)
        client._http = httpx.Client(base_url=address, transport=transport)
        return client.turn("r") if asks == "turn" else next(client.events(run="r"))

    with pytest.raises(ServiceError) as refused:
        await asked()
    shown = "".join(traceback.format_exception(refused.value))
    assert TOKEN not in shown
    assert b64encode(b"ann:Pr0xy-Passw0rd-77").decode() not in shown
    assert "<secret:ZEUS_TOKEN>" in str(refused.value)


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (404, b'{"code": "not_found", "detail": "no", "remedy": "look"}', "not_found", "no\n  look"),
        (502, b"<html>Bad gateway</html>", "error", "the service answered 502: <html>"),
        (401, b"\xff", "error", "the service answered 401"),
        (500, b"[1]", "error", "[1]"),
        (500, b"[" * 100_000, "error", "the service answered 500: … ("),
    ],
)
def test_errors_keep_the_services_words(status: int, body: bytes, code: str, words: str) -> None:
    error = error_of(status, body)
    assert (error.status, error.code) == (status, code)
    assert words in str(error)


_APPROVAL: dict[str, Any] = {"id": "a", "session": "s", "tool_name": "t", "parameters": {}}


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ({"parameters": ["x"]}, "parameters"),
        ({"changes": ["p"]}, "changes.0"),
        ({"changes": [{"path": "p", "before": None}]}, "changes.0.after"),
        ({"expires_ms": 10**30}, "expires_ms"),
        ({"expires_ms": -(10**15)}, "expires_ms"),
        ({"expires_ms": "12"}, "expires_ms"),
        ({"may_change": "yes"}, "may_change"),
        ({"on_timeout": "perhaps"}, "on_timeout"),
        ({"id": None}, "id"),
        (["x"], "Input should be a valid dictionary"),
    ],
)
def test_an_answer_of_another_shape_is_an_error_that_says_where(told: Any, place: str) -> None:
    with pytest.raises(InvalidAnswerError) as raised:
        result_of(ServiceApproval, {**_APPROVAL, **told} if isinstance(told, dict) else told)
    assert str(raised.value).startswith(place)


def test_an_answer_that_lacks_a_value_names_it() -> None:
    for name in _APPROVAL:
        lacking = {key: value for key, value in _APPROVAL.items() if key != name}
        with pytest.raises(InvalidAnswerError, match=f"^{name}: it is missing$"):
            result_of(ServiceApproval, lacking)
    assert result_of(ServiceApproval, _APPROVAL).data == _APPROVAL


@pytest.mark.parametrize(
    "told",
    [
        {
            "type": "tool_call",
            "call_id": "c",
            "tool_name": "t",
            "parameters": ["x"],
            "requires_approval": False,
        },
        {"type": "text", "text": 5},
        {"type": "text", "text": "x", "time_ms": "now"},
        {
            "type": "subagent",
            "session": "s",
            "agent": "a",
            "call_id": "c",
            "event": {"type": "text", "text": 5},
        },
        {"type": ["text"]},
        ["text"],
    ],
)
def test_an_event_of_another_shape_is_an_error(told: Any) -> None:
    with pytest.raises(InvalidAnswerError):
        event_of(1, told)
    lines = EventLines()
    lines.take("id: 1")
    lines.take("data: {")
    with pytest.raises(InvalidAnswerError, match="not JSON"):
        lines.take("")


def test_an_event_of_a_newer_service_is_kept_as_it_is() -> None:
    new = event_of(3, {"type": "from_the_future", "run": "r", "session": "s"})
    assert (new.event, new.number, new.ends) == (None, 3, False)
    more = event_of(4, {"type": "complete", "run": "r", "session": "s", "answer": "x", "steps": 1, "new": 1})
    assert isinstance(more.event, RunCompleted)
    less = event_of(5, {"type": "complete", "run": "r"})
    assert less.event is None
    assert less.ends
    inner = {"type": "complete", "session": "c", "answer": "", "steps": 1}
    below = event_of(
        6, {"type": "subagent", "run": "r", "session": "c", "agent": "a", "call_id": "x", "event": inner}
    )
    assert isinstance(below.event, SubAgentEvent)
    assert not below.ends


@given(st.integers(1, 12), st.lists(st.integers(0, 60), max_size=5))
def test_every_event_comes_once_and_in_order_wherever_connections_break(
    count: int, breaks: list[int]
) -> None:
    lines = [
        line
        for number in range(1, count + 1)
        for line in (f"id: {number}", f'data: {{"type": "text", "text": "{number}"}}', "", ": ping", "")
    ]
    reader, found = EventLines(), []
    for stop in [*sorted(breaks), len(lines)]:
        reader.begin()
        # The service continues after the last event; one that repeats some is no harm.
        start = max(0, (reader.last - 1) * 5)
        taken = map(reader.take, lines[start:stop])
        found += [event.number for event in taken if event is not None]
    assert found == list(range(1, count + 1))


def test_a_client_may_be_used_in_several_tasks(service: ScriptedService) -> None:
    async def work() -> list[str]:
        async with AsyncServiceClient(service.url, TOKEN) as client:

            async def one(name: str) -> str:
                *_, last = [each async for each in client.run(name)]
                return str(last.data["answer"])

            return await asyncio.gather(*(one(f"say {number}") for number in range(5)))

    assert asyncio.run(work()) == [f"You said: say {number}" for number in range(5)]


def test_the_protocols_of_the_command_line_answer(service: ScriptedService) -> None:
    head = {"Authorization": f"Bearer {TOKEN}"}
    body = {"model": "test", "messages": [{"role": "user", "content": "hi"}], "seed": 1}
    told = httpx.post(f"{service.url}/v1/chat/completions", json=body, headers=head, timeout=30).json()
    assert told["choices"][0]["message"]["content"].strip() == "You said: hi"
    assert httpx.post(f"{service.url}/mcp", json={}).status_code == 401


def test_the_folder_of_the_service_has_the_log(service: ScriptedService) -> None:
    log = Path(service.folder / "serve.log").read_text()
    assert TOKEN not in log, "a token that was given is not printed"


async def test_a_service_that_ends_each_stream_at_once_is_not_asked_for_ever() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, text="")

    asked: list[str] = []
    transport = httpx.MockTransport(answer)
    async with AsyncServiceClient("http://service", TOKEN, patience_seconds=0.3) as client:
        client._http = httpx.AsyncClient(base_url="http://service", transport=transport)
        with pytest.raises(ServiceUnavailableError, match="ends the stream at once"):
            _ = [event async for event in client.events(run="r1")]
    assert len(asked) > 1
    with ServiceClient("http://service", TOKEN, patience_seconds=0.3) as other:
        other._http = httpx.Client(base_url="http://service", transport=transport)
        with pytest.raises(ServiceUnavailableError, match="ends the stream at once"):
            list(other.events(run="r1"))
