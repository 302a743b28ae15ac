"""``zeus --remote URL context``: what a session of a service was sent, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.remote.service import client_of
from zeus_runtime.columns import shortened

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process

step_option = click.option(
    "--step", metavar="N", type=click.IntRange(min=1), help="The step; the last one by default."
)
session_option = click.option("--session", metavar="ID", required=True, help="The session.")


@click.group("context")
def command() -> None:
    """Show what the model saw in a session of the service, and why."""


@command.command("show")
@session_option
@step_option
@json_option
@click.pass_obj
def show(process: Process, session: str, step: int | None, as_object: bool) -> None:
    """Show what a step sent: each part with its source and tokens."""
    with client_of(process) as client:
        found = client.context(session, step)
    rows = [
        (each["part"], each["name"], each.get("source", ""), f"{each['tokens']:,}", _line(each["text"]))
        for each in found["sent"]
    ]
    tell(
        process,
        dict(found),
        lambda: TextTable(rows, ("PART", "NAME", "SOURCE", "TOKENS", "BEGINS")),
        as_object=as_object,
    )


@command.command("diff")
@click.argument("first", metavar="A", type=click.IntRange(min=1))
@click.argument("second", metavar="B", type=click.IntRange(min=1))
@session_option
@json_option
@click.pass_obj
def diff(process: Process, first: int, second: int, session: str, as_object: bool) -> None:
    """Compare the steps A and B: what entered, what left, and by which edit."""
    with client_of(process) as client:
        found = client.context_diff(session, first, second)
    rows = [
        (
            each["change"],
            each["what"],
            each["name"],
            f"{each['tokens']:+,}",
            each["by"],
            _line(each["excerpt"]),
        )
        for each in found["changes"]
    ]
    tell(
        process,
        dict(found),
        lambda: TextTable(rows, ("CHANGE", "WHAT", "NAME", "TOKENS", "BY", "BEGINS")),
        as_object=as_object,
        nothing="the steps sent the same",
    )


@command.command("why-missing")
@click.argument("text")
@session_option
@step_option
@json_option
@click.pass_obj
def missing(process: Process, text: str, session: str, step: int | None, as_object: bool) -> None:
    """Find TEXT in the session and say which edit removed it, and where it can still be read."""
    with client_of(process) as client:
        found = client.context_why(session, text=text, step=step)
    rows = [
        (
            each["what"],
            each["name"],
            each["status"],
            _edit(each["fate"]),
            each["note"] or _line(each["excerpt"]),
        )
        for each in found["found"]
    ]
    tell(
        process,
        dict(found),
        lambda: TextTable(rows, ("WHAT", "NAME", "STATUS", "EDIT", "NOTE")),
        as_object=as_object,
        nothing="the text is nowhere in the session",
    )


def _edit(fate: Any) -> str:
    if not fate:
        return ""
    told = [str(fate[name]) for name in ("policy", "kind", "reason", "handle") if fate.get(name)]
    return " · ".join(told)


def _line(text: str) -> str:
    return shortened(text, 60)
