"""The outcomes of an evaluation by case, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.escaping import utf8_text

if TYPE_CHECKING:
    from zeus_runtime.testing.cases.running import PlannedRun, RunOutcome


@dataclass(frozen=True)
class CaseReport:
    """The finished repeats of a case with one agent.

    Args:
        case, agent, model: as in ``RunOutcome``.
        passed: whether enough of them passed.
        pass_rate: the share of the finished repeats that passed.
        min_pass_rate: the share that must pass.
        runs: the repeats.
    """

    case: str
    agent: str
    model: str | None
    passed: bool
    pass_rate: float
    min_pass_rate: float
    runs: Sequence[RunOutcome]

    @property
    def is_error(self) -> bool:
        """Whether it did not pass, and no repeat of it completed."""
        return not self.passed and all(run.status == "error" for run in self.runs)

    @property
    def cost_usd(self) -> float | None:
        """What they cost, judging included, in US dollars; None if no price is known."""
        return sum_of(cost for run in self.runs for cost in (run.cost_usd, run.judge_cost_usd))


@dataclass(frozen=True)
class EvaluationReport:
    """An evaluation.

    Args:
        passed: whether every planned case has finished and passed.
        interrupted: whether it ended before all runs were done.
        planned: how many runs there were to do.
        cost_usd: of all runs, judging included, in US dollars; None if no price is known.
        cases: those of which at least one repeat has finished.
    """

    passed: bool
    interrupted: bool
    planned: int
    cost_usd: float | None
    cases: Sequence[CaseReport]


def reported(
    runs: Sequence[PlannedRun], done: Sequence[RunOutcome], *, default_rate: float, interrupted: bool = False
) -> EvaluationReport:
    """The report of an evaluation.

    Args:
        runs: all planned runs.
        done: the outcomes of those that have finished, in any order.
        default_rate: the share of repeats that must pass where a case names none.
    """
    finished = {(each.case, each.agent, each.model, each.number): each for each in done}
    grouped: dict[tuple[str, str, str | None], list[RunOutcome]] = {}
    rates: dict[tuple[str, str, str | None], float] = {}
    for run in runs:
        key = (run.case.name, run.agent.name, run.agent.model)
        if (outcome := finished.get((*key, run.number))) is None:
            continue
        grouped.setdefault(key, []).append(outcome)
        own = run.case.min_pass_rate
        rates[key] = default_rate if own is None else own
    cases = [_case(*key, outcomes, rates[key]) for key, outcomes in grouped.items()]
    is_whole = len(done) == len(runs) and not interrupted
    return EvaluationReport(
        passed=is_whole and all(case.passed for case in cases),
        interrupted=interrupted,
        planned=len(runs),
        cost_usd=sum_of(case.cost_usd for case in cases),
        cases=cases,
    )


def _case(
    name: str, agent: str, model: str | None, outcomes: Sequence[RunOutcome], least: float
) -> CaseReport:
    rate = sum(each.status == "passed" for each in outcomes) / len(outcomes)
    return CaseReport(name, agent, model, rate >= least, rate, least, outcomes)


def sum_of(costs: Any) -> float | None:
    """The sum of the known costs; None if none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def as_object(report: EvaluationReport) -> dict[str, Any]:
    """The report for programs."""
    return {
        "passed": report.passed,
        "interrupted": report.interrupted,
        "runs_planned": report.planned,
        "runs_done": sum(len(case.runs) for case in report.cases),
        "cost_usd": report.cost_usd,
        "cases": [{**vars(case), "cost_usd": case.cost_usd} for case in report.cases],
    }


def junit(report: EvaluationReport, mask: Callable[[str], str]) -> str:
    """The report as JUnit XML: a suite for each agent and model, and in it each case.

    Args:
        mask: masks secrets.
    """
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    def text(value: str) -> str:
        # What XML cannot hold is unseen too.
        return utf8_text(mask(value))

    root = Element("testsuites", _counts(report.cases))
    for agent, model in dict.fromkeys((case.agent, case.model) for case in report.cases):
        own = [case for case in report.cases if (case.agent, case.model) == (agent, model)]
        name = text(agent if model is None else f"{agent} with {model}")
        suite = SubElement(root, "testsuite", {"name": name, **_counts(own)})
        for case in own:
            place = {"name": text(case.case), "classname": name, "time": _seconds(case.runs)}
            element = SubElement(suite, "testcase", place)
            lines = [text(line) for line in _problems(case)]
            if not case.passed:
                tag = "error" if case.is_error else "failure"
                SubElement(element, tag, {"message": lines[0], "type": tag}).text = "\n".join(lines)
            answers = [text(run.answer) for run in case.runs if run.answer]
            told = [*(lines if case.passed else ()), *answers]
            if told:
                SubElement(element, "system-out").text = "\n\n".join(told)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _counts(cases: Sequence[CaseReport]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(not case.passed and not case.is_error for case in cases)),
        "errors": str(sum(case.is_error for case in cases)),
        "time": _seconds([run for case in cases for run in case.runs]),
    }


def _seconds(runs: Sequence[RunOutcome]) -> str:
    return f"{sum(run.seconds for run in runs):.3f}"


def _problems(case: CaseReport) -> Iterator[str]:
    """What went wrong, line by line; with several repeats, in which of them."""
    for run in case.runs:
        which = f"run {run.number}: " if len(case.runs) > 1 else ""
        for problem in (*([run.error] if run.error else ()), *run.findings):
            yield f"{which}{problem}"
