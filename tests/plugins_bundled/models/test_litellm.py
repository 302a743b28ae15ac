"""The litellm plugin, driven through the real litellm against a provider on the loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from zeus_plugins.models.litellm.model import LitellmModel, create
from zeus_plugins.models.litellm.options import Options

from tests.support.hand_time import moved_by_hand
from tests.support.provider import Call, Provider, Reply
from zeus_runtime import OptionsError
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin import PlanContext, Secret
from zeus_runtime.plugin.model import (
    ModelError,
    ModelPiece,
    ModelProfile,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
    Usage,
)

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")


class Chosen:
    wire: Literal["auto", "litellm"] = "auto"


@pytest.fixture(autouse=True, scope="module", params=["auto", "litellm"])
def wire(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run each test on both wires: a user can count on the same outcome."""
    Chosen.wire = request.param
    yield request.param
    Chosen.wire = "auto"


PROVIDERS = ["openai", "anthropic"]
NAMES = {"openai": "openai/gpt-4o", "anthropic": "anthropic/claude-sonnet-4-5"}
LS = ToolSchema("ls", "Lists a folder.", {"type": "object", "properties": {"path": {"type": "string"}}})


def priced(name: str) -> ModelProfile:
    """The model's own profile, with prices to reckon with."""
    return replace(
        lookup(name), input_cost_per_token=1.0, output_cost_per_token=10.0, cache_read_cost_per_token=0.5
    )


def model(
    provider: Provider, kind: str = "openai", environ: Mapping[str, str] | None = None, **options: Any
) -> LitellmModel:
    values = {
        "model": NAMES[kind],
        "api_base": getattr(provider, kind),
        "api_key": Secret("sk-test"),
        "wire": Chosen.wire,
        **options,
    }
    profile = priced(values["model"])
    context = SimpleNamespace(
        profile_of=lambda name: profile, environ=environ or {}, process_environ={}, profile=profile
    )
    return create(Options(**values), cast(PlanContext, context))


def asking(*messages: BaseMessage | str, system: str = "Be brief.", **changes: Any) -> ModelRequest:
    turns = [HumanMessage(message) if isinstance(message, str) else message for message in messages]
    return ModelRequest(system, turns or [HumanMessage("hi")], **changes)


async def ask(
    model: LitellmModel, request: ModelRequest | None = None
) -> tuple[ModelResponse, list[ModelPiece]]:
    pieces = [piece async for piece in model.stream(request or asking())]
    *streamed, response = pieces
    assert isinstance(response, ModelResponse)
    assert not any(isinstance(piece, ModelResponse) for piece in streamed)
    return response, streamed


async def failing(model: LitellmModel, request: ModelRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, request)
    return caught.value


async def failing_in_time(provider: Provider, model: LitellmModel) -> ModelError:
    """As ``failing``; time passes once the provider has got the request."""
    with moved_by_hand() as time:
        asked = asyncio.create_task(failing(model))
        assert await asyncio.to_thread(provider.wait_for_requests, 1)
        passing = asyncio.create_task(time.goes_on())
        error = await asked
        passing.cancel()
    return error


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_an_answer_streams_and_is_whole_at_the_end(kind: str) -> None:
    with Provider(Reply("Hello, world!")) as provider:
        response, pieces = await ask(model(provider, kind))
    assert [piece.text for piece in pieces if isinstance(piece, TextDelta)] == ["Hell", "o, w", "orld", "!"]
    assert response.message.content == "Hello, world!"
    assert response.finish_reason == "stop"
    assert response.usage == Usage(input_tokens=11, output_tokens=7)
    assert response.cost_usd == 11 + 70


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_without_streaming_the_answer_is_the_same(kind: str) -> None:
    reply = Reply("Hello", calls=[Call("ls", '{"path": "/"}', "a"), Call("ls", "{}", "b")])
    with Provider(reply, reply) as provider:
        streamed, _ = await ask(model(provider, kind), asking(tools=[LS]))
        whole, pieces = await ask(model(provider, kind, stream=False), asking(tools=[LS]))
        assert [request.body.get("stream", False) for request in provider.requests] == [True, False]
    assert (whole.message, whole.usage, whole.finish_reason) == (
        streamed.message,
        streamed.usage,
        streamed.finish_reason,
    )
    assert [type(piece) for piece in pieces] == [TextDelta, ToolCallDelta, ToolCallDelta]


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_parallel_calls_come_in_pieces_and_whole(kind: str) -> None:
    reply = Reply(calls=[Call("ls", '{"path": "/a"}', "a"), Call("ls", '{"path": "/b"}', "b")])
    with Provider(reply) as provider:
        response, pieces = await ask(model(provider, kind), asking(tools=[LS]))
    assert [(call["id"], call["args"]) for call in response.message.tool_calls] == [
        ("a", {"path": "/a"}),
        ("b", {"path": "/b"}),
    ]
    assert response.finish_reason == "tool_calls"
    deltas = [piece for piece in pieces if isinstance(piece, ToolCallDelta)]
    assert [(piece.index, piece.id, piece.name) for piece in deltas if piece.id] == [
        (0, "a", "ls"),
        (1, "b", "ls"),
    ]
    assert "".join(piece.arguments for piece in deltas if piece.index == 1) == '{"path": "/b"}'


