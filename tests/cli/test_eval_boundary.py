"""What an evaluation file may read, write, ask and print: the same as a config."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Project, Result, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal
from zeus_runtime.escaping import is_unseen
from zeus_runtime.testing.cases.report import CaseReport, EvaluationReport, junit
from zeus_runtime.testing.cases.running import RunOutcome

GOOD: list[dict[str, Any]] = [{"contains": "Good"}]


@pytest.fixture(autouse=True)
def _only_the_agent_is_trusted(project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(project.folder.parent / "state"))
    project.agent("Good.")
    assert zeus("trust").exit_code == 0


@pytest.fixture
def elsewhere(project: Project) -> Path:
    """A folder outside the project."""
    folder = project.folder.parent / "elsewhere"
    folder.mkdir()
    (folder / "hosts").write_text("127.0.0.1\n")
    (folder / "schema.json").write_text('{"type": "string"}')
    for name in ("agent.yaml", "zeus.yaml"):
        (folder / name).write_text("version: 1\nmodel: {replay: {cassette: none.jsonl}}\n")
    return folder


def evaluation(project: Project, case: Mapping[str, Any] | None = None, **more: Any) -> None:
    whole = {"name": "a", "prompt": "Go.", "expect": GOOD, **(case or {})}
    project.write("cases.yaml", json.dumps({"version": 1, "agent": "zeus.yaml", "cases": [whole], **more}))


def refused(result: Result, code: int, told: str) -> None:
    assert result.exit_code == code, result.err
    assert told in result.err
    assert result.out == ""


ANSWERED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"approvals": "allow"}, {}),
    ({}, {"approvals": "allow"}),
]


@pytest.mark.parametrize(("case", "more"), ANSWERED, ids=["of a case", "of the file"])
def test_a_file_that_answers_approvals_asks_once_and_again_when_it_changes(
    project: Project, zeus: Zeus, case: dict[str, Any], more: dict[str, Any]
) -> None:
    evaluation(project, {**case, "approvals": "deny"})
    assert zeus("eval", "cases.yaml").exit_code == 0
    evaluation(project, case, **more)
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")
    allowed = zeus("trust", "--eval", "cases.yaml")
    assert "each question for approval" in allowed.err
    assert zeus("eval", "cases.yaml").exit_code == 0
    evaluation(project, {**case, "prompt": "Deploy it."}, **more)
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")


def test_a_digest_for_a_config_holds_for_one_that_an_evaluation_file_names_only_with_the_digest_of_its_choice(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = project.folder / "zeus.yaml"
    agent.write_text(f"{agent.read_text()}\nsecrets: {{to_model: allow}}\n")
    project.write("other.yaml", agent.read_text())
    evaluation(project)
    assert zeus("trust", "zeus.yaml").exit_code == 0
    assert zeus("eval", "cases.yaml").exit_code == 0, "a record is for one config"
    digests = [zeus("trust", "--print", "zeus.yaml").out.strip()]
    monkeypatch.setenv("ZEUS_TRUST", ",".join(digests))
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")
    digests.append(zeus("trust", "--eval", "cases.yaml", "--print").out.strip())
    monkeypatch.setenv("ZEUS_TRUST", ",".join(digests))
    assert zeus("eval", "cases.yaml").exit_code == 0
    evaluation(project, agent="other.yaml")
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")
    assert zeus("trust", "--eval", "cases.yaml").exit_code == 0
    assert zeus("eval", "cases.yaml").exit_code == 0


def test_what_an_agent_is_told_while_approvals_are_answered_is_part_of_the_permission(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("note.md", "Say hello.")
    evaluation(project, {"files": {"note.md": {"file": "note.md"}}, "approvals": "allow"})
    monkeypatch.setenv("ZEUS_TRUST", zeus("trust", "--eval", "cases.yaml", "--print").out.strip())
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")
    monkeypatch.setenv("ZEUS_TRUST", zeus("trust", "--eval", "cases.yaml", "--print").out.strip())
    assert zeus("eval", "cases.yaml", "--replay").exit_code == 0
    project.write("note.md", "Deploy it.")
    refused(zeus("eval", "cases.yaml", "--replay"), 4, "zeus trust --eval cases.yaml")


@pytest.mark.parametrize(
    "file",
    ["zeus.yaml", "zeus.ci.yaml", "base.yaml", "prompt.md", "sub.yaml", "part.md", ".zeus/configs/own.yaml"],
)
def test_while_approvals_are_answered_each_file_that_decides_about_an_agent_is_part_of_the_permission(
    project: Project, zeus: Zeus, file: str
) -> None:
    """A config that was changed after the permission, such as one without its `deny` rules, ran unasked."""
    (project.folder / ".zeus" / "configs").mkdir(parents=True, exist_ok=True)
    model = (project.folder / "zeus.yaml").read_text()
    project.write("base.yaml", model)
    project.write("sub.yaml", f"{model}\ninstructions: {{file: part.md}}\n")
    project.write("zeus.ci.yaml", "limits: {max_steps: 5}\n")
    project.write("prompt.md", "Be kind.\n")
    project.write("part.md", "Be brief.\n")
    project.write(".zeus/configs/own.yaml", "version: 1\nextends: ../../base.yaml\n")
    own = "version: 1\nextends: base.yaml\ninstructions: {file: prompt.md}\n"
    project.write("zeus.yaml", f"{own}agents: {{w: {{description: It helps., config: sub.yaml}}}}\n")
    evaluation(project, approvals="allow", agent=None, agents=["zeus.yaml", "own"])
    project.write(".env", "SOME_KEY=abc\n")
    assert f"{file}: sha256" in zeus("trust", "--eval", "cases.yaml").err
    project.write(".env", "SOME_KEY=abcd\n")
    assert "nothing to allow" in zeus("trust", "--eval", "cases.yaml").err
    changed = project.folder / file
    changed.write_text(f"{changed.read_text()}# changed\n")
    refused(zeus("eval", "cases.yaml"), 4, "zeus trust --eval cases.yaml")


def test_a_case_is_added_to_a_file_that_answers_approvals_without_a_question(
    project: Project, zeus: Zeus
) -> None:
    session = zeus("run", "zeus.yaml", "hello", "--output", "json").json["session"]
    assert zeus("eval", "add", session, "--to", "cases.yaml").exit_code == 0
    file = project.folder / "cases.yaml"
    file.write_text(f"{file.read_text()}approvals: allow\n")
    assert zeus("eval", "cases.yaml").exit_code == 4
    file.write_text(
        file.read_text().replace("\ncases:", "\napprovals: allow\ncases:").removesuffix("approvals: allow\n")
    )
    assert zeus("eval", "add", session, "--to", "cases.yaml").exit_code == 0


NAMED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"files": {"x": {"file": "{elsewhere}/hosts"}}}, {}),
    ({"files": {"x": {"file": "../elsewhere/hosts"}}}, {}),
    ({"files": {"x": {"file": "link"}}}, {}),
    ({"files": {"x": {"file": "folder/hosts"}}}, {}),
    ({"expect": [*GOOD, {"schema": {"file": "folder/schema.json"}}]}, {}),
    ({}, {"agent": "../elsewhere/agent.yaml"}),
    ({}, {"agent": None, "agents": ["zeus.yaml", "folder/agent.yaml"]}),
    ({}, {"agent": "folder"}),
    ({}, {"agent": "../elsewhere"}),
    ({}, {"cassette": "../elsewhere/tapes"}),
    ({}, {"cassette": "folder"}),
]


@pytest.mark.parametrize(("case", "more"), NAMED, ids=str)
def test_a_file_elsewhere_asks_before_it_is_opened(
    project: Project, zeus: Zeus, elsewhere: Path, case: dict[str, Any], more: dict[str, Any]
) -> None:
    (project.folder / "link").symlink_to(elsewhere / "hosts")
    (project.folder / "folder").symlink_to(elsewhere)
    evaluation(project, json.loads(json.dumps(case).replace("{elsewhere}", str(elsewhere))), **more)
    before = sorted(elsewhere.iterdir())
    refused(zeus("eval", "cases.yaml", "--record"), 4, "zeus trust --eval cases.yaml")
    assert sorted(elsewhere.iterdir()) == before
    asked = zeus("trust", "--eval", "cases.yaml")
    assert (asked.exit_code, "allowed: 1" in asked.err) == (0, True)
    assert str(elsewhere) in asked.err
    if "agent" not in more:
        result = zeus("eval", "cases.yaml", "--record", "--json")
        assert (result.exit_code, result.json["runs_done"]) == ((5 if "schema" in str(case) else 0), 1)
    assert zeus("trust", "--revoke", "cases.yaml").exit_code == 0
    assert zeus("eval", "cases.yaml").exit_code == 4


def test_a_terminal_asks_about_an_evaluation_file_and_then_runs_it(project: Project, elsewhere: Path) -> None:
    evaluation(project, {"files": {"x": {"file": "../elsewhere/hosts"}}})
    for answer, code in (("n\n", 4), ("y\n", 0)):
        with PseudoTerminal(["eval", "cases.yaml"], project.folder) as terminal:
            asked = terminal.until("[v]iew whole: ")
            # The path is long, so the line may go on in the next one.
            assert "cases.yaml needs what you have not allowed yet" in " ".join(asked.split())
            assert "file 'cases.0.files.x.file'  (cases.yaml:1:" in asked
            terminal.press(answer)
            assert terminal.end() == code


@pytest.mark.parametrize("agent", ["..", ".", "-", "~", "~root", "a b"])
def test_an_agent_is_a_file_or_a_preset_and_no_other_word_of_a_command_line(
    project: Project, zeus: Zeus, agent: str
) -> None:
    evaluation(project, agent=agent)
    refused(zeus("eval", "cases.yaml"), 3, f"{agent} is neither a file nor a preset's name")


def test_a_name_with_a_line_end_makes_no_line_of_its_own(project: Project, zeus: Zeus) -> None:
    evaluation(project, {"files": {"x": {"file": "no\n1:1: forged"}}})
    for more in ({}, {"agent": "no\n1:1: forged.yaml"}, {"cassette": ".git/\n1:1: forged"}):
        evaluation(project, {} if more else {"files": {"x": {"file": "no\n1:1: forged"}}}, **more)
        result = zeus("eval", "cases.yaml", "--record")
        assert result.exit_code == 3
        assert not any(line.startswith("1:1: forged") for line in result.err.splitlines())


def test_a_case_is_not_added_through_a_link_to_a_file_that_is_not_there(
    project: Project, zeus: Zeus, elsewhere: Path
) -> None:
    (project.folder / "cases.yaml").symlink_to(elsewhere / "new.yaml")
    assert zeus("run", "zeus.yaml", "Hello.").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    refused(zeus("eval", "add", session), 2, "cases.yaml is a link to a file that is not there")
    assert not (elsewhere / "new.yaml").exists()
    (elsewhere / "new.yaml").write_text(
        "version: 1\nagent: default\ncases: [{name: a, prompt: p, expect: [{max_steps: 1}]}]\n"
    )
    refused(zeus("eval", "add", session), 4, "is not trusted")


def test_a_schema_that_is_no_regular_file_is_refused_and_not_waited_for(project: Project, zeus: Zeus) -> None:
    os.mkfifo(project.folder / "pipe")
    evaluation(project, {"expect": [{"schema": {"file": "pipe"}}]})
    refused(zeus("eval", "cases.yaml"), 3, "the schema cannot be read")


def test_the_default_folder_of_recordings_asks_if_it_is_a_link_elsewhere(
    project: Project, zeus: Zeus, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation(project)
    (project.folder / "cases.cassettes").symlink_to(elsewhere)
    refused(zeus("eval", "cases.yaml", "--record"), 4, "file 'cassette' is not trusted")
    monkeypatch.setenv("ZEUS_TRUST", zeus("trust", "--eval", "--print", "cases.yaml").out.strip())
    assert zeus("eval", "cases.yaml", "--record").exit_code == 0


@pytest.mark.parametrize(
    "name", ["secret/a.txt", "work/secret/a.txt", ".env", ".env.d/a", "plain", ".zeus/zeus.db", ".mcp.json"]
)
def test_a_file_that_tools_may_not_read_is_never_copied(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.agent("Good.", more="workspace: {root: work, access: {secret: deny}}\n")
    project.write("secret/a.txt", "denied by its name")
    project.write("work/secret/a.txt", "denied by its path")
    project.write(".env", "NAME=value\n")
    project.write(".env.d/a", "NAME=value\n")
    project.write(".mcp.json", '{"mcpServers": {}}')
    os.link(project.folder / ".env", project.folder / "work" / "plain")
    assert zeus("run", "zeus.yaml", "Hello.").exit_code == 0
    evaluation(project, {"files": {"x": {"file": "work/plain" if name == "plain" else name}}})
    result = zeus("eval", "cases.yaml")
    refused(result, 3, "this file is not copied: ")
    assert "cases.yaml:1:" in result.err


def test_a_key_file_that_a_rule_opens_to_tools_is_copied(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.agent("Good.", more="workspace: {root: work, access: {.env.example: read}}\n")
    for folder in ("work", "fixtures"):
        project.write(f"{folder}/.env.example", "NAME=value\n")
    files = {each: {"file": f"{each}/.env.example"} for each in ("work", "fixtures")}
    evaluation(
        project, {"files": files, "expect": [{"file": {"path": each, "contains": "NAME"}} for each in files]}
    )
    result = zeus("eval", "cases.yaml", "--json")
    assert result.exit_code == 0, result.out + result.err


def test_a_project_in_a_folder_with_a_protected_name_is_no_protected_place(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    inner = Project(project.folder / ".env.d" / "inner")
    inner.agent("Good.", more="workspace: {root: work}\n")
    inner.write("work/a", "a")
    inner.write("b", "b")
    evaluation(inner, {"files": {"a": {"file": "work/a"}, "b": {"file": "b"}}})
    monkeypatch.chdir(inner.folder)
    result = zeus("eval", "cases.yaml", "--record")
    assert result.exit_code == 0, result.err + result.out


def test_a_link_that_changes_after_the_question_is_not_followed(
    project: Project, zeus: Zeus, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.testing.cases import running

    evaluation(project, {"files": {"x": {"file": "link"}}})
    link = project.folder / "link"
    link.symlink_to(project.write("inside", "mine"))
    first = running.outcomes

    def swapped(*args: Any, **named: Any) -> Any:
        link.unlink()
        link.symlink_to(elsewhere / "hosts")
        return first(*args, **named)

    monkeypatch.setattr(running, "outcomes", swapped)
    (run,) = zeus("eval", "cases.yaml", "--json").json["cases"][0]["runs"]
    assert (run["status"], "is not trusted" in run["error"]) == ("error", True)


@pytest.mark.parametrize("folder", [".git/hooks", ".zeus/prompts", ".env.d", "bare/hooks", "linked"])
def test_recordings_are_never_written_to_a_protected_place(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    for each in (".git/hooks", "bare/objects", "bare/refs", "bare/hooks", "other"):
        (project.folder / each).mkdir(parents=True)
    project.write("bare/HEAD", "ref: refs/heads/main\n")
    (project.folder / "linked").mkdir()
    (project.folder / "linked" / "a.jsonl").symlink_to(project.folder / "other" / "b")
    evaluation(project, cassette=folder)
    before = sorted(project.folder.rglob("*"))
    refused(zeus("eval", "cases.yaml", "--record"), 3, "recordings cannot be kept in ")
    assert sorted(project.folder.rglob("*")) == before


MODELS = [
    "huggingface/https://x.example/x",
    "bedrock/agentcore/arn:aws:bedrock-agentcore:x.example:1:runtime/x",
    "openai/x?y",
    "openai/gpt-5.2-mini",
    "zeus.yaml",
]


@pytest.mark.parametrize("model", MODELS)
def test_a_judging_model_needs_the_same_permission_as_the_model_of_a_config(
    project: Project, zeus: Zeus, model: str
) -> None:
    run = zeus("run", "zeus.yaml", "--model", model, "Hello.")
    expect: list[dict[str, Any]] = [{"judge": "It is good."}]
    for case, more in (
        ({"expect": expect}, {"judge_model": model}),
        ({"expect": [{"judge": {"criterion": "It is good.", "model": model}}]}, {}),
        ({}, {"models": [model]}),
    ):
        evaluation(project, case, **more)
        result = zeus("eval", "cases.yaml", "--replay")
        assert (result.exit_code == 4) == (run.exit_code == 4 and "is not trusted" in run.err)
        assert ("is not trusted" in result.err) == ("is not trusted" in run.err)


@pytest.mark.parametrize("where", ["models", "judge_model"])
def test_a_config_that_is_trusted_by_its_path_gives_no_permission_to_models_of_the_evaluation_file(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The agent, or a stranger, may have written the file; of the command line, only the person."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("ZEUS_TRUST", str(project.folder / "zeus.yaml"))
    stranger = "oobabooga/http://203.0.113.7:9"
    case = {"expect": [{"judge": "It is good."}]} if where == "judge_model" else {}
    evaluation(project, case, **{where: [stranger] if where == "models" else stranger})
    refused(zeus("eval", "cases.yaml", "--replay"), 4, "203.0.113.7")
    setting = f"model.litellm.model={json.dumps(stranger)}"
    assert "allowed: " in zeus("trust", "zeus.yaml", "--set", setting).err
    assert "is not trusted" not in zeus("eval", "cases.yaml", "--replay").err
    assert zeus("trust", "--revoke").exit_code == 0
    # What the config needs itself stays allowed, also beside such a name.
    evaluation(project, case, **{where: ["openai/gpt-4o"] if where == "models" else "openai/gpt-4o"})
    assert "is not trusted" not in zeus("eval", "cases.yaml", "--replay").err
    evaluation(project)
    assert "is not trusted" not in zeus("eval", "cases.yaml", "--replay", "--model", stranger).err


def test_the_name_of_a_model_in_an_evaluation_file_has_no_variables(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address would be another machine's, with a value of the process's environment."""
    monkeypatch.setenv("SOME_TOKEN_OF_MINE", "value-that-stays-here")
    evaluation(project, models=["oobabooga/http://203.0.113.7:9/${SOME_TOKEN_OF_MINE}"])
    result = zeus("eval", "cases.yaml", "--replay")
    assert "value-that-stays-here" not in result.err
    assert "/$${SOME_TOKEN_OF_MINE}" in result.err


