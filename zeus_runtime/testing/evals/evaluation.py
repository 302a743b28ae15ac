"""The one entry point: every evaluation of a config, each policy alone and all together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import UsageError
from zeus_runtime.process_path import given_environ
from zeus_runtime.testing.evals.laws import asserted, changed, compactions, short
from zeus_runtime.testing.evals.report import Check, EvaluationFinding, Report
from zeus_runtime.testing.evals.subject import Subject, policies, running
from zeus_runtime.testing.evals.work import Desk, faithful
from zeus_runtime.testing.own_folder import own_folder

if TYPE_CHECKING:
    from zeus_runtime.config import Ref

EVALUATIONS: Final = ("goal", "needle", "stress", "nested")

COMPANIONS: Final = frozenset({"recall", "pins"})
"""Policies that stay when another one is tested alone: the way to read originals back, and the pins."""

_PLAIN_SHARE: Final = 0.6
"""How much of the window the work of the stress comparison takes in all."""

_TURNS: Final = 4
"""Short turns that follow the work, for policies that act where a turn begins."""


async def evaluate(
    config: str | Path | None = None,
    *,
    env: str | None = None,
    sets: tuple[str, ...] = (),
    directory: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    evaluations: Collection[str] = EVALUATIONS,
    window_tokens: int | None = None,
    share: float = 0.15,
    seed: int = 0,
) -> Report:
    """Evaluate a config offline: its own plan, prompt and policies, a scripted model, tools that do nothing real.

    Args:
        config, env, sets, directory, environ: as for ``Agent.from_config``.
        evaluations: some of ``EVALUATIONS``.
        window_tokens: an input limit instead of the model's own, 2,000 at least: small ones are faster.
        share: of the input limit, where stress puts the triggers: 0.10 to 0.25.
        seed: of the texts; the same seed gives the same run.

    Raises:
        ConfigError: the config is invalid, with every problem.
        MissingError: a plugin, dependency or file is not there.
        UsageError: there is no such evaluation, or the window is too small for any.
    """

    from zeus_runtime.plan.validated import check

    if unknown := [name for name in evaluations if name not in EVALUATIONS]:
        raise UsageError(f"there is no evaluation {unknown[0]!r}; there are {', '.join(EVALUATIONS)}")
    if window_tokens is not None and window_tokens < 2_000:
        raise UsageError(f"a window of {window_tokens:,} tokens holds no work", remedy="Give 2,000 or more.")
    checked = check(
        config,
        env=env,
        sets=sets,
        directory=Path.cwd() / (directory or ""),
        environ=given_environ() if environ is None else environ,
    )
    subject = Subject(checked, window_tokens=window_tokens)
    with own_folder("zeus-evals-") as folder:
        window = subject.plan(folder / "look").profile.max_input_tokens
        checks = [each async for each in _checks(subject, folder, evaluations, share, seed)]
    return Report(subject.config.name, window, tuple(checks))


async def _checks(
    subject: Subject, folder: Path, evaluations: Collection[str], share: float, seed: int
) -> AsyncIterator[Check]:
    from zeus_runtime.testing.evals.goal import goal
    from zeus_runtime.testing.evals.needle import CASES, OWN_CASE, needle
    from zeus_runtime.testing.evals.nested import nested

    number = 0

    def place() -> Path:
        nonlocal number
        number += 1
        return folder / str(number)

    subjects = [subject, *alone(subject, place())]
    for each in subjects:
        if "goal" in evaluations:
            yield await goal(each, place(), seed)
        if "needle" in evaluations:
            for case in CASES if each.name == "all" else OWN_CASE.get(each.name, tuple(CASES)):
                yield await needle(each, place(), seed, case)
        if "stress" in evaluations:
            yield await stress(each, place(), seed, share)
    if "nested" in evaluations:
        yield await nested(under_stress(subject, place(), share), place(), seed)


def alone(subject: Subject, folder: Path) -> Iterator[Subject]:
    """The subject with one policy at a time; none where there is one only."""
    proposing = [name for name in policies(subject, folder) if name not in COMPANIONS]
    for name in proposing if len(proposing) > 1 else ():
        lines = [ref for ref in subject.config.middlewares if ref.name == name or ref.name in COMPANIONS]
        yield subject.override(name=name, middlewares=lines)


def under_stress(subject: Subject, folder: Path, share: float) -> Subject:
    """The subject with its triggers lowered (``stressed``)."""
    from zeus_runtime.testing.evals.stress import stressed

    lines: tuple[Ref, ...] = stressed(subject.plan(folder), share).middlewares
    return subject.override(middlewares=lines)


async def stress(subject: Subject, folder: Path, seed: int, share: float) -> Check:
    """Whether every law holds with lowered triggers, and the run ends with the answer of the run without."""
    from zeus_runtime.testing.evals.goal import EVERY

    window = subject.plan(folder / "look").profile.max_input_tokens
    desk = Desk(window)
    steps = int(_PLAIN_SHARE * window / (desk.filler_tokens + desk.large_tokens / EVERY))
    plain = await _worked(subject, folder / "plain", seed, steps)
    low = await _worked(under_stress(subject, folder / "look", share), folder / "stressed", seed, steps)
    found = [each for each in (plain.answer, low.answer) if isinstance(each, EvaluationFinding)]
    if not found and low.answer != plain.answer:
        told = f"the run under stress ends with another answer than {short(str(plain.answer))!r}"
        found.append(EvaluationFinding("other-answer", low.steps, told, short(str(low.answer))))
    found += low.broken
    skipped = "" if low.changed or found else "nothing was shed"
    return Check("stress", subject.name, f"{share:.0%}", tuple(found), skipped, low.steps, low.compactions)


@dataclass(frozen=True)
class _Worked:
    """A finished session: the answer to its task, the laws that were broken, its steps, and what was shed."""

    answer: str | EvaluationFinding
    broken: tuple[EvaluationFinding, ...]
    steps: int
    compactions: int
    changed: int


async def _worked(subject: Subject, folder: Path, seed: int, steps: int) -> _Worked:
    from zeus_runtime.testing.evals.goal import new_task, script

    desk = Desk(subject.plan(folder).profile.max_input_tokens, seed)
    task = new_task(desk)
    async with running(subject, folder, script(task, desk, steps), faithful, desk.tools()) as bench:
        session: str | None = None
        answer: str | EvaluationFinding = ""
        for prompt in task.prompts:
            session, answer = await bench.answer(prompt, session)
            if isinstance(answer, EvaluationFinding):
                break
        assert session is not None
        for number in range(0 if isinstance(answer, EvaluationFinding) else _TURNS):
            await bench.run(f"Number {number} is {number * number}.", session)
        history = await bench.agent.history(session)
    turns = bench.provider.turns
    broken = asserted(bench.provider, history, bench.files, session)
    return _Worked(answer, broken, len(turns), len(compactions(turns)), changed(turns))
