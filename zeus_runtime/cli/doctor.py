"""``zeus doctor``: whether this installation can work, line by line, with remedies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import ConfigArgs, config_argument, json_option
from zeus_runtime.cli.output import as_json, padded, rendered
from zeus_runtime.cli.streams import answer
from zeus_runtime.columns import Style

if TYPE_CHECKING:
    from zeus_runtime.cli.findings import DoctorFinding
    from zeus_runtime.cli.process import Process

_STYLES: dict[str, Style] = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@config_argument
@json_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Check the installation, the plugins and the keys.

    With a config (zeus.yaml in the working directory, if there is one) its model's key and its database are checked
    too; nothing is sent to the model.

    \b
    Exit codes: 0 nothing needed is missing, 3 the config is invalid, 4 something needed is missing.
    """
    import gc

    from zeus_runtime.cli.checks import examine

    gc.enable()
    found = list(_shown(examine(process, which), as_object=as_object, redact=process.redact))
    if as_object:
        answer(as_json([finding.as_object() for finding in found], mask=process.secrets.json))
    ctx.exit(max((finding.exit_code for finding in found), default=0))


def _shown(
    findings: Iterable[DoctorFinding], *, as_object: bool, redact: Callable[[str], str]
) -> Iterator[DoctorFinding]:
    for finding in findings:
        told: Any = finding.redacted(redact)
        if not as_object:
            status = padded(told.status, 4)
            line = rendered(f"{status}  {told.subject}: {told.detail}")
            answer(status, style=_STYLES[told.status], end="")
            answer(line.removeprefix(status))
            if told.remedy:
                answer(f"      {told.remedy}")
        yield told
