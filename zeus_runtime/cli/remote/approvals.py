"""``zeus --remote URL approvals``: what waits for a decision in a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import tell
from zeus_runtime.cli.remote.service import client_of, remote_words
from zeus_runtime.cli.streams import complain
from zeus_runtime.escaping import word

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


@click.group("approvals")
def command() -> None:
    """List, show or decide what waits for a decision in the service."""


@command.command("pending")
@click.argument("session", required=False)
@json_option
@click.pass_obj
def list_pending(process: Process, session: str | None, as_object: bool) -> None:
    """List the calls that wait for a decision, the oldest first."""
    from zeus_runtime.cli.remote.turns import pending_of
    from zeus_runtime.cli.waiting import waiting_table

    with client_of(process) as client:
        found = [each for each in client.approvals() if session in (None, each.session)]
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: waiting_table(map(pending_of, found)),
        as_object=as_object,
        nothing="nothing waits for a decision",
    )


@command.command("show")
@click.argument("name", metavar="ID")
@click.pass_obj
def show_pending(process: Process, name: str) -> None:
    """Show a call that waits for a decision in full, and the diff that it would make now."""
    from zeus_runtime.cli.remote.turns import pending_of
    from zeus_runtime.cli.waiting import show_waiting

    with client_of(process) as client:
        pending = pending_of(client.approval(name))
    show_waiting(pending, remote_words(process, "approvals", "decide", pending.seal, "approve"))


@command.command("decide")
@click.argument("sealed", metavar="ID[@SEEN]")
@click.argument("decision", type=click.Choice(["approve", "reject"]))
@click.option("--reason", default="", metavar="TEXT", help="Why it is rejected, for the model.")
@click.option("--instruction", default="", metavar="TEXT", help="A further text for the model.")
@click.option("--arguments", metavar="JSON", help="Arguments to run instead, or the answer to a question.")
@click.option("--always", is_flag=True, help="Do not ask again about this tool with its present options.")
@click.pass_obj
@click.pass_context
def decide(
    ctx: click.Context,
    process: Process,
    sealed: str,
    decision: Any,
    reason: str,
    instruction: str,
    arguments: str | None,
    always: bool,
) -> None:
    """Decide a waiting call; its turn continues once nothing else waits.

    `approvals show ID` shows a call, and SEEN of the change that it shows: with it, the call is not approved if
    somebody was shown another change since.
    """
    from zeus_runtime.cli.waiting import outdated_approval

    name, at, change = sealed.partition("@")
    changed: Any = None
    if arguments is not None:
        from zeus_runtime.cli.approval_prompt import given_arguments

        try:
            changed = given_arguments(arguments)
        except ValueError as error:
            raise click.UsageError(f"--arguments is not JSON: {error}", ctx) from None
        if changed is None:
            raise click.UsageError("--arguments must be a JSON object", ctx)
    with client_of(process) as client:
        decided = client.decide(
            name,
            decision,
            reason=reason,
            changed=changed,
            instruction=instruction,
            always=always,
            seen=change if at else None,
        )
    # A key of all users decides for others.
    whose = decided.allowlist_of
    complain(f"{name}: {decision}{f'; its tool goes on the allowlist of {word(whose)}' if whose else ''}")
    if decided.outdated:
        complain(outdated_approval(name))
