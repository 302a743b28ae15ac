"""`zeus eval`: cases of an agent with a scripted model, their expectations, recordings, reports and bad input."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.agent.test_session_workspaces import agent_in
from tests.cli.conftest import Project, Result, Zeus, spawn
from tests.support.agents import call, calling, script
from zeus_runtime.config import ConfigError
from zeus_runtime.store.threads import Owner
from zeus_runtime.testing.cases import reading


def evaluation(project: Project, *cases: Mapping[str, Any], **more: Any) -> None:
    """Write cases.yaml; JSON is YAML."""
    listed = [{"name": f"case {number}", "prompt": "Go.", **case} for number, case in enumerate(cases, 1)]
    project.write("cases.yaml", json.dumps({"version": 1, "agent": "zeus.yaml", "cases": listed, **more}))


def findings(result: Result, case: int = 0) -> list[str]:
    runs = result.json["cases"][case]["runs"]
    return [f"{each['expected']} | {each['found']}" for run in runs for each in run["findings"]]


def expecting(zeus: Zeus, project: Project, *expect: Mapping[str, Any], **case: Any) -> Result:
    evaluation(project, {"expect": [*expect], **case})
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code in (0, 5), result.err
    assert (result.exit_code == 0) == result.json["passed"]
    return result


CALLS = (
    {"call": "echo", "args": {"text": "one"}},
    {"call": "shout", "args": {"text": "two"}},
    "All is done: 42.",
)

HOLD: list[dict[str, Any]] = [
    {"contains": "42"},
    {"contains": ["All", "42"]},
    {"not_contains": ["43", "nothing"]},
    {"regex": r"\d+\.$"},
    {"tool_calls": ["echo"]},
    {"tool_calls": ["shout"]},
    {"tool_calls": ["echo", "shout"], "exact": True},
    {"tool_calls": [{"echo": {"text": "one"}}, {"shout": {}}]},
    {"not_called": "read_file"},
    {"max_steps": 3},
    {"max_cost_usd": 0.75},
    {"file": {"path": "notes.md", "contains": "wise", "regex": "^Be", "not_contains": "silly"}},
    {"file": {"path": "/notes.md", "equals": "Be wise.\n"}},
    {"file": {"path": "other.md", "absent": True}},
]
FAIL: list[tuple[dict[str, Any], str]] = [
    ({"contains": ["All", "43"]}, 'the answer to contain "43" | "All is done: 42."'),
    ({"not_contains": "done"}, 'the answer not to contain "done" | "All is done: 42."'),
    ({"regex": "^42"}, 'the answer to match "^42" | "All is done: 42."'),
    ({"regex": "(a+)+$" + "b" * 3}, 'the answer to match "(a+)+$bbb" | "All is done: 42."'),
    ({"tool_calls": ["shout", "echo"]}, "the calls shout, echo | the calls echo, shout"),
    ({"tool_calls": ["echo", "echo"]}, "the calls echo, echo | the calls echo, shout"),
    ({"tool_calls": ["echo"], "exact": True}, "exactly the calls echo | the calls echo, shout"),
    ({"tool_calls": [], "exact": True}, "exactly the calls none | the calls echo, shout"),
    (
        {"tool_calls": [{"echo": {"text": "two"}}]},
        'the calls echo(text="two") | the calls echo(text="one"), shout(text="two")',
    ),
    ({"not_called": ["ls", "shout"]}, "no call of shout | the calls echo, shout"),
    ({"max_steps": 2}, "at most 2 steps | 3 steps"),
    ({"max_cost_usd": 0.5}, "at most $0.5 | $0.75"),
    ({"schema": {"type": "object"}}, "an answer that fits the schema | the text is not one JSON value"),
    ({"file": {"path": "notes.md", "equals": "Be wise."}}, '/notes.md to be "Be wise." | "Be wise.\\n"'),
    ({"file": {"path": "other.md"}}, "the file other.md | no such file"),
    ({"file": {"path": "notes.md", "absent": True}}, "no file notes.md | a file of 9 bytes"),
]


def test_expectations_that_hold_pass_and_the_others_say_what_was_expected_and_found(
    project: Project, zeus: Zeus
) -> None:
    project.agent(*CALLS)
    files = {"notes.md": "Be wise.\n"}
    cases = [{"name": str(each), "expect": [each], "files": files} for each in HOLD]
    cases += [{"name": str(each), "expect": [each], "files": files} for each, _ in FAIL]
    evaluation(project, *cases)
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code == 5, result.err
    assert [findings(result, number) for number in range(len(HOLD))] == [[] for _ in HOLD]
    for number, (_, told) in enumerate(FAIL, len(HOLD)):
        (found,) = findings(result, number)
        assert told.lstrip("/") in found


ORDERS = {"orders": [1]}


@pytest.mark.parametrize("answer", [json.dumps(ORDERS), f"```json\n{json.dumps(ORDERS)}\n```"])
def test_a_schema_judges_the_json_of_an_answer(project: Project, zeus: Zeus, answer: str) -> None:
    project.agent(answer.replace('{"orders"', ' {"orders"') if answer[0] == "{" else answer)
    project.write("late.json", json.dumps({"properties": {"orders": {"minItems": 2}}}))
    fits = {"required": ["orders"], "properties": {"orders": {"items": {"type": "integer"}}}}
    result = expecting(zeus, project, {"schema": fits}, {"schema": {"file": "late.json"}})
    (found,) = findings(result)
    assert "$.orders" in found


def test_several_prompts_are_turns_of_one_session_and_their_cost_and_calls_are_summed(
    project: Project, zeus: Zeus
) -> None:
    project.agent({"call": "echo", "args": {"text": "one"}}, "First.", "Second.")
    result = expecting(
        zeus,
        project,
        {"contains": "Second."},
        {"max_steps": 2},
        {"max_cost_usd": 0.74},
        {"tool_calls": ["echo"], "exact": True},
        prompt=None,
        prompts=["One.", "Two."],
    )
    assert findings(result) == ["at most 2 steps | 3 steps", "at most $0.74 | $0.75"]
    assert result.json["cost_usd"] == 0.75
    # Of the database, which is deleted after the run, no record stays.
    assert not [each for each in zeus("trust", "--list", "--json").json if "zeus-eval-" in each["file"]]


FILES = """
tools: [voices, filesystem]
workspace: {root: work, routes: {/memo/: memo}}
"""


def agent_with_files(project: Project, *answers: Any, more: str = "") -> None:
    project.agent(*answers)
    text = (project.folder / "zeus.yaml").read_text().replace("tools: [voices]\n", "")
    project.write("zeus.yaml", text + FILES + more)
    for name in ("work", "memo"):
        (project.folder / name).mkdir()


def test_tools_work_in_a_temporary_workspace_and_the_project_stays_as_it_is(
    project: Project, zeus: Zeus
) -> None:
    writing = {"call": "write_file", "args": {"path": "/out.md", "content": "made"}}
    noting = {"call": "write_file", "args": {"path": "/memo/note.md", "content": "noted"}}
    reading = {"call": "read_file", "args": {"path": "/memo/old.md"}}
    agent_with_files(project, writing, noting, reading, "Done.")
    result = expecting(
        zeus,
        project,
        {"file": {"path": "/out.md", "equals": "made"}},
        {"file": {"path": "/memo/note.md", "contains": "noted"}},
        {"file": {"path": "memo/old.md", "equals": "old\n"}},
        files={"memo/old.md": "old\n", "in/deep.md": {"file": "zeus.yaml"}},
    )
    assert result.exit_code == 0, findings(result)
    left = {path.name for path in project.folder.rglob("*") if "__pycache__" not in path.parts}
    assert left == {"cases.yaml", "memo", "scripted.py", "work", "zeus.yaml"}


def test_a_sub_agents_own_config_works_in_the_temporary_workspace_too(project: Project, zeus: Zeus) -> None:
    (project.folder / "sub").mkdir()
    agent_with_files(
        project,
        {"call": "task", "args": {"agent": "helper", "description": "d", "prompt": "Write."}},
        "Done.",
        more="agents: {helper: {config: helper.yaml, description: writes}}\n",
    )
    text = (project.folder / "zeus.yaml").read_text().replace("filesystem]", "filesystem, subagents]")
    project.write("zeus.yaml", text)
    project.agent(
        {"call": "write_file", "args": {"path": "/by-helper.md", "content": "x"}},
        "Written.",
        name="helper.yaml",
    )
    helper = (project.folder / "helper.yaml").read_text().replace("[voices]", "[voices, filesystem]")
    project.write("helper.yaml", helper + f"workspace: {{root: {project.folder}/sub}}\n")
    result = expecting(zeus, project, {"file": {"path": "/by-helper.md", "equals": "x"}})
    assert result.exit_code == 0, result.out
    assert not [*(project.folder / "sub").iterdir()]


@pytest.mark.parametrize(
    ("approvals", "status", "told"),
    [
        ("allow", "passed", ""),
        ("deny", "failed", "TWO"),
        (None, "error", "`approvals: allow` or `approvals: deny`"),
    ],
)
def test_a_case_says_how_questions_for_approval_are_answered(
    project: Project, zeus: Zeus, approvals: str | None, status: str, told: str
) -> None:
    agent_with_files(
        project,
        {"call": "write_file", "args": {"path": "/a.md", "content": "TWO"}},
        "Done.",
        more="middlewares: [{approve: {mode: ask}}]\n",
    )
    evaluation(
        project,
        {
            "expect": [{"file": {"path": "a.md", "contains": "TWO"}}],
            **({"approvals": approvals} if approvals else {}),
        },
    )
    result = zeus("eval", "cases.yaml", "--json")
    (run,) = result.json["cases"][0]["runs"]
    assert run["status"] == status
    assert told in run["error"] if status == "error" else not run["error"]


def test_the_failure_of_one_run_is_its_error_and_the_others_are_done(project: Project, zeus: Zeus) -> None:
    project.agent("Good.")
    project.agent({"raise": "auth", "message": "no such key"}, name="broken.yaml")
    project.agent(
        {"call": "echo", "args": {"text": "x"}}, name="limited.yaml", more="limits: {max_steps: 2}\n"
    )
    evaluation(
        project,
        {"expect": [{"contains": "Good"}]},
        agent=None,
        agents=["broken.yaml", "limited.yaml", "zeus.yaml"],
    )
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code == 5
    runs = [case["runs"][0] for case in result.json["cases"]]
    assert [run["status"] for run in runs] == ["error", "error", "passed"]
    assert "no such key" in runs[0]["error"]
    assert "max_steps" in runs[1]["error"]


def test_repeats_have_a_pass_rate_and_a_case_may_ask_for_less_than_all(project: Project, zeus: Zeus) -> None:
    project.agent("Good.")
    cases: list[dict[str, Any]] = [
        {"expect": [{"contains": "Good"}]},
        {"expect": [{"contains": "Bad"}], "repeats": 2, "min_pass_rate": 0},
    ]
    evaluation(project, *cases, repeats=3)
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code == 0
    assert [(len(case["runs"]), case["pass_rate"], case["passed"]) for case in result.json["cases"]] == [
        (3, 1.0, True),
        (2, 0.0, True),
    ]
    assert result.json["cost_usd"] == 5 * 0.25
    table = zeus("eval", "cases.yaml", "--repeats", "1")
    assert "2 of 2 cases passed, 2 of 2 runs done, $0.5000" in table.out


def test_a_recording_is_played_without_a_model_and_a_request_that_it_lacks_is_an_error(
    project: Project, zeus: Zeus
) -> None:
    project.agent(*CALLS)
    evaluation(project, {"expect": [{"contains": "42"}]}, {"expect": [{"contains": "42"}], "repeats": 2})
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0
    names = {path.name for path in (project.folder / "cases.cassettes").iterdir()}
    assert names == {"case_1.jsonl", "case_2.jsonl", "case_2+2.jsonl"}
    project.agent({"raise": "auth", "message": "a model was asked"})
    replayed = zeus("eval", "cases.yaml", "--replay", "--json")
    assert replayed.exit_code == 0
    assert replayed.json["cost_usd"] == 3 * 0.75
    evaluation(
        project,
        {"prompt": "Other.", "expect": [{"contains": "42"}]},
        {"name": "new", "expect": [{"contains": "42"}]},
    )
    result = zeus("eval", "cases.yaml", "--replay", "--json")
    assert result.exit_code == 5
    different, missing = (case["runs"][0]["error"] for case in result.json["cases"])
    assert "differs from the recording" in different
    assert "new.jsonl cannot be read" in missing
    assert all("zeus eval FILE --record" in each for each in (different, missing))


def test_a_file_that_names_its_recordings_asks_no_model_unless_it_is_told_to(
    project: Project, zeus: Zeus
) -> None:
    project.agent("Good.")
    evaluation(project, {"expect": [{"contains": "Good"}]}, cassette="tapes")
    assert "tapes/case_1.jsonl cannot be read" in zeus("eval", "cases.yaml").out
    assert zeus("eval", "cases.yaml", "--live").exit_code == 0
    assert not (project.folder / "tapes").exists()
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0
    assert zeus("eval", "cases.yaml").exit_code == 0


def test_a_failed_recording_leaves_the_former_one(project: Project, zeus: Zeus) -> None:
    project.agent("Good.")
    evaluation(project, {"expect": [{"contains": "Good"}]})
    zeus("eval", "cases.yaml", "--record")
    tape = project.folder / "cases.cassettes" / "case_1.jsonl"
    former = tape.read_text()
    project.agent({"call": "echo", "args": {"text": "x"}}, {"raise": "auth"})
    assert zeus("eval", "cases.yaml", "--record").exit_code == 5
    assert tape.read_text() == former
    assert [path.name for path in tape.parent.iterdir()] == [tape.name]


def test_junit_agrees_with_the_exit_code_and_holds_no_control_character(project: Project, zeus: Zeus) -> None:
    project.agent("Bell \x07, escape \x1b[31m, \ufffe & <ok>.")
    cases: list[dict[str, Any]] = [
        {"expect": [{"contains": "ok"}]},
        {"name": "a\u2028b<&", "expect": [{"contains": "\x01"}]},
    ]
    evaluation(project, *cases)
    assert zeus("eval", "cases.yaml", "--junit", "out.xml").exit_code == 5
    root = ElementTree.parse(project.folder / "out.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")
    first, second = root.iter("testcase")
    assert first.find("failure") is None
    assert "\\x07" in str(first.findtext("system-out"))
    assert "to contain" in str(second.find("failure").get("message"))  # type: ignore[union-attr]
    assert second.get("name") == "a\\u2028b<&"


def test_a_secret_is_in_no_output_and_no_recording(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-live-0123456789abcdef"
    monkeypatch.setenv("SHOP_API_KEY", secret)
    project.agent(f"The key is {secret}.")
    evaluation(project, {"prompt": f"Use {secret}.", "expect": [{"contains": "nothing"}, {"regex": secret}]})
    for form in (["--json"], []):
        result = zeus("eval", "cases.yaml", "--record", "--junit", "out.xml", *form)
        assert result.exit_code == 5
        assert secret not in result.out + result.err
    written = [
        path
        for path in project.folder.rglob("*")
        if path.is_file() and path.name not in ("cases.yaml", "zeus.yaml")
    ]
    assert {"out.xml", "case_1.jsonl"} <= {path.name for path in written}
    assert not any(secret in path.read_text("utf-8", "replace") for path in written)


@pytest.mark.parametrize(
    "slip",
    [
        "agent: AGENT\ncases: [{name: a, prompt: Go., expect: {contains: SECRET}}, SECRET]",
        "agent: AGENT\ncases: [&case {name: SECRET, prompt: Go., expect: [max_steps: 1]}, *case]",
        "agents: [AGENT, SECRET]\ncases: [{name: a, prompt: Go., expect: [max_steps: 1]}]",
    ],
)
@pytest.mark.parametrize("place", ["agents/.env", "agents/zeus.yaml", "cases/.env", ".env"])
def test_a_slip_in_an_evaluation_shows_no_secret_that_its_configs_would_mask(
    project: Project, zeus: Zeus, place: str, slip: str
) -> None:
    secret = "pearl harbour lights 26 " * 20 + "."
    for name in ("agents", "cases"):
        (project.folder / name).mkdir()
    project.write("agents/zeus.yaml", "version: 1\n")
    named = f"metadata: {{shop_api_key: {secret}}}\nversion: 1\n"
    project.write(place, named if place.endswith(".yaml") else f"SHOP_API_KEY={secret}\n")
    written = slip.replace("AGENT", "../agents/zeus.yaml").replace("SECRET", secret)
    project.write("cases/cases.yaml", f"version: 1\n{written}\n")
    result = zeus("eval", "cases/cases.yaml")
    assert (result.exit_code, "<secret:" in result.err) == (3, True), result.err
    assert "harbour" not in result.err


@pytest.mark.parametrize("place", [".env", "cases/.env"])
@pytest.mark.parametrize("cases", ["[{name: SECRET}]", "[{name: 'SECRET}]"])
def test_errors_of_a_program_that_reads_an_evaluation_show_no_secret(
    project: Project, place: str, cases: str
) -> None:
    (project.folder / "cases").mkdir()
    project.write(place, "SHOP_API_KEY=pearl-harbour-26\n")
    written = f"version: 1\nagent: default\ncases: {cases.replace('SECRET', 'pearl-harbour-26')}\n"
    project.write("cases/cases.yaml", written)
    with pytest.raises(ConfigError) as caught:
        reading.read_evaluation(Path("cases/cases.yaml"), directory=project.folder, environ={})
    assert "<secret:SHOP_API_KEY>" in str(caught.value)
    assert "harbour" not in str(caught.value)


@pytest.mark.parametrize("folder", ["", "cases/"])
def test_a_case_that_is_not_there_is_named_without_the_secret_of_another(
    project: Project, zeus: Zeus, folder: str
) -> None:
    (project.folder / "cases").mkdir()
    project.write(f"{folder}.env", "SHOP_API_KEY=pearl-harbour-26\n")
    text = "version: 1\nagent: zeus.yaml\ncases: [{name: pearl-harbour-26, prompt: Go., expect: [max_steps: 1]}]\n"
    project.write(f"{folder}zeus.yaml", "version: 1\n")
    project.write(f"{folder}cases.yaml", text)
    result = zeus("eval", f"{folder}cases.yaml", "--case", "pearl-harbour-27")
    assert (result.exit_code, "<secret:SHOP_API_KEY>" in result.err) == (2, True), result.err
    assert "harbour-26" not in result.err


def test_the_name_of_a_recording_has_no_secret(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In small letters and digits: a name keeps these.
    secrets = {"SHOP_API_KEY": "zq7xw9lm3pf5rt8vb2nc", "OTHER_API_KEY": "k4jh6gf8ds2qa1wz3xec"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    project.agent("Hello.")
    names = [*secrets.values(), "<secret:SHOP_API_KEY>", f"use {secrets['SHOP_API_KEY']}"]
    evaluation(project, *({"name": name, "expect": [{"contains": "Hello"}]} for name in names))
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0
    recorded = [each.name for each in (project.folder / "cases.cassettes").iterdir()]
    assert len(recorded) == len(names)
    assert not [each for each in recorded for value in secrets.values() if value in each]
    assert zeus("eval", "cases.yaml", "--replay").exit_code == 0


def test_the_agents_of_an_evaluation_mask_each_others_secrets(project: Project, zeus: Zeus) -> None:
    secrets = {
        "a.yaml": "Cfg8secretZz26abc",
        "b.yaml": "Env9secretQq17xyz",
        "helper.yaml": "Sub5secretJj41def",
    }
    said = "It says " + " and ".join(secrets.values())
    for name, value in secrets.items():
        project.agent(said, name=name, more=f"metadata: {{{name[0]}_api_key: {value}}}\n")
    with (project.folder / "a.yaml").open("a") as file:
        file.write("agents: {helper: {description: d, config: helper.yaml}}\n")
    path = project.folder / "a.yaml"
    path.write_text(path.read_text().replace("tools: [voices]", "tools: [voices, subagents]"))
    case = {"name": "one", "prompt": said, "expect": [{"contains": "It says"}]}
    project.write("cases.yaml", json.dumps({"version": 1, "agents": ["a.yaml", "b.yaml"], "cases": [case]}))
    done = zeus("eval", "cases.yaml", "--record")
    assert done.exit_code == 0, done.err
    recorded = [each.read_text() for each in project.folder.rglob("one*.jsonl")]
    assert len(recorded) == 2
    for text in recorded:
        assert not [each for each in secrets.values() if each in text]
        assert {"<secret:metadata.a_api_key>", "<secret:metadata.b_api_key>"} <= {
            *re.findall("<[^>]*>", text)
        }


def test_an_untrusted_config_is_refused_before_its_first_run(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    project.agent("Good.")
    evaluation(project, {"expect": [{"contains": "Good"}]})
    result = zeus("eval", "cases.yaml")
    assert result.exit_code == 4
    assert "zeus trust" in result.err


BAD: list[tuple[str, str]] = [
    ("agent: zeus.yaml\ncases: []\n", "wrong-length"),
    (
        "agent: zeus.yaml\nagents: [a.yaml]\ncases: [{name: a, prompt: p, expect: [{contains: x}]}]\n",
        "3:1: conflict",
    ),
    ("cases: [{name: a, prompt: p, expect: [{contains: x}]}]\n", "no agent is named"),
    ("agent: a\ncases: [{name: a, promt: p, expect: [{contains: x}]}]\n", "3:19: unknown-key: 'promt'"),
    (
        "agent: a\nagnet: b\ncases: [{name: a, prompt: p, expect: [{contains: x}]}]\n",
        "is not a key of an evaluation",
    ),
    ("agent: a\ncases: [{name: a, expect: [{contains: x}]}]\n", "the case has no prompt"),
    ("agent: a\ncases: [{name: a, prompt: p}]\n", "'expect' is missing"),
    ("agent: a\ncases: [{name: a, prompt: p, expect: [{}]}]\n", "3:39: missing-key: nothing is expected"),
    ("agent: a\ncases: [{name: a, prompt: p, expect: [{contains: 1}]}]\n", "put it in quotes"),
    ("agent: a\ncases: [{name: a, prompt: p, expect: [{regex: '(('}]}]\n", "not a regular expression"),
    ("agent: a\ncases: [{name: a, prompt: p, expect: [{schema: {type: nothing}}]}]\n", "not a JSON Schema"),
    (
        "agent: a\ncases: [{name: a, prompt: p, expect: [{schema: {file: none.json}}]}]\n",
        "schema cannot be read",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, attachments: [none.png], expect: [{contains: x}]}]\n",
        "3:44: file-not-found: there is no file",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, attachments: [{file: a, prompt: 2}], expect: [{contains: x}]}]\n",
        "there is no prompt 2: the case has 1",
    ),
    ("agent: a\ncases: [{name: a, prompt: ' ', expect: [{contains: x}]}]\n", "the prompt is blank"),
    ("agent: a\ncases: [{name: a, prompt: p, expect: [{exact: true}]}]\n", "`exact` needs `tool_calls`"),
    (
        "agent: a\ncases: [{name: a, prompt: p, expect: [{tool_calls: [{a: {}, b: {}}]}]}]\n",
        "a call is one name",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, expect: [{file: {path: ../x}}]}]\n",
        "must not leave the workspace",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, files: {../x: y}, expect: [{contains: x}]}]\n",
        "must not leave",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, files: {x: y, x/z: y}, expect: [{contains: x}]}]\n",
        "'x' is there too",
    ),
    (
        "agent: a\ncases: [{name: a, prompt: p, files: {x: {file: no}}, expect: [{contains: x}]}]\n",
        "there is no file",
    ),
    ("agent: a\ncases: [&a {name: a, prompt: p, expect: [{contains: x}]}, *a]\n", "has the name 'a' too"),
    ("agent: a\nrepeats: 0\ncases: [{name: a, prompt: p, expect: [{contains: x}]}]\n", "0 is less than 1"),
    ("agent: a\ncases: [{name: a, prompt: ' ', expect: [{contains: x}]}]\n", "the prompt is blank"),
    ("agent: none.yaml\ncases: [{name: a, prompt: p, expect: [{contains: x}]}]\n", "2:8: file-not-found"),
    ("agent: [\n", "yaml-syntax"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
def test_a_file_that_is_not_valid_says_where_and_why(
    project: Project, zeus: Zeus, text: str, told: str
) -> None:
    project.write("cases.yaml", f"version: 1\n{text}")
    result = zeus("eval", "cases.yaml")
    assert (result.exit_code, result.out) == (3, "")
    assert told in result.err
    assert "cases.yaml:" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["none.yaml"], 3, "none.yaml cannot be read"),
        (["cases.yaml", "--case", "case 2"], 2, "did you mean 'case 1'?"),
        (["cases.yaml", "--record", "--replay"], 2, "exclude each other"),
        (["cases.yaml", "--junit", "no/out.xml"], 2, "there is no folder no"),
        (["cases.yaml", "--set", "limits.max_stepz=1"], 3, "max_stepz"),
        (["cases.yaml", "--repeats", "0"], 2, "--repeats"),
        (["add", "session_000000000000"], 2, "there is no"),
        ([], 2, "Usage"),
    ],
)
def test_a_command_line_that_does_not_fit_is_refused(
    project: Project, zeus: Zeus, words: list[str], code: int, told: str
) -> None:
    project.agent("Good.")
    evaluation(project, {"expect": [{"contains": "Good"}]})
    result = zeus("eval", *words)
    assert result.exit_code == code
    assert told in result.err + result.out
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("number", "agents"),
    [(signal.SIGINT, ["zeus.yaml", "slow.yaml"]), (signal.SIGTERM, ["slow.yaml", "zeus.yaml"])],
)
def test_an_interrupt_reports_what_has_finished(
    project: Project, zeus: Zeus, number: signal.Signals, agents: list[str]
) -> None:
    """Also after a run that was begun earlier and goes on."""
    project.agent("Good.")
    project.agent({"hang": "I think"}, name="slow.yaml")
    evaluation(project, {"expect": [{"contains": "Good"}]}, agent=None, agents=agents)
    process = spawn(["eval", "cases.yaml", "--junit", "out.xml"], project.folder)
    assert process.stderr is not None
    assert "[1/2] passed" in process.stderr.readline()
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: 1 of 1 cases passed, 1 of 2 runs done" in out
    assert "Traceback" not in err
    assert ElementTree.parse(project.folder / "out.xml").getroot().get("tests") == "1"


def test_a_session_becomes_a_case_that_passes_and_the_file_keeps_its_comments(
    project: Project, zeus: Zeus
) -> None:
    agent_with_files(project, {"call": "read_file", "args": {"path": "/orders.csv"}}, "Order 1 is late.")
    (project.folder / "work" / "orders.csv").write_text("order,state\n1,late\n")
    assert zeus("run", "zeus.yaml", "Which orders are late?").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    assert zeus("eval", "add", session).exit_code == 0
    project.write(
        "more.yaml",
        "# ours\nversion: 1\ncases:\n- name: a # first\n  prompt: p\n  expect: [{contains: x}]\nagent: zeus.yaml\n",
    )
    for _ in range(2):
        assert zeus("eval", "add", session, "--to", "more.yaml").exit_code == 0
    text = (project.folder / "more.yaml").read_text()
    assert text.startswith("# ours\nversion: 1\ncases:\n- name: a # first\n")
    assert text.endswith("agent: zeus.yaml\n")
    names = [case["case"] for case in zeus("eval", "more.yaml", "--json").json["cases"]]
    assert names == ["a", "Which orders are late?", "Which orders are late? 2"]
    (project.folder / "work" / "orders.csv").unlink()
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code == 0, result.out
    assert result.json["cases"][0]["runs"][0]["tool_calls"] == ["read_file"]
    assert "order,state\n" in (project.folder / "cases.yaml").read_text()


@pytest.mark.parametrize("per", ["session", "user"])
def test_a_case_has_the_files_that_its_session_read_in_a_folder_of_its_own(
    project: Project, zeus: Zeus, per: str
) -> None:
    reading = [{"call": "read_file", "args": {"path": each}} for each in ("/orders.csv", "/gone.csv")]
    agent_with_files(project, "Hello.", *reading, "Order 1 is late.", more="middlewares: [resources]\n")
    config = (project.folder / "zeus.yaml").read_text()
    project.write("zeus.yaml", config.replace("root: work", f"root: work, per: {per}"))
    assert zeus("run", "zeus.yaml", "Hello").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    (folder,) = (project.folder / "work").iterdir()
    (folder / "orders.csv").write_text("order,state\n1,late\n")
    (folder / "gone.csv").write_text("old\n")
    (folder / "named.csv").write_text("named\n")
    (project.folder / "work" / "orders.csv").write_text("of nobody\n")
    assert zeus("run", "zeus.yaml", "See @named.csv", "--session", session).exit_code == 0
    (folder / "gone.csv").unlink()
    added = zeus("eval", "add", session)
    assert added.exit_code == 0, added.err
    (case,) = yaml.safe_load((project.folder / "cases.yaml").read_text())["cases"]
    assert case["files"] == {"orders.csv": "order,state\n1,late\n", "named.csv": "named\n"}
    assert "left out the file /gone.csv: /gone.csv does not exist" in added.err
    assert added.err.count("left out") == 1


def test_a_case_of_a_users_session_has_the_files_of_that_users_folder(project: Project, zeus: Zeus) -> None:
    (project.folder / "work").mkdir()
    model = script("Hello.", calling(call("read_file", "r", path="/orders.csv")), "Late.")
    yaml_text = "workspace: {root: work, per: user}\n"

    async def of_ann() -> str:
        async with agent_in(project.folder, yaml_text, model, Owner("ann", None)) as agent:
            session = (await agent.run("Hello")).session
            (folder,) = (project.folder / "work").iterdir()
            (folder / "orders.csv").write_text("1,late\n")
            return (await agent.run("Read the orders", session=session)).session

    assert zeus("eval", "add", asyncio.run(of_ann())).exit_code == 0
    (case,) = yaml.safe_load((project.folder / "cases.yaml").read_text())["cases"]
    assert case["files"] == {"orders.csv": "1,late\n"}


def test_the_knowledge_bases_of_the_project_are_searched_and_memory_is_its_own(
    project: Project, zeus: Zeus
) -> None:
    agent_with_files(
        project,
        {"call": "search_knowledge_base", "args": {"query": "opening hours"}},
        "Done.",
        more="knowledge: [shop]\nmemory: {embeddings: static}\n",
    )
    text = (project.folder / "zeus.yaml").read_text().replace("filesystem]", "filesystem, knowledge]")
    project.write("zeus.yaml", text)
    project.write("hours.md", "# Opening hours\n\nThe shop opens at nine.\n")
    assert zeus("kb", "add", "shop", "hours.md").exit_code == 0
    evaluation(project, {"expect": [{"tool_calls": ["search_knowledge_base"]}]})
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0
    tape = (project.folder / "cases.cassettes" / "case_1.jsonl").read_text()
    assert "The shop opens at nine." in tape
    assert zeus("sessions", "list", "--json").json == []


def test_the_schema_of_evaluation_files_is_the_one_that_they_are_checked_against(
    project: Project, zeus: Zeus
) -> None:
    from jsonschema import Draft202012Validator

    schema = zeus("schema", "--eval").json
    Draft202012Validator.check_schema(schema)
    project.agent("Good.")
    evaluation(project, {"expect": [{"contains": "Good"}]}, **{"x-shared": {"any": 1}})
    assert Draft202012Validator(schema).is_valid(json.loads((project.folder / "cases.yaml").read_text()))
    assert zeus("eval", "cases.yaml").exit_code == 0
    assert zeus("schema", "--eval", "--check").exit_code == 2


def test_a_case_of_a_session_has_no_secret_of_the_files_that_were_read(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-live-0123456789abcdef"
    monkeypatch.setenv("SHOP_API_KEY", secret)
    agent_with_files(project, {"call": "read_file", "args": {"path": "notes.md"}}, "Read.")
    (project.folder / "work" / "notes.md").write_text(f"The key: {secret}\n")
    assert zeus("run", "zeus.yaml", "Read the notes.").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    assert zeus("eval", "add", session).exit_code == 0
    text = (project.folder / "cases.yaml").read_text()
    assert secret not in text
    assert "<secret:SHOP_API_KEY>" in text


def attached_session(project: Project, zeus: Zeus) -> str:
    """A session whose prompts had files: one attached, one named, one attached later."""
    agent_with_files(project, "One.", "Two.", more="middlewares: [resources]\n")
    (project.folder / "work" / "orders.csv").write_text("order,state\n1,late\n")
    (project.folder / "scan.bin").write_bytes(bytes(range(256)))
    project.write("note.md", "A note.\n")
    assert zeus("run", "zeus.yaml", "Read it.", "--attach", "scan.bin").exit_code == 0
    session: str = zeus("sessions", "list", "--json").json[0]["session"]
    again = zeus("run", "zeus.yaml", "See @orders.csv", "--attach", "note.md", "--session", session)
    assert again.exit_code == 0, again.err
    return session


def test_the_file_that_was_checked_is_the_one_that_is_extended(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("done")
    session = zeus("run", "zeus.yaml", "hello", "--output", "json").json["session"]
    assert zeus("eval", "add", session).exit_code == 0
    file = project.folder / "cases.yaml"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    before, read = file.read_bytes(), reading.read_evaluation

    def edited_meanwhile(*given: Any, **more: Any) -> Any:
        found = read(*given, **more)
        file.write_bytes(b"cases: []\nversion: 7\n")
        return found

    monkeypatch.setattr(reading, "read_evaluation", edited_meanwhile)
    assert zeus("eval", "add", session).exit_code == 0
    assert file.read_bytes().startswith(before)
    assert len(yaml.safe_load(file.read_text())["cases"]) == 2
    assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")


def test_the_files_that_went_with_a_sessions_prompts_go_with_those_of_its_case(
    project: Project, zeus: Zeus
) -> None:
    session = attached_session(project, zeus)
    for name in ("scan.bin", "note.md", "work/orders.csv"):
        (project.folder / name).unlink()
    added = zeus("eval", "add", session, "--to", "evals/cases.yaml")
    assert added.exit_code == 2, "there is no such folder"
    (project.folder / "evals").mkdir()
    assert zeus("eval", "add", session, "--to", "evals/cases.yaml").exit_code == 0
    (case,) = yaml.safe_load((project.folder / "evals/cases.yaml").read_text())["cases"]
    assert case["prompts"] == ["Read it.", "See @orders.csv"]
    assert case["files"] == {"orders.csv": "order,state\n1,late\n"}
    scan, note = case["attachments"]
    assert (project.folder / "evals" / scan).read_bytes() == bytes(range(256))
    assert (scan.rpartition("/")[2], note["prompt"]) == ("scan.bin", 2)
    assert (project.folder / "evals" / note["file"]).read_text() == "A note.\n"
    done = zeus("eval", "evals/cases.yaml", "--record", "--json")
    assert done.exit_code == 0, done.out
    assert zeus("eval", "evals/cases.yaml", "--replay").exit_code == 0
    copies = {
        Path(scan).name: bytes(range(256)),
        "note.md": b"A note.\n",
        "orders.csv": b"order,state\n1,late\n",
    }
    kept = {
        name: f"/attached_files/{hashlib.sha256(data).hexdigest()[:16]}/{name}"
        for name, data in copies.items()
    }
    case["expect"] = [{"file": {"path": path}} for path in kept.values()]
    (project.folder / "evals/cases.yaml").write_text(
        json.dumps({"version": 1, "agent": "../zeus.yaml", "cases": [case]})
    )
    done = zeus("eval", "evals/cases.yaml", "--json")
    assert done.exit_code == 0, done.out


def test_a_file_of_a_prompt_that_a_rule_closes_by_now_is_left_out(project: Project, zeus: Zeus) -> None:
    """No rule closes the evaluation file, into which its text went."""
    agent_with_files(project, "One.", more="middlewares: [resources]\n")
    for name in ("denied", "asked", "gone", "linked", "open"):
        (project.folder / "work" / name).write_text(f"The {name} text.\n")
    (project.folder / "memo" / "away").write_text("The other text.\n")
    assert zeus("run", "zeus.yaml", "See @denied @asked @gone @linked @memo/away @open").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    text = (project.folder / "zeus.yaml").read_text().replace("middlewares: [resources]\n", "")
    rules = "workspace: {access: {denied: deny, gone: deny}, "
    asks = "middlewares: [resources, {approve: {mode: run_everything, ask: [{'*': {path: asked}}]}}]\n"
    project.write("zeus.yaml", text.replace("workspace: {", rules) + asks)
    (project.folder / "work" / "gone").unlink()
    for link, target in (("work/linked", "denied"), ("memo/away", "../work/denied")):
        (project.folder / link).unlink()
        (project.folder / link).symlink_to(target)
    added = zeus("eval", "add", session)
    assert added.exit_code == 0, added.err
    (case,) = yaml.safe_load((project.folder / "cases.yaml").read_text())["cases"]
    assert case["files"] == {"open": "The open text.\n"}
    assert "left out the file /denied: the rule `denied: deny` of workspace.access closes it" in added.err
    assert [f"left out the file /{name}: " in added.err for name in ("asked", "gone", "linked")] == [True] * 3
    assert "left out the file /memo/away: /memo/away leads out of the workspace" in added.err


def test_a_file_that_a_call_read_and_that_a_case_lacks_is_named(project: Project, zeus: Zeus) -> None:
    """Only files that are not there any more were named, and the case that a rule left incomplete seemed whole."""
    names = ("denied", "asked", "large", "binary", "open")
    reading = [{"call": "read_file", "args": {"path": f"/{each}"}} for each in names]
    looking = [{"call": "ls", "args": {"path": each}} for each in ("/folder", "/")]
    searching = {"call": "grep", "args": {"query": "denied"}}
    agent_with_files(project, *reading, *looking, searching, "Done.")
    (project.folder / "work" / "folder").mkdir()
    for name in names:
        (project.folder / "work" / name).write_text(f"The {name} text.\n")
    assert zeus("run", "zeus.yaml", "Read them").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    text = (project.folder / "zeus.yaml").read_text()
    asks = "middlewares: [{approve: {mode: run_everything, ask: [{'*': {path: asked}}]}}]\n"
    project.write("zeus.yaml", text.replace("workspace: {", "workspace: {access: {denied: deny}, ") + asks)
    (project.folder / "work" / "large").write_text("x" * 200_000)
    (project.folder / "work" / "binary").write_bytes(bytes(range(256)))
    added = zeus("eval", "add", session)
    assert added.exit_code == 0, added.err
    (case,) = yaml.safe_load((project.folder / "cases.yaml").read_text())["cases"]
    assert case["files"] == {"open": "The open text.\n"}
    left_out = [line for line in added.err.splitlines() if "left out" in line]
    assert [line.split(": ")[0].rpartition("/")[2] for line in left_out] == list(names[:-1]), left_out
    for line, why in zip(left_out, ("`denied: deny`", "approval", "100,000 bytes", "not text"), strict=True):
        assert why in line


def test_a_session_whose_attachment_is_gone_is_refused_and_nothing_is_written(
    project: Project, zeus: Zeus
) -> None:
    session = attached_session(project, zeus)
    (copy,) = (project.folder / ".zeus/attached_files").glob("*/note.md")
    copy.write_text("Another.\n")
    refused = zeus("eval", "add", session)
    assert refused.exit_code == 2
    assert "the session had the file note.md, and its copy" in refused.err
    copy.unlink()
    assert zeus("eval", "add", session).exit_code == 2
    assert not (project.folder / "cases.yaml").exists()
    assert not (project.folder / "cases.files").exists()


def test_no_attachment_is_stored_through_a_link(project: Project, zeus: Zeus) -> None:
    session = attached_session(project, zeus)
    (project.folder / "elsewhere").mkdir()
    (project.folder / "cases.files").symlink_to("elsewhere")
    refused = zeus("eval", "add", session)
    assert (refused.exit_code, "a link leads elsewhere" in refused.err) == (2, True)
    assert list((project.folder / "elsewhere").iterdir()) == []


def test_an_attachment_that_tools_may_not_read_is_refused_at_its_place(project: Project, zeus: Zeus) -> None:
    agent_with_files(project, "One.", more="middlewares: [resources]\n")
    project.write(".env", "A=b\n")
    evaluation(project, {"attachments": [".env"], "expect": [{"contains": "One"}]})
    refused = zeus("eval", "cases.yaml")
    assert refused.exit_code == 3
    assert "unreadable-file" in refused.err


def test_a_prompt_without_a_text_may_have_an_attachment(project: Project, zeus: Zeus) -> None:
    agent_with_files(project, "One.", more="middlewares: [resources]\n")
    project.write("note.md", "A note.\n")
    evaluation(project, {"prompt": "", "attachments": ["note.md"], "expect": [{"contains": "One"}]})
    assert zeus("eval", "cases.yaml").exit_code == 0