@pytest.mark.parametrize(
    "style", [{"same_index": True}, {"repeat_ids": True}, {"same_index": True, "repeat_ids": True}]
)
async def test_servers_that_cut_calls_oddly_are_understood(style: dict[str, Any]) -> None:
    calls = [Call("ls", '{"path": "/a"}', "a"), Call("ls", '{"path": "/b"}', "b")]
    with Provider(Reply(calls=calls, **style)) as provider:
        response, _ = await ask(model(provider), asking(tools=[LS]))
    assert [call["args"] for call in response.message.tool_calls] == [{"path": "/a"}, {"path": "/b"}]


async def test_calls_without_ids_get_the_same_ones_each_time() -> None:
    reply = Reply(calls=[Call("ls", "{}", None), Call("ls", "{}", None)])
    with Provider(reply, reply) as provider:
        answers = [await ask(model(provider), asking("hi", tools=[LS])) for _ in range(2)]
    first, second = ([call["id"] for call in response.message.tool_calls] for response, _ in answers)
    assert first == second
    assert len(set(first)) == 2


async def test_a_call_with_broken_arguments_is_invalid_and_not_an_error() -> None:
    with Provider(Reply(calls=[Call("ls", '{"path": ')])) as provider:
        response, _ = await ask(model(provider), asking(tools=[LS]))
    assert response.message.tool_calls == []
    assert response.message.invalid_tool_calls[0]["id"] == "call_1"


async def test_openais_cached_and_reasoning_tokens_are_counted() -> None:
    usage = {"in": 100, "out": 20, "cached": 40, "reasoning": 5}
    with Provider(Reply("x", usage=usage)) as provider:
        response, _ = await ask(model(provider))
    assert response.usage == Usage(100, 20, cache_read_tokens=40, reasoning_tokens=5)
    assert response.cost_usd == 60 * 1 + 40 * 0.5 + 20 * 10


async def test_anthropics_cached_tokens_are_part_of_the_input() -> None:
    with Provider(Reply("x", usage={"in": 100, "out": 20, "cached": 40, "written": 7})) as provider:
        response, _ = await ask(model(provider, "anthropic"))
    assert response.usage == Usage(147, 20, cache_read_tokens=40, cache_write_tokens=7)


async def test_what_anthropic_keeps_for_an_hour_is_told_apart() -> None:
    used = {"in": 100, "out": 20, "written": 7, "hour": 5}
    with Provider(Reply("x", usage=used), Reply("x", usage=used)) as provider:
        for streaming in (True, False):
            response, _ = await ask(model(provider, "anthropic", stream=streaming))
            assert response.usage == Usage(107, 20, cache_write_tokens=7, cache_write_1h_tokens=5)


async def test_usage_is_none_when_the_provider_reports_none() -> None:
    with Provider(Reply("Hello", usage=None)) as provider:
        response, _ = await ask(model(provider))
    assert response.usage is None
    assert response.cost_usd is None


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_reasoning_streams_apart_from_the_answer(kind: str) -> None:
    with Provider(Reply("x", reasoning="I think")) as provider:
        response, pieces = await ask(model(provider, kind))
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta)) == "I think"
    assert response.message.content == "x"


