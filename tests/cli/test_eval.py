"""`zeus eval`: cases of an agent with a scripted model, their expectations, recordings, reports and bad input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.cli.conftest import Project, Result, Zeus


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
