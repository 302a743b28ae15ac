"""``zeus chat``: a conversation in the terminal, with history and commands that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zeus_runtime.cli.approval_prompt import YES_NOTICE, asking_for
from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.config_argument import config_and_prompt
from zeus_runtime.cli.options import (
    MODES,
    ConfigArgs,
    attach_option,
    bare_config_argument,
    env_option,
    gather_config,
    mode_option,
    model_option,
    set_option,
    with_model,
)
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.streams import columns_of, complain, is_terminal
from zeus_runtime.errors import ZeusError
from zeus_runtime.escaping import printable

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.approval_prompt import Asking
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.views import RunView
    from zeus_runtime.plan.validated import Checked

T = TypeVar("T")

HELP: Final[Mapping[str, str]] = {
    "/help": "these lines",
    "/mode [agent|ask|plan]": "show or change the mode",
    "/tools": "what the agent can call in this mode",
    "/session [ID]": "show this session, or continue another",
    "/sessions": "the latest sessions",
    "/attach [FILE]": "send a file with the next prompt",
    "/new": "begin a new session",
    "/compact": "let the context policies shed what they can now",
    "/resume": "resume the interrupted run of this session",
    "/exit": "leave; so does Ctrl-D",
}
LATEST: Final = 15


@click.command("chat")
@bare_config_argument
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("--session", metavar="ID", shell_complete=complete_session, help="Continue this session.")
@click.option("-c", "--continue", "continues", is_flag=True, help="Continue the agent's latest session.")
@mode_option
@model_option
@env_option
@set_option
@click.option("-y", "--yes", is_flag=True, help="Approve what would need your approval; `deny` rules hold.")
@attach_option
@click.option("-q", "--quiet", is_flag=True, help="Show the answers and errors only.")
@otel_option
@gather_config
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    prompt: str | None,
    session: str | None,
    continues: bool,
    mode: str | None,
    model: str | None,
    yes: bool,
    attach: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Talk with an agent in the terminal.

    CONFIG and PROMPT are as in `zeus run`; PROMPT is sent first. Each line is a prompt; a line that ends with a
    backslash continues in the next, and pasted lines are one prompt. /help shows the commands. Ctrl-C stops the answer;
    at the prompt, press it twice to leave. Lines may also be piped in, one prompt each.
    """
    which, prompt = config_and_prompt(which, prompt, process.directory, quiet=quiet)
    which = with_model(which, model)
    if which.config == "-":
        raise click.UsageError("standard input is the conversation; give the config as a file", ctx)
    ctx.exit(
        converse(
            process,
            which,
            mode=mode,
            session=session,
            continues=continues,
            quiet=quiet,
            attach=attach,
            yes=yes,
            prompt=prompt,
        )
    )


def converse(
    process: Process,
    which: ConfigArgs,
    *,
    mode: Any,
    session: str | None,
    quiet: bool,
    continues: bool = False,
    attach: Sequence[Path] = (),
    yes: bool = False,
    prompt: str | None = None,
) -> int:
    """Talk until the user leaves.

    Args:
        which, mode, session, continues, quiet, attach, yes: as the command line says.
        prompt: the first prompt.

    Returns:
        the exit code: 0, or 130 when Ctrl-C left, or, where prompts are piped in, that of the first failed run.

    Raises:
        ZeusError: the config, or ``session``, is not sound.
    """
    import asyncio

    from zeus_runtime.cli.prompt_input import PromptInput
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted

    checked = read_trusted(process, which)
    with prepared(process), asyncio.Runner() as runner:
        chat = Chat(checked, runner, mode=mode, quiet=quiet, attach=attach, yes=yes)
        try:
            chat.enter(session, continues=continues)
            with PromptInput(process.environ, lambda line: process.secrets.hides(line)) as lines:
                return loop(chat.take, lines, prompt, lambda: f"{chat.mode}> ")
        finally:
            chat.close()


