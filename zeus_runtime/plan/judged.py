"""Whether a config is valid: every problem, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.config import ConfigError, Diagnostic
from zeus_runtime.config.yaml.tree import Mark
from zeus_runtime.errors import ZeusError

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


class Judged(NamedTuple):
    """The outcome of a check.

    Args:
        exit_code: of `zeus validate`: 0 for a valid config.
        diagnostics: errors and warnings.
        source: the config's name; None for one that could not be read.
    """

    exit_code: int
    diagnostics: Sequence[Diagnostic]
    source: str | None = None


def judged(
    read: Callable[[], Checked], *, strict: bool = False, mask: Callable[[str], str] = lambda text: text
) -> Judged:
    """Read, check and plan a config; nothing is run.

    Args:
        strict: whether a warning counts as an error.
        mask: masks secrets in a message that has no position in the config.
    """
    from zeus_runtime.plan.plan import make_plan

    try:
        checked = read()
        found = _warnings(checked, make_plan(checked))
    except ConfigError as error:
        return Judged(error.exit_code, error.diagnostics)
    except ZeusError as error:
        only = Diagnostic(error.code, mask(error.message), position=_mark(error.where), hint=error.remedy)
        return Judged(error.exit_code, (only,))
    failed = strict and any(diagnostic.severity == "warning" for diagnostic in found)
    return Judged(3 if failed else 0, found, checked.document.source)


def _mark(where: str | None) -> Mark | None:
    """The place that an error tells as ``file:line:column``."""
    # From the right: a file's name may hold colons.
    source, line, column = (where or "").rsplit(":", 2) if (where or "").count(":") > 1 else ("", "", "")
    return Mark(source, int(line), int(column)) if line.isdigit() and column.isdigit() else None


def _warnings(checked: Checked, plan: Plan) -> tuple[Diagnostic, ...]:
    """The config's own, the plugins' problems, and what the plan adds (a harmful order, tools that are off)."""
    plugins = [
        Diagnostic(problem.code, problem.message, hint=problem.remedy, severity="warning")
        for problem in checked.registry.problems
        if not problem.is_harmless
    ]
    added = [
        Diagnostic(notice.code, notice.message, severity="warning")
        for notice in plan.notices
        if notice not in checked.notices and notice.code not in {each.code for each in plan.warnings}
    ]
    return (*checked.document.notices, *plugins, *plan.warnings, *added)
