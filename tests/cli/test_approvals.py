"""Approvals at the command line: asked on a terminal, decided by `zeus resume` where nobody is there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
import time
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Project, Zeus, spawn
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support import mcp_server
from zeus_runtime import Agent
from zeus_runtime.cli.approval_prompt import TerminalApprovals, YesApprovals
from zeus_runtime.cli.options import ConfigArgs
from zeus_runtime.cli.run import Request
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import RunFailed
from zeus_runtime.run.approvals import masked_pending
from zeus_runtime.sessions.stored import StoredSession
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.question import AnswerField, deadline, question_lines

ASKING = "middlewares: [approve]\n"
DOES_NOT_HOLD = "under other settings of write_file: that approval does not hold."


def shouting(text: str = "hey") -> dict[str, object]:
    return {"call": "shout", "args": {"text": text}}


def waiting(zeus: Zeus) -> list[dict[str, str]]:
    return list(zeus("approvals", "pending", "--json").json)


def test_without_a_terminal_the_run_ends_with_7_and_says_how_to_decide(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", name="loud.yaml", more=ASKING)
    result = zeus("run", "loud.yaml", "go")
    assert result.exit_code == 7
    assert result.out == ""
    (pending,) = list(zeus("approvals", "pending", "--config", "loud.yaml", "--json").json)
    assert "? shout needs approval" in result.err
    assert (
        f"decide with: zeus resume {pending['session']} --decide {pending['id']}=approve --config loud.yaml"
        in result.err
    )
    shown = zeus("sessions", "show", "--config", "loud.yaml")
    assert f'waits for approval, {pending["id"]}: shout(text="hey")' in shown.err
    assert zeus("sessions", "list", "--config", "loud.yaml", "--json").json[0]["state"] == "approval"

    done = zeus("resume", pending["session"], "--config", "loud.yaml", "--decide", f"{pending['id']}=approve")
    assert (done.exit_code, done.out) == (0, "done\n")
    assert "← shout: HEY" in done.err
    shown = zeus("sessions", "show", "--config", "loud.yaml")
    assert "approved by the user" in shown.out
    assert zeus("sessions", "show", "--config", "loud.yaml", "--json").json["approvals"][0]["decided_ms"]
    again = zeus("approvals", "show", pending["id"], "--config", "loud.yaml")
    assert (again.exit_code, f"{pending['id']} was approved already, by the user, at 2" in again.err) == (
        2,
        True,
    )
    assert f"`zeus sessions show {pending['session']} --config loud.yaml`" in again.err


def test_the_list_of_what_waits_says_until_when_and_what_happens_then(zeus: Zeus, project: Project) -> None:
    project.agent(
        shouting(), "done", more="middlewares: [{approve: {timeout_seconds: 60, on_timeout: approve}}]\n"
    )
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    until = deadline(int(pending["expires_ms"]), "approve")
    assert until.endswith(", then: approve")
    assert f"  {until}  " in zeus("approvals", "pending").out
    assert f"  until {until}\n" in zeus("approvals", "show", pending["id"]).out


def test_a_waiting_call_and_a_decision_are_masked_before_a_line_is_cut(zeus: Zeus, project: Project) -> None:
    secret = "argo-" + "a1B2c3D4" * 8
    project.agent(shouting(f"Say {secret}"), shouting(f"Say {secret}!"), "done", more=ASKING)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    decision = f"{pending['id']}=reject:not {secret}"
    assert zeus("resume", pending["session"], "--decide", decision).exit_code == 7
    # Known only now: what is stored has it.
    (project.folder / ".env").write_text(f"SHIP_TOKEN={secret}\n")
    shown = zeus("sessions", "show")
    assert 'shout(text="Say <secret:SHIP_TOKEN>!")' in shown.err
    assert "argo-" not in shown.err + shown.out
    assert "argo-" not in zeus("approvals", "pending").out

    async def stored() -> StoredSession:
        async with Agent.from_config(directory=project.folder, trust="all") as agent:
            return await agent.stored_session(pending["session"])

    assert "argo-" not in repr(asyncio.run(stored()))


def test_programs_get_what_waits(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    result = zeus("run", "zeus.yaml", "go", "-o", "ndjson")
    assert result.exit_code == 7
    kinds = [event["type"] for event in result.lines]
    assert kinds.index("tool_call") < kinds.index("approval_requested") < kinds.index("error")
    assert next(event for event in result.lines if event["type"] == "tool_call")["requires_approval"] is True
    (pending,) = result.lines[-1]["details"]["pending"]
    assert (pending["tool_name"], pending["parameters"]) == ("shout", {"text": "hey"})

    again = zeus("resume", pending["session"], "-o", "json")
    assert again.exit_code == 7
    assert again.json["status"] == "waiting"
    assert again.json["error"]["pending"] == [pending]


def test_a_decision_with_what_was_shown_is_about_that_change(zeus: Zeus, project: Project) -> None:
    write = {"call": "write_file", "args": {"path": "a.txt", "content": "new\n"}}
    project.agent(write, "done", more="middlewares: [approve]\n")
    file = project.folder / "zeus.yaml"
    file.write_text(file.read_text().replace("[voices]", "[filesystem]"))
    project.write("a.txt", "old\n")
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"])
    assert "- old" in shown.out
    sealed = re.search(r"--decide '?(\S+@[0-9a-f]{16})=approve", shown.err)
    assert sealed is not None, shown.err
    project.write("a.txt", "older\n")
    assert "- older" in zeus("approvals", "show", pending["id"]).out
    other, same = "[{filesystem: {protected: [b.txt]}}]", file.read_text()
    for text, is_outdated in ((same.replace("[filesystem]", other), True), (same, False)):
        file.write_text(text)
        for told in (zeus("approvals", "show", pending["id"]).out, zeus("approvals", "pending").out):
            assert ("t was asked under other settings of the tool" in told) == is_outdated
        assert ("outdated" in waiting(zeus)[0]) == is_outdated

    def decide(word: str) -> Any:
        return zeus("resume", pending["session"], "--decide", word)

    for wrong in (f"{sealed[1]}=approve", f"{pending['id']}@=approve", f"{pending['id']}@0=always"):
        refused = decide(wrong)
        assert refused.exit_code == 2
        assert "another change now than the one that you saw" in refused.err
    assert (project.folder / "a.txt").read_text() == "older\n"
    assert waiting(zeus) == [pending]
    project.write("a.txt", "old\n")
    assert "- old" in zeus("approvals", "show", pending["id"]).out
    assert decide(f"{sealed[1]}=approve").exit_code == 0
    assert (project.folder / "a.txt").read_text() == "new\n"


def test_a_question_after_an_approval_that_does_not_hold_says_so(zeus: Zeus, project: Project) -> None:
    project.agent({"call": "write_file", "args": {"path": "a.txt", "content": "b"}}, "done", more=ASKING)
    file = project.folder / "zeus.yaml"
    same = file.read_text().replace("[voices]", "[filesystem]")
    file.write_text(same)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (first,) = waiting(zeus)
    assert DOES_NOT_HOLD not in zeus("approvals", "show", first["id"]).out
    file.write_text(same.replace("[filesystem]", "[{filesystem: {protected: [b.txt]}}]"))
    decided = zeus("resume", first["session"], "--decide", f"{first['id']}=approve")
    assert decided.exit_code == 7
    assert f"{first['id']}: It was asked under other settings of the tool" in decided.err
    (again,) = waiting(zeus)
    assert again["approved_before"]
    assert f"approved before, {DOES_NOT_HOLD}" in zeus("approvals", "show", again["id"]).out
    decided = zeus("resume", first["session"], "--decide", f"{again['id']}=approve")
    assert (decided.exit_code, "asked under other settings" in decided.err) == (0, False)
    told = "· approved by the user · after a change of the tool's settings, approved by the user\n"
    assert told in zeus("sessions", "show", first["session"]).out


def test_a_question_after_a_rejection_or_another_call_says_nothing_of_an_approval(
    zeus: Zeus, project: Project
) -> None:
    project.agent(shouting(), shouting("ho"), "done", more=ASKING)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    for answer in ("approve", "reject"):
        (pending,) = waiting(zeus)
        assert "approved_before" not in pending
        zeus("resume", pending["session"], "--decide", f"{pending['id']}={answer}")


def test_a_call_of_a_services_user_is_shown_here_and_decided_by_the_service(
    zeus: Zeus, project: Project
) -> None:
    write = {"call": "write_file", "args": {"path": "a.txt", "content": "new\n"}}
    project.agent(write, "done", more="middlewares: [approve]\n")
    file = project.folder / "zeus.yaml"
    file.write_text(file.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    session = pending["session"]
    with closing(sqlite3.connect(project.folder / ".zeus" / "zeus.db")) as database, database:
        database.execute("UPDATE thread SET owner = 'ann'")
    shown = zeus("approvals", "show", pending["id"])
    assert "+ new" in shown.out
    assert f"zeus --remote URL approvals decide {pending['id']}@" in shown.err
    for words in (("--decide", f"{pending['id']}=always"), ()):
        refused = zeus("resume", session, *words)
        assert refused.exit_code == 2, refused.err
        assert f"zeus --remote URL run --session {session}" in refused.err
    assert "has no session to continue" in zeus("run", "zeus.yaml", "--continue", "-p", "more").err
    assert waiting(zeus) == [{**pending, "user": "ann"}]


def test_the_same_call_of_two_agents_or_users_looks_different_in_a_list_and_in_full(
    zeus: Zeus, project: Project
) -> None:
    for name in ("prod", "staging"):
        file = f"{name}.yaml"
        project.agent(shouting(), "done", name=file, more="middlewares: [{approve: {mode: ask}}]\n")
        written = project.folder / file
        written.write_text(re.sub(r"(?m)^name: .*", f"name: {name}", written.read_text()))
        for _ in range(2):
            assert zeus("run", file, "go").exit_code == 7
    with closing(sqlite3.connect(project.folder / ".zeus" / "zeus.db")) as database, database:
        database.execute(
            "UPDATE thread SET owner = 'ann' WHERE key IN (SELECT min(key) FROM thread GROUP BY agent)"
        )
    listed = zeus("approvals", "pending", "--config", "prod.yaml")
    calls = re.findall(r"(?m)  (\S.*) → shout\(", listed.out)
    assert sorted(each.rpartition("  ")[2] for each in calls) == [
        *("prod", "prod for ann", "staging", "staging for ann")
    ]
    found = zeus("approvals", "pending", "--config", "prod.yaml", "--json").json
    heads = [
        zeus("approvals", "show", each["id"], "--config", "prod.yaml")
        .out.partition("\n")[0]
        .replace(each["id"], "ID")
        for each in found
    ]
    assert sorted(heads) == [
        f"shout waits for approval (ID); the agent {who} calls it"
        for who in ("prod", "prod for ann", "staging", "staging for ann")
    ]
    assert {(each["agent"], each["user"]) for each in found} == {
        *(("prod", ""), ("prod", "ann"), ("staging", ""), ("staging", "ann"))
    }


def test_an_always_that_cannot_be_remembered_decides_nothing(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more="middlewares: [{approve: {mode: ask}}]\n")
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    refused = zeus("resume", pending["session"], "--decide", f"{pending['id']}=always")
    assert refused.exit_code == 2
    assert "`always` cannot be remembered for it: approve it once" in refused.err
    assert waiting(zeus) == [pending]


def test_an_always_for_a_sub_agents_folder_is_not_for_the_agent_above_it(
    zeus: Zeus, project: Project
) -> None:
    write = {"call": "write_file", "args": {"path": "f.txt", "content": "new\n"}}
    task = {"call": "task", "args": {"description": "d", "prompt": "go", "agent": "w"}}
    above = "middlewares: [{approve: {allow: [task]}}]\nagents: {w: {description: d, config: child.yaml}}\n"
    (project.folder / "scratch").mkdir()
    below = "workspace: {root: scratch}\nmiddlewares: [approve]\n"
    for path, tools in (
        (
            project.agent(write, "child done", name="child.yaml", more=below),
            "[filesystem]",
        ),
        (project.agent(task, write, "done", more=above), "[filesystem, subagents]"),
    ):
        path.write_text(path.read_text().replace("[voices]", tools))
    asked = zeus("run", "zeus.yaml", "go")
    assert asked.exit_code == 7
    (pending,) = waiting(zeus)
    assert f"? tester/w → write_file needs approval ({pending['id']})" in asked.err
    assert f"1 call waits for approval: tester/w → write_file ({pending['id']})" in asked.err
    went = zeus("resume", pending["session"], "--decide", f"{pending['id']}=always")
    assert went.exit_code == 7, went.err
    assert (project.folder / "scratch" / "f.txt").exists()
    assert not (project.folder / "f.txt").exists()
    (pending,) = waiting(zeus)
    assert "for another workspace" in pending["reason"]
    assert zeus("resume", pending["session"], "--decide", f"{pending['id']}=reject").exit_code == 0
    again = zeus("run", "zeus.yaml", "go")
    assert "w ← write_file: Replaced" in again.err, "the sub-agent's own call is not asked about again"
    assert [each["reason"] for each in waiting(zeus)] == [pending["reason"]]


def entries(zeus: Zeus) -> list[tuple[str, bool]]:
    """The allowlist: tools, and whether an entry is for any of its name."""
    return [(each["tool"], each["any_of_this_name"]) for each in zeus("approvals", "list", "--json").json]


def test_every_decision_of_resume(zeus: Zeus, project: Project) -> None:
    project.agent(shouting("a"), shouting("b"), shouting("c"), shouting("d"), "done", more=ASKING)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7

    def decide(decision: str, *more: str) -> tuple[int, str]:
        (pending,) = waiting(zeus)
        result = zeus(
            "resume", pending["session"], "--decide", f"{pending['id']}={decision}", *more, "-o", "ndjson"
        )
        results = [event["content"] for event in result.lines if event["type"] == "tool_call_result"]
        return result.exit_code, results[0] if results else ""

    code, content = decide("reject:too loud", "--instruction", "whisper instead")
    assert code == 7
    assert "The user rejected this call of shout: too loud" in content
    assert content.endswith("The user adds: whisper instead")
    code, content = decide('approve:{"text": "soft"}')
    assert code == 7
    assert "SOFT" in content
    code, content = decide("always")
    assert code == 0, "the next call of the tool is not asked for"
    assert entries(zeus) == [("shout", False)]
    assert zeus("approvals", "list").out.splitlines()[1].startswith("shout  as approved")
    assert zeus("approvals", "revoke", "shout").exit_code == 0
    assert entries(zeus) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--decide", "x"], "say ID=approve"),
        (["--decide", "x=perhaps"], "'perhaps' is not a decision"),
        (["--decide", "x=approve:{"], "not JSON"),
        (["--decide", "x=approve:[]"], "a JSON object"),
        (["--decide", 'x=approve:{"a": 1, "a": 2}'], "a key is there twice"),
        (["--decide", 'x=approve:{"a": NaN}'], "NaN is not a JSON number"),
        (
            ["--decide", 'x=approve:{"a": 9007199254740993.0}'],
            "9007199254740993.0 would be 9007199254740992.0",
        ),
        (["--decide", 'x=approve:{"a": "\\ud800"}'], "half of a surrogate pair is not a character"),
        (["--decide", "x=approve", "--decide", "x=reject"], "decided twice"),
        (["--instruction", "now"], "goes with --decide"),
        (["--decide", "00000000=approve"], "waits for a decision under the id '00000000'"),
    ],
)
def test_decisions_that_cannot_be_read_are_refused(
    zeus: Zeus, project: Project, words: list[str], said: str
) -> None:
    project.agent(shouting(), "done", more=ASKING)
    zeus("run", "zeus.yaml", "go")
    result = zeus("resume", *words)
    assert result.exit_code == 2
    assert said in result.err
    assert len(waiting(zeus)) == 1


def test_a_decision_that_does_not_fit_the_tool_is_refused(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    zeus("run", "zeus.yaml", "go")
    (pending,) = waiting(zeus)
    result = zeus("resume", "--decide", pending["id"] + '=approve:{"txt": "x"}')
    assert result.exit_code == 2
    assert "did you mean text?" in result.err


def test_there_is_nothing_to_resume(zeus: Zeus, project: Project) -> None:
    project.agent("hello", more=ASKING)
    assert zeus("resume").exit_code == 2
    zeus("run", "zeus.yaml", "go")
    result = zeus("resume")
    assert result.exit_code == 2
    assert "nothing to resume" in result.err


def test_the_allowlist_is_listed_extended_and_shortened(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    assert "the allowlist of local is empty" in zeus("approvals", "list").err
    assert zeus("approvals", "revoke", "shout").exit_code == 2
    refused = zeus("approvals", "allow", "shuot")
    assert refused.exit_code == 2
    assert "did you mean 'shout'?" in refused.err
    assert "now on the allowlist of local" in zeus("approvals", "allow", "shout").err
    assert "already on" in zeus("approvals", "allow", "shout").err
    assert entries(zeus) == [("shout", True)]
    assert "any of this name" in zeus("approvals", "list").out
    assert zeus("approvals", "list", "--user", "ann", "--json").json == []
    assert zeus("run", "zeus.yaml", "go").exit_code == 0
    assert zeus("approvals", "revoke", "shout").exit_code == 0
    assert zeus("run", "zeus.yaml", "go").exit_code == 7


def test_a_terminal_is_asked_and_answers_by_keys(project: Project) -> None:
    project.agent(shouting("a"), shouting("b"), shouting("c"), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        question = terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        assert "text: a" in question
        assert "because: shout is not on your allowlist" in question
        terminal.press("?\r")
        assert "decide later" in terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        terminal.press("a file of that name is there already, choose another\r")
        assert "decide later" in terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        terminal.press('c {"txt": 1}\r')
        assert "did you mean text?" in terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        terminal.press("c\r")
        terminal.until("arguments as JSON: ")
        terminal.press('{"text": "changed"}\r')
        assert "with changed arguments" in terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        terminal.press("n too loud\r")
        assert "shout was rejected" in terminal.until("approve shout? [y, a, c, n, v, l or ?] ")
        terminal.press("a\r")
        assert terminal.end() == 0
        assert "CHANGED" not in terminal.screen.split("arguments as JSON")[0]
        assert "done" in terminal.screen
        assert terminal.raw.count("\x1b[?25l") == terminal.raw.count("\x1b[?25h"), "the cursor is shown again"


@pytest.mark.parametrize("words", [["run", "zeus.yaml", "go"], ["resume"], ["chat"]])
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_question_says_once_what_waits(zeus: Zeus, project: Project, words: list[str], term: str) -> None:
    project.agent(shouting(), "done", more=ASKING)
    if words == ["resume"]:
        assert zeus("run", "zeus.yaml", "go").exit_code == 7
    with PseudoTerminal(words, project.folder, {"TERM": term}) as terminal:
        if words == ["chat"]:
            terminal.until("agent> ")
            terminal.press("go\r")
        terminal.until("approve shout? ")
        assert terminal.screen.count("shout waits for approval (") == 1
        assert "needs approval" not in terminal.screen
        terminal.press("y\r")
        terminal.until("shout was approved")
        terminal.until("done")


@pytest.mark.parametrize("decision", ["approve", "always"])
def test_another_terminal_decides_nothing_while_the_question_is_asked(
    zeus: Zeus, project: Project, decision: str
) -> None:
    project.agent(shouting(), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")
        (pending,) = waiting(zeus)
        late = zeus("resume", pending["session"], "--decide", f"{pending['id']}={decision}")
        assert (late.exit_code, "is running elsewhere" in late.err) == (2, True)
        assert waiting(zeus) == [pending]
        terminal.press("n\r")
        terminal.until("shout was rejected")
        assert terminal.end() == 0
    assert "HEY" not in terminal.screen
    assert entries(zeus) == []


def test_yes_tells_of_each_question_in_a_line(project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go", "--yes"], project.folder) as terminal:
        assert terminal.end() == 0
        assert terminal.screen.count("? shout needs approval (") == 1
        assert "waits for approval" not in terminal.screen


def test_ctrl_c_at_the_question_leaves_it_open(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")
        terminal.press("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.screen
    (pending,) = waiting(zeus)
    # Ctrl-D there means later, and the run says how to go on.
    with PseudoTerminal(["resume", pending["session"]], project.folder) as terminal:
        terminal.until("approve shout? ")
        terminal.press("\x04")
        assert terminal.end() == 7
        assert "decide with: zeus resume" in terminal.screen
    assert [each["id"] for each in waiting(zeus)] == [pending["id"]]


def test_what_waits_survives_sigkill(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")  # leaving kills it
    (pending,) = waiting(zeus)
    result = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert (result.exit_code, result.out) == (0, "done\n")
    assert "← shout: HEY" in result.err


@pytest.mark.parametrize("how", ["ctrl-c", "kill"])
def test_an_approved_call_that_was_interrupted_is_asked_about_anew(
    zeus: Zeus, project: Project, how: str
) -> None:
    project.agent(shouting(), "done", more=ASKING)
    plugin = project.folder / "scripted.py"
    slow = """    import asyncio, os
    open("ran.txt", "a").write("ran ")
    await asyncio.sleep(0 if os.path.exists("quick") else 60)
    return text.upper()"""
    plugin.write_text(plugin.read_text().replace("    return text.upper()", slow))
    ran = project.folder / "ran.txt"
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")
        terminal.press("y\r")
        terminal.until("shout was approved")
        while not ran.exists():
            time.sleep(0.01)
        terminal.press("\x03") if how == "ctrl-c" else terminal.send(signal.SIGKILL)
        terminal.end()
    project.write("quick", "")
    if how == "kill":
        assert zeus("run", "zeus.yaml", "--continue").exit_code == 7
        assert [each["interrupted"] for each in waiting(zeus)] == [True]
    else:
        with PseudoTerminal(["run", "zeus.yaml", "--continue"], project.folder) as terminal:
            question = terminal.until("approve shout? ")
            assert "It was begun before and did not finish: whether it took effect is unknown." in question
    assert ran.read_text() == "ran "


def test_a_conversation_asks_and_goes_on(project: Project) -> None:
    project.agent(shouting(), "said it", "bye", more=ASKING)
    with PseudoTerminal(["chat"], project.folder) as terminal:
        terminal.until("agent> ")
        terminal.press("go\r")
        terminal.until("approve shout? ")
        terminal.press("l\r")
        terminal.until("waits for approval")
        terminal.until("agent> ")
        terminal.press("/resume\r")
        terminal.until("approve shout? ")
        terminal.press("y\r")
        terminal.until("said it")
        terminal.until("agent> ")
        terminal.press("/exit\r")
        assert terminal.end() == 0


def test_what_is_asked_cannot_control_the_terminal(project: Project) -> None:
    project.agent(shouting("\x1b]0;owned\x07\x1b[2Jhid\x9b31mden"), "done", more=ASKING)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("approve shout? ")
        terminal.press("n\r")
        assert terminal.end() == 0
        assert "\x1b[2J" not in terminal.raw
        assert "\x1b]" not in terminal.raw
        assert "text: \\x1b]0;owned\\x07\\x1b[2Jhid\\u009b31mden" in terminal.screen


def test_the_approvals_of_a_session_are_exported(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    zeus("run", "zeus.yaml", "go")
    document = json.loads(zeus("sessions", "export").out)
    assert [each["tool_name"] for each in document["approvals"]] == ["shout"]


def test_how_often_to_be_asked_is_shown_chosen_and_given_up(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more="middlewares: [{approve: {user_modes: [run_everything, ask]}}]\n")
    shown = zeus("approvals", "mode")
    assert shown.out.splitlines()[1].split() == [
        "tester",
        "allowlist",
        "allowlist",
        *"run_everything, allowlist, ask".split(),
    ]
    assert "local chose nothing" in shown.err
    assert not (project.folder / ".zeus").exists(), "to look makes no database"
    assert "local chose run_everything" in zeus("approvals", "mode", "run_everything").err
    assert zeus("run", "zeus.yaml", "go").exit_code == 0
    assert zeus("approvals", "mode", "ask", "--user", "ann", "--json").json == {
        "user": "ann",
        "chosen": "ask",
        "agents": [
            {
                "agent": "tester",
                "configured": "allowlist",
                "in_force": "ask",
                "choices": ["run_everything", "allowlist", "ask"],
            }
        ],
    }
    assert zeus("approvals", "mode", "--json").json["chosen"] == "run_everything"
    assert "the config's mode holds" in zeus("approvals", "mode", "config").err
    assert zeus("run", "zeus.yaml", "go").exit_code == 7


def test_what_the_config_does_not_let_choose_is_refused_and_no_stored_choice_gets_round_it(
    zeus: Zeus, project: Project
) -> None:
    project.agent(shouting(), "done", more="middlewares: [{approve: {mode: ask}}]\n")
    refused = zeus("approvals", "mode", "run_everything")
    assert refused.exit_code == 2
    assert "does not let its user choose 'run_everything'" in refused.err
    assert "It allows: ask." in refused.err
    # Chosen for an agent that allows it, the choice is the user's in every agent of the database, and loosens none.
    loose = "middlewares: [{approve: {user_modes: [run_everything]}}]\n"
    project.agent(shouting(), "done", name="loose.yaml", more=loose)
    assert zeus("approvals", "mode", "run_everything", "--config", "loose.yaml").exit_code == 0
    result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 7
    assert (
        "chose the approval mode 'run_everything', which this config does not allow: 'ask' holds"
        in result.err
    )
    assert zeus("approvals", "mode").out.splitlines()[1].split() == ["tester", "ask", "ask", "ask"]


def test_an_agent_that_asks_nobody_has_no_mode(zeus: Zeus, project: Project) -> None:
    project.agent("hello")
    refused = zeus("approvals", "mode", "ask")
    assert refused.exit_code == 2
    assert "asks nobody" in refused.err


def inquiring(project: Project) -> None:
    """An agent whose MCP server asks the user for a colour, which is a required text."""
    server = {"command": sys.executable, "args": [mcp_server.__file__], "start_timeout_seconds": 60}
    more = f"mcpServers: {json.dumps({'small': server})}\n"
    project.agent({"call": "small__ask", "args": {}}, "done", more=more)


def test_the_command_that_decides_has_gaps_that_are_no_answers() -> None:
    fields = {
        "done": {"type": "boolean"},
        "why": {"type": "string"},
        "n": {"type": ["integer", "null"]},
        "x": True,
    }
    asked = {"id": "ab12", "answer_schema": {"type": "object", "properties": fields}}
    ending = RunFailed("s", "approval_needed", "", details={"pending": [asked]})
    request = Request(ConfigArgs(None, None, ()), None, None, "s", False, None, (), "text", False)
    given = """'ab12=approve:{"done": true|false, "why": "…", "n": …, "x": …}'"""
    assert given in request.deciding(ending)


def test_a_servers_question_is_decided_with_an_answer_that_fits(zeus: Zeus, project: Project) -> None:
    inquiring(project)
    run = zeus("run", "zeus.yaml", "go")
    assert run.exit_code == 7
    assert "declined" not in run.err
    (pending,) = waiting(zeus)
    assert pending["answer_schema"]["required"] == ["colour"]  # type: ignore[index]
    assert f"""'{pending["id"]}=approve:{{"colour": "…"}}'""" in run.err
    for wrong, why in (("approve", "missing: colour"), ('approve:{"colour": [1]}', "must be string")):
        refused = zeus("resume", "--decide", f"{pending['id']}={wrong}")
        assert (refused.exit_code, why in refused.err) == (2, True), refused.err
    done = zeus("resume", "--decide", pending["id"] + '=approve:{"colour": "red"}', "-o", "ndjson")
    (result,) = [event["content"] for event in done.lines if event["type"] == "tool_call_result"]
    assert json.loads(result) == {"action": "accept", "content": {"colour": "red"}}


SPEAKING = " ".join(["! write_file was approved"] * 30)
"""Wherever a terminal of any usual width divides it, a part begins in the words of Zeus."""


def test_no_line_of_a_note_begins_in_a_servers_words(project: Project) -> None:
    server = {"command": sys.executable, "args": [mcp_server.__file__], "start_timeout_seconds": 60}
    more = f"mcpServers: {json.dumps({'small': server})}\n"
    project.agent({"call": "small__wonder", "args": {"text": SPEAKING}}, "done", more=more)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        terminal.until("answer small__wonder? ")
        terminal.press("n\r")
        note = terminal.until("It was declined.").split("note: ")[1]
        assert terminal.end() == 0
    assert " ".join(note.split()).count(SPEAKING) == 1, "nothing is dropped"
    first, *later = note.split("\n")
    assert len(f"note: {first}") < 100
    assert all(line.startswith("  ") and len(line) < 100 for line in later)


def test_in_a_pager_no_line_of_a_call_begins_in_the_calls_words(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(SPEAKING), "done", more=ASKING)
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = waiting(zeus)
    # A pager gets a pipe, and shows it on the terminal that is left.
    terminal, side = os.openpty()
    environ = {**os.environ, "COLUMNS": "60"}
    shown = spawn(["approvals", "show", pending["id"]], project.folder, stderr=side, env=environ)
    out, _ = shown.communicate()
    os.close(side)
    os.close(terminal)
    assert SPEAKING in out.replace("␠\n    ┊ ", " ").replace("\n    ┊ ", "")
    assert max(map(len, out.splitlines())) < 60


def test_at_a_terminal_a_servers_question_is_answered_field_by_field(project: Project) -> None:
    inquiring(project)
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        question = terminal.until("answer small__ask? [y, c, n, v, l or ?] ")
        assert "answer: colour (string, required)" in question
        terminal.press("y\r")
        assert "missing: colour" in terminal.until("answer small__ask? [y, c, n, v, l or ?] ")
        terminal.press("c\r")
        terminal.until("colour (string, required): ")
        terminal.press("green\r")
        assert terminal.end() == 0
    assert "done" in terminal.screen


COLOUR = {"type": "string", "enum": ["red", "green"], "description": "Which one."}


@pytest.mark.parametrize(
    ("field", "line", "shown", "value"),
    [
        ({"type": "string"}, "5", "f (string, required)", "5"),
        ({"type": "integer"}, "5", "f (integer, required)", 5),
        ({"type": "number", "default": 1.5}, "2", "f (number, else 1.5)", 2),
        ({"type": "boolean"}, "yes", "f (boolean, required)", True),
        (COLOUR, "red", 'f (one of red | green, required): "Which one."', "red"),
        ({"type": "array"}, '["a"]', "f (array, required)", ["a"]),
        ({}, "not json", "f (any, required)", "not json"),
        ({"type": ["string", "null"]}, "x", 'f (["string", "null"], required)', "x"),
        (
            {"type": "any) x, (b", "enum": ["a", "b | c", "5", " "]},
            "5",
            'f (one of a | "b | c" | "5" | " ", required)',
            5,
        ),
        (
            {"type": "string", "default": "a\xa0\u2003  b\n c"},
            "",
            'f (string, else "a\\u00a0\\u2003  b\\n c")',
            "",
        ),
        (
            {"type": "string", "description": "a \n  b\u202e"},
            "",
            'f (string, required): "a \\n  b\\u202e"',
            "",
        ),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "All"}], "title": "T", "description": "D"},
            "a",
            'f (string, required, {"oneOf": [{"const": "a", "title": "All"}], "title": "T"}): "D"',
            "a",
        ),
        ({"type": "integer", "minimum": 3}, "5", 'f (integer, required, {"minimum": 3})', 5),
        ({"type": "object"}, '{"a": 1, "a": 2}', "f (object, required)", '{"a": 1, "a": 2}'),
        ({"type": "number"}, "1e400", "f (number, required)", "1e400"),
        ({"type": "string"}, " x ", "f (string, required)", " x "),
        ({}, " x", "f (any, required)", " x"),
        ({"type": "integer"}, " 5 ", "f (integer, required)", 5),
        ({"type": "boolean"}, " No ", "f (boolean, required)", False),
        ({"type": "string", "enum": ["a", " b"]}, "a ", 'f (one of a | " b", required)', "a"),
        ({"type": "string", "enum": ["a", " b"]}, " b", 'f (one of a | " b", required)', " b"),
    ],
)
def test_a_field_says_what_it_wants_and_reads_it(
    field: dict[str, object], line: str, shown: str, value: object
) -> None:
    made = AnswerField("f", field, required=True)
    assert (made.line, made.value(line)) == (shown, value)


def test_a_fields_name_cannot_pass_for_more_than_a_name() -> None:
    for name in ('target (string, else "safe") answer: mode', "because", "a\n", ""):
        assert AnswerField(name, {}, required=False).line == f"{json.dumps(name)} (any)"


scalars = st.one_of(
    st.text(st.sampled_from('a ",|()\n\xa0\\5'), max_size=5), st.integers(0, 9), st.booleans()
)
forms = st.fixed_dictionaries(
    {}, optional={"type": scalars, "default": scalars, "enum": st.lists(scalars, max_size=3)}
)


@given(first=st.tuples(scalars.map(str), forms), second=st.tuples(scalars.map(str), forms))
def test_two_fields_that_send_something_else_never_look_the_same(first: Any, second: Any) -> None:
    lines = [AnswerField(name, form, required=False).line for name, form in (first, second)]
    sends = [repr((name, form.get("default"), form.get("enum"))) for name, form in (first, second)]
    assert lines[0] != lines[1] or sends[0] == sends[1]
    assert all(line.isprintable() for line in lines)


async def test_the_prompt_for_a_field_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"☰" * 200: {"type": "string"}, "f": {"type": "string", "description": "word " * 50}}
    schema = {"type": "object", "properties": fields}
    pending = PendingApproval("a1", "s", "r", "1.elicitation-1", "d", "ask", {}, schema=schema)
    monkeypatch.setattr("zeus_runtime.cli.approval_prompt.columns_of", lambda _stream: 40)
    prompts: list[str] = []

    async def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return "c" if len(prompts) == 1 else "x" if len(prompts) == 2 else None

    approvals = TerminalApprovals(read)
    asked = asyncio.create_task(approvals.ask(pending))
    await asyncio.sleep(0)
    await approvals.answer("a1")
    assert await asked is None
    assert len(prompts) == 3
    for prompt in prompts[1:]:
        assert prompt.endswith("…: ")
        assert len(prompt) + sum(not each.isascii() for each in prompt) < 40


@pytest.mark.parametrize(
    ("lines", "decided"),
    [
        (["c", "green", ""], Decision("approve", arguments={"colour": "green"})),
        (["C", "", "5"], Decision("approve", arguments={"size": 5})),
        (
            ["c", " dark  green ", " 5 "],
            Decision("approve", arguments={"colour": " dark  green ", "size": 5}),
        ),
        (["c", "  ", "5"], Decision("approve", arguments={"size": 5})),
        (["c", "green", None], None),
        (["c", None], None),
    ],
)
async def test_the_end_of_input_between_two_fields_decides_later(
    lines: list[str | None], decided: Decision | None
) -> None:
    fields = {"colour": {"type": "string"}, "size": {"type": "integer"}}
    schema = {"type": "object", "properties": fields}
    pending = PendingApproval("a1", "s", "r", "1.elicitation-1", "d", "ask", {}, schema=schema)

    async def read(_prompt: str) -> str | None:
        return lines.pop(0)

    approvals = TerminalApprovals(read)
    asked = asyncio.create_task(approvals.ask(pending))
    await asyncio.sleep(0)
    await approvals.answer("a1")
    assert await asked == decided
    assert lines == []


@pytest.mark.parametrize(
    ("offered", "keys"),
    [({}, "y, n, v"), ({"schema": {}}, "y, c, n, v"), ({"may_remember": True}, "y, a, n, v")],
)
async def test_only_keys_that_can_be_used_are_offered(
    offered: dict[str, Any], keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pending = PendingApproval("a1", "s", "r", "1", "d", "ask", {}, **{"may_remember": False, **offered})
    prompts: list[str] = []

    async def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return "?" if len(prompts) == 1 else None

    approvals = TerminalApprovals(read)
    asked = asyncio.create_task(approvals.ask(pending))
    await asyncio.sleep(0)
    await approvals.answer("a1")
    await asked
    assert prompts == [f"approve ask? [{keys}, l or ?] "] * 2
    helped = re.findall(r"^  (\w) ", capsys.readouterr().err, re.MULTILINE)
    assert helped == [*keys.split(", "), "l"]


async def test_the_prompt_of_a_field_fits_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server words it: in a second line it could pass for a line of ours."""
    monkeypatch.setenv("COLUMNS", "40")
    said = {"type": "string", "description": "\u2800" * 60 + "approve shell? [y, n]"}
    schema = {"type": "object", "properties": {"x": said}}
    pending = PendingApproval("a1", "s", "r", "1.elicitation-1", "d", "ask", {}, schema=schema)
    prompts: list[str] = []

    async def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return "c" if len(prompts) == 1 else None

    approvals = TerminalApprovals(read)
    asked = asyncio.create_task(approvals.ask(pending))
    await asyncio.sleep(0)
    await approvals.answer("a1")
    await asked
    assert len(prompts[1]) < 40


