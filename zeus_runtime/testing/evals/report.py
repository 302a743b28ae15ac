"""What evaluations found: frozen values, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class EvaluationFinding:
    """One thing that is wrong.

    Args:
        kind: a short name: ``goal-lost``, ``asked-again``, ``orphan``.
        step: where: the model call of the run, or the message of a trajectory, counted from 1; 0 for the whole.
        message: one sentence.
        evidence: the text that shows it, shortened.
    """

    kind: str
    step: int
    message: str
    evidence: str = ""

    def __str__(self) -> str:
        where = f"step {self.step}: " if self.step else ""
        return f"{where}{self.kind}: {self.message}" + (f" [{self.evidence}]" if self.evidence else "")


@dataclass(frozen=True)
class Check:
    """One evaluation of one subject.

    Args:
        evaluation: ``goal``, ``needle``, ``stress`` or ``nested``.
        subject: ``all``, or the policy that ran alone.
        case: what of the evaluation, where it has several.
        findings: what is wrong; it passed if there is nothing.
        skipped: why it could not be asked of this config; empty if it was.
        steps: model calls of the run.
        compactions: how often what had been sent was changed.
    """

    evaluation: str
    subject: str
    case: str = ""
    findings: tuple[EvaluationFinding, ...] = ()
    skipped: str = ""
    steps: int = 0
    compactions: int = 0

    @property
    def outcome(self) -> Outcome:
        if self.findings:
            return "failed"
        return "skipped" if self.skipped else "passed"

    @property
    def name(self) -> str:
        return f"{self.evaluation}[{self.subject}{', ' + self.case if self.case else ''}]"


@dataclass(frozen=True)
class Report:
    """Every check of one config.

    Args:
        config: its ``name``.
        window_tokens: the input limit it was evaluated with.
        checks: in the order they ran.
    """

    config: str
    window_tokens: int
    checks: tuple[Check, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether something was checked and nothing failed."""
        outcomes = {check.outcome for check in self.checks}
        return "passed" in outcomes and "failed" not in outcomes

    @property
    def findings(self) -> tuple[EvaluationFinding, ...]:
        return tuple(finding for check in self.checks for finding in check.findings)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.config}, window of {self.window_tokens:,} tokens"
        for check in self.checks:
            more = check.skipped or f"{check.steps} steps, {check.compactions} compactions"
            yield f"{check.outcome:8} {check.name}: {more}"
            for finding in check.findings:
                yield f"         {finding}"
        counts = [
            f"{sum(c.outcome == name for c in self.checks)} {name}"
            for name in ("passed", "failed", "skipped")
        ]
        yield ", ".join(counts)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "config": self.config,
            "window_tokens": self.window_tokens,
            "passed": self.passed,
            "checks": [
                {
                    "evaluation": check.evaluation,
                    "subject": check.subject,
                    "case": check.case,
                    "outcome": check.outcome,
                    "skipped": check.skipped,
                    "steps": check.steps,
                    "compactions": check.compactions,
                    "findings": [vars(finding) for finding in check.findings],
                }
                for check in self.checks
            ],
        }