async def test_signed_thinking_goes_back_to_anthropic() -> None:
    first = Reply("x", reasoning="I think", calls=[Call("ls", "{}", "a")])
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    with Provider(first, Reply("done")) as provider:
        talking = model(provider, "anthropic", extra=thinking)
        answer, _ = await ask(talking, asking("go", tools=[LS]))
        result = ToolMessage("/", tool_call_id="a")
        await ask(talking, asking("go", answer.message, result, tools=[LS]))
        sent = provider.requests[1].body["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "I think", "signature": "signed"}


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_the_conversation_reaches_the_provider_whole(kind: str) -> None:
    call = AIMessage("", tool_calls=[{"name": "ls", "args": {"path": "/"}, "id": "a"}])
    result = ToolMessage("file.txt", tool_call_id="a", status="error", id="internal")
    with Provider(Reply("x")) as provider:
        await ask(model(provider, kind), asking("go", call, result, tools=[LS]))
        body = provider.requests[0].body
    if kind == "openai":
        system, user, assistant, tool = body["messages"]
        assert (system["content"], user["content"]) == ("Be brief.", "go")
        assert assistant["tool_calls"][0]["function"] == {"name": "ls", "arguments": '{"path": "/"}'}
        assert tool == {"role": "tool", "tool_call_id": "a", "content": "file.txt"}
        assert body["tools"][0]["function"]["parameters"] == LS.parameters
        assert body["stream_options"] == {"include_usage": True}
    else:
        assert body["system"][0]["text"] == "Be brief."
        assert body["messages"][1]["content"][0]["input"] == {"path": "/"}
        assert body["messages"][2]["content"][0]["tool_use_id"] == "a"
        assert body["tools"][0]["name"] == "ls"


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"temperature": 0.0}, "temperature", 0.0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"max_tokens": 77}, "max_tokens", 77),
        ({"extra": {"seed": 3}}, "seed", 3),
        ({"extra": {"temperature_schedule": "x"}}, "temperature_schedule", "x"),
    ],
)
async def test_every_option_reaches_the_provider(options: dict[str, Any], key: str, value: object) -> None:
    with Provider(Reply("x"), Reply("x")) as provider:
        await ask(model(provider))
        await ask(model(provider, **options))
    without, with_option = provider.requests
    assert key not in without.body
    assert with_option.body[key] == value


async def test_headers_and_the_key_reach_the_provider() -> None:
    with Provider(Reply("x")) as provider:
        await ask(model(provider, api_key=Secret("sk-mine"), headers={"x-team": "blue"}))
        headers = provider.requests[0].headers
    assert headers["authorization"] == "Bearer sk-mine"
    assert headers["x-team"] == "blue"


async def test_a_requests_settings_win_over_the_options() -> None:
    with Provider(Reply("x")) as provider:
        await ask(model(provider, max_tokens=77), asking(settings={"max_tokens": 5}))
        assert provider.requests[0].body["max_tokens"] == 5


@pytest.mark.parametrize(
    ("key", "part"), [("temperature", "model.litellm.temperature"), ("stream_options", "remove it")]
)
def test_extra_may_not_set_what_has_its_own_option(key: str, part: str) -> None:
    with pytest.raises(OptionsError, match=part) as caught:
        create(
            Options("gpt-4o", extra={key: 1}),
            cast(
                PlanContext,
                SimpleNamespace(profile_of=priced, environ={}, process_environ={}, profile=priced("gpt-4o")),
            ),
        )
    assert caught.value.exit_code == 3


async def test_an_option_the_provider_does_not_know_is_refused_and_not_dropped() -> None:
    with Provider(Reply("x")) as provider:
        error = await failing(model(provider, "anthropic", extra={"logit_bias": {"1": 1}}))
        assert provider.requests == []
    assert error.kind == "bad_request"
    assert "logit_bias" in error.message


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (401, "invalid x-api-key", "auth"),
        (403, "no access", "auth"),
        (400, "unknown field", "bad_request"),
        (404, "no such model", "bad_request"),
        (429, "slow down", "rate_limit"),
        (500, "oops", "server"),
        (503, "busy", "server"),
        (529, "Overloaded", "server"),
    ],
)
async def test_errors_are_classified(kind: str, status: int, text: str, expected: str) -> None:
    with Provider(Reply(text, status=status)) as provider:
        error = await failing(model(provider, kind))
        assert len(provider.requests) == 1, "litellm must not retry by itself"
    assert error.kind == expected
    assert error.status == status or (kind, status) == ("anthropic", 529), "litellm tells a 529 as 500"
    assert text in error.message


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_an_overflow_states_its_counts(kind: str) -> None:
    text = "prompt is too long: 219898 tokens > 200000 maximum"
    with Provider(Reply(text, status=400)) as provider:
        error = await failing(model(provider, kind))
    assert (error.kind, error.input_tokens, error.limit_tokens) == ("context_overflow", 219_898, 200_000)


