"""``zeus run``: one prompt to an agent, or a conversation where there is none and somebody is there to talk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.options import (
    ConfigArgs,
    attach_option,
    bare_config_argument,
    env_option,
    gather_config,
    mode_option,
    output_option,
    quiet_option,
    set_option,
)
from zeus_runtime.cli.streams import as_json, complain, is_terminal

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.views import View
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.events import RunCompleted, RunFailed
    from zeus_runtime.tools.approval import Decision


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Args:
        which, mode: the agent.
        prompt: what the user says; None with ``continues`` takes up the interrupted run.
        session: the session to go on with.
        continues: go on with ``session``, or the agent's latest.
        record: the cassette to write.
        attach: files that go with the prompt.
        output: ``text``, ``json`` or ``ndjson``.
        quiet: no journal but errors.
        decide: a question's id to what is decided, before the run is taken up.
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

    @property
    def again(self) -> str:
        """The command that goes on with this agent's latest session."""
        import shlex

        which = self.which
        return shlex.join(
            ["zeus", "run", *([which.config] if which.config else []), *which.laid_over, "--continue"]
        )

    def deciding(self, ending: RunFailed) -> str:
        """The command that approves what the run ended for."""
        import shlex

        config = self.which.config
        words = ["zeus", "resume", ending.session, *(["--config", config] if config else [])]
        for each in ending.details["pending"]:
            asked = each.get("answer_schema", {}).get("properties") or {}
            answer = ":" + as_json(dict.fromkeys(asked, "…"), indent=None) if asked else ""
            words += ["--decide", f"{each['id']}=approve{answer}"]
        return shlex.join([*words, *self.which.laid_over])


@click.command("run")
@bare_config_argument
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option(
    "-p", "--prompt", "text", metavar="TEXT", help="The prompt; with PROMPT -, standard input follows it."
)
@click.option("--session", metavar="ID", shell_complete=complete_session, help="Go on with this session.")
@click.option(
    "-c",
    "--continue",
    "continues",
    is_flag=True,
    help="Go on with the agent's latest session; without a prompt, take up its interrupted run.",
)
@mode_option
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
@attach_option
@output_option
@quiet_option
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
    max_steps: int | None,
    timeout: float | None,
    max_cost: float | None,
    record: Path | None,
    attach: tuple[Path, ...],
    output: str,
    quiet: bool,
) -> None:
    """Run an agent: one prompt, or a conversation.

    CONFIG is a file, a preset's name, or - for standard input; zeus.yaml in the working directory by default. The
    prompt is PROMPT, or -p TEXT, or what is piped in (PROMPT - insists on that); without any, a terminal gets a
    conversation as `zeus chat` does. Standard output is the answer; all else goes to standard error.

    Ctrl-C stops the run so that --continue can go on with it; twice, it ends at once.
    """
    config = which.config
    if prompt is None and config is not None and " " in config and not (process.directory / config).exists():
        message = f"CONFIG comes first, and there is no file {config!r}; a prompt alone is given with -p"
        raise click.UsageError(message, ctx)
    limits = {
        "limits.max_steps": max_steps,
        "limits.timeout_seconds": timeout,
        "limits.max_cost_usd": max_cost,
    }
    limited = [f"{path}={value}" for path, value in limits.items() if value is not None]
    request = Request(
        which=replace(which, sets=(*which.sets, *limited)),
        mode=mode,
        prompt=_prompt(ctx, config, prompt, text, continues=continues),
        session=session,
        continues=continues,
        record=record,
        attach=attach,
        output=output,
        quiet=quiet,
    )
    if request.prompt is None and continues and attach:
        raise click.UsageError("--attach needs a prompt", ctx)
    if request.prompt is None and not continues:
        ctx.exit(_converse(ctx, process, request))
    ctx.exit(carry_out(process, request))


