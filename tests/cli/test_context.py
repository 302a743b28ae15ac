"""``zeus context``: show, diff, explain, why-missing and backtest on sessions a newcomer makes."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import sys
from base64 import b64encode
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli import main
from zeus_runtime.escaping import is_unseen

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder_of_a_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one session; the history policy drops what the first two said."""
    folder = tmp_path_factory.mktemp("talked")
    Project(folder).agent(
        {"call": "echo", "args": {"text": "the harbour is blue"}},
        "First answer.",
        "Second answer.",
        "Third answer.",
        more="middlewares: [{history: {max_messages: 2}}]\n",
    )
    nothing = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with chdir(folder), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", nothing)
        assert main(["run", "zeus.yaml", "Remember the anchor."]) == 0
        for prompt in ("And the sail?", "And the mast?"):
            assert main(["run", "--continue", "zeus.yaml", prompt]) == 0
    return folder


@pytest.fixture
def talked(project: Project, folder_of_a_session: Path) -> Project:
    """A project with a session of six steps."""
    copytree(folder_of_a_session, project.folder, dirs_exist_ok=True)
    return project


def test_show_composes_the_last_step_of_the_latest_session(talked: Project, zeus: Zeus) -> None:
    shown = zeus("context", "show")
    assert shown.exit_code == 0, shown.err
    assert "SHARE" in shown.out
    assert "section" in shown.out
    assert "reported  100 in (40 from the cache, 0 written to it), 5 out" in shown.out
    assert "cost      $0.2500" in shown.out
    assert (
        "session so far: 6 steps, 600 tokens in (40% from the cache, 0 written), 30 out, $1.5000" in shown.out
    )


def test_show_as_json_adds_up(talked: Project, zeus: Zeus) -> None:
    for step in ("1", "6"):
        found = zeus("context", "show", "--step", step, "--format", "json").json
        assert found["step"]["number"] == int(step)
        counted = found["step"]["fixed_tokens"] + found["step"]["view_tokens"]
        assert sum(row["tokens"] for row in found["rows"]) == counted
        assert all(row["tokens"] > 0 for row in found["rows"])


def test_a_step_says_what_the_policy_did(talked: Project, zeus: Zeus) -> None:
    decisions = [
        decision
        for step in ("1", "2", "3", "4", "5", "6")
        for decision in zeus("context", "show", "--step", step, "--format", "json").json["step"]["decisions"]
    ]
    assert any(each["policy"] == "history" and each["admitted"] for each in decisions)
    assert "POLICY SO FAR" in zeus("context", "show").out


def test_diff_says_what_entered_and_by_which_edit_something_left(talked: Project, zeus: Zeus) -> None:
    found = zeus("context", "diff", "1", "6", "--format", "json").json
    changes = {(each["change"], each["name"]): each for each in found["changes"]}
    assert changes["left", "1"]["by"] == "history drop_before"
    assert any(kind == "entered" for kind, _ in changes)
    text = zeus("context", "diff", "1", "6").out
    assert "history drop_before (edit" in text
    assert "Nothing changed." in zeus("context", "diff", "2", "2").out


def test_explain_follows_a_message_a_section_and_a_tool(talked: Project, zeus: Zeus) -> None:
    assert "message 1 is sent" in zeus("context", "explain", "1", "--step", "1").out
    gone = zeus("context", "explain", "1").out
    assert "message 1 is not sent any more" in gone
    assert "history drop_before" in gone
    assert "section core is sent" in zeus("context", "explain", "core").out
    assert "tool schema echo is sent" in zeus("context", "explain", "echo").out


def test_why_missing_names_the_edit_and_where_the_text_can_be_read(talked: Project, zeus: Zeus) -> None:
    found = zeus("context", "why-missing", "the ANCHOR")
    assert found.exit_code == 0
    assert "is missing" in found.out
    assert "history drop_before" in found.out
    handle = zeus("context", "why-missing", "the anchor", "--format", "json").json["found"][0]["fate"][
        "handle"
    ]
    assert handle
    assert "stands nowhere" in zeus("context", "why-missing", "a submarine").out
    assert "is sent" in zeus("context", "why-missing", "the anchor", "--step", "1").out


def test_why_missing_masks_its_text_before_it_cuts_it(talked: Project, zeus: Zeus) -> None:
    secret = "argo-" + "a1B2c3D4" * 8
    (talked.folder / ".env").write_text(f"SHIP_TOKEN={secret}\n")
    assert "'<secret:SHIP_TOKEN>'" in zeus("context", "why-missing", secret).out