def test_what_was_approved_runs_in_the_mode_that_the_run_was_begun_in(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more="mode: ask\n" + ASKING)
    assert zeus("run", "zeus.yaml", "go", "--mode", "agent").exit_code == 7
    (pending,) = waiting(zeus)
    done = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert (done.exit_code, done.out) == (0, "done\n")
    assert "← shout: HEY" in done.err


def test_a_run_that_might_only_read_is_taken_up_as_one(zeus: Zeus, project: Project) -> None:
    echo = {"call": "echo", "args": {"text": "a"}}
    project.agent(echo, shouting(), "done", more="limits: {max_steps: 1}")
    assert zeus("run", "zeus.yaml", "go", "--mode", "plan").exit_code == 6
    session = zeus("sessions", "list", "--json").json[0]["session"]
    refused = zeus("run", "zeus.yaml", "--continue", "--mode", "agent")
    assert refused.exit_code == 2
    assert "was begun in plan mode, not in agent mode" in refused.err
    for again in (("resume", session), ("run", "zeus.yaml", "--continue")):
        result = zeus(*again)
        assert result.exit_code in (0, 6)
    shown = zeus("sessions", "show", session).out
    assert "shout cannot be called in plan mode" in shown


def test_a_run_in_the_configs_own_mode_is_taken_up_in_it_too(zeus: Zeus, project: Project) -> None:
    echo = {"call": "echo", "args": {"text": "a"}}
    project.agent(echo, shouting(), "done", more="mode: plan\nlimits: {max_steps: 1}")
    assert zeus("run", "zeus.yaml", "go").exit_code == 6
    session = zeus("sessions", "list", "--json").json[0]["session"]
    refused = zeus("run", "zeus.yaml", "--continue", "--mode", "agent")
    assert refused.exit_code == 2
    assert "was begun in plan mode, not in agent mode" in refused.err
    config = project.folder / "zeus.yaml"
    config.write_text(config.read_text().replace("mode: plan", "mode: agent"))
    assert zeus("resume", session).exit_code in (0, 6)
    assert "shout cannot be called in plan mode" in zeus("sessions", "show", session).out


