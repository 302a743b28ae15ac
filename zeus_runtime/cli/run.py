"""``zeus run``: send one prompt to an agent, or start a conversation at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.config_argument import config_and_prompt
from zeus_runtime.cli.options import (
    ConfigArgs,
    attach_option,
    bare_config_argument,
    env_option,
    gather_config,
    mode_option,
    model_option,
    output_option,
    quiet_option,
    read_config,
    set_option,
    with_model,
)
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import complain, is_terminal

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.views import RunView
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.events import RunCompleted, RunFailed
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.approval import Decision


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Args:
        which, mode: the agent.
        prompt: the user's prompt; None with ``continues`` resumes the interrupted run.
        session: the session to continue.
        continues: continue ``session``, or the agent's latest.
        record: the cassette to write.
        attach: files that go with the prompt.
        output: ``text``, ``json`` or ``ndjson``.
        quiet: no journal but errors.
        decide: a question's id to its decision, before the run is resumed.
        seen: a question's id to the change that its user saw, for decisions that name one.
        yes: approve whatever needs approval.
    """

    which: ConfigArgs
    mode: Any
    prompt: str | None
    session: str | None
    continues: bool
    record: Path | None
    attach: Sequence[Path]
    output: str
    quiet: bool
    decide: Mapping[str, Decision] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    yes: bool = False

    @property
    def again(self) -> str:
        """The command that continues this agent's latest session."""
        return self.which.command("run", "--continue", is_argument=True)

    def deciding(self, ending: RunFailed) -> str:
        """The command that approves what the run ended for."""
        words = ["resume", ending.session]
        for each in ending.details["pending"]:
            asked = each.get("answer_schema", {}).get("properties") or {}
            # What is left as it is must not be an answer: only a text is in quotes.
            parts = (f"{as_json(name, indent=None)}: {_gap(schema)}" for name, schema in asked.items())
            answer = f":{{{', '.join(parts)}}}" if asked else ""
            words += ["--decide", f"{each['id']}=approve{answer}"]
        return self.which.command(*words)


