"""litellm is the oracle for Anthropic's messages too. Every difference is listed here."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from zeus_plugins.models.litellm.native import claude, messages
from zeus_plugins.models.litellm.native.choice import Served, base_of, served_of, wire_of
from zeus_plugins.models.litellm.native.servers import ANTHROPIC
from zeus_plugins.models.litellm.options import Options

from tests.plugins_bundled.models.test_litellm import LS, ask, asking, failing
from tests.plugins_bundled.models.test_native_wire import (
    CALLED,
    FORM,
    PICTURE,
    WIRES,
    Compressed,
    asked,
    in_pairs,
    known,
)
from tests.run.test_trajectories import trajectories
from tests.support.provider import Call, Provider, Received, Reply
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.model import CachePoints, ModelRequest, ToolSchema, from_chat

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")

TABLE = Path(str(find_spec("litellm").origin)).with_name("model_prices_and_context_window_backup.json")  # type: ignore[union-attr]
SONNET = "anthropic/claude-sonnet-4-5"
LINKED = {"type": "image_url", "image_url": {"url": "https://host.example/a.png"}}
RESULTS = (ToolMessage("a", tool_call_id="c1", name="ls"), ToolMessage("", tool_call_id="c2"))
ODD_TOOLS = [
    ToolSchema("none", "", {}),
    ToolSchema("untyped", "d", {"properties": {"a": {"type": "string"}}, "required": ["a"]}),
    ToolSchema(
        "much",
        "d",
        {
            "type": "object",
            "title": "T",
            "description": "x",
            "anyOf": [{"required": ["a"]}],
            "properties": {"a": {"$ref": "#/$defs/A"}, "definitions": {"type": "array"}},
            "$defs": {"A": {"enum": [1, None]}},
            "additionalProperties": False,
        },
    ),
    ToolSchema("union", "d", {"type": ["object", "null"]}),
]
THOUGHT = AIMessage(
    "so",
    additional_kwargs={
        "thinking_blocks": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            {"type": "thinking", "thinking": "x", "signature": ""},
            {"type": "thinking", "thinking": "x", "signature": "litellm_encrypted_reasoning:abc"},
            {"type": "redacted_thinking", "data": "litellm_encrypted_reasoning:abc"},
        ]
    },
)
REQUESTS: Mapping[str, ModelRequest] = {
    "text": asking("hi"),
    "no system": asking("hi", system=""),
    "two system messages": asking(SystemMessage("more"), SystemMessage(""), "hi"),
    "messages of one side": asking("hi", "and", AIMessage("a"), AIMessage("b"), "so"),
    "tools": asking("hi", tools=[LS, *ODD_TOOLS]),
    "calls": asking("hi", CALLED, *RESULTS, tools=[LS]),
    "calls and a question": asking("hi", CALLED, *RESULTS, "and?", tools=[LS]),
    "an invalid call": asking(
        "hi",
        AIMessage(
            "so",
            invalid_tool_calls=[
                {"name": "no name\u202e", "args": "{", "id": "c1", "error": "", "type": "invalid_tool_call"}
            ],
        ),
        ToolMessage("wrong", tool_call_id="c1", status="error"),
        tools=[LS],
    ),
    "odd ids": asking(
        "hi",
        AIMessage("", tool_calls=[{"name": "ls", "args": {}, "id": "a.b:c/é"}, {"name": "ls", "args": {}, "id": ""}]),
        ToolMessage("a", tool_call_id="a.b:c/é"),
        ToolMessage("a", tool_call_id=""),
        tools=[LS],
    ),
    "the same id twice": asking(
        "hi",
        AIMessage("", tool_calls=[{"name": "ls", "args": {"n": n}, "id": "a"} for n in (1, 2)]),
        ToolMessage("a", tool_call_id="a"),
        AIMessage("", tool_calls=[{"name": "ls", "args": {"n": 3}, "id": "a"}]),
        ToolMessage("a", tool_call_id="a"),
        tools=[LS],
    ),
    "an answer at the end": asking("hi", AIMessage("with an end \n\t")),
    "answers at the end": asking("hi", AIMessage("a "), AIMessage([{"type": "text", "text": "b "}])),
    "an answer with an end inside": asking("hi", AIMessage("a "), "b "),
    "thinking": asking("hi", THOUGHT, "go on"),
    "thinking and calls": asking("hi", CALLED, *RESULTS, tools=[LS]),
    "only thinking": asking("hi", AIMessage([], additional_kwargs=THOUGHT.additional_kwargs), "go on"),
    "an empty question": asking("hi", AIMessage("a "), HumanMessage([]), AIMessage("b "), HumanMessage([])),
    "an answer of nothing": asking("hi", AIMessage([]), "go on"),
    "pictures": asking(HumanMessage([{"type": "text", "text": "look"}, PICTURE, LINKED])),
    "a picture in a result": asking(
        "hi", CALLED, ToolMessage([{"type": "text", "text": ""}, PICTURE, LINKED], tool_call_id="c1"), tools=[LS]
    ),
    "a text in parts": asking(
        HumanMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        "so",
    ),
    "odd characters": asking("\x00\x1b \u202e \ufeff \U0010ffff \\ \" </script> \u2028"),
    "a name": asking(HumanMessage("hi", name="ann")),
    "cache points": asking(
        HumanMessage([{"type": "text", "text": "look"}, PICTURE]), CALLED, *RESULTS, AIMessage("so"), "on",
        tools=[LS, ODD_TOOLS[0]], stable_system_length=3,
        cache_points=CachePoints(tools=True, system=True, messages=(0, 2, 3, 4, 5), lifetime="1h"),
    ),
    "short cache points": asking(
        "hi", CALLED, ToolMessage([{"type": "text", "text": "a"}], tool_call_id="c1"), tools=[LS],
        stable_system_length=3, cache_points=CachePoints(tools=True, system=True, messages=(0, 1, 2), lifetime="5m"),
    ),
    "settings": asking("hi", tools=[LS], settings={"max_tokens": 5, "parallel_tool_calls": False, "stop": "x"}),
    "a form of the answer": asking("hi", tools=[LS], settings={"response_format": FORM}),
    "no call": asking("hi", tools=[LS], settings={"tool_choice": "none", "parallel_tool_calls": True}),
}  # fmt: skip
MODELS: Mapping[str, Mapping[str, Any]] = {
    "sonnet": {},
    "sampling": {
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 5, "extra": {"stop": ["x", "\n"], "user": "team-1"}
    },
    "another maximum": {"extra": {"max_completion_tokens": 9}},
    "a dated name": {"model": "anthropic/claude-haiku-4-5-20251001"},
    "a bare name": {"model": "claude-opus-4-6", "headers": {"X-Team": "a", "User-Agent": "us"}},
    "a new model": {"model": "anthropic/claude-opus-5-5"},
    "thinking": {"extra": {"thinking": {"type": "enabled", "budget_tokens": 2000}}},
    "thinking with a maximum": {"max_tokens": 9000, "extra": {"thinking": {"type": "enabled", "budget_tokens": 2000}}},
    "a budget for a model in between": {
        "model": "claude-sonnet-4-6", "extra": {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    },
    "a forced call": {"extra": {"tool_choice": "required", "parallel_tool_calls": False}},
    "thinking and a named call": {
        "extra": {
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "tool_choice": {"type": "function", "function": {"name": "ls"}},
        },
    },
    "adaptive thinking": {"model": "claude-opus-4-7", "extra": {"thinking": {"type": "adaptive"}}},
    "an effort": {"model": "claude-opus-4-7", "extra": {"reasoning_effort": "low"}},
    "an effort for a model in between": {"model": "claude-sonnet-4-6", "extra": {"reasoning_effort": "high"}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)


async def both(
    request: ModelRequest, reply: Reply | None = None, **options: Any
) -> list[tuple[Received, Any, list[Any]]]:
    return [await asked(wire, request, reply, **{"model": SONNET, **options}) for wire in WIRES]


@pytest.mark.parametrize(("request_", "options", "stream"), in_pairs(REQUESTS, MODELS))
async def test_the_request_is_litellms(
    request_: ModelRequest, options: Mapping[str, Any], *, stream: bool
) -> None:
    (theirs, _, _), (ours, _, _) = await both(request_, stream=stream, **options)
    assert (ours.body, ours.path) == (theirs.body, theirs.path)
    for header in HEADERS:
        assert ours.headers.get(header) == theirs.headers.get(header), header


_LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["a", "b"]},
        {"enum": [1, "a"], "type": "integer"},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": "^a", "description": "so"},
        {"$ref": "#/$defs/A"},
    ]
)
_FORMS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda each, closed: {
                "type": "object",
                "properties": each,
                "required": [*each],
                **({"additionalProperties": False} if closed else {}),
            },
            st.dictionaries(st.sampled_from(["a", "b", "enum"]), inner, max_size=3),
            st.booleans(),
        ),
    ),
    max_leaves=6,
)


@given(schema=_FORMS)
def test_a_form_that_is_sent_without_litellm_is_what_litellm_sends(schema: dict[str, Any]) -> None:
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    schema = {**schema, "$defs": {"A": {"type": "string"}}} if "#/$defs" in json.dumps(schema) else schema
    asked_for = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    if claude.unsent({"response_format": asked_for}, Served(ANTHROPIC, "claude")) is None:
        body = messages.body_of(
            Served(ANTHROPIC, "claude", 5), {"messages": [], "response_format": asked_for}
        )
        assert body["output_format"] == AnthropicConfig().map_response_format_to_anthropic_output_format(
            asked_for
        )


async def test_an_empty_text_is_filled_in_our_own_words() -> None:
    request = asking(
        "hi", AIMessage(""), " ", AIMessage("\n", tool_calls=CALLED.tool_calls), *RESULTS,
        AIMessage([{"type": "text", "text": ""}]), HumanMessage([{"type": "text", "text": " "}, PICTURE]),
        tools=[LS],
    )  # fmt: skip
    (theirs, _, _), (ours, _, _) = await both(request)
    own, their = (
        "[This message has no text.]",
        "[System: Empty message content sanitised to satisfy protocol]",
    )
    assert json.dumps(ours.body).count(own) == 5
    assert json.loads(json.dumps(ours.body).replace(own, their)) == theirs.body


async def test_calls_without_tools_get_a_tool_in_our_own_words() -> None:
    (theirs, _, _), (ours, _, _) = await both(asking("hi", CALLED, *RESULTS))
    (own,), (their,) = ours.body.pop("tools"), theirs.body.pop("tools")
    assert ours.body == theirs.body
    assert {**own, "name": their["name"], "description": their["description"]} == their
    assert own["name"] == "no_tool"


HEADERS = (
    "x-api-key",
    "authorization",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
    "accept",
    "x-team",
)


@pytest.mark.parametrize("messages", trajectories())
async def test_every_request_of_a_recorded_conversation_is_litellms(
    messages: Sequence[Mapping[str, Any]],
) -> None:
    system = "".join(each["content"] for each in messages if each["role"] == "system")
    said: list[BaseMessage] = [from_chat(each) for each in messages if each["role"] != "system"]
    names = {call["function"]["name"] for each in messages for call in each.get("tool_calls") or ()}
    tools = [ToolSchema(name, "A tool.", {"type": "object"}) for name in sorted(names)] or [LS]
    ends = [place for place, each in enumerate(said) if each.type == "ai"][-3:]
    requests = [ModelRequest(system, said[:end], tools) for end in ends]
    bodies: dict[str, list[Any]] = {}
    for wire in WIRES:
        with Provider(*[Reply("ok")] * len(requests)) as provider:
            made = known(provider, wire, model=SONNET)
            for request in requests:
                await ask(made, request)
            bodies[wire] = [each.body for each in provider.requests]
    assert bodies["native"] == bodies["litellm"]


def streaming(*events: Mapping[str, Any], stop: str | None = "end_turn", **usage: Any) -> Reply:
    """A reply of just these events, between the usual first and last ones."""
    first = {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 3}
    start = {"type": "message_start", "message": {"model": "served-model", "content": [], "usage": first}}
    end = [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9, **usage}},
        {"type": "message_stop"},
    ]
    return Reply(
        body="".join(
            f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in [start, *events, *end]
        )
    )


def begun(**block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def part(**delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


STOP = {"type": "content_block_stop", "index": 0}
TWO_CALLS = [Call("ls", '{"path": "/é\U0001f600"}', "a"), Call("ls", "{}", "b")]
ANSWERS: Mapping[str, Reply] = {
    "text": Reply("hello wörld \U0001f600"),
    "a call": Reply(calls=[Call("ls", '{"path": "/a"}')]),
    "text and parallel calls": Reply("so", calls=TWO_CALLS),
    "thinking": Reply("yes", reasoning="because I thought", usage=None),
    "thinking and calls": Reply("yes", reasoning="because", calls=TWO_CALLS, usage=None),
    "cached": Reply("yes", usage={"in": 50, "out": 9, "cached": 40}),
    "written": Reply("yes", usage={"in": 50, "out": 9, "cached": 40, "written": 30, "hour": 20}),
    "no usage": Reply("yes", usage=None),
    "no usage of thinking": Reply("yes", reasoning="because", usage=None),
    "cut at the limit": Reply("half", finish_reason="max_tokens"),
    "cut in a call": Reply(calls=[Call("ls", '{"path": "/"}')], finish_reason="max_tokens"),
    "a stop sequence": Reply("half", finish_reason="stop_sequence"),
    "refused": Reply("half", finish_reason="refusal"),
    "paused": Reply("half", finish_reason="pause_turn"),
    "an unknown reason": Reply("half", finish_reason="weather"),
    "nothing": Reply(""),
    "large pieces": Reply("x" * 200_000, piece=50_000),
}
STREAMED: Mapping[str, Reply] = {
    "no JSON": Reply(calls=[Call("ls", '{"path": "/')]),
    "a call without arguments": Reply(calls=[Call("ls", "")]),
    "a ping": streaming({"type": "ping"}, begun(type="text", text=""), part(type="text_delta", text="a"), STOP),
    "an unknown event": streaming({"type": "weather"}, begun(type="text", text="a"), STOP),
    "an unknown block": streaming(begun(type="weather", text="a"), part(type="w", w=1), STOP),
    "text at the beginning": streaming(begun(type="text", text="a"), part(type="text_delta", text="b"), STOP),
    "two texts": streaming(begun(type="text", text="a"), STOP, begun(type="text", text="b"), STOP),
    "redacted thinking": streaming(
        begun(type="redacted_thinking", data="x"), STOP, begun(type="text", text="a"), STOP
    ),
    "a signature alone": streaming(
        begun(type="thinking", thinking=""), part(type="signature_delta", signature="s"), STOP,
        begun(type="text", text="a"), STOP,
    ),
    "two thoughts": streaming(
        begun(type="thinking", thinking=""), part(type="thinking_delta", thinking="a"),
        part(type="signature_delta", signature="s"), STOP,
        begun(type="thinking", thinking=""), part(type="thinking_delta", thinking="b"),
        part(type="signature_delta", signature="t"), STOP,
    ),
    "a call with empty pieces": streaming(
        begun(type="tool_use", id="a", name="ls", input={}), part(type="input_json_delta", partial_json=""), STOP,
        stop="tool_use",
    ),
    "a call with an input at once": streaming(
        begun(type="tool_use", id="a", name="ls", input={"path": "/"}), STOP, stop="tool_use"
    ),
    "an empty piece first": streaming(
        begun(type="tool_use", id="a", name="ls", input={}), part(type="input_json_delta", partial_json=""),
        part(type="input_json_delta", partial_json='{"path": "/"}'), STOP, stop="tool_use",
    ),
    "reported thinking": streaming(
        begun(type="thinking", thinking=""), part(type="thinking_delta", thinking="long" * 50), STOP,
        output_tokens_details={"thinking_tokens": 5},
    ),
    "iterations": streaming(
        begun(type="text", text="a"), STOP,
        iterations=[
            {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8,
             "cache_creation": {"ephemeral_1h_input_tokens": 3, "ephemeral_5m_input_tokens": 5}},
            {"input_tokens": 50, "output_tokens": 60},
        ],
    ),
    "a later count of the input": streaming(begun(type="text", text="a"), STOP, input_tokens=20),
    "no reason": streaming(begun(type="text", text="a"), STOP, stop=None),
    "another end of line": Reply(body=str(streaming(begun(type="text", text="a"), STOP).body).replace("\n", "\r\n")),
}  # fmt: skip


def whole(*blocks: Mapping[str, Any], **fields: Any) -> Reply:
    """A whole answer of these blocks."""
    answer = {
        "type": "message", "role": "assistant", "model": "served-model", "content": blocks,
        "stop_reason": "end_turn", "usage": {"input_tokens": 11, "output_tokens": 7}, **fields,
    }  # fmt: skip
    return Reply(body=json.dumps(answer))


WHOLE: Mapping[str, Reply] = {
    "whole redacted thinking": whole(
        {"type": "redacted_thinking", "data": "x"}, {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
    ),
    "an unknown whole block": whole({"type": "text", "text": "a"}, {"type": "weather"}),
    "no blocks": whole(),
    "whole reported thinking": whole(
        {"type": "thinking", "thinking": "long" * 50, "signature": "s"},
        usage={"input_tokens": 11, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 5}},
    ),
    "odd arguments": whole(
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"b": "é\ud83d", "a": [1.0, None]}},
        stop_reason="tool_use",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        *((each, stream) for each in ANSWERS for stream in (True, False)),
        *((each, True) for each in STREAMED),
        *((each, False) for each in WHOLE),
    ],
)
async def test_the_answer_is_read_as_litellm_reads_it(answer: str, *, stream: bool) -> None:
    reply = {**ANSWERS, **STREAMED, **WHOLE}[answer]
    (_, theirs, their_pieces), (_, ours, our_pieces) = await both(
        asking("hi", tools=[LS]), reply, stream=stream
    )
    assert our_pieces == their_pieces
    assert ours.model == "served-model"
    assert replace(ours, model="", usage=None) == replace(theirs, model="", usage=None)
    assert ours.usage == theirs.usage or ours.usage == replace(theirs.usage, reasoning_tokens=0)
    # litellm estimates the tokens of thinking with another model's tokenizer. Ours are what Anthropic reports.
    assert (ours.usage == theirs.usage) != (answer in ESTIMATED)


ESTIMATED = ("two thoughts",)
DIFFERENT: Mapping[str, tuple[str, str]] = {
    # litellm reports a request that is too large as 400. A smaller conversation helps.
    "413": ("bad_request", "context_overflow"),
    # litellm waits for the rest of an event that it cannot read, until the stream ends.
    "garbage in the middle": ("network", "server"),
    # litellm takes every error inside a stream for a 500.
    "a limit in the middle": ("server", "rate_limit"),
    # litellm takes 200 for the error's status.
    "an error of status 200": ("network", "server"),
}
FAULTS: Mapping[str, Reply] = {
    **{str(each): Reply("no", status=each) for each in (400, 401, 402, 403, 404, 408, 409, 413, 422, 500, 503)},
    "429": Reply("slow down", status=429, headers={"retry-after": "7"}),
    "429 in ms": Reply("slow down", status=429, headers={"retry-after-ms": "1500"}),
    "529": Reply("Overloaded", status=529),
    "no credit": Reply("Your credit balance is too low to access the Anthropic API.", status=400),
    "too long": Reply("prompt is too long: 219898 tokens > 200000 maximum", status=400),
    "too much": Reply("input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000", status=400),
    "an empty error": Reply(status=500, body=""),
    "an error page": Reply(status=502, body="<html>Bad Gateway</html>", headers={"content-type": "text/html"}),
    "an error as a list": Reply(status=500, body='["no"]'),
    "an error of status 200": Reply(body='{"type": "error", "error": {"type": "api_error", "message": "no"}}'),
    "a reset in the middle": Reply("some text that is cut", reset_after=3),
    "a cut in the middle": Reply("some text that is cut", cut_after=3),
    "a cut before the reason in the middle": Reply("some text", finish_reason="missing"),
    "an error in the middle": streaming(
        begun(type="text", text="a"), {"type": "error", "error": {"type": "api_error", "message": "no"}}
    ),
    "too busy in the middle": streaming(
        begun(type="text", text="a"), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ),
    "too much in the middle": streaming(
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}}
    ),
    "a limit in the middle": streaming(
        {"type": "error", "error": {"type": "rate_limit_error", "message": "This would exceed your rate limit"}}
    ),
    "garbage": Reply(body="not JSON at all"),
    "garbage in the middle": Reply(body='data: {"type": "message_start", \n\ndata: {"type"\n\n'),
    "an empty body": Reply(body=""),
    "a number": Reply(body="5"),
    "no content": Reply(body='{"type": "message", "role": "assistant", "model": "m"}'),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "stream"),
    [(each, stream) for each in FAULTS for stream in (True, False) if stream or "in the middle" not in each],
)
async def test_a_fault_has_the_same_outcome(fault: str, *, stream: bool) -> None:
    found: list[tuple[Any, ...]] = []
    for wire in WIRES:
        with Provider(FAULTS[fault]) as provider:
            error = await failing(known(provider, wire, stream=stream, model=SONNET))
        wait = None if error.retry_after_seconds is None else round(error.retry_after_seconds)
        found.append((error.kind, wait, error.input_tokens, error.limit_tokens, error.exit_code))
    theirs, ours = found
    if fault in DIFFERENT and (fault != "an error of status 200" or not stream):
        assert (theirs[0], ours[0]) == DIFFERENT[fault]
        theirs, ours = theirs[1:], ours[1:]
    assert ours == theirs


async def test_a_connection_serves_many_calls() -> None:
    with Provider(*[Reply("ok")] * 6) as provider:
        for stream in (True, True, False, True, False, True):
            await ask(known(provider, "native", stream=stream, model=SONNET))
        assert provider.open_connections == 1


async def test_nothing_is_read_after_the_last_event() -> None:
    reply = streaming(begun(type="text", text="whole"), STOP)
    after = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    with Provider(replace(reply, body=f"{reply.body}data: {json.dumps(after)}\n\n")) as provider:
        response, _ = await ask(known(provider, "native", model=SONNET))
    assert response.message.content == "whole"
    assert response.usage is not None


async def test_an_answer_is_complete_without_the_last_event() -> None:
    """A connection that is lost after the reason only loses the usage."""
    with Provider(Reply("whole", piece=8, reset_after=5)) as provider:
        response, _ = await ask(known(provider, "native", model=SONNET))
    assert (response.message.content, response.finish_reason, response.usage) == ("whole", "stop", None)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_compressed_answer_is_read(*, stream: bool) -> None:
    whole = {"type": "message", "content": [{"type": "text", "text": "small"}], "stop_reason": "end_turn"}
    text = str(streaming(begun(type="text", text="small"), STOP).body) if stream else json.dumps(whole)
    with Provider(Reply(body=Compressed(text), headers={"content-encoding": "gzip"})) as provider:
        response, _ = await ask(known(provider, "native", stream=stream, model=SONNET))
    assert response.message.content == "small"


async def test_a_server_that_does_not_stream_is_read_all_the_same() -> None:
    whole = {"type": "message", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn"}
    reply = Reply(body=json.dumps(whole), headers={"content-type": "application/json"})
    with Provider(reply) as provider:
        response, _ = await ask(known(provider, "native", model=SONNET))
    assert (response.message.content, response.finish_reason) == ("whole", "stop")


async def test_the_events_of_an_answer_are_read_from_any_pieces() -> None:
    body = str(
        streaming(begun(type="text", text="é\U0001f600"), part(type="text_delta", text="b"), STOP).body
    )
    for end in ("\n", "\r", "\r\n"):
        with Provider(Reply(body=body.replace("\n", end))) as provider:
            response, _ = await ask(known(provider, "native", model=SONNET))
        assert response.message.content == "é\U0001f600b"


BASES = ("", "/", "/v1", "/v1/messages", "/proxy/v1/messages", "/proxy", "/proxy/")


@pytest.mark.parametrize("path", BASES)
@pytest.mark.parametrize("variable", [None, "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"])
async def test_the_address_is_litellms(
    path: str, variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for wire in WIRES:
        with Provider(Reply("ok")) as provider:
            base = f"{provider.anthropic}{path}"
            if variable is not None:
                monkeypatch.setenv(variable, base)
                if variable == "ANTHROPIC_API_BASE":
                    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
            made = known(provider, wire, model=SONNET, api_base=base if variable is None else None)
            await ask(made)
            paths.append(provider.requests[0].path)
    assert paths[0] == paths[1]


def test_the_usual_address_is_litellms(monkeypatch: pytest.MonkeyPatch) -> None:
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo

    for variable in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert AnthropicModelInfo.get_api_base() == base_of(ANTHROPIC, Options(SONNET), {})
    assert (
        base_of(ANTHROPIC, Options(SONNET, api_base="http://a"), {"ANTHROPIC_API_BASE": "http://b"})
        == "http://a"
    )
    assert messages.url_of(base_of(ANTHROPIC, Options(SONNET), {})) == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize("key", ["sk-ant-api", " sk-ant-api\n", None])
async def test_the_key_is_sent_as_litellm_sends_it(key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-environ ")
    given = None if key is None else Secret(key)
    (theirs, _, _), (ours, _, _) = await both(asking("hi"), api_key=given)
    assert [ours.headers.get(each) for each in HEADERS] == [theirs.headers.get(each) for each in HEADERS]
    assert ours.headers["x-api-key"] == ("sk-ant-environ" if key is None else "sk-ant-api")


async def test_a_key_that_is_missing_has_the_same_error() -> None:
    with Provider() as provider:
        theirs, ours = [
            await failing(known(provider, wire, model=SONNET, api_key=None, api_base=None)) for wire in WIRES
        ]
    assert (ours.message, ours.remedy, ours.kind) == (theirs.message, theirs.remedy, "auth")


async def test_a_refused_key_has_the_same_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-environ")
    for key in (None, Secret("sk-ant-api")):
        found = []
        for wire in WIRES:
            with Provider(Reply("invalid x-api-key", status=401)) as provider:
                found.append(await failing(known(provider, wire, model=SONNET, api_key=key)))
        assert found[0].remedy == found[1].remedy
        assert "sk-ant" not in str(found[1])


LISTED = sorted(
    name
    for name, row in json.loads(TABLE.read_text()).items()
    if row.get("litellm_provider") == "anthropic" and row.get("mode") == "chat"
)


@pytest.mark.parametrize("name", LISTED)
def test_the_rules_fit_every_model_that_litellm_lists(name: str) -> None:
    """The names that take sampling, forced calls and budgets are read from their flags in litellm's table."""
    from litellm import UnsupportedParamsError
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    config, served = AnthropicConfig(), served_of(Options(f"anthropic/{name}"), lookup(f"anthropic/{name}"))
    assert served is not None
    assert served.most_tokens == AnthropicConfig.get_max_tokens_for_model(name)
    budget = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 9000}
    for settings in (
        {"temperature": 0.5}, {"top_p": 0.5}, {"tool_choice": "required"}, budget, {"thinking": {"type": "adaptive"}}
    ):  # fmt: skip
        try:
            sent = config.map_openai_params({**settings}, {}, name, drop_params=False)
        except UnsupportedParamsError:
            sent = {}
        if "tool_choice" in settings:
            sent = {key: value if value != {"type": "any"} else "required" for key, value in sent.items()}
        if claude.unsent(settings, served) is None:
            assert sent == settings


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, None),
        ({"model": "claude-sonnet-4-5"}, None),
        ({"model": "claude-opus-5-5"}, None),
        ({"model": "anthropic/claude-new"}, "litellm decides how requests for claude-new look"),
        ({"model": "anthropic/claude-2"}, "litellm decides how requests for claude-2 look"),
        ({"model": "claude-new"}, "the provider is not known"),
        ({"api_base": "http://host/v1?version=2"}, "not a plain URL"),
        ({"headers": {"Anthropic-Beta": "x"}}, "the header 'Anthropic-Beta'"),
        ({"headers": {"x-api-key": "x"}}, "the header 'x-api-key'"),
        ({"api_key": Secret("sk-ant-oat01-x")}, "OAuth"),
        ({"api_key": Secret(" ")}, "litellm reads ANTHROPIC_AUTH_TOKEN"),
        ({"extra": {"reasoning_effort": "low"}}, "takes 'reasoning_effort'"),
        ({"extra": {"response_format": {"type": "json_object"}}}, "takes 'response_format'"),
        ({"extra": {"web_search_options": {}}}, "takes 'web_search_options'"),
        ({"extra": {"metadata": {"user_id": "x"}}}, "takes 'metadata'"),
        ({"extra": {"top_k": 3}}, "takes 'top_k'"),
        ({"extra": {"speed": "fast"}}, "takes 'speed'"),
        ({"extra": {"user": "ann@host.example"}}, "takes 'user'"),
        ({"extra": {"user": "+49 (30) 1234567"}}, "takes 'user'"),
        ({"extra": {"stop": []}}, "takes 'stop'"),
        ({"extra": {"max_completion_tokens": 5.5}}, "takes 'max_completion_tokens'"),
        ({"extra": {"thinking": {"type": "adaptive"}}}, "takes 'thinking'"),
        ({"extra": {"thinking": {"type": "disabled"}}}, "takes 'thinking'"),
        ({"extra": {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "updates"}}}, "takes 'thinking'"),
        ({"model": "claude-opus-5", "extra": {"thinking": {"type": "enabled", "budget_tokens": 9}}}, "'thinking'"),
        ({"model": "claude-opus-5", "temperature": 0.5}, "takes 'temperature'"),
        ({"model": "claude-opus-5", "extra": {"tool_choice": "required"}}, "takes 'tool_choice'"),
    ],
    ids=repr,
)  # fmt: skip
def test_the_wire_follows_from_model_and_options(options: dict[str, Any], why: str | None) -> None:
    values = {"model": SONNET, "api_key": Secret("k"), **options}
    wire = wire_of(Options(**values), lookup(values["model"]), {"ANTHROPIC_AUTH_TOKEN": "t"})
    assert (wire.served is None) == (why is not None)
    assert (why or "Anthropic's messages") in wire.why