def loop(take: Callable[[str], int], lines: Any, prompt: str | None, shown: Callable[[], str]) -> int:
    """Talk until the user leaves; the exit code.

    Args:
        take: does what a line asks for, and returns the exit code of its turn.
        lines: reads the lines (``PromptInput``).
        prompt: the first line; None without.
        shown: what is shown before a line.
    """
    interrupted = False
    # At a terminal the user sees the error and continues; a script must learn of it.
    if prompt and (code := take(prompt)) and not lines.interactive:
        return code
    while True:
        try:
            text = lines.read(shown())
        except KeyboardInterrupt:
            if interrupted:
                complain("")
                return 130
            interrupted = True
            complain("\nCtrl-C again, or /exit, leaves", laid_out=True)
            continue
        interrupted = False
        if text is None or text in ("/exit", "/quit"):
            return 0
        code = take(text) if text else 0
        if code and not lines.interactive:
            return code


class Chat:
    """One agent at a time, and the session that is talked in.

    Args:
        checked: the agent's config.
        runner: the event loop that lives between prompts.
        mode: instead of the config's.
        quiet: show the answers and errors only.
        attach: files that go with the first prompt.
        yes: approve whatever needs approval.
    """

    def __init__(
        self,
        checked: Checked,
        runner: asyncio.Runner,
        *,
        mode: Any,
        quiet: bool,
        attach: Sequence[Path] = (),
        yes: bool = False,
    ) -> None:
        self._yes = yes
        self._attach = list(attach)
        self._checked = checked
        self._runner = runner
        self._quiet = quiet
        self._session: str | None = None
        self._agent = self._made(mode)

    @property
    def mode(self) -> str:
        """The mode of the next run."""
        return self._agent.plan.mode

    def enter(self, session: str | None, *, continues: bool) -> None:
        """Greet the user, and continue a session if one is given.

        Raises:
            UsageError: there is no such session.
        """
        from zeus_runtime.cli.run_loop import latest

        if session is None and continues:
            session = self._wait(latest(self._agent))
        if session is not None:
            self._go_on(session)
        if not self._quiet and is_terminal(sys.stdin):
            plan = self._agent.plan
            complain(f"{plan.config.name} · {plan.profile.name} · /help shows the commands", "dim")
        if self._yes and not self._quiet:
            complain(f"note: {YES_NOTICE}", "yellow")

    def take(self, text: str) -> int:
        """Do what a line asks for.

        Returns:
            the exit code of the run, 0 for anything else.
        """
        try:
            if text.startswith("//"):
                return self._say(text[1:])
            if text.startswith("/"):
                return self._command(*text.split(maxsplit=1))
            return self._say(text)
        except ZeusError as error:
            complain(f"error: {self._checked.document.redactor(str(error))}", "red")
            return error.exit_code

    def close(self) -> None:
        """Close the agent's stores."""
        self._wait(self._agent.aclose())

    def _made(self, mode: Any) -> Agent:
        from zeus_runtime.agent.agent import Agent
        from zeus_runtime.plan.plan import make_plan

        return Agent(self._checked, make_plan(self._checked, mode=mode))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _say(self, prompt: str) -> int:
        asking = self._asking()
        events = self._agent.stream(prompt, session=self._session, approvals=asking, attachments=self._attach)
        try:
            return self._follow(events, asking)
        except ZeusError:
            if self._attach:
                complain(f"not sent: {self._waiting}; /attach attaches a file again", "yellow")
            raise
        finally:
            # Also if one was refused: otherwise it would be refused with every other prompt too.
            self._attach.clear()

    def _asking(self) -> Asking | None:
        return asking_for(yes=self._yes)

    def _follow(self, events: Any, asking: Asking | None) -> int:
        from zeus_runtime.cli.run_loop import drive
        from zeus_runtime.cli.view_choice import view_for
        from zeus_runtime.events import RunFailed

        view: RunView = view_for(
            "text", quiet=self._quiet, structured=self._checked.config.output is not None
        )
        ending = self._wait(drive(self._agent, events, view, asking))
        # A run that failed before it began names no session.
        self._session = ending.session or self._session
        return ending.exit_code if isinstance(ending, RunFailed) else 0

    def _command(self, name: str, argument: str = "") -> int:
        from zeus_runtime.cli.output import TextTable, complain_table
        from zeus_runtime.config.messages.diagnostics import suggestion

        if name == "/help":
            complain_table(TextTable(list(HELP.items())))
        elif name == "/mode":
            self._change_mode(argument.strip())
        elif name == "/tools":
            complain_table(TextTable([(each.tool.name, each.showing) for each in self._agent.plan.tools]))
        elif name == "/session":
            self._show_session(argument.strip())
        elif name == "/sessions":
            self._list_sessions()
        elif name == "/attach":
            self._attach_file(argument.strip())
        elif name == "/new":
            self._session = None
            complain("the next prompt begins a new session")
        elif name == "/compact":
            self._compact()
        elif name == "/resume":
            return self._resume()
        else:
            known = [each.split()[0] for each in HELP]
            complain(
                f"there is no {name}{suggestion(name, known)} (// sends a line that begins with /)",
                "yellow",
            )
        return 0

    def _attach_file(self, name: str) -> None:
        from zeus_runtime.disk_paths import expanded

        path = self._checked.directory / expanded(name)
        if name and path.is_file():
            self._attach.append(path)
        elif name:
            complain(f"there is no file {name!r}", "yellow")
        complain(f"goes with the next prompt: {self._waiting or 'nothing'}")

    @property
    def _waiting(self) -> str:
        return ", ".join(printable(each.name) for each in self._attach)

    def _change_mode(self, mode: str) -> None:
        if mode in MODES and mode != self.mode:
            # Before the former one is closed: a plan that fails must leave the conversation as it was.
            former, self._agent = self._agent, self._made(mode)
            try:
                self._wait(former.aclose())
            finally:
                self._keep_session()
        elif mode and mode not in MODES:
            complain(f"there is no mode {mode!r}; the modes are {', '.join(MODES)}", "yellow")
            return
        complain(f"the mode is {self.mode}")

    def _keep_session(self) -> None:
        """A database in memory ended with the former agent."""
        from zeus_runtime.errors import UsageError

        if self._session is not None:
            try:
                self._wait(self._history(self._session))
            except UsageError:
                self._session = None
                complain("the session was in memory only; the next prompt begins a new one", "yellow")

    def _show_session(self, session: str) -> None:
        if session:
            self._go_on(session)
        complain(self._session or "no session yet: the next prompt begins one")

    def _go_on(self, session: str) -> None:
        from zeus_runtime.cli.transcript import tail

        history = self._wait(self._history(session))
        # Before it is shown: the next prompt would be refused.
        self._wait(self._agent.require_own(session))
        self._session = session
        if not self._quiet and history:
            complain(tail(history, columns_of(sys.stderr)), "dim", laid_out=True)

    async def _history(self, session: str) -> Sequence[Any]:
        return await self._agent.history(session)

    def _list_sessions(self) -> None:
        from zeus_runtime.cli.output import complain_table
        from zeus_runtime.cli.sessions import session_table

        found = self._wait(self._sessions())
        if found:
            complain_table(session_table(found))
        else:
            complain("no session yet")

    async def _sessions(self) -> Sequence[Any]:
        return await self._agent.sessions(limit=LATEST, every_agent=False)

    def _compact(self) -> None:
        if self._session is None:
            complain("no session yet: there is nothing to compact", "yellow")
            return
        done = self._wait(self._agent.compact(self._session))
        if done.tokens_after == done.tokens_before:
            complain("no context policy had anything to shed")
        else:
            complain(f"{done.tokens_before:,} tokens in messages became {done.tokens_after:,}")
        for each in done.decisions:
            verdict = "" if each.admitted else "refused: "
            complain(f"  {each.policy}: {verdict}{each.reason}", "dim")

    def _resume(self) -> int:
        if self._session is None:
            complain("no session yet: --continue or /session ID chooses one", "yellow")
            return 0
        asking = self._asking()
        return self._follow(self._agent.resume(self._session, approvals=asking), asking)
