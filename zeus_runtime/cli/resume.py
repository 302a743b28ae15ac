"""``zeus resume``: decide a session's pending approvals, and resume its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import (
    ConfigArgs,
    config_args,
    output_option,
    quiet_option,
)
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.sessions.options import session_argument

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.tools.approval import Decision


@click.command("resume")
@session_argument
@click.option(
    "--decide",
    "decided",
    metavar="ID[@SEEN]=DECISION",
    multiple=True,
    help="approve, always, reject, reject:REASON or approve:JSON; may be repeated.",
)
@click.option("--instruction", metavar="TEXT", help="Told the model with each decision.")
@config_args(
    click.option(
        "--config",
        metavar="CONFIG",
        shell_complete=complete_config,
        help="The agent: a file or preset; zeus.yaml by default.",
    )
)
@output_option
@quiet_option
@otel_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    session: str | None,
    decided: tuple[str, ...],
    instruction: str | None,
    which: ConfigArgs,
    output: str,
    quiet: bool,
) -> None:
    """Resume a session's run and decide its pending approvals.

    Without SESSION it is the agent's latest.

    \b
    --decide ID=approve          the call runs
    --decide ID=always           it runs, and its tool is added to your allowlist
    --decide ID=reject:REASON    it does not run; the model is told why
    --decide 'ID=approve:{"path": "notes.md"}'
                                 it runs with these arguments instead
    --decide ID@SEEN=approve     it runs if nobody was shown another change since

    `zeus approvals show ID` shows a call, and SEEN of the change that it shows.

    Other approvals stay pending: on a terminal you are asked, else the run ends with exit code 7. `zeus approvals
    pending` lists them.
    """
    from zeus_runtime.cli.run import Request, carry_out

    if instruction is not None and not decided:
        raise click.UsageError("--instruction goes with --decide", ctx)
    decide, seen = decisions(ctx, decided, instruction or "")
    request = Request(
        which=which,
        mode=None,
        prompt=None,
        session=session,
        continues=True,
        attach=(),
        record=None,
        output=output,
        quiet=quiet,
        decide=decide,
        seen=seen,
    )
    ctx.exit(carry_out(process, request))


def decisions(
    ctx: click.Context, decided: Sequence[str], instruction: str
) -> tuple[dict[str, Decision], dict[str, str]]:
    """The words of ``--decide`` as decisions by id, and the changes that their user saw, if they name one.

    Raises:
        click.UsageError: one cannot be read, or two are about one id.
    """
    found: dict[str, Decision] = {}
    seen: dict[str, str] = {}
    for word in decided:
        sealed, equals, text = word.partition("=")
        name, at, change = sealed.partition("@")
        decision = decision_of(text) if name and equals else "say ID=approve or ID=reject"
        if isinstance(decision, str):
            raise click.UsageError(f"--decide {word}: {decision}", ctx)
        if name in found:
            raise click.UsageError(f"--decide: {name} is decided twice", ctx)
        found[name] = replace(decision, instruction=instruction)
        if at:
            seen[name] = change
    return found, seen


def decision_of(text: str) -> Decision | str:
    """What a text decides, or why it decides nothing."""
    from zeus_runtime.tools.approval import Decision

    verb, colon, rest = text.partition(":")
    match verb:
        case "approve" if not colon:
            return Decision("approve")
        case "approve":
            from zeus_runtime.cli.approval_prompt import given_arguments

            try:
                arguments = given_arguments(rest)
            except ValueError as error:
                return f"the arguments are not JSON: {error}"
            if arguments is None:
                return "the arguments are a JSON object"
            return Decision("approve", arguments=arguments)
        case "always" if not colon:
            return Decision("approve", always=True)
        case "reject":
            return Decision("reject", reason=rest.strip())
        case _:
            return f"{verb!r} is not a decision; they are approve, always, reject, reject:REASON and approve:JSON"
