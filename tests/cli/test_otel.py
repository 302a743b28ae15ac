"""``--otel`` sends spans and metrics to a collector, and costs an answer nothing if that is away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus, spawn
from tests.support.collector import collecting
from zeus_runtime.cli.otel import _send_rest

ECHO = {"call": "echo", "args": {"text": "ahoy"}}


def run(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", **variables}
    done = spawn(("run", "zeus.yaml", "go", *words), folder, env=environ)
    out, err = done.communicate()
    return done.returncode, out, err


def test_spans_and_metrics_reach_a_collector(project: Project) -> None:
    project.agent(ECHO, "done")
    project.write(".env", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9\nOTEL_SERVICE_NAME=stranger\n")
    parent = "0af7651916cd43dd8448eb211c80319c"
    with collecting() as collector:
        code, out, err = run(
            project.folder,
            "--otel",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.address,
            TRACEPARENT=f"00-{parent}-b7ad6b7169203331-01",
        )
    assert (code, out) == (0, "done\n")
    assert "OpenTelemetry" not in err
    assert {each.name for each in collector.spans} == {
        "invoke_agent tester",
        "chat scripted",
        "execute_tool echo",
    }
    assert {each.trace_id.hex() for each in collector.spans} == {parent}
    assert collector.services == {"zeus"}
    assert collector.metrics == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "zeus.model.cost",
    }


TRACED = """
from opentelemetry import trace

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool(access="read")
async def traced(text: str) -> str:
    \"\"\"Make a span, as a library does.

    Args:
        text: all of its texts.
    \"\"\"
    about = {"words": [text, "plain"], "size": 3, text: True}
    tracer = trace.get_tracer("library")
    with tracer.start_as_current_span("first") as first:
        pass
    links = [trace.Link(first.get_span_context(), {"link": text})]
    with tracer.start_as_current_span(f"of {text}", attributes=about, links=links) as span:
        span.add_event(text, {"event": text})
        span.record_exception(ValueError(text))
        span.set_status(trace.StatusCode.ERROR, f"bad {text}")
    return "done"


@hookimpl
def register_tools():
    return [Component("library", create=lambda options, context: [traced])]
"""


def test_known_secrets_are_masked_in_the_spans_of_other_libraries(project: Project) -> None:
    secret = "zq8Hk2mPl0Vw7RtX"
    call = {"call": "traced", "args": {"text": secret}}
    project.agent(call, "done", more="tools: [library]\nsecrets: {to_model: allow}\n")
    config = project.folder / "zeus.yaml"
    text = (
        config.read_text()
        .replace("tools: [voices]\n", "")
        .replace("[scripted.py]", "[scripted.py, traced.py]")
    )
    config.write_text(text)
    project.write("traced.py", TRACED)
    with collecting() as collector:
        code, out, err = run(
            project.folder, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=collector.address, SERVICE_API_KEY=secret
        )
    assert (code, out) == (0, "done\n"), err
    (span,) = (each for each in collector.spans if each.name.startswith("of "))
    assert secret not in str(collector.spans)
    assert str(span).count("<secret:SERVICE_API_KEY>") == 9
    assert {each.key: each.value.int_value for each in span.attributes}["size"] == 3
    assert [each.name for each in span.events][1:] == ["exception"]
    assert len(span.links) == 1
    assert span.status.message.startswith("bad ")
    assert span.start_time_unix_nano < span.end_time_unix_nano


def test_known_secrets_are_masked_in_resources_and_metrics(project: Project) -> None:
    secret = "zq8Hk2mPl0Vw7RtX"
    project.agent("done")
    with collecting() as collector:
        code, out, err = run(
            project.folder,
            "--otel",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.address,
            OTEL_RESOURCE_ATTRIBUTES=f"team={secret}",
            SERVICE_API_KEY=secret,
        )
    assert (code, out) == (0, "done\n"), err
    assert len(collector.texts) >= 2
    for each in collector.texts:
        assert secret not in each
        assert "<secret:SERVICE_API_KEY>" in each
    assert "gen_ai.client.operation.duration" in collector.metrics


def test_a_collector_that_is_away_costs_the_answer_nothing(project: Project) -> None:
    project.agent("done")
    code, out, err = run(project.folder, "--otel")
    assert (code, out) == (0, "done\n")
    assert "note: OpenTelemetry: " in err
    assert "Traceback" not in err
    assert err.count("OpenTelemetry") <= 3


def test_the_console_is_standard_error(project: Project) -> None:
    project.agent("done")
    variables = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
    code, out, err = run(project.folder, "--otel", **variables)
    assert (code, out) == (0, "done\n")
    assert '"name": "invoke_agent tester"' in err


def test_the_variables_alone_send_nothing(project: Project) -> None:
    project.agent("done")
    with collecting() as collector:
        code, _, _ = run(project.folder, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address)
    assert code == 0
    assert collector.spans == []


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "names no exporter"),
        ("OTEL_METRICS_EXPORTER", "console,statsd", "names no exporter"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "Use http/protobuf or grpc"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://ann:pa/ss@host:4318", "%2F is /"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://ann:pa#ss@host:4318", "%23 is #"),
    ],
)
def test_a_variable_that_means_nothing_is_an_error_before_the_run(
    variable: str, value: str, told: str, zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("done")
    monkeypatch.setenv(variable, value)
    result = zeus("run", "zeus.yaml", "go", "--otel")
    assert (result.exit_code, result.out) == (2, "")
    assert told in result.err


def test_what_could_not_be_sent_in_time_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event

    monkeypatch.setattr("zeus_runtime.cli.otel._LONGEST_WAIT_SECONDS", 0.01)
    never = Event()
    _send_rest([never.wait])
    never.set()
    assert "did not answer within 0.01 seconds" in capsys.readouterr().err
    _send_rest([lambda: None])
    assert capsys.readouterr().err == ""
