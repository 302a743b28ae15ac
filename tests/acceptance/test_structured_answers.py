"""`output` in real processes: both protocols, with and without litellm, a kill in the middle of the last answer."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.acceptance.test_run_over_http import KEY, VARIABLES, configured, finished, only, write
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.provider import Call, Provider, Reply

pytestmark = pytest.mark.xdist_group("litellm")

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "stars": {"type": "integer"}},
    "required": ["title", "stars"],
    "additionalProperties": False,
}
GOOD = {"title": "A poem about größer waves 🌊", "stars": 4}
BAD = {"title": "A poem about größer waves 🌊", "stars": "four"}
FINAL = "final_answer"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)


def answering(strategy: str, value: object, call_id: str = "f", **how: Any) -> Reply:
    text = json.dumps(value)
    return Reply(calls=[Call(FINAL, text, call_id)], **how) if strategy == "tool" else Reply(text, **how)


def wanting(project: Project, provider: Provider, kind: str, wire: str, strategy: str) -> None:
    more: dict[str, Any] = {"output": {"schema": SCHEMA, "strategy": strategy}}
    configured(project, provider, kind, json.dumps(more), wire=wire)
    config = json.loads((project.folder / "zeus.yaml").read_text())
    for profile in config["profiles"]["models"].values():
        profile["response_schema"] = True
    project.write("zeus.yaml", json.dumps(config))


def sent_form(kind: str, body: dict[str, Any]) -> Any:
    """The schema in the provider's own field."""
    if kind == "openai":
        form = body.get("response_format")
        return form and form["json_schema"]["schema"]
    form = body.get("output_format")
    return form and form["schema"]


def tools_of(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    if kind == "openai":
        return {each["function"]["name"]: each["function"]["parameters"] for each in body["tools"]}
    return {each["name"]: each["input_schema"] for each in body["tools"]}


@pytest.mark.parametrize("strategy", ["response_format", "tool", "prompt"])
@pytest.mark.parametrize("wire", ["native", "litellm"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_session_gives_its_form_after_tools_a_refusal_and_a_kill(
    project: Project, zeus: Zeus, kind: str, wire: str, strategy: str
) -> None:
    replies = [
        Reply("I write it down.", calls=[write("/poem.txt", "waves", "a")]),
        answering(strategy, BAD),
        answering(strategy, GOOD, "g", hang_after=9),
    ]
    with Provider(*replies) as provider:
        wanting(project, provider, kind, wire, strategy)
        killed = spawn(["run", "zeus.yaml", "Rate it", "-o", "ndjson"], project.folder)
        assert killed.stdout is not None
        seen = []
        for line in killed.stdout:
            seen.append(json.loads(line))
            if seen[-1]["type"] == "output_partial" and only(seen, "notice"):
                break
        killed.send_signal(signal.SIGKILL)
        assert finished(killed).exit_code == -signal.SIGKILL
        first, _, asked_again = (received.body for received in provider.requests)

    assert GOOD["title"].startswith(seen[-1]["value"]["title"])
    assert [each["code"] for each in only(seen, "notice")] == ["output_refused"]
    assert sent_form(kind, first) == (SCHEMA if strategy == "response_format" else None)
    assert tools_of(kind, first).get(FINAL) == (SCHEMA if strategy == "tool" else None)
    assert "$.stars: 'four' is not of type 'integer'" in json.dumps(asked_again["messages"])

    with Provider(answering(strategy, GOOD, "g")) as provider:
        wanting(project, provider, kind, wire, strategy)
        resumed = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert resumed.exit_code == 0, resumed.err
        (last,) = (received.body for received in provider.requests)
    assert last == asked_again, "the resumed run asks what the killed one asked"
    ending = resumed.lines[-1]
    assert ending["output"] == GOOD
    assert json.loads(ending["answer"]) == GOOD
    assert not only(resumed.lines, "tool_call"), "a finished tool was repeated"
    assert only(resumed.lines, "output_partial")

    with Provider(answering(strategy, GOOD, "h")) as provider:
        wanting(project, provider, kind, wire, strategy)
        again = zeus("run", "zeus.yaml", "And again?", "--continue", "-q")
        assert again.exit_code == 0, again.err
    assert json.loads(again.out) == GOOD
    assert zeus("resume").exit_code == 2, "nothing is left to resume"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_without_an_answer_that_fits_the_exit_code_is_5(project: Project, zeus: Zeus, kind: str) -> None:
    with Provider(*(answering("tool", BAD, each) for each in "abc")) as provider:
        wanting(project, provider, kind, "native", "tool")
        refused = zeus("run", "zeus.yaml", "Rate it")
        assert refused.exit_code == 5
        assert len(provider.requests) == 3, "output.repairs is 2"
    assert refused.out == ""
    assert "output.schema, after 3 answers (output.repairs = 2): $.stars" in refused.err
    assert "Traceback" not in refused.err