def test_every_text_of_an_evaluation_file_is_a_path_a_model_a_config_or_a_plain_text() -> None:
    """A new key fails here until somebody says which it is: paths and models go through a question."""
    from zeus_runtime.config.schema.markers import FILE_RELATIVE
    from zeus_runtime.testing.cases.reading import evaluation_schema

    plain = {
        "contains", "not_contains", "equals", "regex", "path", "tool_calls", "not_called", "schema", "judge",
        "criterion", "name", "prompt", "prompts", "files", "expect", "approvals",
    }  # fmt: skip
    configs = {"agent", "agents"}  # ReadEvaluation.parts
    models = {"models", "judge_model", "model"}  # cli.eval._agents
    found: dict[str, set[bool]] = {}

    def look(schema: Any, key: str) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "string" or "string" in schema.get("type", []) or "enum" in schema:
                found.setdefault(key, set()).add(FILE_RELATIVE in schema)
            for name, each in schema.items():
                if name in ("properties", "$defs"):
                    for inner, value in each.items():
                        look(value, inner)
                else:
                    look(each, key)
        elif isinstance(schema, list):
            for each in schema:
                look(each, key)

    look(evaluation_schema(), "")
    paths = {key for key, marks in found.items() if True in marks}
    assert paths == {"cassette", "file", "attachments"}
    assert found.keys() - paths - plain == configs | models


