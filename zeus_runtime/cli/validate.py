"""``zeus validate``: every problem of every config, with its position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import ConfigArgs, env_option, set_option
from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import answer

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.messages.diagnostics import Format
    from zeus_runtime.config.yaml.tree import Mark
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


@click.command("validate")
@click.argument("files", nargs=-1, metavar="[CONFIG]...", shell_complete=complete_config)
@env_option
@set_option
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="text for people, json for programs, github for workflow annotations.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    files: tuple[str, ...],
    env: str | None,
    sets: tuple[str, ...],
    output: Format,
    strict: bool,
) -> None:
    """Check configs and report every problem with its position.

    CONFIG is a file, a preset's name, or - for standard input; zeus.yaml in the working directory by default. The
    problems go to standard output. Nothing is run, no model is asked.

    \b
    Exit codes: 0 all are valid, 3 one is not, 4 a plugin or dependency is missing, or a plugin
    file is not trusted and was not checked.
    """
    names: Sequence[str | None] = files or (None,)
    if names.count("-") > 1:
        raise click.UsageError("standard input (-) can be read only once", ctx)
    outcomes = [_check(process, ConfigArgs(name, env, sets), strict=strict) for name in names]
    if output == "json":
        answer(as_json(_object(outcomes), mask=process.secrets.json))
    else:
        for text in filter(None, (_as_text(outcome, output) for outcome in outcomes)):
            answer(process.secrets.text(text))
    ctx.exit(max(outcome.exit_code for outcome in outcomes))


class _Outcome(NamedTuple):
    name: str
    exit_code: int
    diagnostics: Sequence[Diagnostic]


def _check(process: Process, which: ConfigArgs, *, strict: bool) -> _Outcome:
    from zeus_runtime.cli.options import read_config
    from zeus_runtime.config import ConfigError, Diagnostic
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.plan.plan import make_plan

    try:
        checked = read_config(process, which)
        found = _warnings(checked, make_plan(checked))
    except ConfigError as error:
        return _Outcome(which.config or "zeus.yaml", error.exit_code, error.diagnostics)
    except ZeusError as error:
        only = Diagnostic(
            error.code, process.redact(error.message), position=_mark(error.where), hint=error.remedy
        )
        return _Outcome(which.config or "zeus.yaml", error.exit_code, (only,))
    failed = strict and any(diagnostic.severity == "warning" for diagnostic in found)
    return _Outcome(checked.document.source, 3 if failed else 0, found)


def _mark(where: str | None) -> Mark | None:
    """The place that an error tells as ``file:line:column``."""
    from zeus_runtime.config.yaml.tree import Mark

    source, line, column = (where or "").rsplit(":", 2) if (where or "").count(":") > 1 else ("", "", "")
    return Mark(source, int(line), int(column)) if line.isdigit() and column.isdigit() else None


def _warnings(checked: Checked, plan: Plan) -> tuple[Diagnostic, ...]:
    """The config's own, the plugins' problems, and what the plan adds (a harmful order, tools that are off)."""
    from zeus_runtime.config import Diagnostic

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


def _object(outcomes: Sequence[_Outcome]) -> dict[str, Any]:
    from zeus_runtime.config.messages.diagnostics import to_json

    files = [
        {
            "name": outcome.name,
            "ok": outcome.exit_code == 0,
            "exit_code": outcome.exit_code,
            "diagnostics": [to_json(diagnostic) for diagnostic in outcome.diagnostics],
        }
        for outcome in outcomes
    ]
    return {"ok": all(file["ok"] for file in files), "files": files}


def _as_text(outcome: _Outcome, output: Format) -> str:
    from zeus_runtime.config import render

    shown = [render(outcome.diagnostics, output)] if outcome.diagnostics else []
    if output == "text" and outcome.exit_code == 0:
        shown.append(f"{outcome.name}: ok")
    return "\n".join(shown)
