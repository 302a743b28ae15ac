"""Spans and metrics of runs, as an SDK in this process receives them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tests.plugins_bundled.tools.mcp.test_stdio import Patient, seen, server
from tests.plugins_bundled.tools.mcp.test_stdio import agent as agent_with_servers
from tests.run.test_model_chain import played, write_chain
from tests.support.agents import Answering, PositionModel, call, calling, events_of, play, script, write_agent
from tests.support.collector import collecting, through_rotel
from tests.support.hand_time import moved_by_hand
from tests.support.provider import Call, Provider, Reply
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent, tracing
from zeus_runtime.plugin.model import ModelError, ModelPiece, ModelRequest, ModelResponse
from zeus_runtime.run import usage

HELPER = "agents: {helper: {description: Helps., instructions: Work.}}\n"
NESTED = """
from opentelemetry.trace import get_current_span, get_tracer
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def look(text: str) -> str:
    \"\"\"Look.

    Args:
        text: where.
    \"\"\"
    with get_tracer("author").start_as_current_span("author's own"):
        return f"sampled: {get_current_span().get_span_context().trace_flags.sampled}"

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [look])]
"""


class Received:
    """The spans and metrics of this test."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter = exporter
        self._reader = reader

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, start: str) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        (found,) = self.named(start)
        return found

    @property
    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def provide(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Received:
    """An SDK that receives everything, until the test ends."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False, **options)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    # The API allows only one provider in a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
    meters = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", meters)
    tracing._histogram.cache_clear()
    tracing._cost.cache_clear()
    return Received(exporter, reader)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    yield provide(monkeypatch)
    tracing._histogram.cache_clear()
    tracing._cost.cache_clear()


def agent(folder: Path, model: Any, yaml: str = "", **options: Any) -> Agent:
    return Agent.from_config(write_agent(folder, yaml, **options), directory=folder, model=model)


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_run_holds_its_model_calls_and_tool_calls(tmp_path: Path, received: Received) -> None:
    model = script(calling(call("echo", "a", text="one")), calling(call("fail", "b")), "done")
    async with agent(tmp_path, model) as living:
        events = await play(living, "my secret question")
    session = events[-1].to_wire()["session"]
    run = received.one("invoke_agent")
    assert [each.name for each in received.spans] == [
        "invoke_agent test",
        "chat scripted",
        "execute_tool echo",
        "chat scripted",
        "execute_tool fail",
        "chat scripted",
    ]
    assert {parent(each) for each in received.spans[1:]} == {own(run)}
    assert parent(run) is None
    assert {of(each)["gen_ai.conversation.id"] for each in received.spans} == {session}
    ended = of(run)
    assert (ended["gen_ai.operation.name"], ended["gen_ai.agent.name"]) == ("invoke_agent", "test")
    assert (ended["zeus.run.state"], ended["zeus.run.steps"]) == ("complete", 3)
    assert events[-1].origin is not None
    assert ended["zeus.run.id"] == events[-1].origin.run
    chat = of(received.named("chat")[1])
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert chat["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat["zeus.context.messages"] == 3
    assert 0 < chat["zeus.context.tokens"] < chat["zeus.context.limit_tokens"]
    assert "error.type" not in of(received.one("execute_tool echo"))
    failed = received.one("execute_tool fail")
    assert of(failed)["error.type"] == "tool_error"
    assert not failed.status.is_ok
    texts = json.dumps([[each.name, of(each)] for each in received.spans])
    assert not any(text in texts for text in ("secret question", "one", "done", "disk is on fire"))
    points = received.metrics
    assert sum(each.count for each in points["gen_ai.client.operation.duration"]) == 5
    tokens = {each.attributes["gen_ai.token.type"]: each.sum for each in points["gen_ai.client.token.usage"]}
    assert tokens["input"] == ended["gen_ai.usage.input_tokens"]
    assert tokens["output"] == ended["gen_ai.usage.output_tokens"]


async def test_the_spans_of_two_runs_do_not_mix(tmp_path: Path, received: Received) -> None:
    model = script(calling(call("echo", "a", text="x"), call("echo", "b", text="y")), "done")
    async with agent(tmp_path, model) as living:
        endings = await asyncio.gather(*(play(living, f"go {number}") for number in range(8)))
    sessions = {each[-1].to_wire()["session"] for each in endings}
    traces = {run.get_span_context().trace_id: run for run in received.named("invoke_agent")}
    assert {of(each)["gen_ai.conversation.id"] for each in traces.values()} == sessions
    assert len(traces) == 8
    assert len(received.spans) == 8 * 5
    for each in received.spans:
        run = traces[each.get_span_context().trace_id]
        assert each is run or parent(each) == own(run)
        assert of(each)["gen_ai.conversation.id"] == of(run)["gen_ai.conversation.id"]


async def test_a_sub_agents_run_is_inside_the_call_that_gave_it_the_task(
    tmp_path: Path, received: Received
) -> None:
    task = calling(call("task", "a", description="d", agent="helper", prompt="work"))

    def answer(request: Any) -> Any:
        is_helper = "Work." in request.system
        return "helped" if is_helper else task if len(request.messages) == 1 else "done"

    model = PositionModel(answer)
    async with agent(tmp_path, model, HELPER, tools="[subagents]") as living:
        await play(living, "go")
    outer, inner = received.named("invoke_agent")
    given = received.one("execute_tool task")
    assert parent(given) == own(outer)
    assert parent(inner) == own(given)
    assert of(inner)["gen_ai.agent.name"] == "helper"
    assert [parent(each) for each in received.named("chat")] == [own(outer), own(inner), own(outer)]


async def test_an_mcp_server_is_told_the_span_of_its_call(tmp_path: Path, received: Received) -> None:
    model = script(calling(call("small__say", "a", text="hello")), "done")
    async with agent_with_servers(tmp_path, model, {"small": server()}) as living:
        await play(living, "go")
    (request,) = seen(tmp_path, "tools/call")
    tool = received.one("execute_tool small__say")
    sent = received.one("MCP send tools/call say")
    assert parent(sent) == own(tool)
    _version, trace_id, span_id, flags = request["params"]["_meta"]["traceparent"].split("-")
    assert int(flags, 16) & 1
    assert int(trace_id, 16) == tool.get_span_context().trace_id
    assert int(span_id, 16) == own(sent)


async def test_spans_of_a_tool_are_inside_its_call(tmp_path: Path, received: Received) -> None:
    async with agent(tmp_path, script(calling(call("look", "a", text="x")), "done"), plugin=NESTED) as living:
        await play(living, "go")
    assert parent(received.one("author's own")) == own(received.one("execute_tool look"))


async def test_a_trace_that_is_not_sampled_is_left_out_and_says_so_to_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = provide(monkeypatch, sampler=ALWAYS_OFF)
    computed: list[object] = []
    monkeypatch.setattr(usage, "_outcome", computed.append)
    model = script(calling(call("look", "a", text="x")), "done")
    async with agent(tmp_path, model, plugin=NESTED) as living:
        await play(living, "go")
    assert received.spans == [] == computed
    assert str(model.requests[-1].messages[-1].content) == "sampled: False"


async def test_a_run_is_a_child_of_the_programs_span(tmp_path: Path, received: Received) -> None:
    async with agent(tmp_path, script("done")) as living:
        with trace.get_tracer("program").start_as_current_span("my request"):
            await play(living, "go")
    assert parent(received.one("invoke_agent")) == own(received.one("my request"))


async def test_a_failed_model_call_has_the_code_of_its_error(tmp_path: Path, received: Received) -> None:
    async with agent(tmp_path, script(ModelError("the key sk-1 is wrong", kind="auth"))) as living:
        await play(living, "go")
    assert [of(each)["error.type"] for each in received.spans] == ["model_auth", "model_auth"]
    assert "sk-1" not in json.dumps([[each.to_json()] for each in received.spans])
    (point,) = received.metrics["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "model_auth"


async def test_a_call_that_waits_for_approval_is_no_error(tmp_path: Path, received: Received) -> None:
    model = script(calling(call("record", "a", text="x")), "done")
    async with agent(tmp_path, model, "middlewares: [approve]\n") as living:
        session = (await play(living, "go"))[-1].to_wire()["session"]
        first = received.spans
        assert of(received.one("invoke_agent"))["zeus.run.state"] == "approval_needed"
        assert not any("error.type" in of(each) for each in first)
        await events_of(living.resume(session, approvals=Answering()))
    waits = received.named("wait for approval")
    assert [of(each).get("zeus.approval") for each in waits] == [None, "approve"]
    runs = {own(each): of(each)["zeus.resumed"] for each in received.named("invoke_agent")}
    assert list(runs.values()) == [False, True]


async def test_a_wait_for_approval_masks_the_id_of_its_call(
    tmp_path: Path, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2-hunter2")
    model = script(calling(call("record", "call_hunter2-hunter2-hunter2", text="x")), "done")
    async with agent(tmp_path, model, "middlewares: [approve]\nsecrets: {to_model: allow}\n") as living:
        await events_of(living.stream("go", approvals=Answering()))
    assert of(received.one("wait for approval"))["gen_ai.tool.call.id"] == "call_<secret:DEPLOY_TOKEN>"


async def test_a_span_masks_the_names_of_the_agent_and_of_the_model_that_answered(
    tmp_path: Path, received: Received
) -> None:
    key = "sk-Zeus-4711-abcd"
    config = write_agent(tmp_path)
    config.write_text(re.sub("name: .*", f"name: bot-{key}", config.read_text(), count=1))

    class Named:
        name = "named"

        async def stream(self, _request: ModelRequest) -> AsyncIterator[ModelPiece]:
            yield ModelResponse(AIMessage("done"), model=f"m-{key}")

    made = Agent.from_config(config, directory=tmp_path, environ={"SHIP_API_KEY": key}, model=Named())
    async with made as running:
        await play(running, "go")
    assert key not in "".join(f"{each.name} {dict(each.attributes or {})}" for each in received.spans)
    assert of(received.one("chat "))["gen_ai.response.model"] == "m-<secret:SHIP_API_KEY>"


async def test_a_tool_that_does_not_exist_is_not_named(tmp_path: Path, received: Received) -> None:
    async with agent(tmp_path, script(calling(call("my password is 123", "a")), "done")) as living:
        await play(living, "go")
    assert "my password" not in json.dumps([each.to_json() for each in received.spans])
    assert received.one("execute_tool").name == "execute_tool unknown_tool"


async def test_the_tool_of_a_server_that_is_late_is_named(tmp_path: Path, received: Received) -> None:
    late = tmp_path / "late"

    async def starts() -> None:
        passing.cancel()
        late.touch()

    answers = (calling(call("echo", "1", text="a")), calling(call("slow__say", "2", text="b")), "done")
    model = Patient(script(*answers), starts)
    entry = server(f"wait={late}", start_timeout_seconds=None)
    async with agent_with_servers(tmp_path, model, {"slow": entry}) as living:
        with moved_by_hand() as hand:
            passing = asyncio.create_task(hand.goes_on())
            events = await play(living, "go")
    assert events[-1].type == "complete"
    called = received.one("execute_tool slow__say")
    assert of(called)["gen_ai.tool.name"] == "slow__say"


@pytest.mark.parametrize("collector_of", ["these tests", "others"])
async def test_runs_at_the_same_time_do_not_mix_their_spans_at_a_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector_of: str
) -> None:
    both = asyncio.Barrier(2)

    class Meeting:
        """Answers once both runs have asked."""

        name = "scripted"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            async with asyncio.timeout(20):
                await both.wait()
            async for piece in model.stream(request):
                yield piece

    answers = (calling(call("echo", "a", text="one")), calling(call("echo", "b", text="two")), "done")
    model = script(*answers)
    with ExitStack() as stack:
        collector = stack.enter_context(collecting())
        address = collector.address
        if collector_of == "others":
            address = stack.enter_context(through_rotel(address))
        exporter = OTLPSpanExporter(f"{address}/v1/traces")
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(exporter))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
        async with agent(tmp_path, Meeting()) as living:
            runs = await asyncio.gather(play(living, "first"), play(living, "second"))
        await asyncio.to_thread(tracers.shutdown)
    sessions = {events[-1].to_wire()["session"] for events in runs}
    traces: dict[bytes, list[Any]] = {}
    for span in collector.spans:
        traces.setdefault(span.trace_id, []).append(span)
    assert len(traces) == len(sessions) == 2
    assert {_session(spans[0]) for spans in traces.values()} == sessions
    for spans in traces.values():
        (root,) = [each for each in spans if not each.parent_span_id]
        names = sorted(each.name for each in spans if each is not root)
        assert names == ["chat scripted"] * 3 + ["execute_tool echo"] * 2
        assert {each.parent_span_id for each in spans if each is not root} == {root.span_id}
        assert len({_session(each) for each in spans}) == 1


def _session(span: Any) -> str:
    """The session of a span as it was sent."""
    (found,) = [each.value.string_value for each in span.attributes if each.key == "gen_ai.conversation.id"]
    return str(found)


async def test_texts_are_added_on_request_without_secrets(
    tmp_path: Path, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2-hunter2")
    secret = "hunter2-hunter2-hunter2"
    model = script(calling(call("echo", f"call_{secret}", text=secret)), "the answer")
    async with agent(tmp_path, model, "secrets: {to_model: allow}\n") as living:
        await play(living, "say hunter2-hunter2-hunter2")
    first, second = (of(each) for each in received.named("chat"))
    assert "<secret:DEPLOY_TOKEN>" in json.loads(first["gen_ai.input.messages"])[0]["parts"][0]["content"]
    (said,) = json.loads(second["gen_ai.output.messages"])
    assert said == {"role": "assistant", "parts": [{"type": "text", "content": "the answer"}]}
    tool = of(received.one("execute_tool"))
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"text": "<secret:DEPLOY_TOKEN>"}
    assert tool["gen_ai.tool.call.result"] == "echo: <secret:DEPLOY_TOKEN>"
    assert tool["gen_ai.tool.call.id"] == "call_<secret:DEPLOY_TOKEN>"
    assert "hunter2" not in json.dumps([each.to_json() for each in received.spans])


async def test_a_compaction_has_a_span(tmp_path: Path, received: Received) -> None:
    long = "word " * 4_000
    answers: list[Any] = [calling(call("echo", f"c{number}", text=long)) for number in range(8)]
    yaml = "middlewares: [eviction]\nprofiles: {models: {gpt-4o: {max_input_tokens: 20000}}}\n"
    async with agent(tmp_path, script(*answers, "done"), yaml) as living:
        await play(living, "go")
    found = received.named("compaction")
    run = received.one("invoke_agent")
    assert found
    assert {parent(each) for each in found} == {own(run)}
    for each in found:
        assert of(each)["zeus.context.policies"] == ("eviction",)
        assert of(each)["zeus.context.edits"] >= 1
        assert of(each)["zeus.context.removed_tokens"] > 0


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda name: name.isascii()),
        st.one_of(
            st.none(),
            st.text(st.characters(exclude_categories=())),
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
            st.lists(st.text(st.characters(exclude_categories=())), max_size=3),
        ),
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=()), min_size=1, max_size=20),
)
def test_an_exporter_can_write_every_span(attributes: dict[str, Any], name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        received = provide(patch)
        with tracing.TraceSpan(name, attributes):
            pass
        (span,) = received.spans
        assert encode_spans([span]).SerializeToString()
        assert set(of(span)) == {key for key, value in attributes.items() if value is not None}


def test_without_an_sdk_a_span_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    with tracing.TraceSpan("nothing", {}) as span:
        assert not span.is_recording
        span.note({"a": 1})


async def test_a_call_of_a_chain_says_by_codes_why_its_model_is_asked(
    tmp_path: Path, received: Received
) -> None:
    calls = [Call("echo", json.dumps({"text": "x"}))]
    replies = [
        Reply("a private text", status=500),
        Reply(calls=calls),
        Reply("done"),
        Reply("and"),
    ]
    with Provider(*replies) as provider:
        await played(write_chain(tmp_path, provider, breaker={"failures": 1}), "go", "and now")
    whys = [of(each).get("zeus.chain.why") for each in received.named("chat ")]
    assert whys == [None, ("openai/gpt-4o: model_server",), ("stays",), ("openai/gpt-4o: passed_over",)]
    assert "a private text" not in repr([of(each) for each in received.spans])


async def test_a_request_to_a_service_leaves_its_address_in_no_span_and_no_metric(
    received: Received, tmp_path: Path
) -> None:
    """FastAPI's own spans had the words of a search, which may be a secret that only this user's agents know."""
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        _, run = await begun(client, "go")
        await until(client, run, "complete")
        found = await client.get("/v1/sessions/search", params={"query": "walnut-street"})
        assert found.status_code == 200
        assert (await client.get("/v1/walnut-street")).status_code == 404
    assert received.one("invoke_agent")
    told = f"{[each.to_json() for each in received.spans]} {received.metrics}"
    assert "walnut" not in told