def test_yes_approves_what_would_be_asked_and_nothing_that_is_denied(zeus: Zeus, project: Project) -> None:
    project.agent(
        shouting("a"),
        {"call": "echo", "args": {"text": "b"}},
        "done",
        more="middlewares: [{approve: {mode: ask, deny: [echo]}}]\n",
    )
    result = zeus("run", "go", "--yes")
    assert (result.exit_code, result.out) == (0, "done\n")
    assert "note: --yes: calls that need approval run without asking" in result.err
    assert "shout was approved" in result.err
    assert "echo is not allowed" in result.err
    given = zeus("run", "go", "--yes", "-o", "json").json
    assert (given["status"], given["notices"][0]["code"]) == ("completed", "yes")
    assert zeus("approvals", "list").err == "the allowlist of local is empty\n", "yes remembers nothing"
    assert zeus("run", "go").exit_code == 7


def test_yes_leaves_a_question_open(project: Project) -> None:
    pending = PendingApproval("id", "s", "r", "1.ask", "d", "tool", {}, schema={"type": "object"})
    call = PendingApproval("id", "s", "r", "1", "d", "tool", {})
    asking = YesApprovals(None)
    assert asyncio.run(asking.ask(call)) == Decision("approve", by="automatic")
    assert asyncio.run(asking.ask(pending)) is None


