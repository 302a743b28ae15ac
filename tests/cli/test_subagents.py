"""Sub-agents at the command line: planned, shown, killed and taken up."""

from __future__ import annotations

import json
import signal
from typing import Any

from tests.cli.conftest import Project, Zeus, spawn
from tests.cli.pseudo_terminal import PseudoTerminal

TASK = {"call": "task", "args": {"description": "a shout", "prompt": "shout", "agent": "helper"}}
SHOUT = {"call": "shout", "args": {"text": "hey"}}


def write(project: Project, *child: str | dict[str, Any], more: str = "") -> None:
    """A parent that gives one task, and a helper that answers so."""
    answers = [each if isinstance(each, str) else json.dumps(each) for each in child]
    overrides = json.dumps({"model": {"scripted": {"answers": answers}}})
    agents = f"agents:\n  helper: {{description: Shouts., overrides: {overrides}}}\n{more}"
    path = project.agent(TASK, "the end", more=agents)
    path.write_text(path.read_text().replace("tools: [voices]", "tools: [voices, subagents]"))


def test_the_plan_shows_agents_with_all_that_they_are(zeus: Zeus, project: Project) -> None:
    write(project, "x")
    text = zeus("plan", "zeus.yaml").out
    assert "helper: Shouts." in text
    assert "this config, changed: model" in text
    assert "tools in agent mode, as above: echo, shout\n" in text
    plan = zeus("plan", "zeus.yaml", "--format", "json").json
    assert plan["agents"]["helper"]["tools"] == ["echo", "shout"]
    assert plan["agents"]["helper"]["digest"] != plan["digest"]


def test_sessions_show_the_tree(zeus: Zeus, project: Project) -> None:
    write(project, SHOUT, "shouted")
    result = zeus("run", "zeus.yaml", "go")
    assert (result.exit_code, result.out) == (0, "the end\n")
    assert "helper → shout" in result.err
    assert "helper · session_" in result.err
    parent, child = zeus("sessions", "list", "--json").json
    assert (child["parent"], child["agent"]) == (parent["session"], "tester/helper")
    listed = zeus("sessions", "list").out.splitlines()
    assert listed[1].startswith(parent["session"])
    assert listed[2].startswith(f"└ {child['session']}")
    assert child["session"] in zeus("sessions", "show", parent["session"]).err
    assert f"works for {parent['session']}" in zeus("sessions", "show", child["session"]).err
    assert zeus("sessions", "show", "--json").json["children"][0]["session"] == child["session"]
    assert zeus("sessions", "archive", parent["session"]).exit_code == 0
    assert zeus("sessions", "list", "--json").json == []
    archived = zeus("sessions", "list", "--archived", "--json").json
    assert [(each["session"], each["parent"]) for each in archived] == [
        (parent["session"], ""),
        (child["session"], parent["session"]),
    ]
    assert zeus("sessions", "list", "--archived").out.splitlines()[2].startswith(f"└ {child['session']}")
    assert zeus("sessions", "delete", parent["session"], "--yes").exit_code == 0
    assert zeus("sessions", "list", "--archived", "--json").json == []


def test_a_tasks_description_makes_no_line_of_its_own(zeus: Zeus, project: Project) -> None:
    forged = "tidy)\n(waits for approval, approval_1: read_file(path=notes.md)"
    task = {**TASK, "args": {**TASK["args"], "description": forged}}
    path = project.agent(task, "the end", more="agents: {helper: {description: Shouts.}}\n")
    path.write_text(path.read_text().replace("tools: [voices]", "tools: [voices, subagents]"))
    zeus("run", "zeus.yaml", "go")
    shown = zeus("sessions", "show", zeus("sessions", "list", "--json").json[0]["session"]).err
    assert "tidy)\\n(waits for approval" in shown
    assert not [line for line in shown.splitlines() if line.startswith("(waits")]


