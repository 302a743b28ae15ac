"""``zeus mcp``: an agent as an MCP server, for other programs' models to ask."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import click

from zeus_runtime.cli.options import (
    ConfigArgs,
    bare_config_argument,
    env_option,
    gather_config,
    mode_option,
    set_option,
)
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.streams import complain
from zeus_runtime.escaping import shell_line

if TYPE_CHECKING:
    import asyncio

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.model import Mode
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked

_log = logging.getLogger(__name__)


@click.command("mcp")
@bare_config_argument
@mode_option
@env_option
@set_option
@otel_option
@gather_config
@click.pass_obj
def command(process: Process, mode: Mode | None, which: ConfigArgs) -> None:
    """Serve an agent as an MCP server.

    It speaks on standard input and output. Its clients get the tool `run(prompt, session)` and the sessions as
    resources (zeus://sessions). The tool reports its progress, and returns the answer and the session to continue.
    Approval requests and tools' questions go to clients that can ask their users. In another client's file:

    {"command": "zeus", "args": ["mcp", "zeus.yaml"]}
    """
    import asyncio
    from importlib.util import find_spec

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.errors import MissingError
    from zeus_runtime.plan.plan import make_plan

    # The client owns standard input and output, so no questions can be asked.
    checked = read_trusted(process, which, may_ask=False)
    plan = make_plan(checked, mode=mode)
    if find_spec("mcp") is None:
        raise MissingError(
            "serving MCP needs the package mcp", remedy="Install it: pip install 'zeus-runtime[mcp]'."
        )
    for notice in plan.notices:
        complain(process.redact(f"note: {notice.message}"), "yellow")
    with prepared(process):
        asyncio.run(_serve(checked, plan, _whole(which, plan)))


def _whole(which: ConfigArgs, plan: Plan) -> Callable[[str], str] | None:
    """What gives the command that shows a request in full, wherever the client's user types it; None if none does."""
    if which.config == "-" or ":memory:" in plan.config.storage.url:
        return None
    folder = shell_line("cd", str(plan.context.directory))
    return lambda name: f"{folder} && {which.command('approvals', 'show', name)}"


async def _serve(checked: Checked, plan: Plan, whole: Callable[[str], str] | None) -> None:
    import asyncio

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.serving.mcp import serve_stdio

    has_reader = True
    async with Agent(checked, plan) as agent:
        serving = asyncio.create_task(serve_stdio(agent, whole=whole))
        with _signals() as stopped:
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        # Only after a signal; a client that closes its end lets the server end by itself.
        if not serving.done():
            await _end(agent)
        try:
            await serving
        except* BrokenPipeError:
            # The client ended before it had read its answers.
            has_reader = False
    if not has_reader:
        raise BrokenPipeError


async def _end(agent: Agent) -> NoReturn:
    """Interrupt the runs and end the process, also where something cannot be closed."""
    try:
        await agent.aclose()
    except Exception:  # noqa: BLE001 - the process ends whatever fails
        _log.exception("the agent could not be closed")
    finally:
        # A thread waits for the client's next line, and nothing but that line would wake it.
        os._exit(130)


@contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """While inside, the event is set by Ctrl-C and SIGTERM."""
    import asyncio

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    # Where the loop cannot listen (Windows), Ctrl-C is a KeyboardInterrupt as ever.
    with suppress(NotImplementedError):
        for number in numbers:
            loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        with suppress(NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)
