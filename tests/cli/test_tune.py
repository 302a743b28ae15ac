"""``zeus context tune``: recorded conversations in, an overlay with figures and reasons out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Project, Zeus
from zeus_runtime.agent.tuning import written
from zeus_runtime.cli.context import tune_replays

EVICTION = "{eviction: {max_tokens: 20000}}"


def talk(number: int, turns: int, words: int = 2_500) -> str:
    """A conversation whose tool results are long and needed once: only their places matter later."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        name = f"part-{number}-{turn:04}"
        call = {"name": "order", "arguments": json.dumps({"part": name})}
        lines = "\n".join(f"row {each} of {name} is in the store" for each in range(words // 8))
        messages += [
            {"role": "user", "content": f"Order {name}."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": lines},
            {"role": "assistant", "content": f"I ordered {name}."},
        ]
    return json.dumps({"source": "talk", "id": number, "messages": messages})


@pytest.fixture
def tuned(project: Project) -> Project:
    """A project with a config and three conversations."""
    project.write("talks.jsonl", "\n".join(talk(number, 3 + number) for number in range(3)))
    project.write("zeus.yaml", f"version: 1\nname: seller\nmodel: gpt-5\nmiddlewares: [{EVICTION}, recall]\n")
    return project


BY_DEFAULT = ("context", "tune", "--trajectories", "talks.jsonl")
# Each worker imports everything once; tests of the search itself need none.
TUNE = (*BY_DEFAULT, "--workers", "1")
# Half of the search: enough to find what is cheaper, and to write it.
SHORT = (*TUNE, "--trials", "8")


def test_an_overlay_is_written_that_costs_what_it_says(tuned: Project, zeus: Zeus) -> None:
    more = "dedupe, {summarization: {max_trigger_tokens: 48000}}"
    tuned.write("zeus.yaml", f"version: 1\nmodel: gpt-5\nmiddlewares: [{EVICTION}, {more}, recall]\n")
    found = zeus(*TUNE, "--format", "json")
    assert found.exit_code == 0, found.err
    report = found.json
    assert report["tuned_on"] == ["talk 0", "talk 1"]
    assert report["held_out"] == ["talk 2"]
    for piece in ("tuned_on", "held_out"):
        now, then = report["present"][piece], report["tuned"][piece]
        assert then["cost_usd"] < now["cost_usd"]
        assert then["needles_kept"] >= 0.99 * now["needles_kept"] > 0
        assert then["overflows"] == 0
    assert all(each["saves"] > 0 for each in report["changes"])
    assert any(each["option"] == "eviction.max_tokens" for each in report["changes"])
    overlay = tuned.folder / "zeus.tuned.yaml"
    text = overlay.read_text()
    assert text.startswith("# Written by `zeus context tune`")
    assert "# Held out talk 2:" in text
    assert yaml.safe_load(text) == {"version": 1, "middlewares": report["middlewares"]}
    assert zeus("validate", "--env", "tuned").exit_code == 0
    # The same figures by a backtest of the overlay.
    tuned.write("whole.yaml", "version: 1\nextends: [./zeus.yaml, ./zeus.tuned.yaml]\n")
    words = (
        "context",
        "backtest",
        "--trajectories",
        "talks.jsonl",
        "--policy",
        "whole.yaml",
        "--format",
        "json",
    )
    outcomes = zeus(*words).json["outcomes"]
    assert outcomes[2]["cost_usd"] == pytest.approx(report["tuned"]["held_out"]["cost_usd"])
    assert outcomes[0]["cost_usd"] + outcomes[1]["cost_usd"] == pytest.approx(
        report["tuned"]["tuned_on"]["cost_usd"]
    )


def test_the_table_says_what_changed_and_how_to_use_it(tuned: Project, zeus: Zeus) -> None:
    found = zeus(*TUNE)
    assert found.exit_code == 0, found.err
    assert "eviction.max_tokens" in found.out
    assert "Written: zeus.tuned.yaml. Use it: zeus run --env tuned" in found.out
    assert "no further step helps" in found.out


def test_finished_trials_are_not_replayed_again(tuned: Project, zeus: Zeus) -> None:
    first = zeus(*TUNE, "--format", "json").json
    trials = tuned.folder / ".zeus/tune.jsonl"
    assert trials.stat().st_mode & 0o077 == 0
    with trials.open("a") as file:
        file.write('{"key": "cut o')
    again = zeus(*TUNE, "--format", "json").json
    assert (again["trials"], again["known_trials"] > 0) == (0, True)
    assert again["middlewares"] == first["middlewares"]
    assert again["tuned"] == first["tuned"]
    tuned.write("talks.jsonl", "\n".join(talk(number, 2 + number) for number in range(3)))
    assert zeus(*TUNE, "--trials", "1", "--format", "json").json["trials"] > 0, (
        "other sessions are other trials"
    )


def without_time(report: dict[str, Any]) -> dict[str, Any]:
    for piece in (*report["present"].values(), *report["tuned"].values()):
        if piece is not None:
            del piece["cpu_seconds"]
    return report


@pytest.mark.parametrize("words", [("--trials", "8"), ("--trials", "3", "--workers", "3")], ids=str)
def test_the_number_of_workers_changes_no_result(tuned: Project, zeus: Zeus, words: tuple[str, ...]) -> None:
    """One worker, and as many as there are processors or as the command says."""
    trials = tuned.folder / ".zeus/tune.jsonl"
    found = []
    for alone in (("--workers", "1"), ()):
        done = zeus(*BY_DEFAULT, *words, *alone, "--format", "json")
        assert done.exit_code == int(done.json["output"] is None), done.err
        found.append((without_time(done.json), done.err))
        trials.unlink()
    assert found[0] == found[1]


def test_what_workers_replayed_is_known_to_the_next_command(tuned: Project, zeus: Zeus) -> None:
    zeus(*TUNE, "--trials", "3", "--workers", "2")
    whole = zeus(*TUNE, "--workers", "1", "--format", "json").json
    assert whole["known_trials"] >= 3
    again = zeus(*TUNE, "--workers", "2", "--format", "json").json
    assert again["trials"] == 0
    assert without_time(again)["tuned"] == without_time(whole)["tuned"]


def test_a_worker_imports_nothing_from_the_working_directory(tuned: Project, zeus: Zeus) -> None:
    for name in ("pickle", "asyncio", "struct", "zeus_runtime"):
        tuned.write(f"{name}.py", "open('imported', 'w')\nraise SystemExit(9)\n")
    found = zeus(*TUNE, "--workers", "2", "--trials", "3")
    assert found.exit_code in (0, 1), found.err
    assert (tuned.folder / ".zeus/tune.jsonl").exists()
    assert not (tuned.folder / "imported").exists()


def test_a_worker_that_is_killed_ends_the_command_with_a_remedy(
    tuned: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker's interpreter ends before it reads its first order.
    monkeypatch.setenv("PYTHONHOME", str(tuned.folder / "nowhere"))
    found = zeus(*TUNE, "--workers", "2")
    assert found.exit_code == 2
    assert "a process that replayed a session ended (exit code 1)" in found.err
    assert "--workers 1" in found.err


def test_few_trials_are_enough_to_begin_and_the_next_command_goes_on(tuned: Project, zeus: Zeus) -> None:
    first = zeus(*TUNE, "--trials", "2", "--format", "json").json
    assert (first["trials"] <= 4, first["is_ended"]) == (True, False)
    whole = zeus(*TUNE, "--format", "json").json
    assert whole["is_ended"]
    assert whole["known_trials"] >= 2


def test_where_nothing_is_cheaper_nothing_is_written(tuned: Project, zeus: Zeus) -> None:
    tuned.write("talks.jsonl", "\n".join(talk(number, 4, words=40) for number in range(3)))
    found = zeus(*TUNE)
    assert found.exit_code == 1
    assert "No candidate was cheaper, so nothing is written." in found.out
    assert not (tuned.folder / "zeus.tuned.yaml").exists()


def test_what_is_not_cheaper_on_the_held_out_session_is_not_written(tuned: Project, zeus: Zeus) -> None:
    """The held-out session has short results, which no eviction makes cheaper."""
    texts = [talk(0, 6), talk(1, 6), talk(2, 4, words=40)]
    tuned.write("talks.jsonl", "\n".join(texts))
    found = zeus(*TUNE)
    assert found.exit_code == 1
    assert "On the held-out part: the tuned config is not cheaper there. Nothing is written." in found.out
    assert not (tuned.folder / "zeus.tuned.yaml").exists()


def test_a_lone_session_is_held_out_in_part(tuned: Project, zeus: Zeus) -> None:
    tuned.write("talks.jsonl", talk(0, 9))
    found = zeus(*SHORT, "--format", "json")
    assert found.exit_code == 0, found.err
    assert found.json["held_out"] == ["talk 0, from message 26"]


def test_a_file_of_a_person_is_not_overwritten_unless_forced(tuned: Project, zeus: Zeus) -> None:
    tuned.write("zeus.tuned.yaml", "version: 1\n")
    found = zeus(*SHORT)
    assert found.exit_code == 2
    assert "was not written by this command" in found.err
    assert "--force" in found.err
    assert (tuned.folder / "zeus.tuned.yaml").read_text() == "version: 1\n"
    assert zeus(*SHORT, "--force").exit_code == 0
    assert zeus(*SHORT).exit_code == 0, "its own file it writes again"


def test_a_text_with_a_dollar_is_no_variable_in_what_is_tried_and_written(
    tuned: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []
    plan = tune_replays.Replays.plan

    def planned(replays: Any, lines: Any, environ: Any) -> Any:
        found = plan(replays, lines, environ)
        tried.append((written(lines)[1], found and found.middlewares[1].value))
        return found

    monkeypatch.setattr(tune_replays.Replays, "plan", planned)
    rule = "approve: {deny: [{run_command: {command: ['rm $${HOME}/*', 'a $1 ${PLACE} $${NOT_SET}']}}]}"
    tuned.write(".env", "PLACE=$${x}\n")
    tuned.write(
        "zeus.yaml", f"version: 1\nmodel: gpt-5\ntools: [shell]\nmiddlewares: [{EVICTION}, {{{rule}}}]\n"
    )
    zeus(*TUNE, "--trials", "1")
    line, options = tried[0]
    # The overlay's lines are those of what was tried.
    assert line["approve"]["deny"][0]["run_command"]["command"][0] == "rm $${HOME}/*"
    assert "'rm ${HOME}/*', 'a $1 $${x} ${NOT_SET}'" in repr(options)


def test_a_preset_gets_a_config_of_its_own(tuned: Project, zeus: Zeus) -> None:
    (tuned.folder / "zeus.yaml").unlink()
    found = zeus(*TUNE, "--config", "default", "--set", "model=gpt-5", "--trials", "12")
    assert found.exit_code == 0, found.err + found.out
    written = yaml.safe_load((tuned.folder / "zeus.tuned.yaml").read_text())
    assert written["extends"] == "default"
    assert "Use it: zeus run zeus.tuned.yaml" in found.out
    assert zeus("validate", "zeus.tuned.yaml").exit_code == 0


def test_another_file_extends_the_config(tuned: Project, zeus: Zeus) -> None:
    (tuned.folder / "configs").mkdir()
    assert zeus(*SHORT, "--output", "configs/cheap.yaml").exit_code == 0
    assert yaml.safe_load((tuned.folder / "configs/cheap.yaml").read_text())["extends"] == "../zeus.yaml"
    assert zeus("validate", "configs/cheap.yaml").exit_code == 0


def test_what_was_measured_over_an_overlay_extends_it(tuned: Project, zeus: Zeus) -> None:
    tuned.write("zeus.prod.yaml", "version: 1\nlimits: {max_steps: 7}\n")
    sets = ("--set", "limits.timeout_seconds=9", "--set", "metadata={headers: {X: plain-word}}")
    found = zeus(*SHORT, "--env", "prod", *sets)
    assert found.exit_code == 0, found.err
    text = (tuned.folder / "zeus.tuned.yaml").read_text()
    assert yaml.safe_load(text)["extends"] == "./zeus.prod.yaml"
    assert "# Measured with --set limits.timeout_seconds=9, which is not in this file." in text
    assert "plain-word" not in text
    plan = zeus("plan", "--env", "tuned", "--all").out
    assert "max_steps" in plan
    assert zeus("validate", "--env", "tuned").exit_code == 0


def test_a_name_of_a_session_stays_in_its_comment(tuned: Project, zeus: Zeus) -> None:
    rows = [json.loads(talk(number, 3 + number)) for number in range(3)]
    rows[0]["source"] = "a\nmodel: evil\n#"
    tuned.write("talks.jsonl", "\n".join(map(json.dumps, rows)))
    assert zeus(*SHORT).exit_code == 0
    text = (tuned.folder / "zeus.tuned.yaml").read_text()
    assert "a\\nmodel: evil" in text
    assert set(yaml.safe_load(text)) == {"version", "middlewares"}


def test_a_stored_session_is_tuned_on(project: Project, zeus: Zeus) -> None:
    lines = "\\n".join(f"row {each} of the store" for each in range(400))
    steps = [step for _ in range(6) for step in ({"call": "echo", "args": {"text": lines}}, "Done.")]
    project.agent(*steps, more="middlewares: [{eviction: {max_tokens: 20000, exclude: []}}]\n")
    assert zeus("run", "zeus.yaml", "go").exit_code == 0
    for _ in range(5):
        assert zeus("run", "--continue", "zeus.yaml", "again").exit_code == 0
    session = zeus("sessions", "list", "--json").json[0]["session"]
    found = zeus("context", "tune", session, "--workers", "1", "--format", "json")
    assert found.exit_code in (0, 1), found.err
    assert found.json["held_out"][0].startswith(f"{session}, from message ")
    assert "no price" in found.err
    assert found.json["present"]["tuned_on"]["cost_usd"] is None
    assert len(zeus("sessions", "list", "--all", "--json").json) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "there is nothing to tune on"),
        (("session_none",), "has no session yet"),
        (("--trajectories", "none.jsonl"), "cannot be read"),
        (("x", "--chain", "9"), "--chain is about trajectories"),
        (("--trajectories", "talks.jsonl", "--keep", "1.5"), "0<=x<=1"),
        (("--trajectories", "talks.jsonl", "--output", "no/where.yaml"), "there is no folder"),
        (("--trajectories", "short.jsonl"), "too few steps"),
        (
            ("--trajectories", "talks.jsonl", "--set", "middlewares=[recall]"),
            "no context policy with an option",
        ),
        (
            ("--trajectories", "talks.jsonl", "--set", "middlewares=[{eviction: {max_tokens: 0}}]"),
            "max_tokens",
        ),
    ],
    ids=str,
)
def test_bad_input_says_what_is_wrong(tuned: Project, zeus: Zeus, words: tuple[str, ...], says: str) -> None:
    tuned.write("short.jsonl", talk(0, 1))
    found = zeus("context", "tune", *words)
    assert found.exit_code in (2, 3), found.err
    assert says in found.err + found.out
    assert "Traceback" not in found.err
    assert not (tuned.folder / "zeus.tuned.yaml").exists()


def test_an_option_that_is_a_secret_is_not_written_into_an_overlay(
    tuned: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "Zq7Xw9Lm3Pf5Rt8Vb2Nc")
    tuned.write(
        "zeus.yaml",
        "version: 1\nmodel: gpt-5\nmiddlewares: [{truncation: {truncation_text: '${A_TOKEN}'}}, eviction]\n",
    )
    found = zeus(*TUNE)
    assert found.exit_code == 2
    assert "an option of a middleware is a secret" in found.err


def test_a_link_where_the_trials_are_kept_is_not_followed(tuned: Project, zeus: Zeus) -> None:
    (tuned.folder / ".zeus").mkdir()
    tuned.write("mine.txt", "mine")
    (tuned.folder / ".zeus/tune.jsonl").symlink_to(tuned.folder / "mine.txt")
    found = zeus(*TUNE)
    assert found.exit_code == 4
    assert "tune.jsonl is a link" in found.err
    assert (tuned.folder / "mine.txt").read_text() == "mine"


def test_no_overlay_is_written_through_a_link_that_nobody_named(
    tuned: Project, zeus: Zeus, tmp_path: Path
) -> None:
    (tuned.folder / "zeus.tuned.yaml").symlink_to(tmp_path / "new.yaml")
    found = zeus(*TUNE)
    assert (found.exit_code, f"is a link to {tmp_path / 'new.yaml'}" in found.err) == (2, True), found.err


@pytest.mark.parametrize("workers", ["1", "3"])
def test_ctrl_c_ends_the_search_and_keeps_the_trials(tuned: Project, workers: str) -> None:
    words = [sys.executable, "-m", "zeus_runtime", *TUNE, "--format", "json", "--workers", workers]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        words, cwd=tuned.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    trials = tuned.folder / ".zeus/tune.jsonl"
    try:
        for _ in range(600):
            if trials.exists() and trials.read_text().count("key") >= 3:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (0, 1), err
    assert "the search ends after this trial" in err
    assert json.loads(out)["is_ended"] is False
    assert Path(trials).read_text().count("key") >= 3
    assert no_process_of(process.pid)


def no_process_of(pid: int) -> bool:
    """Whether no worker of that process is left (each has its starter's id among its words)."""
    found = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    return not any(line.endswith(f"tune_replays {pid}") for line in found.splitlines())


def test_a_second_ctrl_c_ends_the_command_and_its_workers(tuned: Project) -> None:
    tuned.write("talks.jsonl", "\n".join(talk(number, 60) for number in range(3)))
    words = [sys.executable, "-m", "zeus_runtime", *TUNE, "--workers", "2"]
    process = subprocess.Popen(words, cwd=tuned.folder, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(1_200):
            if not no_process_of(process.pid):
                break
            time.sleep(0.05)
        assert not no_process_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "the search ends after this trial" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert no_process_of(process.pid)