def test_why_missing_looks_into_what_a_rollback_set_aside(talked: Project, zeus: Zeus) -> None:
    session = zeus("context", "show", "--format", "json").json["session"]
    assert zeus("sessions", "rollback", session, "--to", "9", "--before").exit_code == 0
    assert zeus("run", "--session", session, "zeus.yaml", "And the keel?").exit_code == 0
    (found,) = zeus("context", "why-missing", "the mast", "--format", "json").json["found"]
    assert found["status"] == "set aside"
    assert "the user went back" in zeus("context", "why-missing", "the mast").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "--step", "99"), "no step 99"),
        (("show", "--session", "session_none"), "there is no session 'session_none'"),
        (("diff", "1", "77"), "no step 77"),
        (("explain", "corre"), "no item 'corre'"),
        (("why-missing", " "), "no text to look for"),
        (("backtest", "--policy", "zeus.yaml"), "nothing to play"),
        (("backtest", "x", "--policy", "zeus.yaml", "--chain", "9"), "--chain is about trajectories"),
        (("backtest", "session_none", "--policy", "zeus.yaml"), "there is no session 'session_none'"),
        (("backtest", "--trajectories", "none.jsonl", "--policy", "zeus.yaml"), "cannot be read"),
        (("show", "--plot", "picture.gif"), "a plot is an HTML page"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    talked: Project, zeus: Zeus, words: tuple[str, ...], says: str
) -> None:
    result = zeus("context", *words)
    assert result.exit_code == 2
    assert says in result.err
    assert "Traceback" not in result.err


def test_without_a_database_there_is_no_session_and_none_is_made(project: Project, zeus: Zeus) -> None:
    project.agent()
    result = zeus("context", "show")
    assert result.exit_code == 2
    assert "has no session yet" in result.err
    assert not (project.folder / ".zeus").exists()


def test_a_corrupt_ledger_entry_is_named_and_the_rest_is_usable(talked: Project, zeus: Zeus) -> None:
    database = talked.folder / ".zeus" / "zeus.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE context_step SET payload = '{' WHERE number = 2")
    connection.close()
    shown = zeus("context", "show")
    assert shown.exit_code == 0
    assert "step 2 of the ledger cannot be read" in shown.err
    assert "SHARE" in shown.out
    assert zeus("context", "show", "--step", "2").exit_code == 2


def test_a_corrupt_edit_is_named_and_the_steps_before_it_are_usable(talked: Project, zeus: Zeus) -> None:
    database = talked.folder / ".zeus" / "zeus.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE context_edit SET payload = '[]' WHERE number = 1")
    connection.close()
    shown = zeus("context", "show", "--step", "1")
    assert shown.exit_code == 0
    assert "edit 1 cannot be read" in shown.err
    last = zeus("context", "show")
    assert last.exit_code == 2
    assert "cannot be rebuilt" in last.err


def test_secrets_are_masked(project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOUR_TOKEN", "blue-boat-4711")
    project.agent("The token is blue-boat-4711.", more="x-token: ${HARBOUR_TOKEN}\n")
    zeus("run", "zeus.yaml", "Say it.")
    for words in (("explain", "1"), ("why-missing", "token"), ("diff", "1", "1")):
        for form in ("table", "json"):
            result = zeus("context", *words, "--format", form)
            assert "blue-boat-4711" not in result.out


@pytest.fixture(scope="module")
def bundle() -> None:
    subprocess.run([sys.executable, "web/bundle.py"], cwd=ROOT, check=True)


def values_of(page: Path) -> Any:
    """The values in a plot, which is one page whose only script and style are inside it."""
    text = page.read_text("utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        assert f"{kind}-src 'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'" in policy
    assert re.findall(r'(?:src|href)="([^"]*)"', text.split("<style>")[0]) == ["data:,"]
    return json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])


@pytest.mark.usefixtures("bundle")
def test_a_plot_is_one_page_with_every_step(talked: Project, zeus: Zeus) -> None:
    assert zeus("context", "show", "--plot", "plot.html").exit_code == 0
    (found,) = values_of(talked.folder / "plot.html")
    assert [each["number"] for each in found["steps"]] == [1, 2, 3, 4, 5, 6]
    assert found["totals"]["cost_usd"] == 1.5
    assert [step["number"] for step in found["steps"] if any(e["admitted"] for e in step["decisions"])]
    policies = ("--policy", "zeus.yaml", "--policy", "economy")
    session = found["session"]
    assert zeus("context", "backtest", session, *policies, "--plot", "two.html").exit_code == 0
    assert [each["session"] for each in values_of(talked.folder / "two.html")] == [
        f"{session} · zeus.yaml",
        f"{session} · economy",
    ]


@pytest.mark.usefixtures("bundle")
def test_a_plot_shows_escapes_and_no_secret_whatever_a_tool_is_called(tmp_path: Path) -> None:
    from zeus_runtime.cli.context.plots import write_plot
    from zeus_runtime.config.secrets.masking import Redactor

    odd = "</script><b>$\x07\x1b\u202e\ud800 blue-boat-4711 -->"
    secrets = Redactor({"blue-boat-4711": "TOKEN"})
    write_plot(tmp_path / "plot.html", [{"session": odd, odd: 1}], title=odd, redactor=secrets)
    text = (tmp_path / "plot.html").read_text("utf-8")
    assert "blue-boat" not in text
    assert not any(map(is_unseen, text.split("<style>")[0] + text.split("</style>")[1].split("<script>")[0]))
    assert "<title>&lt;/script&gt;&lt;b&gt;$\\x07\\x1b\\u202e\\ud800 " in text
    (found,) = values_of(tmp_path / "plot.html")
    assert found["session"].startswith("</script><b>$\x07\x1b\u202e\ud800 ")


