"""The litellm plugin and answers that no API promises: each has a stated outcome, streaming and not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins_bundled.models.test_litellm import ask, asking, model, wire
from tests.support.provider import Call, Provider, Reply
from zeus_runtime.plugin.model import ModelError, ModelResponse, Usage, to_chat

__all__ = ["wire"]

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")

STREAMS = pytest.mark.parametrize("stream", [True, False])


COUNTED = {"prompt_tokens": 5, "completion_tokens": 2}


def body(message: Any, reason: Any = "stop", usage: Any = COUNTED, *, stream: bool) -> Reply:
    """An answer whose parts are sent as they are."""
    head = {"id": "c", "created": 1, "model": "served"}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return Reply(
            body=json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        )
    chunk = {**head, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return Reply(body="".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n")


async def answered(reply: Reply, *, stream: bool) -> ModelResponse:
    with Provider(reply) as provider:
        return (await ask(model(provider, stream=stream)))[0]


def saying(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def calling(**call: Any) -> dict[str, Any]:
    return saying(None, tool_calls=[{"index": 0, "type": "function", **call}])


@STREAMS
@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), -float("inf"), "many", -5, None, {}, [], 1.5, 10**30], ids=repr
)
async def test_a_complete_answer_is_kept_though_its_usage_is_nonsense(number: Any, *, stream: bool) -> None:
    response = await answered(
        body(saying("whole"), usage={"prompt_tokens": number, "completion_tokens": 2}, stream=stream),
        stream=stream,
    )
    assert response.message.content == "whole"
    assert response.usage is None
    assert response.cost_usd is None


@STREAMS
@pytest.mark.parametrize("usage", ["text", 5, [1], {}, None, True], ids=repr)
async def test_a_usage_that_is_no_object_is_unknown(usage: Any, *, stream: bool) -> None:
    response = await answered(body(saying("whole"), usage=usage, stream=stream), stream=stream)
    assert (response.message.content, response.usage) == ("whole", None)


@STREAMS
@pytest.mark.parametrize("cached", [float("nan"), "x", -1], ids=repr)
async def test_a_nonsensical_detail_makes_the_usage_unknown(cached: Any, *, stream: bool) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": cached}}
    response = await answered(body(saying("whole"), usage=usage, stream=stream), stream=stream)
    assert (response.message.content, response.usage) == ("whole", None)


async def test_a_connection_that_is_lost_after_the_end_of_the_answer_does_not_undo_it() -> None:
    with Provider(Reply("whole", piece=8, reset_after=3)) as provider:
        response, _ = await ask(model(provider))
    assert (response.message.content, response.usage) == ("whole", None)


async def test_anthropics_nonsensical_usage_does_not_undo_the_answer() -> None:
    whole = {
        "id": "m", "type": "message", "role": "assistant", "model": "served", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "looking"},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}},
        ],
        "usage": {"input_tokens": "many", "output_tokens": 2},
    }  # fmt: skip
    with Provider(Reply(body=json.dumps(whole))) as provider:
        response, _ = await ask(model(provider, "anthropic", stream=False))
    assert response.message.content == "looking"
    assert [(call["id"], call["name"], call["args"]) for call in response.message.tool_calls] == [
        ("t1", "ls", {"path": "/"})
    ]
    assert (response.finish_reason, response.usage) == ("tool_calls", None)


@STREAMS
@pytest.mark.parametrize(
    "reason", ["content_filter", "refusal", "SAFETY", "RECITATION", "guardrail_intervened"]
)
async def test_what_stopped_an_answer_is_one_word_for_every_provider(reason: str, *, stream: bool) -> None:
    response = await answered(body(saying("half"), reason, stream=stream), stream=stream)
    assert (response.message.content, response.finish_reason) == ("half", "content_filter")


@pytest.mark.parametrize("stream", [True, False])
async def test_anthropics_refusal_is_a_filtered_answer(*, stream: bool) -> None:
    with Provider(Reply("half", finish_reason="refusal")) as provider:
        response, _ = await ask(model(provider, "anthropic", stream=stream))
    assert (response.message.content, response.finish_reason) == ("half", "content_filter")


@STREAMS
async def test_openais_refusal_is_the_text_of_a_filtered_answer(*, stream: bool) -> None:
    response = await answered(body(saying(None, refusal="I cannot."), stream=stream), stream=stream)
    assert (response.message.content, response.finish_reason) == ("I cannot.", "content_filter")


@STREAMS
@pytest.mark.parametrize(
    ("call", "name", "arguments", "error"),
    [
        ({"id": "a", "function": {"name": None, "arguments": "{}"}}, None, "{}", "names no tool"),
        ({"id": "a", "function": {"name": "", "arguments": "{}"}}, None, "{}", "names no tool"),
        ({"id": "a", "function": {"name": "ls", "arguments": "{nope"}}, "ls", "{nope", "not valid JSON"),
        ({"id": "a", "function": {"name": "ls", "arguments": "[1]"}}, "ls", "[1]", "must be a JSON object"),
        ({"id": "a", "function": {"name": "ls", "arguments": "null"}}, "ls", "null", "must be a JSON object"),
    ],
)
async def test_a_malformed_call_is_an_invalid_call_that_says_why(
    call: dict[str, Any], name: str | None, arguments: str, error: str, *, stream: bool
) -> None:
    response = await answered(body(calling(**call), "tool_calls", stream=stream), stream=stream)
    (invalid,) = response.message.invalid_tool_calls
    assert (invalid["name"], invalid["args"]) == (name, arguments)
    assert error in (invalid["error"] or "")


@STREAMS
@pytest.mark.parametrize(
    "call", [{"id": "a"}, {"id": "a", "function": None}, {"id": "a", "function": "x"}], ids=repr
)
async def test_a_call_without_a_function_is_told_the_model(call: dict[str, Any], *, stream: bool) -> None:
    """litellm drops it from a stream: that the answer ended for a call is all that says it was there."""
    response = await answered(body(calling(**call), "tool_calls", stream=stream), stream=stream)
    (invalid,) = response.message.invalid_tool_calls
    assert (invalid["name"], invalid["error"]) == (None, "the call names no tool")
    assert invalid["id"]
    assert response.finish_reason == "tool_calls"


@STREAMS
async def test_an_answer_that_announces_calls_and_has_none_keeps_its_text(*, stream: bool) -> None:
    response = await answered(body(saying("I look."), "tool_calls", stream=stream), stream=stream)
    assert response.message.content == "I look."
    assert len(response.message.invalid_tool_calls) == 1


@STREAMS
async def test_missing_and_repeated_ids_are_made_unique(*, stream: bool) -> None:
    calls = [Call("ls", id=None), Call("ls", id="same"), Call("ls", id="same")]
    with Provider(Reply(calls=calls)) as provider:
        response, _ = await ask(model(provider, stream=stream))
    ids = [call["id"] for call in response.message.tool_calls]
    assert len(ids) == len(set(ids)) == 3
    assert all(ids)


@STREAMS
@pytest.mark.parametrize("arguments", ["", '{"path": "/a', '{"path": 1'])
async def test_a_call_that_the_output_limit_cut_is_not_made(arguments: str, *, stream: bool) -> None:
    message = calling(id="a", function={"name": "ls", "arguments": arguments})
    response = await answered(body(message, "length", stream=stream), stream=stream)
    (invalid,) = response.message.invalid_tool_calls
    assert invalid["error"] == "the answer reached its output limit within the arguments of this call"
    assert response.finish_reason == "length"


@STREAMS
async def test_a_whole_call_before_the_output_limit_is_made(*, stream: bool) -> None:
    message = calling(id="a", function={"name": "ls", "arguments": '{"path": "/"}'})
    response = await answered(body(message, "length", stream=stream), stream=stream)
    assert [call["args"] for call in response.message.tool_calls] == [{"path": "/"}]


@pytest.mark.parametrize("name", ["", "x y", "a\x1b[31m\u202eb", "n" * 10_000, "functions.ls", "读"])
async def test_a_name_that_no_tool_can_have_goes_back_as_one_that_providers_take(name: str) -> None:
    import re

    with Provider(Reply(calls=[Call(name)]), Reply("done")) as provider:
        serving = model(provider)
        response, _ = await ask(serving)
        from langchain_core.messages import HumanMessage, ToolMessage

        made = [*response.message.tool_calls, *response.message.invalid_tool_calls][0]
        said = made["name"]
        result = ToolMessage("no such tool", tool_call_id=made["id"], name=said)
        await ask(serving, asking(HumanMessage("hi"), response.message, result))
        (_, assistant, tool) = [m for m in provider.requests[1].body["messages"] if m["role"] != "system"]
    assert said == (name or None)
    sent = assistant["tool_calls"][0]["function"]["name"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent)
    assert tool.get("name", sent) == (sent if name else tool.get("name", sent))
    assert to_chat(response.message)["tool_calls"][0]["function"]["name"] == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "delta", "content", "role", "tool_calls", "function", "name", "arguments", "id",
             "finish_reason", "usage", "prompt_tokens", "completion_tokens", "index", "error", "model", "object",
             "type", "text", "refusal", "reasoning_content", "thinking_blocks", "prompt_tokens_details"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
ANSWERS = JSON | st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({}, optional={"message": JSON, "delta": JSON, "finish_reason": JSON})
        )
    },
    optional={"usage": JSON, "model": JSON, "id": JSON},
)


@STREAMS
@given(bodies=st.lists(ANSWERS, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
async def test_any_json_for_an_answer_has_a_classified_outcome(bodies: list[Any], *, stream: bool) -> None:
    text = json.dumps(bodies[0])
    if stream:
        text = "".join(f"data: {json.dumps(each)}\n\n" for each in bodies) + "data: [DONE]\n\n"
    with Provider(Reply(body=text)) as provider:
        try:
            response, _ = await ask(model(provider, stream=stream))
        except ModelError as error:
            said = error.message
            response = None
    if response is None:
        assert "Traceback" not in said
        return
    assert response.usage is None or isinstance(response.usage, Usage)
    assert isinstance(response.message.content, str)
    assert isinstance(response.finish_reason, str)
    json.dumps(to_chat(response.message, portable=True))
