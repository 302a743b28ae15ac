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