def _prompt(
    ctx: click.Context, config: str | None, prompt: str | None, text: str | None, *, continues: bool
) -> str | None:
    """The prompt that the words and standard input make; None if there is none and none is needed."""
    if config == "-" and prompt == "-":
        raise click.UsageError("standard input cannot be both CONFIG and PROMPT", ctx)
    if prompt not in (None, "-") and text is not None:
        raise click.UsageError("give the prompt once: PROMPT or -p", ctx)
    piped = prompt is None and text is None and not continues and config != "-" and not is_terminal(sys.stdin)
    if prompt == "-" or piped:
        read = _read_input(ctx)
        found: str | None = f"{text}\n\n{read}" if text is not None and read else (text or read)
    else:
        found = text if text is not None else prompt
    if found is None and (continues or is_terminal(sys.stdin)) and config != "-":
        return None
    if found is None or not found.strip():
        raise click.UsageError("there is no prompt: give PROMPT, -p TEXT, or pipe it in", ctx)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise click.UsageError("the prompt is not UTF-8 text", ctx) from None
    return found


def _read_input(ctx: click.Context) -> str:
    from zeus_runtime.cli.lines import MAX_INPUT

    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise click.UsageError(f"standard input has more than {MAX_INPUT:,} bytes, which is no prompt", ctx)
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 text (byte {error.start})", ctx) from None


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
    )


def carry_out(process: Process, request: Request) -> int:
    """Do one run and show it; the exit code."""
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.cli.views import view_for
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.events import RunFailed

    view = view_for(request.output, quiet=request.quiet)
    try:
        with prepared(process):
            checked = read_trusted(process, request.which, may_ask=request.output == "text")
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
        complain(f"go on with: {request.again}")
    if ending.details.get("pending") and request.output == "text":
        complain(f"decide with: {request.deciding(ending)}")
    return ending.exit_code


async def _ending(checked: Checked, request: Request, view: View) -> RunCompleted | RunFailed:
    from contextlib import AsyncExitStack

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.cli.approving import at_terminal
    from zeus_runtime.cli.drive import drive

    agent = Agent(checked, make_plan(checked, mode=request.mode))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent)
        session = await _meant(agent, request)
        if request.prompt is None and session is not None and request.mode is None:
            begun = await agent.chosen_mode(session)
            if begun is not None and begun != agent.plan.mode:
                agent = Agent(checked, make_plan(checked, mode=begun))
                await stack.enter_async_context(agent)
        if request.record is not None:
            stack.enter_context(agent.record(request.record))
        asking = at_terminal() if request.output == "text" else None
        if request.prompt is not None:
            events = agent.stream(
                request.prompt, session=session, approvals=asking, attachments=request.attach
            )
            return await drive(agent, events, view, asking)
        assert session is not None
        if request.decide:
            await agent.decide(session, request.decide)
        return await drive(agent, agent.resume(session, approvals=asking), view, asking)


async def _meant(agent: Agent, request: Request) -> str | None:
    """The session to go on with: a sub-agent's is taken up with the one that it works for."""
    if request.session is None:
        return await latest(agent) if request.continues else None
    if request.prompt is not None:
        return request.session
    session = await agent.outermost(request.session)
    if session != request.session and not request.quiet:
        complain(f"{request.session} works for {session}, which is taken up")
    return session


async def latest(agent: Agent) -> str:
    """The session that ``--continue`` means.

    Raises:
        UsageError: the agent has none.
    """
    from zeus_runtime.errors import UsageError

    session = await agent.latest_session()
    if session is None:
        name = agent.plan.config.name
        raise UsageError(
            f"the agent {name!r} has no session to continue", remedy="`zeus run` with a prompt begins one."
        )
    return session


def _failure(error: ZeusError, process: Process) -> RunFailed:
    from zeus_runtime.config import ConfigError
    from zeus_runtime.config.diagnostics import to_json
    from zeus_runtime.events import RunFailed

    details = {}
    if isinstance(error, ConfigError):
        details = {"diagnostics": [to_json(diagnostic) for diagnostic in error.diagnostics]}
    return RunFailed("", error.code, process.redact(str(error)), error.exit_code, details)
