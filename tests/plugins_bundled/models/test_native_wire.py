"""litellm is the oracle: without it the same is sent and read. Every difference is listed here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from zeus_plugins.models.litellm.credentials import key_of, servers_provider
from zeus_plugins.models.litellm.model import LitellmModel, create
from zeus_plugins.models.litellm.native.choice import wire_of
from zeus_plugins.models.litellm.native.servers import SERVERS, ModelServer
from zeus_plugins.models.litellm.native.sse import MOST_CHARACTERS, EventTooLongError, ServerSentEvents
from zeus_plugins.models.litellm.options import Options

from tests.plugins_bundled.models.test_litellm import LS, ask, asking, failing, priced
from tests.run.test_trajectories import trajectories
from tests.support.provider import Call, Provider, Received, Reply
from zeus_runtime import ConfigError, OptionsError
from zeus_runtime.config import Diagnostic
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.plugin import PlanContext, Secret
from zeus_runtime.plugin.model import CachePoints, ModelError, ModelRequest, ToolSchema, from_chat

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")

WIRES: tuple[Literal["litellm", "native"], ...] = ("litellm", "native")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALLED = AIMessage(
    "",
    tool_calls=[
        {"name": "ls", "args": {"path": "é\u2028\U0001f600"}, "id": "c1", "type": "tool_call"},
        {"name": "ls", "args": {}, "id": "c2", "type": "tool_call"},
    ],
    additional_kwargs={
        "reasoning_content": "thought",
        "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}],
        "provider_specific_fields": {"thought_signature": "x"},
    },
)
FORM: Mapping[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "Its name."},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "stars": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["title", "kind", "stars", "tags"],
            "additionalProperties": False,
        },
    },
}
REQUESTS: Mapping[str, ModelRequest] = {
    "text": asking("hi"),
    "no system": asking("hi", system=""),
    "tools": asking("hi", tools=[LS]),
    "calls": asking("hi", CALLED, ToolMessage("a", tool_call_id="c1", name="ls"), ToolMessage("", tool_call_id="c2")),
    "an invalid call": asking(
        "hi",
        AIMessage(
            "so",
            invalid_tool_calls=[
                {"name": "no name\u202e", "args": "{", "id": "c1", "error": "", "type": "invalid_tool_call"}
            ],
        ),
        ToolMessage("wrong", tool_call_id="c1", status="error"),
    ),
    "empty answers": asking("hi", AIMessage(""), "", AIMessage("said")),
    "a picture": asking(HumanMessage([{"type": "text", "text": "look"}, PICTURE])),
    "odd characters": asking("\x00\x1b \u202e \ufeff \U0010ffff \\ \" </script> \u2028"),
    "a name": asking(HumanMessage("hi", name="ann")),
    "a system message in between": asking("hi", SystemMessage("now"), "go on"),
    "cache points": asking(
        "hi", CALLED, ToolMessage("a", tool_call_id="c1"), tools=[LS], stable_system_length=3,
        cache_points=CachePoints(tools=True, system=True, messages=(0, 2), lifetime="1h"),
    ),
    "a form of the answer": asking("hi", tools=[LS], settings={"response_format": FORM}),
    "settings": asking("hi", tools=[LS], settings={"max_tokens": 5, "seed": 3, "parallel_tool_calls": False}),
}  # fmt: skip
MODELS: Mapping[str, Mapping[str, Any]] = {
    "gpt-4o": {},
    "sampling": {"temperature": 0.5, "top_p": 0.9, "max_tokens": 5, "extra": {"seed": 1, "stop": ["x"]}},
    "gpt-5": {"model": "openai/gpt-5.2", "max_tokens": 5, "extra": {"service_tier": "flex"}},
    "gpt-5 with an effort": {"model": "openai/gpt-5.2", "extra": {"reasoning_effort": "high"}},
    "gpt-5-chat": {"model": "openai/gpt-5-chat-latest", "max_tokens": 5},
    "a bare name": {"model": "gpt-4.1"},
    "a deployment of azure": {"model": "azure/my-deployment", "max_tokens": 5, "temperature": 0.5},
    "a deployment named as gpt-5": {"model": "azure/gpt-5-mini", "max_tokens": 5, "extra": {"seed": 1}},
    "a server of one's own": {
        "model": "openai/org/acme-7b:free",
        "headers": {"X-Team": "a", "User-Agent": "us"},
    },
}


async def asked(
    wire: str, request: ModelRequest, reply: Reply | None = None, **options: Any
) -> tuple[Received, Any, list[Any]]:
    """The request as the provider got it, and the response with its pieces."""
    with Provider(reply or Reply("ok")) as provider:
        response, pieces = await ask(known(provider, wire, **options), request)
        return provider.requests[0], response, pieces


def known(provider: Provider, wire: str, **options: Any) -> LitellmModel:
    """A model with its real profile, and prices."""
    name = options.get("model", "openai/gpt-4o")
    base = provider.anthropic if "claude" in name else provider.openai
    if name.startswith("azure/"):
        base = base.removesuffix("/v1")
        options = {**options, "extra": {"api_version": "2025-04-01-preview", **options.get("extra", {})}}
    values = {"model": name, "api_base": base, "api_key": Secret("sk-test"), **options}
    profile = priced(values["model"])
    context = SimpleNamespace(profile_of=lambda _: profile, environ={}, process_environ={}, profile=profile)
    return create(Options(**values, wire=wire), cast(PlanContext, context))  # type: ignore[arg-type]


def in_pairs(requests: Mapping[str, ModelRequest], models: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Each request with each model, each of both streamed and whole with some of the others."""
    return [
        pytest.param(request, options, (row + column) % 2 == 0, id=f"{title}-{name}")
        for row, (title, request) in enumerate(requests.items())
        for column, (name, options) in enumerate(models.items())
    ]


