"""Messages survive the thread log and the provider's format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from zeus_runtime.models.interface import ModelResponse
from zeus_runtime.models.messages import (
    assistant_message,
    from_chat,
    from_payload,
    parse_arguments,
    to_chat,
    to_payload,
)
from zeus_runtime.strict_json import well_formed

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
ids = st.none() | st.text("abcdef0123456789_-", min_size=1, max_size=12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
blocks = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries(
        {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": texts})}
    ),
    min_size=1,
    max_size=3,
)
contents = texts | blocks
reasoning = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_content": texts,
        "thinking_blocks": st.lists(
            st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts, "signature": texts}),
            max_size=2,
        ),
        "provider_specific_fields": objects,
        "something_else": json_values,
    },
)


@st.composite
def assistants(draw: st.DrawFn) -> AIMessage:
    names = st.text("abcdefgh_", min_size=1, max_size=10)
    calls = [
        (
            f"call_{position}",
            draw(names),
            draw(objects.map(json.dumps) | st.sampled_from(["", "{", "[1]", "nope", "NaN"])),
        )
        for position in range(draw(st.integers(0, 3)))
    ]
    return assistant_message(
        draw(contents), calls, id=draw(ids), name=draw(ids), additional_kwargs=draw(reasoning)
    )


messages = st.one_of(
    assistants(),
    st.builds(HumanMessage, content=contents, id=ids, name=ids),
    st.builds(SystemMessage, content=contents, id=ids),
    st.builds(
        ToolMessage,
        content=contents,
        id=ids,
        name=ids,
        tool_call_id=st.text("abc123", min_size=1, max_size=6),
        status=st.sampled_from(["success", "error"]),
    ),
)


@given(messages)
def test_a_message_survives_the_thread_log(message: BaseMessage) -> None:
    stored = json.loads(json.dumps(to_payload(message)))
    assert from_payload(stored) == message


@given(messages)
def test_a_message_survives_the_chat_form(message: BaseMessage) -> None:
    sent = json.loads(json.dumps(to_chat(message)))
    assert from_chat(sent) == message


@given(messages)
def test_the_portable_form_holds_only_what_providers_know(message: BaseMessage) -> None:
    chat = to_chat(message, portable=True)
    known = {"role", "content", "name", "tool_calls", "tool_call_id"}
    assert set(chat) <= known | {"reasoning_content", "thinking_blocks", "provider_specific_fields"}
    for call in chat.get("tool_calls", ()):
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_the_log_keeps_usage_artifact_and_metadata() -> None:
    answer = AIMessage(
        content="x",
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"finish_reason": "stop"},
    )
    result = ToolMessage(content="x", tool_call_id="c", artifact={"rows": [1]}, name="query")
    assert [from_payload(to_payload(message)) for message in (answer, result)] == [answer, result]


def test_a_payload_is_hardly_larger_than_its_text() -> None:
    message = ToolMessage(content="r" * 1000, tool_call_id="call_1", id="m1")
    assert len(json.dumps(to_payload(message))) < 1100


def test_signatures_on_tool_calls_go_back_to_the_provider_on_their_call() -> None:
    chat = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "ls", "arguments": "{}"},
                "provider_specific_fields": {"thought_signature": "sig"},
            }
        ],
    }
    assert to_chat(from_chat(chat), portable=True) == chat


def test_an_unreadable_call_is_kept_as_it_came_and_sent_wrapped() -> None:
    message = from_chat(
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": '{"path": '}}],
        }
    )
    assert isinstance(message, AIMessage)
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"path": '
    assert to_chat(message)["tool_calls"][0]["function"]["arguments"] == '{"path": '
    wrapped = to_chat(message, portable=True)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(wrapped) == {"invalid_arguments": '{"path": '}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1, 2]", "an array"),
        ('"x"', "a string"),
        ("{", "not valid JSON"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "JSON|deep"),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", "nested too deeply"),
        ('{"a": -1e400}', "-1e400 is too large a number"),
    ],
)
def test_bad_arguments_are_explained_to_the_model(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse_arguments(text)


def test_no_arguments_at_all_mean_an_empty_object() -> None:
    assert parse_arguments("") == parse_arguments("  ") == {}


def test_half_an_emoji_in_arguments_is_replaced() -> None:
    assert parse_arguments(r'{"a\ud83d": ["\ude00", "\ud83d\ude00", "\\ud83d"]}') == {
        "a\N{REPLACEMENT CHARACTER}": ["\N{REPLACEMENT CHARACTER}", "\N{GRINNING FACE}", r"\ud83d"]
    }


def test_halves_of_an_emoji_are_joined_and_lone_ones_replaced() -> None:
    assert well_formed("a\ud83d\ude00") == "a\N{GRINNING FACE}"
    assert well_formed("\ud83d!") == "\N{REPLACEMENT CHARACTER}!"
    assert well_formed("日本") == "日本"


@pytest.mark.parametrize("chat", [{"role": "narrator", "content": "x"}, {"role": "tool", "content": "x"}, {}])
def test_a_malformed_chat_message_is_refused(chat: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"role|tool_call_id"):
        from_chat(chat)


def test_a_message_no_conversation_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="remove"):
        to_payload(RemoveMessage(id="x"))
    with pytest.raises(ValueError, match="role"):
        from_payload({"role": "narrator"})


def test_an_answer_that_a_program_made_has_only_arguments_that_are_json() -> None:
    """Models, middlewares and bridges make answers; every walk over arguments may then be recursive."""
    deep: Any = "x"
    for _ in range(1_000):
        deep = {"a": [deep]}
    calls = [
        {"id": "deep", "name": "t", "args": {"a": deep}},
        {"id": "nan", "name": "t", "args": {"a": float("nan")}},
        {"id": "good", "name": "t", "args": {"a": 2**70, "b": -0.0}},
    ]
    message = ModelResponse(AIMessage("", tool_calls=calls)).message
    assert [each["id"] for each in message.tool_calls] == ["good"]
    told = {each["id"]: each["error"] for each in message.invalid_tool_calls}
    assert "nested too deeply" in (told["deep"] or "")
    assert "not valid JSON" in (told["nan"] or "")
    assert to_chat(message)["tool_calls"]
