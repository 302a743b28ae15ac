"""``zeus approvals``: the pending approvals, and the rules under which a user is never asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.approval_mode import mode
from zeus_runtime.cli.log import with_log
from zeus_runtime.cli.options import ConfigArgs, Decorator, json_option, read_owner
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.sessions.options import config_option
from zeus_runtime.cli.streams import complain
from zeus_runtime.escaping import shell_line

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import PendingApproval

user_option: Decorator = click.option(
    "--user", metavar="NAME", help="Whose allowlist; the config's memory.user by default, else local."
)


@click.group("approvals")
def command() -> None:
    """List what waits for a decision, how often to ask, and your allowlist."""


@command.command("pending")
@click.argument("session", required=False)
@config_option
@json_option
@click.pass_obj
def list_pending(
    process: Process,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """List the calls that wait for a decision, the oldest first; `zeus resume SESSION --decide` decides."""
    from zeus_runtime.agent.approval_preview import at_present
    from zeus_runtime.cli.waiting import waiting_table
    from zeus_runtime.store.approvals import open_approvals

    checked, _ = read_owner(process, which)

    async def work(log: ThreadLog) -> list[PendingApproval]:
        return await at_present(checked, log, await open_approvals(log, session))

    found = with_log(process, checked, work) or []
    # Only known secrets are masked, so that the user sees the arguments that the model wrote.
    masked = process.secrets.masked
    tell(
        process,
        [each.listed_json() for each in found],
        lambda: waiting_table(replace(each, arguments=masked(each.arguments)) for each in found),
        as_object=as_object,
        nothing="nothing waits for a decision",
        mask=masked,
    )


@command.command("show")
@click.argument("name", metavar="ID")
@config_option
@click.pass_obj
def show_pending(process: Process, name: str, which: ConfigArgs) -> None:
    """Show a call that waits for a decision in full, and the diff that it would make now."""
    from zeus_runtime.agent.approval_preview import previewed
    from zeus_runtime.cli.waiting import show_waiting
    from zeus_runtime.errors import UsageError
    from zeus_runtime.run.approvals import masked_pending
    from zeus_runtime.store.approvals import waiting_approval

    checked, _ = read_owner(process, which)

    async def work(log: ThreadLog) -> tuple[PendingApproval, bool]:
        found = await waiting_approval(log, name)
        return await previewed(checked, log, found), await log.owner_of(found.session) is None

    shown = with_log(process, checked, work)
    if shown is None:
        raise UsageError(
            f"nothing waits for a decision under the id {name!r}",
            remedy="`zeus approvals pending` lists what waits.",
        )
    pending, is_own = masked_pending(shown[0], process.secrets.masked), shown[1]
    approving = (
        which.command("resume", pending.session, "--decide", f"{pending.seal}=approve")
        if is_own
        else shell_line("zeus", "--remote", "URL", "approvals", "decide", pending.seal, "approve")
    )
    show_waiting(pending, approving)


@command.command("list")
@user_option
@config_option
@json_option
@click.pass_obj
def list_allowed(
    process: Process,
    user: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """List the tools that the user is never asked about.

    An entry is for the tool as it was approved (its plugin, options, server and workspace), or for any tool of its
    name if a person named it with `zeus approvals allow` or it is from before Zeus told tools of one name apart.
    """
    from zeus_runtime.store.allowlist import allowlist

    checked, _ = read_owner(process, which)
    whose = user or checked.config.user
    found = with_log(process, checked, lambda log: allowlist(log, whose)) or []
    tell(
        process,
        [
            {"user": whose, "tool": each.tool, "any_of_this_name": each.is_any, "since_ms": each.since_ms}
            for each in found
        ],
        lambda: TextTable(
            [
                (each.tool, "any of this name" if each.is_any else "as approved", local_time(each.since_ms))
                for each in found
            ],
            ("TOOL", "WHICH", "SINCE"),
        ),
        as_object=as_object,
        nothing=f"the allowlist of {whose} is empty",
    )


@command.command("allow")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL...")
@user_option
@config_option
@click.pass_obj
def allow_tools(
    process: Process,
    tools: tuple[str, ...],
    user: str | None,
    which: ConfigArgs,
) -> None:
    """Never ask the user about these tools again, where the YAML's `approve` has mode allowlist and no rule fits.

    This is for any tool of that name, with all options and from all plugins and servers. "always" at an approval is
    only for the tool that was shown.
    """
    from zeus_runtime.config.messages.diagnostics import suggestion
    from zeus_runtime.errors import UsageError
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.store.allowlist import allow

    checked, own = read_owner(process, which)
    known = [each.tool.name for each in make_plan(checked).tools] if own else []
    for tool in tools if own else ():
        if tool not in known:
            raise UsageError(
                f"{checked.config.name} has no tool {tool!r}{suggestion(tool, known)}",
                remedy="`zeus tools list` shows those it has.",
            )
    whose = user or checked.config.user

    async def work(log: ThreadLog) -> None:
        for tool in tools:
            done = await allow(log, whose, tool)
            complain(f"{tool} is {'now' if done else 'already'} on the allowlist of {whose}")

    with_log(process, checked, work, makes=True)


@command.command("revoke")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL...")
@user_option
@config_option
@click.pass_obj
def revoke_tools(
    process: Process,
    tools: tuple[str, ...],
    user: str | None,
    which: ConfigArgs,
) -> None:
    """Take tools off the user's allowlist, with all entries of their names."""
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.allowlist import revoke

    checked, _ = read_owner(process, which)
    whose = user or checked.config.user

    async def work(log: ThreadLog) -> list[str]:
        return [tool for tool in tools if not await revoke(log, whose, tool)]

    absent = with_log(process, checked, work)
    missing = tools if absent is None else absent
    for tool in tools:
        if tool not in missing:
            complain(f"{tool} is off the allowlist of {whose}")
    if missing:
        raise UsageError(f"{', '.join(missing)} was not on the allowlist of {whose}")


command.add_command(mode)