def test_in_a_checkout_without_the_chart_a_plot_says_how_to_build_it(
    talked: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.cli.context import plots

    monkeypatch.setattr(plots, "BUNDLE", talked.folder)
    result = zeus("context", "show", "--plot", "plot.html")
    assert result.exit_code == 4
    assert "make web" in result.err


def trajectory(turns: int = 12) -> str:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages += [
            {"role": "user", "content": f"Order part-{turn:04} please. " + "It matters. " * 40},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": f"c{turn}",
                        "type": "function",
                        "function": {"name": "order", "arguments": json.dumps({"part": f"part-{turn:04}"})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "ordered " * 60},
            {"role": "assistant", "content": f"I ordered part-{turn:04}."},
        ]
    return json.dumps({"source": "test", "id": 1, "messages": messages})


def candidate(project: Project, name: str, middlewares: str, window: int = 272_000) -> Path:
    return project.write(
        f"{name}.yaml",
        f"""
        version: 1
        name: {name}
        model: gpt-5
        middlewares: {middlewares}
        profiles: {{models: {{gpt-5: {{max_input_tokens: {window}}}}}}}
        """,
    )


def test_a_backtest_compares_candidates_without_a_key_in_the_order_given(
    project: Project, zeus: Zeus
) -> None:
    project.write("talks.jsonl", trajectory())
    candidate(project, "whole", "[]")
    candidate(project, "short", "[{history: {max_messages: 6}}]")
    words = ("backtest", "--trajectories", "talks.jsonl", "--policy", "whole.yaml", "--policy", "short.yaml")
    result = zeus("context", *words, "--needle", "part-0000", "--format", "json")
    assert result.exit_code == 0, result.err
    whole, short = result.json["outcomes"]
    assert (whole["policy"], short["policy"]) == ("whole.yaml", "short.yaml")
    assert whole["steps"] == short["steps"] == 24
    assert whole["compactions"] == 0 < short["compactions"]
    assert short["sent_tokens"] < whole["sent_tokens"]
    assert whole["cost_usd"] > 0
    assert whole["read_tokens"] > 0
    assert whole["needles_kept"] == whole["needles_needed"] == 13
    assert short["needles_kept"] == 12
    assert "1.00" in zeus("context", *words).out


def test_a_backtest_is_the_same_every_time(project: Project, zeus: Zeus) -> None:
    project.write("talks.jsonl", trajectory())
    candidate(project, "short", "[{history: {max_messages: 6}}]")
    words = ("backtest", "--trajectories", "talks.jsonl", "--policy", "short.yaml", "--format", "json")
    assert zeus("context", *words).json == zeus("context", *words).json


def test_a_backtest_says_where_a_candidate_fails_the_window(project: Project, zeus: Zeus) -> None:
    project.write("talks.jsonl", trajectory())
    candidate(project, "small", "[]", window=4_000)
    words = ("backtest", "--trajectories", "talks.jsonl", "--policy", "small.yaml", "--format", "json")
    (found,) = zeus("context", *words).json["outcomes"]
    assert found["overflows"] > 0
    assert "maximum context length is 4000" in found["failure"]


def test_a_backtest_plays_a_stored_session_and_leaves_it_as_it_was(talked: Project, zeus: Zeus) -> None:
    session = zeus("sessions", "list", "--json").json[0]["session"]
    before = zeus("sessions", "show", session).out
    candidate(talked, "whole", "[]")
    result = zeus("context", "backtest", session, "--policy", "whole.yaml", "--format", "json")
    (found,) = result.json["outcomes"]
    assert found["session"] == session
    assert found["steps"] == 6
    assert zeus("sessions", "show", session).out == before
    assert len(zeus("sessions", "list", "--all", "--json").json) == 1


def test_chained_trajectories_are_one_long_session(project: Project, zeus: Zeus) -> None:
    project.write("talks.jsonl", "\n".join([trajectory(2), trajectory(3)]))
    candidate(project, "whole", "[]")
    words = ("backtest", "--trajectories", "talks.jsonl", "--policy", "whole.yaml", "--format", "json")
    assert [each["steps"] for each in zeus("context", *words).json["outcomes"]] == [4, 6]
    (one,) = zeus("context", *words, "--chain", "40").json["outcomes"]
    assert one["steps"] == 20


def test_show_names_the_files_a_section_is_from(project: Project, zeus: Zeus) -> None:
    project.write("AGENTS.md", "Use tabs.")
    project.agent("Done.", more="project_instructions: true\n")
    assert zeus("run", "zeus.yaml", "go").exit_code == 0
    assert "\nprofile is from /AGENTS.md\n" in zeus("context", "show").out
    assert zeus("context", "show", "--format", "json").json["files"] == {"profile": ["/AGENTS.md"]}
    assert "/AGENTS.md" in zeus("context", "explain", "profile").out
