"""``zeus sessions trace``: where a session's time went, from the stored rows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Project, Zeus
from tests.cli.test_subagents import SHOUT, write
from zeus_runtime.cli.sessions.trace import _BAR, _bar

ECHO = {"call": "echo", "args": {"text": "ahoy"}}
ASKING = "middlewares: [approve]\n"


def flat(spans: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    found = []
    for each in spans:
        found += [(each["kind"], each["name"], each["state"]), *flat(each["spans"])]
    return found


def assert_inside(spans: list[dict[str, Any]], start: int, end: int) -> None:
    for each in spans:
        assert start - 1 <= each["start_ms"] <= each["end_ms"] <= end
        assert_inside(each["spans"], each["start_ms"], each["end_ms"])


def test_a_run_shows_its_calls_in_order_with_their_figures(zeus: Zeus, project: Project) -> None:
    project.agent(ECHO, "done")
    zeus("run", "zeus.yaml", "go")
    (run,) = zeus("sessions", "trace", "--json").json
    assert flat([run]) == [
        ("run", "tester", "complete"),
        ("model_call", "scripted", "stop"),
        ("tool_call", "echo", "ok"),
        ("model_call", "scripted", "stop"),
    ]
    assert_inside([run], run["start_ms"], run["end_ms"])
    assert run["details"] == {"cost_usd": 0.5}
    assert run["spans"][0]["details"] == {
        "step": 1,
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "cached_tokens": 40,
        "cost_usd": 0.25,
    }
    shown = zeus("sessions", "trace", run["session"])
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"{run['session']} · {run['run']} · complete · ")
    assert lines[0].endswith("$0.5000")
    assert [line.split("  ")[1] for line in lines[2:5]] == ["model scripted", "echo", "model scripted"]
    assert "100 in (40 cached), 5 out · $0.2500" in lines[2]
    assert all("█" in line for line in lines[2:5])


def test_each_prompt_is_a_run_and_a_failed_call_says_why(zeus: Zeus, project: Project) -> None:
    project.agent("one", {"raise": "bad_request"})
    session = zeus("run", "zeus.yaml", "go", "-o", "json").json["session"]
    assert zeus("run", "zeus.yaml", "again", "--session", session).exit_code == 1
    first, second = zeus("sessions", "trace", session, "--json").json
    assert first["run"] != second["run"]
    assert flat([second]) == [("run", "tester", "error"), ("model_call", "scripted", "model_bad_request")]


def test_an_approval_is_part_of_its_call_and_a_waiting_one_has_not_ended(
    zeus: Zeus, project: Project
) -> None:
    project.agent(SHOUT, "done", more=ASKING)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (run,) = zeus("sessions", "trace", "--json").json
    call = run["spans"][1]
    assert (call["kind"], call["end_ms"], call["state"]) == ("tool_call", None, "")
    (asked,) = call["spans"]
    assert (asked["kind"], asked["end_ms"], asked["state"]) == ("approval", None, "")
    lines = zeus("sessions", "trace").out.splitlines()
    assert "· approval ·" in lines[0]
    assert "not ended" in lines[4]
    assert lines[4].startswith("    waits for approval")

    done = zeus("resume", run["session"], "--decide", f"{asked['details']['id']}=approve")
    assert done.exit_code == 0
    (run,) = zeus("sessions", "trace", "--json").json
    assert flat([run]) == [
        ("run", "tester", "complete"),
        ("model_call", "scripted", "stop"),
        ("tool_call", "shout", "ok"),
        ("approval", "shout", "approve"),
        ("model_call", "scripted", "stop"),
    ]
    assert_inside([run], run["start_ms"], run["end_ms"])


def test_a_sub_agents_run_is_inside_the_call_that_it_worked_for(zeus: Zeus, project: Project) -> None:
    write(project, SHOUT, "shouted")
    zeus("run", "zeus.yaml", "go")
    (run,) = zeus("sessions", "trace", "--json").json
    (child,) = run["spans"][1]["spans"]
    assert child["session"] != run["session"]
    assert flat([child]) == [
        ("run", "tester/helper", "complete"),
        ("model_call", "scripted", "stop"),
        ("tool_call", "shout", "ok"),
        ("model_call", "scripted", "stop"),
    ]
    assert_inside([run], run["start_ms"], run["end_ms"])
    assert run["details"]["cost_usd"] == 2 * child["details"]["cost_usd"] == 1.0
    assert "    agent tester/helper" in zeus("sessions", "trace").out


def test_the_time_of_messages_that_were_set_aside_is_shown_with_its_sub_agents(
    zeus: Zeus, project: Project
) -> None:
    write(project, "shouted")
    session = zeus("run", "zeus.yaml", "go", "-o", "json").json["session"]
    assert zeus("sessions", "rollback", session, "--to", "1").exit_code == 0
    assert zeus("run", "zeus.yaml", "--session", session, "--continue").exit_code == 0
    runs = zeus("sessions", "trace", session, "--json").json
    kinds = [[span["kind"] for span in run["spans"]] for run in runs]
    assert kinds == [["model_call", "tool_call", "model_call"]] * 2
    assert [len(run["spans"][1]["spans"]) for run in runs] == [1, 1]


def test_an_unknown_session_is_an_error(zeus: Zeus, project: Project) -> None:
    project.agent()
    result = zeus("sessions", "trace", "session_000000000000")
    assert result.exit_code == 2
    assert "session_000000000000" in result.err


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_bar_is_seen_and_stays_in_its_column(start: int, more: int, rest: int) -> None:
    bar = _bar(start, start + more, start + more + rest)
    assert 1 <= len(bar) <= _BAR
    assert bar.strip() == "█" * len(bar.strip()) != ""