def test_the_progress_and_the_reports_of_an_evaluation_hold_no_secret_and_no_unseen_character(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-live-0123456789abcdef"
    monkeypatch.setenv("SHOP_API_KEY", secret)
    evaluation(project, {"name": f"{secret} \u202eexe", "expect": [{"contains": "\u202e\x1b"}]})
    result = zeus("eval", "cases.yaml", "--junit", "out.xml")
    assert result.exit_code == 5
    assert "[1/1] failed: <secret:SHOP_API_KEY> \\u202eexe" in result.err
    text = (project.folder / "out.xml").read_text("utf-8")
    for each in (result.out, result.err, text):
        assert secret not in each
        assert not any(map(is_unseen, each))
    assert 'name="&lt;secret:SHOP_API_KEY&gt; \\u202eexe"' in text


@given(st.text(), st.text())
def test_junit_is_xml_in_which_every_character_is_seen(name: str, answer: str) -> None:
    run = RunOutcome("case", "zeus.yaml", None, 1, "failed", error=answer or "x", answer=answer)
    case = CaseReport(name, "zeus.yaml", None, False, 0.0, 1.0, [run])
    text = junit(EvaluationReport(False, False, 1, None, [case]), str)
    ElementTree.fromstring(text)
    assert not any(is_unseen(char) for char in text.replace("\r\n", "") if char not in "\u200c\u200d")
