"""The outcomes of an evaluation by case, and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.escaping import escape
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.testing.cases.running import PlannedRun, RunOutcome

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    def cost_usd(self) -> float | None:
        """What they cost, judging included, in US dollars; None if no price is known."""
        return sum_of(cost for run in self.runs for cost in (run.cost_usd, run.judge_cost_usd))


@dataclass(frozen=True)
class Report:
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
) -> Report:
    """The report of an evaluation.

    Args:
        runs: all planned runs.
        done: the outcomes of the first of them, in the same order.
        default_rate: the share of repeats that must pass where a case names none.
    """
    grouped: dict[tuple[str, str, str | None], list[RunOutcome]] = {}
    rates: dict[tuple[str, str, str | None], float] = {}
    for run, outcome in zip(runs, done, strict=False):
        key = (outcome.case, outcome.agent, outcome.model)
        grouped.setdefault(key, []).append(outcome)
        own = run.case.min_pass_rate
        rates[key] = default_rate if own is None else own
    cases = [_case(*key, outcomes, rates[key]) for key, outcomes in grouped.items()]
    is_whole = len(done) == len(runs) and not interrupted
    return Report(
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


def as_object(report: Report) -> dict[str, Any]:
    """The report for programs."""
    return {
        "passed": report.passed,
        "interrupted": report.interrupted,
        "runs_planned": report.planned,
        "runs_done": sum(len(case.runs) for case in report.cases),
        "cost_usd": report.cost_usd,
        "cases": [{**vars(case), "cost_usd": case.cost_usd} for case in report.cases],
    }


def junit(report: Report, mask: Callable[[str], str]) -> str:
    """The report as JUnit XML: a suite for each agent and model, a test case for each run.

    Args:
        mask: masks secrets.
    """
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    def text(value: str) -> str:
        return _NOT_XML.sub(lambda found: escape(found[0]), mask(value))

    runs = [run for case in report.cases for run in case.runs]
    root = Element("testsuites", _counts(runs))
    for agent, model in dict.fromkeys((run.agent, run.model) for run in runs):
        own = [run for run in runs if (run.agent, run.model) == (agent, model)]
        name = text(agent if model is None else f"{agent} with {model}")
        suite = SubElement(root, "testsuite", {"name": name, **_counts(own)})
        for run in own:
            repeats = sum(each.case == run.case for each in own)
            title = text(run.case if repeats == 1 else f"{run.case} [{run.number}]")
            seconds = f"{run.seconds:.3f}"
            case = SubElement(suite, "testcase", {"name": title, "classname": name, "time": seconds})
            lines = [text(line) for line in _problems(run)]
            if lines:
                tag = "error" if run.status == "error" else "failure"
                problem = SubElement(case, tag, {"message": lines[0], "type": run.status})
                problem.text = "\n".join(lines)
            if run.answer:
                SubElement(case, "system-out").text = text(run.answer)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _counts(runs: Sequence[RunOutcome]) -> dict[str, str]:
    return {
        "tests": str(len(runs)),
        "failures": str(sum(run.status == "failed" for run in runs)),
        "errors": str(sum(run.status == "error" for run in runs)),
        "time": f"{sum(run.seconds for run in runs):.3f}",
    }


def _problems(run: RunOutcome) -> Iterator[str]:
    if run.error:
        yield run.error
    yield from map(str, run.findings)