@pytest.mark.parametrize(("request_", "options", "stream"), in_pairs(REQUESTS, MODELS))
async def test_the_request_is_litellms(
    request_: ModelRequest, options: Mapping[str, Any], *, stream: bool
) -> None:
    theirs, ours = [(await asked(wire, request_, stream=stream, **options))[0] for wire in WIRES]
    assert (ours.body, ours.path) == (theirs.body, theirs.path)
    for header in ("authorization", "api-key", "content-type", "accept", "x-team"):
        assert ours.headers.get(header) == theirs.headers.get(header), header
    if "headers" in options:
        assert ours.headers["user-agent"] == theirs.headers["user-agent"] == "us"


AT_SERVERS: Mapping[str, str] = {
    "deepseek": "deepseek/deepseek-chat",
    "fireworks_ai": "fireworks_ai/accounts/fireworks/models/llama-v3p3-70b-instruct",
    "groq": "groq/llama-3.3-70b-versatile",
    "hosted_vllm": "hosted_vllm/org/acme",
    "lm_studio": "lm_studio/acme",
    "mistral": "mistral/mistral-large-latest",
    "openrouter": "openrouter/openai/gpt-4o",
    "together_ai": "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "xai": "xai/grok-4",
}
OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"max_tokens": 5, "temperature": 0.5, "top_p": 0.5},
    {"stream": False},
)


def test_every_server_is_compared() -> None:
    assert {"openai", "azure", "anthropic", *AT_SERVERS} == SERVERS.keys()


@pytest.mark.parametrize("server", AT_SERVERS)
async def test_the_request_to_another_server_is_litellms(server: str) -> None:
    """Each server gets all options, and each request goes with each of them to some servers."""
    name, compared, first = AT_SERVERS[server], 0, list(AT_SERVERS).index(server)
    formless = {title: request for title, request in REQUESTS.items() if title != "a form of the answer"}
    for place, (title, request) in enumerate(formless.items(), first):
        options = OPTIONS[place % len(OPTIONS)]
        theirs, ours = [
            (await asked(wire, request, model=name, **options))[0] for wire in ("litellm", "auto")
        ]
        if ours.headers["user-agent"] != "zeus-runtime":
            # Seeds, caching and pictures that litellm changes are left to it.
            assert title in ("settings", "cache points", "a picture")
            continue
        compared += 1
        if (server, title) in (("mistral", "calls"), ("mistral", "cache points")):
            # litellm leaves out an empty result, and then its call has none.
            kept = [each for each in ours.body["messages"] if each["role"] != "tool" or each["content"]]
            ours.body["messages"] = kept
        assert (ours.body, ours.path) == (theirs.body, theirs.path)
        assert ours.headers["authorization"] == theirs.headers["authorization"] == "Bearer sk-test"
    assert compared >= len(formless) - 3


