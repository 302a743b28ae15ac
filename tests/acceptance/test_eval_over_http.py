"""`zeus eval` against a provider on the loopback: both protocols, a judge, a sub-agent; then the recordings alone."""

from __future__ import annotations

import json
import secrets
import signal
from time import sleep
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.acceptance.test_run_over_http import (
    KEY,
    MODELS,
    VARIABLES,
    assert_no_key_anywhere,
    configured,
    finished,
    read,
)
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.provider import Call, Provider, Received, Reply
from tests.support.shells import alive, below, need_bubblewrap, processes_of

pytestmark = pytest.mark.xdist_group("litellm")

FORMER = "<testsuites tests='9'/>"
VERDICT = {"reason": "It names order 1.", "passed": True}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)


def answering(request: Received) -> Reply:
    """The provider of an agent that gives a sub-agent the work, of the sub-agent, and of the judge."""
    messages = request.body["messages"]
    text = json.dumps(messages)
    is_answered = any(
        message["role"] == "tool" or "tool_result" in json.dumps(message.get("content"))
        for message in messages
    )
    if "criterion" in text:
        tools = json.dumps(request.body.get("tools", []))
        verdict = json.dumps(VERDICT)
        return Reply(calls=[Call("final_answer", verdict)]) if "final_answer" in tools else Reply(verdict)
    if "Read the orders" in json.dumps(messages[:2]) and "Which orders" not in text:
        return Reply("Late: 1.") if is_answered else Reply(calls=[read("/orders.csv", "r")])
    if is_answered:
        return Reply("Order 1 is late.")
    task = {"agent": "reader", "description": "reads", "prompt": "Read the orders."}
    return Reply(calls=[Call("task", json.dumps(task), "t")])


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_evaluation_is_recorded_and_then_passes_without_a_provider(
    project: Project, zeus: Zeus, kind: str
) -> None:
    more = {
        "tools": ["filesystem", "subagents"],
        "agents": {"reader": {"description": "reads files"}},
        "output": None,
    }
    case: dict[str, Any] = {
        "name": "reports late orders",
        "prompt": "Which orders are late?",
        "files": {"orders.csv": "order,state\n1,late\n"},
        "expect": [
            {"contains": "1", "max_steps": 2},
            {"tool_calls": ["task"], "exact": True},
            {"judge": "The answer names order 1."},
            {"max_cost_usd": 1000},
        ],
    }
    project.write("cases.yaml", json.dumps({"version": 1, "agent": "zeus.yaml", "cases": [case]}))
    with Provider(answer=answering) as provider:
        configured(project, provider, kind, json.dumps(more))
        recorded = zeus("eval", "cases.yaml", "--record", "--json")
        asked = len(provider.requests)
    assert recorded.exit_code == 0, recorded.out + recorded.err
    assert asked == 5
    replayed = zeus("eval", "cases.yaml", "--replay", "--json")
    assert replayed.exit_code == 0, replayed.out + replayed.err
    (before,), (after,) = (each.json["cases"][0]["runs"] for each in (recorded, replayed))
    assert {**before, "seconds": 0} == {**after, "seconds": 0}
    assert before["cost_usd"] == 4 * (11 + 7 * 10)
    assert before["judge_cost_usd"] == 11 + 7 * 10
    assert recorded.json["cost_usd"] == 5 * (11 + 7 * 10)
    assert_no_key_anywhere(project, recorded.out, recorded.err)
    assert MODELS[kind] in (project.folder / "cases.cassettes" / "reports_late_orders.jsonl").read_text()


def test_the_judge_is_the_model_that_the_evaluation_names(project: Project, zeus: Zeus) -> None:
    case = {"name": "a", "prompt": "Go.", "expect": [{"judge": "It is true."}]}
    more = {"version": 1, "agent": "zeus.yaml", "judge_model": "openai/acme-judge", "cases": [case]}
    project.write("cases.yaml", json.dumps(more))
    verdict = json.dumps({"reason": "It is false.", "passed": False})
    with Provider(Reply("Done."), Reply(calls=[Call("final_answer", verdict)])) as provider:
        configured(project, provider)
        result = zeus("eval", "cases.yaml")
        assert [request.body["model"] for request in provider.requests] == ["acme-chat", "acme-judge"]
    assert result.exit_code == 5
    assert "expected the judge to find true: It is true." in result.out
    assert "found false: It is false." in result.out


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("contain", ["bubblewrap", "none"])
def test_a_killed_evaluation_leaves_whole_files_and_no_process_and_the_next_one_is_whole(
    project: Project, zeus: Zeus, kind: str, contain: str
) -> None:
    if contain == "bubblewrap":
        need_bubblewrap()
    mark = f"30{secrets.randbelow(10**9)}"
    cases = [
        {"name": f"case {each}", "prompt": f"Go {each}.", "expect": [{"contains": "Done"}]} for each in "abc"
    ]
    more = {"tools": [{"shell": {"contain": contain}}]}
    serves = Call("run_command", json.dumps({"command": f"echo up; sleep {mark}", "background": True}), "s")
    project.write("cases.yaml", json.dumps({"version": 1, "agent": "zeus.yaml", "cases": cases}))
    project.write("report.xml", FORMER)
    tapes = project.folder / "cases.cassettes"
    tapes.mkdir()
    words = ["eval", "cases.yaml", "--record", "--concurrency", "1", "--json", "--junit", "report.xml"]
    replies = [Reply(calls=[serves]), Reply("Done.")]
    with Provider(*replies, Reply(calls=[serves]), Reply("Half of", hang_after=3)) as provider:
        configured(project, provider, kind, json.dumps(more))
        # Each case ends its commands itself, so it is the second one's that runs.
        killed = spawn(words, project.folder)
        assert provider.wait_for_requests(4)
        while f"sleep {mark}" not in " ".join(processes_of(mark)):
            assert killed.poll() is None
            sleep(0.02)
        started = set(below(killed.pid))
        killed.send_signal(signal.SIGKILL)
        ended = finished(killed)
    assert (ended.exit_code, ended.out) == (-signal.SIGKILL, "")
    while processes_of(mark) or started & alive():
        sleep(0.02)  # the kernel or a keeper ends them; the test's time limit is the limit
    assert (project.folder / "report.xml").read_text() == FORMER
    assert [each.name for each in tapes.glob("*.jsonl")] == ["case_a.jsonl"]
    whole = (tapes / "case_a.jsonl").read_text()
    assert [json.loads(line) for line in whole.splitlines()]
    replayed = zeus("eval", "cases.yaml", "--replay", "--case", "case a", "--json")
    assert replayed.json["cases"][0]["passed"], replayed.out

    with Provider(*[Reply("Done.")] * 3) as provider:
        configured(project, provider, kind, json.dumps(more))
        again = zeus(*words)
    assert again.exit_code == 0, again.out + again.err
    assert [each["case"] for each in again.json["cases"]] == ["case a", "case b", "case c"]
    root = ElementTree.parse(project.folder / "report.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "0")
    assert sorted(each.name for each in tapes.iterdir()) == [f"case_{each}.jsonl" for each in "abc"]
    assert zeus("eval", "cases.yaml", "--replay").exit_code == 0