async def test_yes_leaves_to_the_person_what_only_a_person_may_approve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pending = PendingApproval("a1", "s", "r", "1", "d", "run", {}, reason="not clear", needs_person=True)

    async def read(_prompt: str) -> str | None:
        return "y"

    asking = YesApprovals(TerminalApprovals(read))
    asked = asyncio.create_task(asking.ask(pending))
    await asyncio.sleep(0)
    assert asking.waits("a1")
    await asking.answer("a1")
    assert await asked == Decision("approve")
    assert "because: not clear" in capsys.readouterr().err


def test_without_a_terminal_the_user_is_told_every_way_to_decide(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=ASKING)
    result = zeus("run", "go")
    assert result.exit_code == 7
    for way in ("zeus resume", "zeus approvals show", "`--yes`", "`approvals: run_everything`"):
        assert way in result.err


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("top", ["", "binary"])
def test_the_diff_of_a_sub_agents_call_is_of_its_own_file(
    zeus: Zeus, project: Project, level: int, top: str
) -> None:
    """The agent was not found by its name, so the diff was missing, or that of the file of the agent above."""
    task = {"call": "task", "args": {"agent": "w", "prompt": "go", "description": "d"}}
    write = {"call": "write_file", "args": {"path": "f.txt", "content": "new\n"}}
    allow = "middlewares: [{approve: {mode: allowlist, allow: [task]}}]\n"
    worker = "workspace: {root: own}\nmiddlewares: [{approve: {mode: ask}}]\n"
    project.agent(write, "done", name="worker.yaml", more=worker)
    entry = "agents: {w: {description: Works., config: worker.yaml}}\n"
    if level == 2:
        project.agent(task, "done", name="boss.yaml", more=allow + entry)
        entry = "agents: {w: {description: Leads., config: boss.yaml}}\n"
    project.agent(task, "done", more=allow + entry)
    for name, tools in (("worker", "filesystem"), ("boss", "subagents"), ("zeus", "subagents, filesystem")):
        file = project.folder / f"{name}.yaml"
        if file.exists():
            file.write_text(file.read_text().replace("[voices]", f"[{tools}]"))
            if name == "boss":
                file.write_text(re.sub(r"(?m)^name: .*", "name: boss", file.read_text()))
    project.write("own/f.txt", "precious\n")
    if top:
        (project.folder / "f.txt").write_bytes(b"\x89PNG\0")
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"]).out
    assert "  /f.txt: 1 removed, 1 added" in shown
    assert "- precious" in shown
    caller = "tester/w" if level == 1 else "boss/w of tester"
    assert re.search(
        rf"^write_file waits for approval \(\w+\); the sub-agent {caller} calls it$", shown, re.M
    ), shown
    assert f" {caller} → write_file(" in zeus("approvals", "pending").out
    assert pending["subagent"].endswith("/w")