def test_a_variable_that_changes_litellms_requests_decides_too() -> None:
    for variable in (*claude.VARIABLES, "SSL_VERIFY"):
        wire = wire_of(Options(SONNET), lookup(SONNET), {variable: "1"})
        assert (wire.served, wire.why) == (None, f"litellm reads {variable}")


def test_a_limit_that_litellm_does_not_know_is_left_to_it() -> None:
    profile = replace(lookup(SONNET), sources={**lookup(SONNET).sources, "max_output_tokens": "a table"})
    assert "how long an answer" in wire_of(Options(SONNET), profile, {}).why


PDF = {"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBERi0="}}
OTHERS: Mapping[str, ModelRequest] = {
    "a system message inside the conversation": asking("hi", SystemMessage("now"), "go on"),
    "a document": asking(HumanMessage([PDF])),
    "a picture without encryption": asking(
        HumanMessage([{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/a.png"}}])
    ),
    "a picture with a format": asking(
        HumanMessage([{"type": "image_url", "image_url": {**PICTURE["image_url"], "format": "image/gif"}}])
    ),
    "a file": asking(HumanMessage([{"type": "file", "file": {"file_id": "f"}}])),
    "a part of thinking": asking("hi", AIMessage([{"type": "thinking", "thinking": "t", "signature": "s"}]), "on"),
    "a result of a server's tool": asking(
        "hi", AIMessage("a", additional_kwargs={"provider_specific_fields": {"web_search_results": [{}]}}), "on"
    ),
    "a setting": asking("hi", settings={"reasoning_effort": "low"}),
    "a tool with definitions": asking("hi", tools=[ToolSchema("a", "", {"type": "object", "definitions": {}})]),
    "a tool with components": asking("hi", tools=[ToolSchema("a", "", {"type": "object", "components": {}})]),
    "a tool with a name of its own": asking("hi", tools=[ToolSchema("a.b", "", {"type": "object"})]),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
async def test_what_only_litellm_can_send_is_left_to_it_or_refused(name: str) -> None:
    with Provider(Reply("ok"), Reply("ok")) as provider:
        error = await failing(known(provider, "native", model=SONNET), OTHERS[name])
        assert (error.kind, error.remedy) == ("bad_request", "Use model.litellm.wire: auto")
        assert "cannot be sent without litellm" in error.message
        assert not provider.requests
        if "encryption" not in name:
            await ask(known(provider, "auto", model=SONNET), OTHERS[name])
            assert "litellm" in provider.requests[0].headers["user-agent"]


async def test_equal_beginnings_are_sent_as_equal_bytes() -> None:
    """The cache of the provider compares bytes."""
    said: list[BaseMessage] = [HumanMessage("hi")]
    bodies = []
    with Provider(
        *[Reply("so", reasoning="t", calls=[Call("ls", '{"b": 1, "a": 2}', f"c{n}")]) for n in range(4)]
    ) as it:
        made = known(it, "native", model=SONNET)
        for turn in range(4):
            places = tuple(sorted({max(0, len(said) - 3), len(said) - 1}))
            points = CachePoints(tools=True, system=True, messages=places, lifetime="1h")
            request = asking(*said, tools=[LS], stable_system_length=3, cache_points=points)
            response, _ = await ask(made, request)
            said += [response.message, ToolMessage(f"result {turn}", tool_call_id=f"c{turn}")]
            bodies.append(it.requests[turn].body)
    for before, now in itertools.pairwise(bodies):
        assert json.dumps(now["system"]) == json.dumps(before["system"])
        assert json.dumps(now["tools"]) == json.dumps(before["tools"])
        beginning = now["messages"][: len(before["messages"])]
        assert json.dumps(unmarked(beginning)) == json.dumps(unmarked(before["messages"]))
        assert "cache_control" in beginning[-1]["content"][-1]


def unmarked(messages: Any) -> Any:
    return [
        {
            **each,
            "content": [
                {k: v for k, v in block.items() if k != "cache_control"} for block in each["content"]
            ],
        }
        for each in messages
    ]
