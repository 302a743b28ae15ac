"""``zeus context``: what the model saw at any step of any session, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.context.backtest import backtest
from zeus_runtime.cli.context.options import (
    config_option,
    plot_option,
    session_option,
    step_option,
)
from zeus_runtime.cli.context.tune import tune
from zeus_runtime.cli.options import ConfigArgs, format_option, read_owner
from zeus_runtime.cli.output import complain_masked, tell

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.inspection import Trace


@click.group("context")
def command() -> None:
    """Show what the model saw, explain it, and test other policies on it."""


@command.command("show")
@session_option
@step_option
@config_option
@format_option
@plot_option
@click.pass_obj
def show(
    process: Process,
    session: str | None,
    step: int | None,
    which: ConfigArgs,
    as_object: bool,
    plot: str | None,
) -> None:
    """Show what a step sent: tokens by section and source, what each policy did, cache and cost."""
    from zeus_runtime.cli.context.plots import check_plot, write_plot
    from zeus_runtime.cli.context.tables import composition_text
    from zeus_runtime.cli.memory.session_calls import calls_json, calls_text, extraction_calls
    from zeus_runtime.context.inspection import composition, overview

    target = None if plot is None else check_plot(plot)
    trace = _read(process, session, which)
    found = composition(trace, step)
    if target is not None:
        write_plot(target, [overview(trace)], title=f"{trace.session}: context", redactor=process.secrets)
    calls = extraction_calls(process, read_owner(process, which)[0], trace.session)
    tell(
        process,
        {
            "session": trace.session,
            **vars(found),
            "problems": trace.problems,
            **calls_json(calls),
        },
        lambda: composition_text(trace.session, found, calls_text(calls)),
        as_object=as_object,
    )


@command.command("diff")
@click.argument("first", metavar="A", type=click.IntRange(min=1))
@click.argument("second", metavar="B", type=click.IntRange(min=1))
@session_option
@config_option
@format_option
@click.pass_obj
def diff(
    process: Process,
    first: int,
    second: int,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Compare the steps A and B: what entered, what left, and by which edit."""
    from zeus_runtime.cli.context.tables import difference_text
    from zeus_runtime.context.inspection import difference

    trace = _read(process, session, which)
    found = difference(trace, first, second)
    tell(
        process,
        {"session": trace.session, **vars(found)},
        lambda: difference_text(trace.session, found),
        as_object=as_object,
    )


@command.command("explain")
@click.argument("item")
@session_option
@step_option
@config_option
@format_option
@click.pass_obj
def explain(
    process: Process,
    item: str,
    session: str | None,
    step: int | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Say where ITEM came from, its tokens, and what happened to it.

    ITEM is the number of a message in the session, the name of a section or of a tool, `summary`, or the id of a
    memory. `memories` lists the memories for the step, with scores, and those that no longer hold.
    """
    from zeus_runtime.cli.context.tables import explanation_text
    from zeus_runtime.context.inspection import explanation

    trace = _read(process, session, which)
    found = explanation(trace, item, step)
    at = trace.step(step)
    tell(
        process,
        {"session": trace.session, "step": at.number, **vars(found)},
        lambda: explanation_text(trace.session, at, found),
        as_object=as_object,
    )


@command.command("why-missing")
@click.argument("text")
@session_option
@step_option
@config_option
@format_option
@click.pass_obj
def missing(
    process: Process,
    text: str,
    session: str | None,
    step: int | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Find TEXT in the session and say which edit removed it, at which step, and where it can still be read."""
    from zeus_runtime.cli.context.tables import findings_text
    from zeus_runtime.context.inspection import why_missing
    from zeus_runtime.errors import UsageError

    if not text.strip():
        raise UsageError("there is no text to look for")
    trace = _read(process, session, which)
    found = why_missing(trace, text, step)
    at = trace.step(step)
    tell(
        process,
        {"session": trace.session, "step": at.number, "text": text, "found": found},
        lambda: findings_text(trace.session, at, process.redact(text), found),
        as_object=as_object,
    )


def _read(process: Process, session: str | None, which: ConfigArgs) -> Trace:
    from zeus_runtime.cli.context.store import read_trace

    checked, own = read_owner(process, which)
    trace = read_trace(process, checked, session, agent=checked.config.name if own else None)
    for problem in trace.problems:
        complain_masked(process, f"warning: {problem}", "yellow")
    return trace


command.add_command(backtest)
command.add_command(tune)