async def test_gpt_5s_overflow_is_recognised() -> None:
    text = (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens."
    )
    with Provider(Reply(text, status=400)) as provider:
        error = await failing(model(provider))
    assert (error.kind, error.input_tokens, error.limit_tokens) == ("context_overflow", 289_650, 272_000)


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_retry_after_is_passed_on(kind: str) -> None:
    with Provider(Reply("slow", status=429, headers={"retry-after": "3"})) as provider:
        error = await failing(model(provider, kind))
    assert error.retry_after_seconds == 3


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(
    "reply",
    [
        Reply("Hello, world", cut_after=3),
        Reply("Hello, world", reset_after=3),
        Reply("Hello, world", reset_after=0),
        Reply("Hello, world", finish_reason="missing"),
        Reply(body="<html>gateway</html>"),
        Reply(body="data: {garbage\n\n"),
        Reply(body=""),
    ],
    ids=["cut", "reset", "reset at once", "no end", "html", "garbage", "nothing"],
)
async def test_a_broken_answer_is_worth_another_try(kind: str, reply: Reply) -> None:
    # Twice: litellm's own HTTP handler sends a request again, once, when it is reset before any response.
    with Provider(reply, reply) as provider:
        error = await failing(model(provider, kind))
        assert len(provider.requests) <= (2 if reply.reset_after == 0 else 1)
    assert error.kind in ("network", "server")


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_garbage_instead_of_a_whole_answer_is_an_error(kind: str) -> None:
    with Provider(Reply(body="<html>gateway</html>")) as provider:
        error = await failing(model(provider, kind, stream=False))
    assert error.kind in ("network", "server")


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("after", [0, 3])
async def test_a_silent_provider_is_a_timeout(kind: str, after: int) -> None:
    with Provider(Reply("Hello, world", hang_after=after)) as provider:
        error = await failing_in_time(provider, model(provider, kind, idle_seconds=30))
        assert await asyncio.to_thread(provider.wait_for_hangup)
    assert error.kind == "timeout"
    assert "idle_seconds" in error.message


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_may_not_take_longer_than_its_timeout(*, stream: bool) -> None:
    with Provider(Reply("Hello", hang_after=0)) as provider:
        error = await failing_in_time(provider, model(provider, timeout_seconds=30, stream=stream))
        assert await asyncio.to_thread(provider.wait_for_hangup)
    assert error.kind == "timeout"


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(("after", "stream"), [(0, True), (0, False), (3, True)])
async def test_a_cancel_closes_the_connection(kind: str, after: int, *, stream: bool) -> None:
    with Provider(Reply("Hello, world", hang_after=after)) as provider:
        task = asyncio.create_task(ask(model(provider, kind, stream=stream)))
        assert await asyncio.to_thread(provider.wait_for_requests, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(provider.wait_for_hangup)


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_closing_the_stream_closes_the_connection(kind: str) -> None:
    with Provider(Reply("Hello, world", hang_after=4)) as provider:
        stream = model(provider, kind).stream(asking())
        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(provider.wait_for_hangup)


@pytest.mark.parametrize("kind", PROVIDERS)
def test_the_end_of_the_loop_closes_the_clients(kind: str) -> None:
    """A program that calls ``asyncio.run`` for each question would otherwise keep one connection open for each."""
    with Provider(Reply("Hello"), Reply("Hello")) as provider:
        for _ in range(2):
            response, _ = asyncio.run(ask(model(provider, kind)))
            assert response.message.content == "Hello"
            assert provider.wait_for_no_connection(10)


async def test_calls_run_at_the_same_time() -> None:
    with Provider(answer=lambda request: Reply(request.body["messages"][-1]["content"])) as provider:
        talking = model(provider)
        answers = await asyncio.gather(*(ask(talking, asking(str(number))) for number in range(8)))
    assert [response.message.content for response, _ in answers] == [str(number) for number in range(8)]


@pytest.mark.parametrize(
    ("kind", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
async def test_a_missing_key_is_named_before_any_network(
    kind: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with Provider() as provider:
        error = await failing(model(provider, kind, api_key=None, api_base=None))
    assert (error.kind, error.exit_code) == ("auth", 4)
    assert variable in str(error)


@pytest.mark.parametrize(
    ("kind", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
async def test_an_empty_key_is_none(kind: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "")
    with Provider() as provider:
        error = await failing(model(provider, kind, environ={variable: ""}, api_key=None, api_base=None))
    assert (error.kind, error.exit_code) == ("auth", 4)
    assert f"{variable} is empty" in str(error)


async def test_a_key_only_in_dotenv_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    with Provider(Reply("x")) as provider:
        environ = {"OPENAI_API_KEY": "sk-dotenv"}
        await ask(model(provider, environ=environ, api_key=None))
        assert provider.requests[0].headers["authorization"] == "Bearer sk-dotenv"


async def test_dotenv_never_overrides_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-process")
    with Provider(Reply("x")) as provider:
        await ask(model(provider, environ={"OPENAI_API_KEY": "sk-dotenv"}, api_key=None))
        assert provider.requests[0].headers["authorization"] == "Bearer sk-process"


async def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Provider(Reply("x")) as provider:
        response, _ = await ask(model(provider, api_key=None))
    assert response.message.content == "x"


async def test_an_unknown_provider_is_a_bad_request() -> None:
    with Provider() as provider:
        error = await failing(model(provider, model="nobody/nothing", api_base=None))
    assert error.kind == "bad_request"
    assert "nobody/nothing" in error.message


async def test_a_conversation_longer_than_the_window_is_still_sent() -> None:
    with Provider(Reply("x")) as provider:
        await ask(model(provider), asking("word " * 200_000))
        assert len(provider.requests) == 1


def test_making_the_model_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from zeus_plugins.models.litellm.model import create\n"
        "from zeus_plugins.models.litellm.options import Options\n"
        "create(Options('gpt-4o'), SimpleNamespace(environ={}, process_environ={}, profile=None))\n"
        "heavy = ('litellm', 'pydantic', 'asyncio', 'langchain_core', 'openai')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


async def test_litellm_fetches_no_price_map_and_no_tokenizer_and_prints_no_advertising(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import os

    from zeus_plugins.models.litellm.library import library

    with Provider(Reply("broken", status=500)) as provider, pytest.raises(ModelError):
        _ = [piece async for piece in model(provider).stream(asking())]
    litellm = await library()
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert (litellm.disable_hf_tokenizer_download, litellm.telemetry) == (True, False)
    assert "BerriAI" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("wire", ["auto"], indirect=True)  # a process of its own, in which no model is chosen
def test_litellm_loads_no_env_file_of_a_project(tmp_path: Path) -> None:
    """It would look above its own folder, which is the project's where the environment is its `.venv`."""
    (tmp_path / ".env").write_text("ZEUS_TRUST=all\nGIT_SSH_COMMAND=./evil\n")
    code = f"""
import asyncio, os, dotenv.main
dotenv.main.find_dotenv = lambda *given, **named: {str(tmp_path / ".env")!r}
from zeus_plugins.models.litellm.library import library
asyncio.run(library())
print([os.environ.get(name) for name in ("ZEUS_TRUST", "GIT_SSH_COMMAND")])
"""
    environ = {
        name: value for name, value in os.environ.items() if name not in ("ZEUS_TRUST", "LITELLM_MODE")
    }
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout
    assert output.strip() == "[None, None]"


HALF = """
import sys, threading
half, go = threading.Event(), threading.Event()
acompletion = "there"
sys.modules["gate"] = sys.modules[__name__]
half.set()
go.wait(60)
validate_environment = "whole"
"""
TWO_AT_ONCE = """
import asyncio, sys, threading
from zeus_plugins.models.litellm.library import library

async def main():
    first = asyncio.create_task(library())
    while "gate" not in sys.modules:
        await asyncio.sleep(0)
    second = asyncio.create_task(library())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    early = second.done()
    sys.modules["gate"].go.set()
    print(early, [each.validate_environment for each in await asyncio.gather(first, second)])

asyncio.run(main())
"""


def test_a_run_that_begins_while_another_one_loads_the_library_waits_for_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(HALF)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TWO_AT_ONCE], capture_output=True, text=True, env=environ, check=False
    )
    assert done.stdout == "False ['whole', 'whole']\n", done.stderr
