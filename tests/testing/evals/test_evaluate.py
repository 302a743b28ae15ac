"""Evaluations of configs: shipped presets and every bundled policy pass, and configs that lose something are caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from zeus_runtime import Agent, ConfigError
from zeus_runtime.errors import UsageError
from zeus_runtime.plan.validated import check
from zeus_runtime.testing.evals import Check, EvaluationFinding, Report, evaluate, stressed
from zeus_runtime.testing.evals.__main__ import main
from zeus_runtime.testing.evals.evaluation import stress
from zeus_runtime.testing.evals.goal import goal
from zeus_runtime.testing.evals.needle import CASES, needle
from zeus_runtime.testing.evals.nested import nested
from zeus_runtime.testing.evals.stress import yaml_of
from zeus_runtime.testing.evals.subject import Subject

WINDOW = 8_000

LOSSY = '''
from dataclasses import dataclass
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.context import DropBefore, Evict, Summarize, arrivals
from zeus_runtime.plugin.middleware import Middleware

class Forget(Middleware):
    """Drops all but the last messages once there are twenty."""
    async def edits(self, view, budget):
        if len(view) < 20:
            return ()
        seq = next(seq for seq in range(view.upto - 5, view.upto + 1) if view.original(seq).type != "tool")
        return [DropBefore("forget", "too long", seq)]

class Hide(Middleware):
    """Puts results of some size away and does not say where."""
    seen = 0
    async def edits(self, view, budget):
        new, self.seen = arrivals(view, self.seen), view.upto
        return [
            Evict("hide", "large", item.seq, "[a large result]", f"/large_tool_results/hidden{item.seq}")
            for item in new if item.source.startswith("tool:") and item.tokens > 400
        ]

class Shared(Middleware):
    """Keeps what it saw for all agents of the process, and sums up what is not its own."""
    seen = {}
    def __init__(self, options, context):
        self.session = context.session
    async def edits(self, view, budget):
        texts = self.seen.setdefault(self.session, [])
        texts += [str(item.message.content)[:200] for item in arrivals(view, len(texts))]
        if len(view) < 12:
            return ()
        seq = next(seq for seq in range(view.upto - 5, view.upto + 1) if view.original(seq).type != "tool")
        told = " ".join(text for texts in self.seen.values() for text in texts)
        return [Summarize("shared", "too long", seq, told[:2000], f"/conversation_history/{self.session}.md")]

@hookimpl
def register_middlewares():
    return [
        Component("shared", create=Shared),
        Component("forget", create=Forget),
        Component("hide", create=Hide),
    ]
'''


def config(folder: Path, middlewares: str, *, tools: str = "[filesystem, todos]", plugin: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "zeus.yaml"
    files = ""
    if plugin:
        (folder / "lossy.py").write_text(plugin)
        files = "plugins: {files: [lossy.py]}\n"
    path.write_text(
        f"version: 1\nname: tested\nmodel: gpt-4o\ntools: {tools}\n{files}middlewares: {middlewares}\n"
    )
    return path


def subject(folder: Path, middlewares: str, window: int = WINDOW, name: str = "all", **more: str) -> Subject:
    path = config(folder, middlewares, **more)
    return Subject(check(path, directory=folder, environ={}), name, window)


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def kinds(check: Check) -> set[str]:
    return {finding.kind for finding in check.findings}


ALONE = {
    "eviction": ("large result", "eviction: {max_fraction: 0.125}"),
    "truncation": ("long argument", "truncation: {trigger: {fraction: 0.5}, min_saving_tokens: 0}"),
    "dedupe": ("read twice", "dedupe"),
    "history": ("earlier turn", "history: {max_messages: 6, chunk: 2}"),
    "summarization": ("old result", "summarization"),
}
TOGETHER = ", ".join(options for _, options in ALONE.values())


@pytest.mark.parametrize("policy", ALONE)
async def test_a_needle_that_one_policy_took_is_recovered_by_recall_and_by_read_file(
    tmp_path: Path, policy: str
) -> None:
    case, options = ALONE[policy]
    found = await needle(subject(tmp_path, f"[recall, {options}]", 16_000), tmp_path / "run", 0, case)
    assert found.outcome == "passed", found


@pytest.mark.parametrize("policy", [name for name in ALONE if name != "history"])
async def test_it_is_recovered_by_the_path_that_is_shown_without_recall_too(
    tmp_path: Path, policy: str
) -> None:
    case, options = ALONE[policy]
    found = await needle(subject(tmp_path, f"[{options}]", 16_000), tmp_path / "run", 0, case)
    assert found.outcome == "passed", found


@pytest.mark.parametrize("case", CASES)
async def test_with_all_policies_together_every_needle_is_recovered(tmp_path: Path, case: str) -> None:
    found = await needle(subject(tmp_path, f"[recall, {TOGETHER}]"), tmp_path / "run", 0, case)
    assert found.outcome == "passed", found


@pytest.mark.parametrize("policy", ALONE)
async def test_every_law_holds_under_stress_for_each_policy_alone(tmp_path: Path, policy: str) -> None:
    lines = f"[pins, {ALONE[policy][1]}]"
    found = await stress(subject(tmp_path, lines, 16_000), tmp_path / "run", 0, 0.25)
    assert found.outcome == "passed", found


@pytest.mark.parametrize("share", [0.10, 0.25])
async def test_every_law_holds_under_stress_with_all_policies_together(tmp_path: Path, share: float) -> None:
    lines = f"[pins, recall, {TOGETHER}]"
    found = await stress(subject(tmp_path, lines, 16_000), tmp_path / "run", 0, share)
    assert found.outcome == "passed", found
    assert found.compactions > 3


async def test_the_goal_survives_with_pins_and_without(tmp_path: Path) -> None:
    for lines in ("[summarization]", "[pins, summarization]"):
        found = await goal(subject(tmp_path, lines), tmp_path / lines, 0)
        assert (found.outcome, found.compactions) == ("passed", 2), found


async def test_a_policy_that_mixes_two_agents_up_is_caught(tmp_path: Path) -> None:
    found = await nested(subject(tmp_path, "[shared]", plugin=LOSSY), tmp_path / "run", 0)
    assert found.outcome == "failed"
    assert "mixed" in kinds(found), found


async def test_nested_agents_are_independent(tmp_path: Path) -> None:
    lines = "[pins, recall, eviction: {max_tokens: 300}, summarization: {trigger: {fraction: 0.6}}]"
    found = await nested(subject(tmp_path, lines), tmp_path / "run", 0)
    assert found.outcome == "passed", found
    assert found.compactions >= 4


async def test_the_default_preset_passes_each_policy_alone_and_all_together(tmp_path: Path) -> None:
    asked = ("goal", "needle", "nested")
    report = await evaluate(
        "default", directory=tmp_path, environ={}, window_tokens=WINDOW, evaluations=asked
    )
    assert report.passed, str(report)
    assert {each.evaluation for each in report.checks} == set(asked)
    assert {each.subject for each in report.checks} == {
        "all",
        "skills",
        "local_context",
        "eviction",
        "dedupe",
        "truncation",
        "summarization",
    }
    assert names_in(tmp_path) == [], "an evaluation leaves nothing where it is called"


@pytest.mark.parametrize("preset", ["default", "economy", "zeus", "deepagents"])
async def test_a_shipped_preset_holds_every_law_under_stress(tmp_path: Path, preset: str) -> None:
    shipped = Subject(check(preset, directory=tmp_path, environ={}), window_tokens=WINDOW)
    found = await stress(shipped, tmp_path / "run", 0, 0.15)
    assert found.outcome == "passed", found


async def test_a_policy_that_forgets_the_goal_is_caught(tmp_path: Path) -> None:
    found = await goal(subject(tmp_path, "[forget]", plugin=LOSSY), tmp_path / "run", 0)
    assert {"goal-lost", "rule-lost"} <= kinds(found)
    assert all(finding.step > 2 for finding in found.findings)
    assert any(finding.evidence.startswith("GOAL-") for finding in found.findings)


async def test_a_summariser_that_is_not_shown_the_goal_is_caught(tmp_path: Path) -> None:
    lines = "[summarization: {trim_tokens_to_summarize: 100, user_message_tokens: 0}]"
    assert "goal-lost" in kinds(await goal(subject(tmp_path, lines), tmp_path / "run", 0))


async def test_the_users_repeated_words_keep_a_goal_that_the_summariser_is_not_shown(tmp_path: Path) -> None:
    lines = "[summarization: {trim_tokens_to_summarize: 100}]"
    assert "goal-lost" not in kinds(await goal(subject(tmp_path, lines), tmp_path / "run", 0))


async def test_a_policy_that_hides_a_result_without_a_path_is_caught(tmp_path: Path) -> None:
    hiding = subject(tmp_path, "[hide]", plugin=LOSSY)
    assert kinds(await needle(hiding, tmp_path / "needle", 0, "large result")) == {
        "needle-lost",
        "original-lost",
    }


async def test_history_without_recall_is_caught_since_nothing_shows_where_it_went(tmp_path: Path) -> None:
    found = await needle(
        subject(tmp_path, "[history: {max_messages: 6}]"), tmp_path / "run", 0, "earlier turn"
    )
    assert kinds(found) == {"needle-lost"}
    assert "no recall" in found.findings[0].message


async def test_no_policy_at_all_is_nothing_to_ask_and_does_not_pass(tmp_path: Path) -> None:
    report = await evaluate(
        config(tmp_path, "[]"),
        directory=tmp_path,
        environ={},
        window_tokens=WINDOW,
        evaluations=["goal", "stress"],
    )
    assert {check.outcome for check in report.checks} == {"skipped"}
    assert not report.passed


async def test_without_read_file_and_recall_what_left_is_lost(tmp_path: Path) -> None:
    blind = subject(tmp_path, "[summarization]", tools="[todos]")
    found = await needle(blind, tmp_path / "run", 0, "old result")
    assert "there is no read_file" in found.findings[0].message


async def test_tools_of_the_config_are_not_called_and_its_model_is_not_opened(tmp_path: Path) -> None:
    plugin = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="write")
async def launch() -> str:
    """Launch."""
    raise AssertionError("it was called")

def broken(options, context):
    raise AssertionError("it was opened")

@hookimpl
def register_tools():
    return [Component("rocket", create=lambda options, context: [launch])]

@hookimpl
def register_models():
    return [Component("real", create=broken)]
'''
    path = config(tmp_path, "[summarization: {model: {real: {}}}]", tools="[rocket]", plugin=plugin)
    path.write_text(path.read_text().replace("model: gpt-4o", "model: {real: {}}"))
    report = await evaluate(path, directory=tmp_path, environ={}, window_tokens=WINDOW, evaluations=["goal"])
    assert report.passed, str(report)
    assert not (tmp_path / ".zeus").exists()


async def test_the_same_seed_gives_the_same_report(tmp_path: Path) -> None:
    one, two = [
        await goal(subject(tmp_path, "[summarization]"), tmp_path / str(number), 7) for number in range(2)
    ]
    assert one == two


def plan_of(folder: Path, middlewares: str) -> Agent:
    return Agent.from_config(config(folder, middlewares), directory=folder, environ={})


def test_stress_lowers_every_trigger_in_proportion_and_leaves_the_rest(tmp_path: Path) -> None:
    lines = (
        "[pins: {max_tokens: 900}, eviction: {tools: {ls: null, grep: 5000}, max_user_tokens: null},"
        " truncation: {keep_chars: 7}, summarization: {max_trigger_tokens: 900, trim_tokens_to_summarize: 50},"
        " history: {max_messages: 3}, caching]"
    )
    plan = plan_of(tmp_path, lines).plan
    low = {ref.name: ref.options for ref in stressed(plan, 0.2).middlewares}
    assert low["pins"] == {"max_tokens": 900}
    assert low["eviction"] == {
        "tools": {"ls": None, "grep": 1_280},
        "max_tokens": 1_280,
        "max_user_tokens": None,
    }
    assert low["truncation"]["trigger"] == {"tokens": 25_600}
    assert low["truncation"]["keep"] == {"tokens": 7_680}
    assert low["truncation"]["keep_chars"] == 7
    assert low["summarization"]["trigger"] == {"tokens": 25_600}
    assert low["summarization"]["max_trigger_tokens"] == 900
    assert low["history"] == {"max_messages": 3, "chunk": 2}
    assert low["caching"] == {}


def test_a_stressed_config_is_valid_yaml_that_runs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"[recall, {TOGETHER}]").plan
    (tmp_path / "zeus.stress.yaml").write_text(yaml_of(stressed(plan).middlewares))
    again = Agent.from_config(tmp_path / "zeus.yaml", env="stress", directory=tmp_path, environ={}).plan
    summarization = next(each for each in again.middlewares if each.name == "summarization")
    assert summarization.options["trigger"]["tokens"] == round(0.15 * 128_000)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_another_share_is_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(UsageError):
        stressed(plan_of(tmp_path, "[]").plan, share)


async def test_bad_input_is_an_error_and_no_report(tmp_path: Path) -> None:
    path = config(tmp_path, "[sumarization]")
    with pytest.raises(ConfigError):
        await evaluate(path, directory=tmp_path, environ={})
    with pytest.raises(UsageError, match="no evaluation 'gaol'"):
        await evaluate(path, directory=tmp_path, environ={}, evaluations=["gaol"])
    with pytest.raises(UsageError, match="holds no work"):
        await evaluate(path, directory=tmp_path, environ={}, window_tokens=100)


def test_an_option_that_is_a_secret_is_not_written_into_an_overlay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_TOKEN", "Zq7Xw9Lm3Pf5Rt8Vb2Nc")
    path = config(tmp_path, "[{truncation: {truncation_text: '${A_TOKEN}'}}]")
    assert main([str(path), "--write-stressed", "low.yaml"]) == 2
    assert "an option of a middleware is a secret" in capsys.readouterr().err
    assert names_in(tmp_path) == ["zeus.yaml"]


def test_a_report_passes_only_if_something_was_asked_and_nothing_failed() -> None:
    good, idle = Check("goal", "all", steps=3), Check("goal", "x", skipped="nothing")
    bad = Check(
        "needle", "all", "old result", findings=(EvaluationFinding("needle-lost", 2, "gone", "text"),)
    )
    assert Report("c", 1, (good, idle)).passed
    assert not Report("c", 1, (idle,)).passed
    report = Report("c", 8_000, (good, idle, bad))
    assert not report.passed
    assert "failed   needle[all, old result]" in str(report)
    assert "step 2: needle-lost: gone [text]" in str(report)
    assert json.loads(json.dumps(report.to_json()))["checks"][2]["findings"][0]["kind"] == "needle-lost"


def test_the_command_prints_the_report_and_its_exit_code_says_how_it_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good, bad = config(tmp_path / "good", "[summarization]"), config(tmp_path / "bad", "[sumarization]")
    assert main([str(good), "--window", "8000", "--only", "goal", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True
    assert main([str(config(tmp_path / "none", "[]")), "--window", "8000", "--only", "goal"]) == 5
    assert "skipped  goal[all]" in capsys.readouterr().out
    assert main([str(bad)]) == 3
    assert "did you mean" in capsys.readouterr().err
    assert main([str(good), "--window", "7"]) == 2
    assert main([str(good), "--write-stressed", "low.yaml"]) == 0
    assert yaml.safe_load(Path("low.yaml").read_text())["middlewares"][0]["summarization"]["trigger"]
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
