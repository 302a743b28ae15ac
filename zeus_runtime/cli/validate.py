"""``zeus validate``: every problem of every config, with its position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import ConfigArgs, env_option, set_option
from zeus_runtime.cli.output import as_json, rendered
from zeus_runtime.cli.streams import answer
from zeus_runtime.escaping import printable

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.messages.diagnostics import Format


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
    Exit codes: 0 all are valid, 3 one is not, 4 a plugin or dependency is missing, or a part other
    than a server or a hook's command is not trusted; what could not be checked is named.
    """
    names: Sequence[str | None] = files or (None,)
    if names.count("-") > 1:
        raise click.UsageError("standard input (-) can be read only once", ctx)
    outcomes = [_check(process, ConfigArgs(name, env, sets), strict=strict) for name in names]
    if output == "json":
        answer(as_json(_object(outcomes), mask=process.secrets.json))
    else:
        for text in filter(None, (_as_text(outcome, output) for outcome in outcomes)):
            answer(rendered(text, mask=process.secrets.text))
    ctx.exit(max(outcome.exit_code for outcome in outcomes))


class _Outcome(NamedTuple):
    name: str
    exit_code: int
    diagnostics: Sequence[Diagnostic]


def _check(process: Process, which: ConfigArgs, *, strict: bool) -> _Outcome:
    from zeus_runtime.cli.options import read_config
    from zeus_runtime.plan.judged import judged

    found = judged(lambda: read_config(process, which), strict=strict, mask=process.redact)
    return _Outcome(found.source or which.config or "zeus.yaml", found.exit_code, found.diagnostics)


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
        shown.append(f"{printable(outcome.name)}: ok")
    return "\n".join(shown)