@pytest.mark.parametrize("server", AT_SERVERS)
async def test_a_form_of_the_answer_is_left_to_litellm_at_another_server(server: str) -> None:
    """It changes the form for some, and refuses it beside tools for others."""
    request = REQUESTS["a form of the answer"]
    if server == "groq":
        with pytest.raises(ModelError, match="does not support native structured outputs"):
            await asked("auto", request, model=AT_SERVERS[server])
        return
    sent, *_ = await asked("auto", request, model=AT_SERVERS[server])
    assert sent.headers["user-agent"] != "zeus-runtime"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("server", AT_SERVERS)
async def test_the_answer_of_another_server_is_read_as_litellm_reads_it(server: str, *, stream: bool) -> None:
    for reply in (ANSWERS["text and parallel calls"], ANSWERS["cached"], ANSWERS["cut at the limit"]):
        (_, theirs, their_pieces), (_, ours, our_pieces) = [
            await asked(wire, asking("hi", tools=[LS]), reply, stream=stream, model=AT_SERVERS[server])
            for wire in WIRES
        ]
        assert our_pieces == their_pieces
        assert replace(ours, model="") == replace(theirs, model="")


AZURES = ("AZURE_API_BASE", "AZURE_API_VERSION")


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_address_and_key_of_a_server_are_litellms(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import litellm

    for variable in (*server.keys, *server.bases, *server.variables_of_base):
        monkeypatch.delenv(variable, raising=False)
    name = {"anthropic": "anthropic/claude-sonnet-4-5", **AT_SERVERS}.get(
        server.provider, f"{server.provider}/gpt-4o"
    )
    if server.base is not None and server.provider not in ("openai", "openrouter", "anthropic"):
        assert litellm.get_llm_provider(name)[3] == server.base
    needed = server.keys[:1] if server.needs_key else ()
    missing = litellm.validate_environment(name)["missing_keys"]
    assert sorted(missing) == sorted((*needed, *AZURES) if server.provider == "azure" else needed)
    assert (wire_of(Options(name), lookup(name), {}).served is not None) == (server.base is not None)
    for variable in server.keys[:1]:
        found = servers_provider(server, {variable: "k"})
        assert (found.missing(None, None), key_of(server, {variable: "k"})) == ([], "k")


@pytest.mark.parametrize(
    ("name", "more", "environ", "why"),
    [
        ("azure/d", {}, {}, None),
        ("azure/d", {"extra": {}}, {"AZURE_API_VERSION": "2024-10-21"}, None),
        ("azure/d", {"extra": {}}, {}, "no API version is set"),
        ("azure/d", {"extra": {"api_version": "preview"}}, {}, "the paths of the API version 'preview'"),
        (
            "azure/d",
            {"api_base": "http://127.0.0.1:9/openai/deployments/d"},
            {},
            "litellm builds the address",
        ),
        ("azure/d", {"api_base": None}, {}, "no api_base names the server"),
        ("azure/d", {"api_base": None}, {"AZURE_API_BASE": "https://x.openai.azure.com/"}, None),
        ("azure/a/b", {}, {}, "litellm builds the address"),
        ("azure/o3-mini", {}, {}, "litellm changes requests for o3-mini"),
        ("azure/gpt-5.4-x", {}, {}, "only at /responses"),
        ("azure/d", {"extra": {"api_version": "2025-01-01", "user": "u"}}, {}, "takes 'user'"),
        ("azure/d", {}, {"AZURE_AD_TOKEN": "x"}, "litellm reads AZURE_AD_TOKEN"),
        ("azure/d", {}, {"AZURE_CLIENT_ID": "x"}, "litellm reads AZURE_CLIENT_ID"),
        ("mistral/x", {"extra": {}, "api_base": None}, {}, None),
        ("mistral/x", {"extra": {}, "api_base": "http://127.0.0.1:9/v1"}, {}, None),
        ("mistral/x", {"extra": {}, "api_base": "http://127.0.0.1:9"}, {}, "litellm adds /v1"),
        ("mistral/magistral-small", {"extra": {}, "api_base": None}, {}, "litellm changes requests"),
        ("mistral/x", {"extra": {"seed": 1}, "api_base": None}, {}, "takes 'seed'"),
        (
            "mistral/x",
            {"extra": {}, "api_base": None},
            {"MISTRAL_AZURE_API_BASE": "x"},
            "litellm reads MISTRAL_AZURE",
        ),
    ],
)
def test_which_models_of_azure_and_mistral_are_called_without_litellm(
    name: str, more: Mapping[str, Any], environ: Mapping[str, str], why: str | None
) -> None:
    given = {"api_base": "https://r.openai.azure.com", "extra": {"api_version": "2025-01-01"}, **more}
    wire = wire_of(Options(name, **given), lookup(name), environ)
    assert (wire.served is None) == (why is not None)
    assert (why or "chat completions") in wire.why


@pytest.mark.parametrize("fault", ["401", "404", "429", "too long", "a content filter"])
async def test_faults_of_azure_are_classified_as_litellm_does(fault: str) -> None:
    filtered = {"error": {"message": "The response was filtered", "code": "content_filter", "status": 400}}
    replies = {**FAULTS, "a content filter": Reply(status=400, body=json.dumps(filtered))}
    found = []
    for wire in WIRES:
        with Provider(*[replies[fault]] * 3) as provider:
            error = await failing(known(provider, wire, model="azure/d"))
            found.append((error.kind, error.status, error.limit_tokens, error.retry_after_seconds))
    assert found[0] == found[1]


@pytest.mark.parametrize("stream", [True, False])
async def test_the_answer_of_azure_is_read_as_litellm_reads_it(*, stream: bool) -> None:
    for reply in ANSWERS.values():
        if reply is ANSWERS["no ids"]:
            continue
        (_, theirs, their_pieces), (_, ours, our_pieces) = [
            await asked(wire, asking("hi", tools=[LS]), reply, stream=stream, model="azure/d")
            for wire in WIRES
        ]
        assert our_pieces == their_pieces
        assert replace(ours, model="") == replace(theirs, model="")


async def test_a_tool_whose_schema_has_an_address_goes_to_mistral_by_litellm() -> None:
    for key, left in (("$schema", True), ("$id", True), ("additionalProperties", False)):
        schema = {"type": "object", "properties": {"a": {"type": "object", key: "http://x.example/a"}}}
        request = asking("hi", tools=[ToolSchema("t", "A tool.", schema)])
        got, _, _ = await asked("auto", request, model="mistral/mistral-large-latest")
        assert (got.headers["user-agent"] != "zeus-runtime") == left
        assert (key in json.dumps(got.body)) != left


async def test_the_first_event_of_azure_has_no_choice() -> None:
    """It reports what its filters found in the prompt."""
    events = [
        {
            "choices": [],
            "created": 0,
            "id": "",
            "model": "",
            "object": "",
            "prompt_filter_results": [{"prompt_index": 0}],
        },
        {
            "choices": [
                {"index": 0, "delta": {"role": "assistant", "content": ""}, "content_filter_results": {}}
            ]
        },
        {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}], "model": "gpt-4o"},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "model": "gpt-4o"},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}},
    ]
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
    reply = Reply(body=body, headers={"content-type": "text/event-stream"})
    (_, theirs, their_pieces), (_, ours, our_pieces) = [
        await asked(wire, asking("hi"), reply, model="azure/d") for wire in WIRES
    ]
    assert (ours.message.content, ours.usage.input_tokens) == ("hi", 5)
    assert our_pieces == their_pieces
    assert replace(ours, model="") == replace(theirs, model="")


