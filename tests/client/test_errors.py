"""Errors of the client: of an answer that is not the service's, and of arguments that cannot be sent."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.client import AsyncServiceClient, ServiceClient, ServiceRequestError, calls
from zeus_runtime.client.errors import error_of

TOKEN = "zk_q7Zk3Jq9LmT2vXw8RbN5cYd7HfPs4Ga6Ue"


@pytest.mark.parametrize("shown", [1, 4, 20, len(TOKEN) - 1, len(TOKEN)])
def test_no_part_of_a_key_remains_where_an_echo_of_it_is_cut(shown: int) -> None:
    """The terminal masks a whole key only, and the cut left most of it."""
    body = f"{'p' * (199 - shown)} {TOKEN}\nand more".encode()
    told = str(error_of(401, body))
    assert TOKEN in told or TOKEN[:3] not in told
    assert "401" in told


class _Sent:
    """A service that counts what is sent to it, in place of the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[httpx.Request] = []
        for name in ("Client", "AsyncClient"):
            monkeypatch.setattr(
                httpx, name, partial(getattr(httpx, name), transport=httpx.MockTransport(self))
            )

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, json={"session": "s", "decision": "approve"})


def unsent(call: Callable[[ServiceClient], Any], monkeypatch: pytest.MonkeyPatch) -> ServiceRequestError:
    service = _Sent(monkeypatch)
    with ServiceClient("http://service", TOKEN) as client, pytest.raises(ServiceRequestError) as refused:
        call(client)
    assert not service.requests
    assert refused.value.remedy
    return refused.value


@pytest.mark.parametrize(
    ("changed", "place", "why"),
    [
        ({"rows": [0, float("nan")]}, "changed.rows[1]", "Out of range float values are not JSON compliant"),
        ({"most": float("-inf")}, "changed.most", "Out of range float values are not JSON compliant"),
        ({"data": {"raw": b"x"}}, "changed.data.raw", "bytes is not JSON"),
        ({"text": "half \ud83d"}, "changed.text", "half of a surrogate pair is not a character"),
        ({"half \ud83d": 1}, "changed", "half of a surrogate pair is not a character"),
        ({("a", "b"): 1}, "changed", "keys must be str"),
        ({"names": {"a"}}, "changed.names", "set is not JSON"),
        ({"digits": 10**5000}, "changed.digits", "limit"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_refused_at_its_place(
    monkeypatch: pytest.MonkeyPatch, changed: Mapping[str, Any], place: str, why: str
) -> None:
    refused = unsent(lambda client: client.decide("a", "approve", changed=changed), monkeypatch)
    assert refused.where == place
    assert why in refused.message
    assert "x" not in refused.message.split()


def test_arguments_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    refused = unsent(lambda client: client.decide("a", "approve", changed=endless), monkeypatch)
    assert "nested in more than 100 levels" in refused.message


HALF = "half \udc80"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.turn(HALF),
        lambda client: client.turn(b"run"),
        lambda client: client.search_sessions(HALF),
        lambda client: client.search_sessions("x", k=float("nan")),
        lambda client: client.begin_turn("s", "hello", key=HALF),
        lambda client: client.begin_turn("s", "hello", key="two\nlines"),
        lambda client: client.begin_turn("s", "hello", key="schlüssel"),
        lambda client: next(client.events(run=HALF)),
        lambda client: next(client.run(HALF)),
    ],
)
def test_no_request_is_sent_with_a_part_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[ServiceClient], Any]
) -> None:
    assert unsent(call, monkeypatch).where


@pytest.mark.parametrize("session", [None, "s"])
async def test_no_file_is_uploaded_for_a_turn_that_cannot_be_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session: str | None
) -> None:
    (tmp_path / "a.txt").write_text("A note.")
    service = _Sent(monkeypatch)
    async with AsyncServiceClient("http://service", TOKEN) as client:
        with pytest.raises(ServiceRequestError) as refused:
            await anext(client.run(HALF, session=session, attachments=[tmp_path / "a.txt"]))
    assert refused.value.where in ("prompt", "title")
    assert not service.requests


def texts_taken_by(method: Callable[..., Any]) -> Iterator[Mapping[str, Any]]:
    """The arguments of a call, with half a character in one of its texts, for each text that it takes."""
    valid = {"data": b"", "sessions": ["s"], "policies": {"a": "[]"}, "fields": {"name": "a"}}
    taken = inspect.signature(method).parameters
    needed = {
        name: valid.get(name, 1 if each.annotation == "int" else "s")
        for name, each in taken.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    for name, each in taken.items():
        kind = str(each.annotation)
        if "Mapping" in kind:
            yield {**needed, name: {"a": HALF}}
        elif "Sequence[str]" in kind:
            yield {**needed, name: [HALF]}
        elif "str" in kind and method.__name__ != "upload":  # its name is sent with a later prompt
            yield {**needed, name: HALF}


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists))
)
def test_what_is_accepted_arrives_as_it_was_given(changed: Mapping[str, Any]) -> None:
    try:
        call = calls.decide("a", "approve", changed=MappingProxyType(changed))
    except ServiceRequestError:
        assert "NaN" in json.dumps(changed) or "Infinity" in json.dumps(changed)
        return
    assert json.loads(calls.json_of(call.body))["changed"] == changed


def test_arguments_may_be_those_that_a_program_keeps_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    service = _Sent(monkeypatch)
    frozen = MappingProxyType({"rows": (MappingProxyType({"id": 1}), "schlüssel")})
    with ServiceClient("http://service", TOKEN) as client:
        client.decide("a", "approve", changed=frozen)
    (request,) = service.requests
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.content)["changed"] == {"rows": [{"id": 1}, "schlüssel"]}


@pytest.mark.parametrize("kind", [ServiceClient, AsyncServiceClient])
async def test_every_method_refuses_half_a_character_before_it_sends_anything(
    monkeypatch: pytest.MonkeyPatch, kind: type[ServiceClient] | type[AsyncServiceClient]
) -> None:
    """Each text that a method takes, one after the other."""
    service = _Sent(monkeypatch)
    client = kind("http://service", TOKEN)
    tried = 0
    for name in sorted(vars(kind)):
        method = getattr(client, name)
        if name.startswith("_") or name in ("aclose", "close", "send", "events", "run"):
            continue
        for arguments in texts_taken_by(method):
            tried += 1
            with pytest.raises(ServiceRequestError):
                await _done(method(**arguments))
            assert not service.requests, (name, arguments)
    assert tried > 80


async def _done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result
