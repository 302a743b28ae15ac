"""Spans of a session over HTTP on both wires, with a kill and a resume: at a collector and in `zeus sessions trace`."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from typing import Any

import pytest

from tests.acceptance.test_run_over_http import MODELS, VARIABLES, configured, finished, only, write
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.collector import Collector, collecting
from tests.support.provider import Provider, Reply

pytestmark = pytest.mark.xdist_group("litellm")

AT_ONCE = "20"
"""Milliseconds between two batches."""
NEVER = "600000"


def traced(project: Project, collector: Collector, *words: str, delay: str = AT_ONCE) -> Any:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_BSP_SCHEDULE_DELAY": delay,
        "OTEL_METRICS_EXPORTER": "none",
    }
    command = ["run", "zeus.yaml", *words, "-o", "ndjson", "--otel"]
    return spawn(command, project.folder, env={**os.environ, **variables})


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = getattr(each.value, kind)
    return found


def parts(span: dict[str, Any]) -> list[dict[str, Any]]:
    """A span of `zeus sessions trace` with all that is in it."""
    return [span, *(part for each in span["spans"] for part in parts(each))]


@pytest.mark.parametrize(
    ("kind", "wire", "delay"),
    [("openai", "native", AT_ONCE), ("anthropic", "litellm", AT_ONCE), ("anthropic", "native", NEVER)],
)
def test_a_killed_run_and_its_resume_report_each_finished_call_once(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, kind: str, wire: str, delay: str
) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, "sk-acceptance-0123456789")
    replies = [Reply("I write.", calls=[write("/a.txt", "a", "w")]), Reply("Half of", hang_after=5)]
    with collecting() as collector, Provider(*replies) as provider:
        configured(project, provider, kind, wire=wire)
        killed = traced(project, collector, "Write a", delay=delay)
        assert killed.stdout is not None
        seen: list[dict[str, Any]] = []
        for line in killed.stdout:
            seen.append(json.loads(line))
            if seen[-1]["type"] == "text" and only(seen, "tool_call_result"):
                break
        if delay == AT_ONCE:
            collector.wait_for("execute_tool write_file")
        killed.send_signal(signal.SIGKILL)
        assert finished(killed).exit_code == -signal.SIGKILL
        before = list(collector.spans)
        provider.add(Reply("Done."))
        resumed = finished(traced(project, collector, "--continue"))
        assert resumed.exit_code == 0, resumed.err

    session, run = (only(seen, "run_started")[0][each] for each in ("session", "run"))
    assert only(resumed.lines, "run_started")[0]["session"] == session

    # What ended before the kill has arrived, unless its batch was waiting; nothing has arrived twice.
    chat, tool = f"chat {MODELS[kind].partition('/')[2]}", "execute_tool write_file"
    assert sorted(each.name for each in before) == ([chat, tool] if delay == AT_ONCE else [])
    names = Counter(each.name for each in collector.spans[len(before) :])
    assert names == {chat: 1, "invoke_agent acceptance": 1}
    assert len({(each.trace_id, each.span_id) for each in collector.spans}) == len(collector.spans)
    told = [attributes(each) for each in collector.spans]
    assert {each["gen_ai.conversation.id"] for each in told} == {session}
    (whole,) = [each for each in told if each["gen_ai.operation.name"] == "invoke_agent"]
    assert (whole["zeus.run.id"], whole["zeus.resumed"], whole["zeus.run.state"]) == (run, True, "complete")
    assert whole["gen_ai.usage.input_tokens"] == 11, "a sum over spans counts no call twice"

    # The rows have each of them, whatever the collector has lost.
    (drawn,) = zeus("sessions", "trace", session, "--json").json
    assert (drawn["run"], drawn["state"]) == (run, "complete")
    inside = parts(drawn)[1:]
    assert Counter(each["kind"] for each in inside) == {"model_call": 2, "tool_call": 1}
    assert all(each["end_ms"] is not None for each in inside)
    (called,) = [each for each in inside if each["kind"] == "tool_call"]
    assert (called["name"], called["details"]["call_id"]) == ("write_file", "w")