def test_a_waiting_call_is_shown_in_full_with_the_diff_it_would_make_now(
    zeus: Zeus, project: Project
) -> None:
    long = "".join(f"line {number}\n" for number in range(200)) + "\x1b[2Jend"
    write = {"call": "write_file", "args": {"path": "a.txt", "content": long}}
    path = project.agent(write, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"])
    assert shown.exit_code == 0
    assert "  /a.txt: new file, 201 lines" in shown.out
    assert "    + line 199\n    + \\x1b[2Jend\n" in shown.out
    project.write("a.txt", long.replace("line 7\n", "seven\n"))
    assert "  /a.txt: 1 removed, 1 added" in zeus("approvals", "show", pending["id"]).out
    (project.folder / "a.txt").write_bytes(b"\x89PNG\0")
    binary = zeus("approvals", "show", pending["id"]).out
    assert "  no diff: the old file /a.txt is a PNG image (5 bytes, state " in binary
    assert "    │ line 199\n    │ \\x1b[2Jend\n" in binary
    assert zeus("approvals", "show", "nothing").exit_code == 2


def test_a_config_with_another_workspace_shows_no_diff_and_binds_nothing(
    zeus: Zeus, project: Project
) -> None:
    write = {"call": "write_file", "args": {"path": "run.sh", "content": "new\n"}}
    config = project.agent(write, "done", name="agent.yaml", more=ASKING + "workspace: {root: sub}\n")
    for path in (config, project.agent("other")):
        path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    project.write("sub/run.sh", "old\n")
    run = zeus("run", "agent.yaml", "go")
    assert "`zeus approvals show ID --config agent.yaml` shows a call in full" in run.err
    (pending,) = waiting(zeus)
    other = zeus("approvals", "show", pending["id"]).out
    assert "  no diff: the agent that waits has another workspace than this config" in other
    own = zeus("approvals", "show", pending["id"], "--config", "agent.yaml").out
    assert "  /run.sh: 1 removed, 1 added" in own
    zeus("approvals", "show", pending["id"])
    done = zeus(
        "resume", pending["session"], "--config", "agent.yaml", "--decide", f"{pending['id']}=approve"
    )
    assert done.exit_code == 0
    assert (project.folder / "sub/run.sh").read_text() == "new\n"


def test_an_approved_call_does_not_run_in_another_workspace(zeus: Zeus, project: Project) -> None:
    """It has no diff, and the question does not show the workspace in which its words were meant."""
    project.agent(shouting(), "done", more=ASKING)
    project.write("other/notes.txt", "")
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    decided = ("--decide", f"{pending['id']}=approve")
    done = zeus("resume", pending["session"], *decided, "--set", "workspace.root=other")
    assert "← shout: This call of shout was not run: the user approved it in another workspace." in done.err
    assert "HEY" not in done.err


def test_an_approved_call_does_not_run_where_a_route_leads_elsewhere(zeus: Zeus, project: Project) -> None:
    project.agent(shouting(), "done", more=f"{ASKING}workspace: {{routes: {{/d/: current}}}}\n")
    for folder in ("one", "other"):
        project.write(f"{folder}/notes.txt", "")
    link = project.folder / "current"
    link.symlink_to("one")
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    link.unlink()
    link.symlink_to("other")
    done = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert "← shout: This call of shout was not run: the user approved it in another workspace." in done.err
    assert "HEY" not in done.err


def test_a_call_decided_later_does_what_was_shown_last(zeus: Zeus, project: Project) -> None:
    """Each time the file has changed since the question; the second time the user looked at it again."""
    file = project.folder / "a.txt"
    for looks in (False, True):
        file.write_text("first\n")
        write = {"call": "write_file", "args": {"path": "a.txt", "content": "mine\n"}}
        path = project.agent(write, "done", more=ASKING)
        path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
        assert zeus("run", "go").exit_code == 7
        (pending,) = waiting(zeus)
        file.write_text("second\n")
        if looks:
            assert "    - second\n" in zeus("approvals", "show", pending["id"]).out
        done = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
        assert done.exit_code == 0
        refused = "← write_file: This call of write_file was not run: the file changed after the user saw"
        assert (refused in done.err) == (not looks)
        assert file.read_text() == ("mine\n" if looks else "second\n")
    # A decision that was made is not moved by whoever looks at it later.
    assert zeus("approvals", "show", pending["id"]).exit_code == 2


@pytest.mark.parametrize("to_model", ["mask", "allow"])
def test_known_secrets_in_a_file_or_an_argument_do_not_spoil_a_decision(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, to_model: str
) -> None:
    """The run may know the secret's text, and who shows the question knows its placeholder."""
    secret = "sk-live-7Qz81mPq44xw"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    file = project.write("a.txt", f"key {secret} one\n")
    content = f"key {secret} two\n"
    write = {"call": "write_file", "args": {"path": "a.txt", "content": content}}
    path = project.agent(write, "done", more=f"{ASKING}secrets: {{to_model: {to_model}}}\n")
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"])
    assert "1 removed, 1 added" in shown.out
    assert secret not in shown.out
    done = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert "was not run" not in done.err
    assert file.read_text() == content


@pytest.mark.parametrize("both", [False, True])
def test_a_diff_shows_that_a_new_text_is_not_the_secret_that_it_looks_like(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    secret = "sk-live-7Qz81mPq44xw"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    content = "key <secret:SERVICE_API_KEY>\ntwo\n" + (f"{secret}\n" if both else "")
    write = {"call": "write_file", "args": {"path": "a.txt", "content": content}}
    path = project.agent(write, "done", more=f"{ASKING}secrets: {{to_model: allow}}\n")
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        assert "+ key <not the secret:SERVICE_API_KEY>" in terminal.until("or ?]")
        terminal.press("\x04")
        terminal.end()
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"])
    if both:
        assert (
            "no diff: the stored arguments do not tell every known secret from its placeholder" in shown.out
        )
    else:
        assert "+ key <not the secret:SERVICE_API_KEY>" in shown.out
    assert secret not in shown.out + terminal.raw


@pytest.mark.parametrize("to_model", ["mask", "allow"])
def test_an_argument_that_only_looks_like_the_placeholder_of_a_secret_says_so(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, to_model: str
) -> None:
    secret, text = "sk-live-7Qz81mPq44xw", "<secret:SERVICE_API_KEY>"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    # The placeholder takes the secret's place in the call of a model that is sent no secrets, so it is text there.
    has_it = text if to_model == "allow" else f"<not the {text[1:]}"
    for word, seen in {text: f"<not the {text[1:]}", secret: has_it}.items():
        project.agent(shouting(f"hey {word}"), "done", more=f"{ASKING}secrets: {{to_model: {to_model}}}\n")
        with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
            assert f"  text: hey {seen}\n" in terminal.until("or ?]")
            terminal.press("\x04")
            terminal.end()
        (pending,) = waiting(zeus)
        assert f"  text: hey {seen}\n" in zeus("approvals", "show", pending["id"]).out
        zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")


def test_a_command_with_a_secret_of_a_model_that_may_see_it_runs_as_it_was_asked_about(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell would take ``<secret:NAME> FILE`` for two redirections."""
    secret = "sk-live-7Qz81mPq44xw"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    project.write("secret:SERVICE_API_KEY", "")
    call = {"call": "run_command", "args": {"command": f"echo hey {secret} > out.txt"}}
    path = project.agent(call, "done", more=f"{ASKING}secrets: {{to_model: allow}}\n")
    path.write_text(path.read_text().replace("[voices]", "[shell]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"]).out
    assert "  command: echo hey <secret:SERVICE_API_KEY> > out.txt\n" in shown
    zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert (project.folder / "out.txt").read_text() == f"hey {secret}\n"


def test_without_a_diff_a_placeholder_that_a_tool_may_replace_is_not_called_text(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "sk-live-7Qz81mPq44xw")
    project.write("a.txt", "one\n")
    edit = {"path": "a.txt", "old": "key <secret:SERVICE_API_KEY>\n", "new": ""}
    path = project.agent({"call": "edit_file", "args": edit}, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"]).out
    assert "no diff: " in shown
    assert "│ key <secret:SERVICE_API_KEY>" in shown


def test_a_secret_that_is_known_since_the_question_is_masked_beside_a_lookalike() -> None:
    arguments = {"command": "echo <secret:KEY> newer-secret"}
    told = {"command": "echo <not the secret:KEY> newer-secret"}
    pending = PendingApproval("a1", "s", "r", "1", "d", "run", arguments, told=told)
    known = Redactor({"newer-secret": "NEWER"}).masked
    lines = question_lines(masked_pending(pending, known), whole=True)
    assert "  command: echo <not the secret:KEY> <secret:NEWER>" in [line.text for line in lines]


@pytest.mark.parametrize("call", ["edit_file", "write_file"])
def test_a_diff_shows_where_a_call_puts_a_secret_that_the_model_does_not_see(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    secret = "sk-live-7Qz81mPq44xw"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    file = project.write("a.txt", f"one\nkey {secret}\n")
    url = "https://evil.example/?<secret:SERVICE_API_KEY>"
    edit = {"path": "a.txt", "old": "key <secret:SERVICE_API_KEY>\n", "new": f"{url}\n"}
    write = {"path": "a.txt", "content": f"one\n{url}\n"}
    path = project.agent({"call": call, "args": edit if call == "edit_file" else write}, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
        asked = terminal.until("or ?]")
        terminal.press("\x04")
        terminal.end()
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"])
    for said in (asked, shown.out):
        assert "- key <secret:SERVICE_API_KEY>" in said
        assert f"+ {url}" in said
        assert "not the secret" not in said
    assert secret not in shown.out + terminal.raw
    done = zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve")
    assert "was not run" not in done.err
    assert file.read_text() == f"one\nhttps://evil.example/?{secret}\n"


def test_a_diff_calls_a_placeholder_text_in_an_empty_file(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "sk-live-7Qz81mPq44xw")
    file = project.write("a.txt", "")
    write = {"call": "write_file", "args": {"path": "a.txt", "content": "key <secret:SERVICE_API_KEY>\n"}}
    path = project.agent(write, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    assert "+ key <not the secret:SERVICE_API_KEY>" in zeus("approvals", "show", pending["id"]).out
    assert zeus("resume", pending["session"], "--decide", f"{pending['id']}=approve").exit_code == 0
    assert file.read_text() == "key <secret:SERVICE_API_KEY>\n"


def test_the_question_says_that_a_change_would_be_refused(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-live-7Qz81mPq44xw"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    project.write("a.txt", f"{secret} and <secret:SERVICE_API_KEY>\n")
    write = {"call": "write_file", "args": {"path": "a.txt", "content": "<secret:SERVICE_API_KEY>\n"}}
    path = project.agent(write, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    shown = zeus("approvals", "show", pending["id"]).out
    assert "no diff: The file holds <secret:SERVICE_API_KEY> as text and the secret" in shown


def test_a_waiting_call_hides_what_only_the_sub_agents_config_knows(zeus: Zeus, project: Project) -> None:
    write = {"call": "write_file", "args": {"path": "a.txt", "content": "the key argo-Secret-4711"}}
    path = project.agent(write, "done", more=ASKING)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "go").exit_code == 7
    (pending,) = waiting(zeus)
    path.write_text(path.read_text().replace("[filesystem]", "[filesystem, subagents]"))
    with path.open("a") as config:
        config.write('agents: {child: {description: "reads", config: child.yaml}}\n')
    child = "version: 1\nname: child\nmodel: {litellm: {model: gpt-4o, api_key: argo-Secret-4711}}\n"
    project.write("child.yaml", child)
    shown = zeus("approvals", "show", pending["id"])
    assert "+ the key <secret:model.litellm.api_key>" in shown.out, shown.out + shown.err
    for arguments in (("show", pending["id"]), ("pending",), ("pending", "--json")):
        shown = zeus("approvals", *arguments)
        assert shown.exit_code == 0
        assert "argo" not in shown.out + shown.err