async def test_the_request_to_openai_itself_is_litellms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the loopback provider passes for OpenAI: no marks for caching reach it."""
    import litellm
    from litellm.llms.openai.chat.gpt_transformation import OpenAIGPTConfig
    from zeus_plugins.models.litellm.native import chat

    assert litellm
    monkeypatch.setattr(OpenAIGPTConfig, "_targets_openai_hosted_endpoint", lambda *_: True)
    monkeypatch.setattr(chat, "is_official", lambda _: True)
    for request in REQUESTS.values():
        theirs, ours = [(await asked(wire, request))[0] for wire in WIRES]
        assert ours.body == theirs.body
    assert "cache_control" not in json.dumps(ours.body)


async def test_pictures_of_tools_follow_the_results() -> None:
    request = asking(
        "hi", CALLED, ToolMessage([{"type": "text", "text": "pic"}, PICTURE], tool_call_id="c1"),
        ToolMessage([PICTURE], tool_call_id="c2"), "and?",
    )  # fmt: skip
    theirs, ours = [(await asked(wire, request))[0].body["messages"] for wire in WIRES]
    own_words = [ours[4]["content"], ours[5]["content"][0]["text"]]
    their_words = [theirs[4]["content"], theirs[5]["content"][0]["text"]]
    written = json.dumps(ours)
    for our, their in zip(own_words, their_words, strict=True):
        assert our != their
        written = written.replace(our, their)
    assert json.loads(written) == theirs


@pytest.mark.parametrize("messages", trajectories())
async def test_every_request_of_a_recorded_conversation_is_litellms(
    messages: Sequence[Mapping[str, Any]],
) -> None:
    system = "".join(each["content"] for each in messages if each["role"] == "system")
    said: list[BaseMessage] = [from_chat(each) for each in messages if each["role"] != "system"]
    names = {call["function"]["name"] for each in messages for call in each.get("tool_calls") or ()}
    tools = [ToolSchema(name, "A tool.", {"type": "object"}) for name in sorted(names)]
    ends = [place for place, each in enumerate(said) if each.type == "ai"][-3:]
    requests = [ModelRequest(system, said[:end], tools) for end in ends]
    bodies: dict[str, list[Any]] = {}
    for wire in WIRES:
        with Provider(*[Reply("ok")] * len(requests)) as provider:
            made = known(provider, wire)
            for request in requests:
                await ask(made, request)
            bodies[wire] = [each.body for each in provider.requests]
    assert bodies["native"] == bodies["litellm"]


ANSWERS: Mapping[str, Reply] = {
    "text": Reply("hello wörld \U0001f600"),
    "a call": Reply(calls=[Call("ls", '{"path": "/a"}')]),
    "text and parallel calls": Reply("so", calls=[Call("ls", '{"path": "/"}', "a"), Call("ls", "{}", "b")]),
    "calls without an index": Reply(
        calls=[Call("ls", '{"path": "/"}', "a"), Call("ls", "{}", "b")], indexed=False
    ),
    "calls with one index": Reply(
        calls=[Call("ls", '{"path": "/"}', "a"), Call("ls", "{}", "b")], same_index=True
    ),
    "repeated ids": Reply(calls=[Call("ls", '{"path": "/"}', "a")], repeat_ids=True),
    "no ids": Reply(calls=[Call("ls", '{"path": "/"}', None)]),
    "no JSON": Reply(calls=[Call("ls", '{"path": "/')]),
    "reasoning": Reply("yes", reasoning="because", usage={"in": 5, "out": 9, "reasoning": 4}),
    "cached": Reply("yes", usage={"in": 50, "out": 9, "cached": 40}),
    "no usage": Reply("yes", usage=None),
    "cut at the limit": Reply("half", finish_reason="length"),
    "filtered": Reply("half", finish_reason="content_filter"),
    "an unknown reason": Reply("half", finish_reason="weather"),
    "an old reason": Reply("half", finish_reason="eos"),
    "nothing": Reply(""),
    "large pieces": Reply("x" * 200_000, piece=50_000),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reply", ANSWERS.values(), ids=ANSWERS)
async def test_the_answer_is_read_as_litellm_reads_it(reply: Reply, *, stream: bool) -> None:
    (_, theirs, their_pieces), (_, ours, our_pieces) = [
        await asked(wire, asking("hi", tools=[LS]), reply, stream=stream) for wire in WIRES
    ]
    if reply is ANSWERS["no ids"] and not stream:
        # litellm makes a random id. Ours is the same each time, so that a resumed run finds its call.
        (ours_made,) = our_pieces
        assert replace(ours_made, id=their_pieces[0].id) == their_pieces[0]
        return
    assert our_pieces == their_pieces
    # In a stream litellm reports the name that was asked for, not the one that answered.
    assert ours.model == "served-model"
    assert replace(ours, model="") == replace(theirs, model="")


TOO_LONG = {"error": {"message": "This model's maximum context length is 128000 tokens. However, your messages"
                      " resulted in 130001 tokens.", "code": "context_length_exceeded"}}  # fmt: skip
FAULTS: Mapping[str, Reply] = {
    **{str(each): Reply("no", status=each) for each in (400, 401, 402, 403, 404, 408, 409, 413, 422, 500, 503, 529)},
    "429": Reply("slow down", status=429, headers={"retry-after": "7"}),
    "429 in ms": Reply("slow down", status=429, headers={"retry-after-ms": "1500"}),
    "429 with a date": Reply("slow", status=429, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "429 in the text": Reply("Rate limit reached. Please try again in 1.5s.", status=429),
    "no credit": Reply("You exceeded your current quota", status=429),
    "too long": Reply(status=400, body=json.dumps(TOO_LONG)),
    "an empty error": Reply(status=500, body=""),
    "an error page": Reply(status=502, body="<html>Bad Gateway</html>", headers={"content-type": "text/html"}),
    "an error as a list": Reply(status=500, body='["no"]'),
    "a reset before the answer": Reply("x", reset_after=0),
    "a reset in the middle": Reply("some text that is cut", reset_after=3),
    "a cut in the middle": Reply("some text that is cut", cut_after=3),
    "garbage": Reply(body="not JSON at all"),
    "an empty body": Reply(body=""),
    "a number": Reply(body="5"),
    "no choices": Reply(body=json.dumps({"id": "x", "object": "chat.completion", "choices": []})),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "stream"),
    [(each, stream) for each in FAULTS for stream in (True, False) if stream or "in the middle" not in each],
)
async def test_a_fault_has_the_same_outcome(fault: str, *, stream: bool) -> None:
    found: list[tuple[Any, ...]] = []
    for wire in WIRES:
        with Provider(FAULTS[fault]) as provider:
            error = await failing(known(provider, wire, stream=stream))
        wait = None if error.retry_after_seconds is None else round(error.retry_after_seconds)
        found.append((error.kind, wait, error.input_tokens, error.limit_tokens, error.exit_code))
    theirs, ours = found
    assert ours == theirs


async def test_a_connection_serves_many_calls_and_agents() -> None:
    with Provider(*[Reply("ok")] * 6) as provider:
        for _ in range(2):
            made = known(provider, "native")
            for stream in (True, True, False):
                await ask(made if stream else known(provider, "native", stream=False))
        assert provider.open_connections == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_redirect_is_not_followed(wire: str) -> None:
    reply = Reply(status=307, body="", headers={"location": "http://elsewhere.example/v1"})
    with Provider(reply) as provider:
        error = await failing(known(provider, wire))
    assert (error.kind, error.remedy) == ("bad_request", "Correct api_base")
    assert "http://elsewhere.example/v1" in error.message


@pytest.mark.parametrize("stream", [True, False])
async def test_a_compressed_answer_is_read(stream: bool) -> None:
    text = json.dumps({"choices": [{"message": {"content": "small"}, "finish_reason": "stop"}]})
    if stream:
        text = "".join(
            f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': reason}]})}\n\n"
            for delta, reason in (({"content": "small"}, None), ({}, "stop"))
        )
    reply = Reply(body=Compressed(text), headers={"content-encoding": "gzip"})
    with Provider(reply) as provider:
        response, _ = await ask(known(provider, "native", stream=stream))
    assert response.message.content == "small"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_unpacks_to_more_than_the_limit_is_not_read_on(
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
) -> None:
    from zeus_plugins.models.litellm.native import sending

    monkeypatch.setattr(sending, "MOST_BYTES", 10_000)
    reply = Reply(body=Compressed(": comment\n" * 100_000), headers={"content-encoding": "gzip"})
    with Provider(reply) as provider:
        error = await failing(known(provider, "native", stream=stream))
    assert (error.kind, error.message) == ("server", "the provider's answer has more than 10,000 bytes")


async def test_a_server_that_does_not_stream_is_read_all_the_same() -> None:
    body = json.dumps({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]})
    with Provider(Reply(body=body, headers={"content-type": "application/json"})) as provider:
        response, _ = await ask(known(provider, "native"))
    assert response.message.content == "whole"


async def test_an_error_inside_a_stream_is_classified_by_its_code() -> None:
    event = {"error": {"message": "Provider returned error", "code": 429}, "choices": []}
    with Provider(Reply(body=f"data: {json.dumps(event)}\n\n")) as provider:
        error = await failing(known(provider, "native"))
    assert (error.kind, error.status) == ("rate_limit", 429)


@pytest.mark.parametrize("options", [{}, {"wire": "native"}])
async def test_what_only_litellm_can_send_is_left_to_it_or_refused(options: dict[str, Any]) -> None:
    odd = ToolSchema(
        "odd", "", {"type": "object", "properties": {"a": {"type": "string", "pattern": r"\p{Lu}"}}}
    )
    for request in (asking("hi", tools=[odd]), asking("hi", settings={"logprobs": True})):
        with Provider(Reply("ok")) as provider:
            made = known(provider, **{"wire": "auto", **options})
            if options:
                error = await failing(made, request)
                assert error.remedy == "Use model.litellm.wire: auto"
            else:
                await ask(made, request)
                assert "AsyncOpenAI" in provider.requests[0].headers["user-agent"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, None),
        ({"api_base": None}, None),
        ({"model": "openai/acme"}, None),
        ({"model": "gpt-4.1"}, None),
        ({"model": "openai/gpt-5.6"}, None),
        ({"model": "openai/gpt-5.6", "api_base": None}, "only at /responses"),
        ({"model": "openai/gpt-5.6", "api_base": "https://eu.api.openai.com/v1"}, "only at /responses"),
        ({"model": "openai/gpt-5-codex"}, "at another path"),
        ({"model": "openai/responses/gpt-4o"}, "at another path"),
        ({"model": "openai/o3"}, "litellm changes requests for o3"),
        ({"model": "openai/gpt-4o-search-preview"}, "litellm changes requests"),
        ({"model": "openai/gpt-5.2", "temperature": 0.5}, "whether gpt-5.2 takes 'temperature'"),
        ({"extra": {"reasoning_effort": "low"}}, "whether gpt-4o takes 'reasoning_effort'"),
        ({"api_base": "http://host/v1?version=2"}, "not a plain URL"),
        ({"api_base": "http://user:word@host/v1"}, "not a plain URL"),
        ({"model": "bedrock/anthropic.claude-3-haiku-20240307-v1:0"}, "the provider is not known"),
        ({"model": "nobody"}, "the provider is not known"),
        ({"model": "groq/llama-3.3-70b-versatile", "api_base": None}, None),
        ({"model": "groq/x", "extra": {"seed": 1}}, "whether x takes 'seed'"),
        ({"model": "hosted_vllm/x"}, None),
        ({"model": "hosted_vllm/x", "api_base": None}, "no api_base names the server"),
        ({"model": "fireworks_ai/llama"}, "litellm changes requests for llama"),
        ({"model": "deepseek/deepseek-reasoner"}, "litellm changes requests for deepseek-reasoner"),
    ],
    ids=repr,
)
def test_the_wire_follows_from_model_and_options(options: dict[str, Any], why: str | None) -> None:
    values = {"model": "openai/gpt-4o", "api_base": "http://127.0.0.1:1/v1", **options}
    wire = wire_of(Options(**values), lookup(values["model"]), {})
    assert (wire.served is None) == (why is not None)
    assert (why or "chat completions") in wire.why


def test_a_variable_that_only_litellm_reads_decides_too() -> None:
    for name, variable in (("openai/x", "SSL_VERIFY"), ("groq/x", "GROQ_API_BASE")):
        assert f"litellm reads {variable}" == wire_of(Options(name), lookup(name), {variable: "false"}).why


def test_a_wire_that_cannot_be_had_is_refused_at_once() -> None:
    with Provider() as provider, pytest.raises(OptionsError, match="only at /responses") as raised:
        known(provider, "native", model="openai/gpt-5.6", api_base=None)
    assert (raised.value.where, raised.value.remedy) == ("wire", "Use wire: auto")


EVENTS = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1))


@given(EVENTS, st.sampled_from(["\n", "\r", "\r\n"]), st.data())
@settings(max_examples=200)
def test_events_are_read_from_any_pieces(events: list[str], end: str, data: st.DataObject) -> None:
    text = "\ufeff: a comment" + end + "".join(f"id: 1{end}data: {each}{end}{end}" for each in events)
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    reader, found = ServerSentEvents(), []
    for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += reader.add(raw[start:stop])
    assert [*found, *reader.end()] == events


def test_the_lines_of_an_event_are_joined_and_a_last_event_may_lack_its_end() -> None:
    reader = ServerSentEvents()
    assert list(reader.add(b"event: x\ndata: a\ndata:b\n\ndata: c")) == ["a\nb"]
    assert list(reader.end()) == ["c"]


def test_an_event_without_an_end_is_refused() -> None:
    reader, piece = ServerSentEvents(), b"x" * (1 << 20)
    for _ in range(MOST_CHARACTERS // len(piece)):
        assert not list(reader.add(piece))
    with pytest.raises(EventTooLongError):
        list(reader.add(b"x"))


class Compressed(str):
    """A body that is sent compressed."""

    def encode(self, *_: Any) -> bytes:
        return gzip.compress(str.encode(self, "utf-8"))


def test_a_config_that_demands_a_wire_that_cannot_be_had_is_refused_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel:\n  litellm:\n    model: cohere/command-r\n    wire: native\n")
    with pytest.raises(ConfigError) as raised:
        make_plan(check(config, environ={}, directory=tmp_path))
    (problem,) = raised.value.diagnostics
    assert (problem.position and problem.position.line, problem.hint) == (5, "Use wire: auto")
    assert "the provider is not known" in problem.message


def refused(tmp_path: Path, options: str) -> list[Diagnostic]:
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel:\n  litellm:\n    model: openai/acme\n    {options}\n")
    with pytest.raises(ConfigError) as raised:
        make_plan(check(config, environ={}, directory=tmp_path))
    assert "hunter2" not in str(raised.value)
    return list(raised.value.diagnostics)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("api_base: 'http://[::1'", "not a URL"),
        ("api_base: http://host:port/v1", "not a URL"),
        ("api_base: nonsense", "does not begin with http"),
        ("api_base: localhost:8000/v1", "does not begin with http"),
        ("api_base: 'http:///v1'", "names no host"),
        ("headers: {'X Team': hunter2}", "no header can have this name"),
        ("headers: {'': hunter2}", "no header can have this name"),
        ('headers: {X-Team: "a\\nhunter2"}', "its value has a line break"),
        ('headers: {X-Team: "\\xe9hunter2"}', "its value has"),
        ('api_key: "hunter2\\nhunter2"', "the key has a line break"),
    ],
)
@pytest.mark.parametrize("wire", ["auto", "litellm"])
def test_an_address_a_key_and_a_header_that_no_request_can_have_are_refused_at_their_place(
    tmp_path: Path, options: str, why: str, wire: str
) -> None:
    (problem,) = refused(tmp_path, f"{options}\n    wire: {wire}")
    assert problem.position is not None
    assert (problem.code, problem.position.line) == ("misfit", 5)
    assert why in problem.message


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
@pytest.mark.parametrize("base", ["http://[::1", "nonsense"])
def test_a_variable_without_an_address_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, base: str
) -> None:
    monkeypatch.setenv(variable, base)
    (problem,) = refused(tmp_path, "stream: true")
    assert problem.position is not None
    assert problem.position.line == 4
    assert f"the address in {variable}" in problem.message


@pytest.mark.parametrize(
    ("process", "dotenv", "sent"),
    [
        ({"OPENAI_API_KEY": "mine\n"}, {"OPENAI_ORGANIZATION": "theirs", "OPENAI_PROJECT": "theirs"}, None),
        ({"OPENAI_API_KEY": "mine", "OPENAI_ORGANIZATION": "own"}, {"OPENAI_PROJECT": "theirs"}, "own"),
        ({}, {"OPENAI_API_KEY": "theirs", "OPENAI_ORGANIZATION": "theirs"}, "theirs"),
    ],
)
async def test_a_projects_env_file_chooses_no_account_for_a_key_of_the_users(
    process: dict[str, str], dotenv: dict[str, str], sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in process.items():
        monkeypatch.setenv(name, value)
    with Provider(Reply("x")) as provider:
        profile = priced("openai/gpt-4o")
        context = SimpleNamespace(
            profile_of=lambda _: profile,
            environ={**process, **dotenv},
            process_environ=process,
            profile=profile,
        )
        made = create(
            Options("openai/gpt-4o", api_base=provider.openai, wire="native"), cast(PlanContext, context)
        )
        await ask(made)
        headers = provider.requests[0].headers
    assert headers.get("openai-organization") == sent
    assert "openai-project" not in headers


@pytest.mark.parametrize("wire", ["native", "litellm"])
async def test_white_space_around_a_key_and_a_header_is_not_sent(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, _, _ = await asked(wire, asking(), headers={"X-Team": " blue\n"})
    assert received.headers["x-team"] == "blue"
    for key in (Secret("sk-mounted\n"), None):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-mounted\n")
        received, _, _ = await asked(wire, asking(), api_key=key)
        assert received.headers["authorization"] == "Bearer sk-mounted"


async def test_a_key_of_a_variable_that_no_header_can_have_is_not_a_connections_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a\nhunter2")
    with Provider() as provider:
        error = await failing(known(provider, "native", api_key=None))
    assert error.kind == "bad_request"
    assert "'authorization'" in str(error)
    assert "hunter2" not in str(error)