def _gap(schema: Any) -> str:
    """What stands for a value that a person must write: no JSON, except for a text."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return '"…"' if kind == "string" else "true|false" if kind == "boolean" else "…"


@click.command("run")
@bare_config_argument
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("-p", "--prompt", "text", metavar="TEXT", help="The prompt; what is piped in follows it.")
@click.option("--session", metavar="ID", shell_complete=complete_session, help="Continue this session.")
@click.option(
    "-c",
    "--continue",
    "continues",
    is_flag=True,
    help="Continue the agent's latest session; without a prompt, resume its interrupted run.",
)
@mode_option
@model_option
@env_option
@set_option
@click.option("--max-steps", metavar="N", type=click.IntRange(min=1), help="Sets limits.max_steps.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Sets limits.timeout_seconds.",
)
@click.option("--max-cost", metavar="USD", type=click.FloatRange(min=0), help="Sets limits.max_cost_usd.")
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the model's answers to a cassette that model: replay plays back.",
)
@click.option(
    "-y", "--yes", is_flag=True, help="Approve what would need your approval in this run; `deny` rules hold."
)
@attach_option
@output_option
@quiet_option
@otel_option
@gather_config
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    prompt: str | None,
    text: str | None,
    session: str | None,
    continues: bool,
    mode: str | None,
    model: str | None,
    max_steps: int | None,
    timeout: float | None,
    max_cost: float | None,
    record: Path | None,
    yes: bool,
    attach: tuple[Path, ...],
    output: str,
    quiet: bool,
) -> None:
    """Run an agent: one prompt, or a conversation.

    CONFIG is a file, a preset's name, or - for standard input; zeus.yaml in the working directory by default. A single
    word is CONFIG if it is a preset or is written as a file (*.yaml, or with a /, and no spaces). Otherwise it is
    PROMPT if it has spaces or a zeus.yaml is there: write ./NAME for another file or folder.

    The prompt is PROMPT or -p TEXT, and what is piped in follows it as <stdin>; without them what is piped in is the
    prompt. PROMPT - waits for a pipe that is silent for long. Without any of it, a terminal gets a conversation as
    `zeus chat` does. Standard output is the answer; all else goes to standard error.

    Ctrl-C stops the run so that --continue can resume it; twice, it ends at once.
    """
    if text is None:
        which, prompt = config_and_prompt(which, prompt, process.directory, quiet=quiet)
    limits = {
        "limits.max_steps": max_steps,
        "limits.timeout_seconds": timeout,
        "limits.max_cost_usd": max_cost,
    }
    limited = [f"{path}={value}" for path, value in limits.items() if value is not None]
    which = with_model(replace(which, sets=(*which.sets, *limited)), model)
    request = Request(
        which=which,
        mode=mode,
        prompt=_prompt(ctx, process, which, prompt, text, continues=continues),
        session=session,
        continues=continues,
        record=record,
        attach=attach,
        output=output,
        quiet=quiet,
        yes=yes,
    )
    if request.prompt is None and continues and attach:
        raise click.UsageError("--attach needs a prompt", ctx)
    if request.prompt is None and not continues:
        ctx.exit(_converse(ctx, process, request))
    ctx.exit(carry_out(process, request))


def _prompt(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    prompt: str | None,
    text: str | None,
    *,
    continues: bool,
) -> str | None:
    """The prompt that the words and standard input make; None if there is none and none is needed."""
    from zeus_runtime.cli.piped import PATIENCE_SECONDS, is_silent, read_piped, with_piped

    config, waits = which.config, prompt == "-"
    if config == "-" and waits:
        raise click.UsageError("standard input cannot be both CONFIG and PROMPT", ctx)
    if prompt not in (None, "-") and text is not None:
        raise click.UsageError("give the prompt once: PROMPT or -p", ctx)
    found = text if waits or prompt is None else prompt
    piped = ""
    if waits or (config != "-" and not is_terminal(sys.stdin) and (found is not None or not continues)):
        if found is not None and not waits and is_silent():
            complain(
                f"note: nothing came on standard input within {PATIENCE_SECONDS:g} seconds, and the run begins without"
                " it; `zeus run CONFIG - -p PROMPT` waits for it",
                "yellow",
            )
        else:
            piped = read_piped()
    if found is None and not piped and (continues or is_terminal(sys.stdin)) and config != "-" and not waits:
        return None
    found = piped if found is None else found
    if not found.strip():
        if config != "-":
            # Of a config that is not there, this is the better error.
            read_config(process, which)
        raise click.UsageError("there is no prompt: give PROMPT, -p TEXT, or pipe it in", ctx)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise click.UsageError("the prompt is not UTF-8 text", ctx) from None
    return found if found is piped else with_piped(found, piped)


def _converse(ctx: click.Context, process: Process, request: Request) -> int:
    if request.output != "text" or request.record is not None:
        raise click.UsageError("--output and --record need a prompt: a conversation has neither", ctx)
    from zeus_runtime.cli.chat import converse

    return converse(
        process,
        request.which,
        mode=request.mode,
        session=request.session,
        quiet=request.quiet,
        attach=request.attach,
        yes=request.yes,
    )


def carry_out(process: Process, request: Request) -> int:
    """Do one run and show it; the exit code."""
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.cli.view_choice import view_for
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.events import RunFailed

    view = view_for(request.output, quiet=request.quiet)
    try:
        with prepared(process):
            checked = read_trusted(process, request.which, may_ask=request.output == "text")
            if checked.config.output is not None:
                view = view_for(request.output, quiet=request.quiet, structured=True)
            ending = asyncio.run(_ending(checked, request, view))
    except ZeusError as error:
        if request.output == "text":
            raise
        # A program that reads JSON gets its one ending, whatever failed.
        view.show(_failure(error, process))
        return error.exit_code
    if not isinstance(ending, RunFailed):
        return 0
    if ending.exit_code in (6, 130) and ending.session and request.output == "text":
        complain(f"continue with: {request.again}", laid_out=True)
    if ending.details.get("pending") and request.output == "text":
        complain(f"decide with: {request.deciding(ending)}", laid_out=True)
        complain(f"`{request.which.command('approvals', 'show', 'ID')}` shows a call in full")
    return ending.exit_code


async def _ending(checked: Checked, request: Request, view: RunView) -> RunCompleted | RunFailed:
    from contextlib import AsyncExitStack

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.approval_prompt import YES_NOTICE, asking_for
    from zeus_runtime.cli.run_loop import drive
    from zeus_runtime.cli.waiting import outdated_approval
    from zeus_runtime.events import Notice
    from zeus_runtime.plan.plan import make_plan

    agent = Agent(checked, make_plan(checked, mode=request.mode))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent)
        session = await _meant(agent, request)
        # A run that is resumed continues in the mode that it began in, whatever the config says now.
        if request.prompt is None and session is not None and request.mode is None:
            begun = await agent.chosen_mode(session)
            if begun is not None and begun != agent.plan.mode:
                agent = Agent(checked, make_plan(checked, mode=begun))
                await stack.enter_async_context(agent)
        if request.record is not None:
            stack.enter_context(agent.record(request.record))
        asking = asking_for(yes=request.yes, at_terminal=request.output == "text")
        if request.yes:
            view.show(Notice("yes", YES_NOTICE))
        if request.prompt is not None:
            events = agent.stream(
                request.prompt, session=session, approvals=asking, attachments=request.attach
            )
            return await drive(agent, events, view, asking)
        assert session is not None
        if request.decide:
            # Before the resume, which asks about what is still open.
            for each in await agent.decide(session, request.decide, seen=request.seen, unless_running=True):
                view.show(Notice("outdated", outdated_approval(each.id)))
        return await drive(agent, agent.resume(session, approvals=asking), view, asking)


async def _meant(agent: Agent, request: Request) -> str | None:
    """The session to continue: a sub-agent's session is resumed through its parent session."""
    if request.session is None:
        from zeus_runtime.cli.run_loop import latest

        return await latest(agent) if request.continues else None
    if request.prompt is not None:
        return request.session
    session = await agent.outermost(request.session)
    if session != request.session and not request.quiet:
        complain(f"{request.session} works for {session}, which is taken up")
    return session


def _failure(error: ZeusError, process: Process) -> RunFailed:
    from zeus_runtime.config import ConfigError
    from zeus_runtime.config.messages.diagnostics import to_json
    from zeus_runtime.events import RunFailed

    details = {}
    if isinstance(error, ConfigError):
        details = {"diagnostics": [to_json(diagnostic) for diagnostic in error.diagnostics]}
    return RunFailed("", error.code, process.redact(str(error)), error.exit_code, details)