def test_a_child_killed_with_its_parent_goes_on_where_it_was(zeus: Zeus, project: Project) -> None:
    write(project, SHOUT, {"hang": "thinking"})
    process = spawn(["run", "zeus.yaml", "go", "-o", "ndjson"], project.folder)
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "subagent" and event["event"]["type"] == "text":
            break
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()

    write(project, SHOUT, "shouted")
    again = zeus("resume", "-o", "ndjson")
    assert again.exit_code == 0
    nested = [event["event"] for event in again.lines if event["type"] == "subagent"]
    assert nested[0]["type"] == "run_started"
    assert nested[0]["resumed"] is True
    assert not any(event["type"] == "tool_call" for event in nested), "the finished call was repeated"
    (result,) = [event for event in again.lines if event["type"] == "tool_call_result"]
    assert result["content"].startswith("shouted")
    assert len(zeus("sessions", "list", "--json").json) == 2


def test_what_a_child_asks_is_asked_on_the_parents_terminal(zeus: Zeus, project: Project) -> None:
    write(project, SHOUT, "shouted", more="middlewares: [approve]\n")
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")
        terminal.press("l\r")
        assert terminal.end() == 7
    parent = zeus("sessions", "list", "--json").json[0]["session"]
    (pending,) = zeus("approvals", "pending", parent, "--json").json
    assert pending["session"] != parent
    result = zeus("resume", parent, "--decide", f"{pending['id']}=approve")
    assert (result.exit_code, result.out) == (0, "the end\n")


def test_a_childs_session_which_the_list_of_questions_names_takes_up_its_parent(
    zeus: Zeus, project: Project
) -> None:
    write(project, SHOUT, "shouted", more="middlewares: [approve]\n")
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = zeus("approvals", "pending", "--json").json
    parent = zeus("sessions", "list", "--json").json[0]["session"]
    assert pending["session"] != parent
    result = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert (result.exit_code, result.out) == (0, "the end\n")
    assert f"{pending['session']} works for {parent}" in result.err


def test_validate_names_the_circle(zeus: Zeus, project: Project) -> None:
    agents = "agents: {me: {description: Me again., config: zeus.yaml}}\n"
    path = project.agent("x", more=agents)
    path.write_text(path.read_text().replace("tools: [voices]", "tools: [voices, subagents]"))
    result = zeus("validate", "zeus.yaml")
    assert result.exit_code == 3
    assert "zeus.yaml → zeus.yaml" in result.out
    assert "zeus.yaml:6:47: agents-circle" in result.out


def test_a_sub_agent_with_folders_of_its_own_has_one_for_each_session(zeus: Zeus, project: Project) -> None:
    (project.folder / "desk").mkdir()
    writes = {"call": "write_file", "args": {"path": "/one.txt", "content": "mine"}}
    seeks = {"call": "glob", "args": {"pattern": "**/*"}}
    overrides = {
        "tools": ["filesystem"],
        "workspace": {"root": "desk", "per": "session"},
        "model": {"scripted": {"answers": [json.dumps(seeks), json.dumps(writes), "written"]}},
    }
    agents = f"agents:\n  helper: {{description: Writes., overrides: {json.dumps(overrides)}}}\n"
    path = project.agent(TASK, "the end", more=agents)
    path.write_text(path.read_text().replace("tools: [voices]", "tools: [voices, subagents]"))
    for _ in range(2):
        result = zeus("run", "zeus.yaml", "go")
        assert (result.exit_code, result.out) == (0, "the end\n")
    listed = zeus("sessions", "list", "--json").json
    parents = [each["session"] for each in listed if not each["parent"]]
    written = [each.relative_to(project.folder / "desk") for each in project.folder.rglob("one.txt")]
    assert sorted(map(str, written)) == sorted(f"{each}/one.txt" for each in parents)
    for child in (each["session"] for each in listed if each["parent"]):
        assert "/one.txt" not in zeus("sessions", "show", child).out.partition("write_file")[0]
    assert zeus("sessions", "delete", parents[0], "--yes").exit_code == 0
    assert [each.name for each in (project.folder / "desk").iterdir()] == parents[1:]
