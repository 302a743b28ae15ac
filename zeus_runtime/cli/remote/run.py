"""``zeus --remote URL run``: one turn of an agent of a service."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.options import attach_option, output_option, quiet_option
from zeus_runtime.cli.streams import complain, is_terminal

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.views import RunView
    from zeus_runtime.client.clients import AsyncServiceClient
    from zeus_runtime.events import RunCompleted, RunFailed


@click.command("run")
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("-p", "--prompt", "text", metavar="TEXT", help="The prompt; what is piped in follows it.")
@click.option("--agent", metavar="NAME", help="The agent of a new session; the only one by default.")
@click.option("--session", metavar="ID", help="Continue this session.")
@click.option("-c", "--continue", "continues", is_flag=True, help="Continue the latest session.")
@click.option("-y", "--yes", is_flag=True, help="Approve what would need your approval; `deny` rules hold.")
@attach_option
@output_option
@quiet_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    prompt: str | None,
    text: str | None,
    agent: str | None,
    session: str | None,
    continues: bool,
    yes: bool,
    attach: tuple[Path, ...],
    output: str,
    quiet: bool,
) -> None:
    """Run an agent of the service with one prompt.

    The turn runs in the service, and continues if this command is killed. Ctrl-C cancels it. Output and exit codes are
    those of `zeus run`.
    """
    if prompt is not None and text is not None:
        raise click.UsageError("give the prompt once: PROMPT or -p", ctx)
    ctx.exit(
        carry_out(
            process,
            _whole_prompt(ctx, prompt if text is None else text),
            agent=agent,
            session=session,
            continues=continues,
            yes=yes,
            attach=attach,
            output=output,
            quiet=quiet,
        )
    )


def _whole_prompt(ctx: click.Context, prompt: str | None) -> str:
    from zeus_runtime.cli.piped import is_silent, read_piped, with_piped

    piped = ""
    if not is_terminal(sys.stdin) and (prompt is None or not is_silent()):
        piped = read_piped()
    whole = piped if prompt is None else with_piped(prompt, piped) if piped else prompt
    if not whole.strip():
        raise click.UsageError("there is no prompt: give PROMPT, -p TEXT, or pipe it in", ctx)
    return whole


def carry_out(
    process: Process,
    prompt: str,
    *,
    agent: str | None,
    session: str | None,
    continues: bool,
    yes: bool,
    attach: Sequence[Path] = (),
    output: str,
    quiet: bool,
) -> int:
    """Do one turn and show it; the exit code."""
    import asyncio

    from zeus_runtime.cli.remote.service import async_client_of, remote_words
    from zeus_runtime.cli.view_choice import view_for
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.events import RunFailed

    view = view_for(output, quiet=quiet)
    files = [_read(process, each) for each in attach]

    async def work() -> RunCompleted | RunFailed:
        async with async_client_of(process) as client:
            name = session or (await latest(client, agent) if continues else None)
            return await turn_of(
                client,
                view,
                prompt,
                agent=agent,
                session=name,
                yes=yes,
                files=files,
                at_terminal=output == "text",
            )

    try:
        ending = asyncio.run(work())
    except ZeusError as error:
        if output == "text":
            raise
        # A program that reads JSON gets its one ending, whatever failed.
        view.show(RunFailed("", error.code, process.redact(str(error)), error.exit_code))
        return error.exit_code
    if not isinstance(ending, RunFailed):
        return 0
    for each in ending.details.get("pending", ()) if output == "text" else ():
        deciding = remote_words(process, "approvals", "decide", each["id"], "approve")
        complain(f"decide with: {deciding}", laid_out=True)
    return ending.exit_code


async def turn_of(
    client: AsyncServiceClient,
    view: RunView,
    prompt: str,
    *,
    agent: str | None,
    session: str | None,
    yes: bool,
    files: Sequence[tuple[bytes, str]] = (),
    at_terminal: bool = True,
) -> RunCompleted | RunFailed:
    """Begin a turn, show it, and return its terminal event; a refused turn leaves no new session behind."""
    from zeus_runtime.cli.approval_prompt import YES_NOTICE, asking_for
    from zeus_runtime.cli.remote.turns import RemoteTurn
    from zeus_runtime.events import Notice

    attached = [await client.upload(*each) for each in files]
    if session is not None:
        turn = await client.begin_turn(session, prompt, attachments=attached)
    else:
        turn = await client.begin_in_new_session(prompt, agent=agent, title=prompt, attachments=attached)
    if yes:
        view.show(Notice("yes", YES_NOTICE))
    return await RemoteTurn(client, turn.run, asking_for(yes=yes, at_terminal=at_terminal)).shown(view)


def _read(process: Process, file: Path) -> tuple[bytes, str]:
    """A file's content and name.

    Raises:
        UsageError: it cannot be read.
    """
    from zeus_runtime.errors import UsageError

    try:
        return (process.directory / file).read_bytes(), file.name
    except OSError as error:
        raise UsageError(f"{file} cannot be attached: {error.strerror}") from None


async def latest(client: AsyncServiceClient, agent: str | None) -> str:
    """The session that ``--continue`` means.

    Raises:
        UsageError: there is none.
    """
    from zeus_runtime.errors import UsageError

    found = await client.sessions(agent)
    if not found:
        raise UsageError("there is no session to continue", remedy="A prompt alone begins one.")
    return found[0].session
