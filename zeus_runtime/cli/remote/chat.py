"""``zeus --remote URL chat``: a conversation with an agent of a service."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from zeus_runtime.cli.approval_prompt import YES_NOTICE
from zeus_runtime.cli.streams import complain, is_terminal

if TYPE_CHECKING:
    import asyncio

    from zeus_runtime.cli.process import Process
    from zeus_runtime.client.clients import AsyncServiceClient

HELP: Final[Mapping[str, str]] = {
    "/help": "these lines",
    "/agents": "the agents of the service",
    "/session [ID]": "show this session, or continue another",
    "/sessions": "the latest sessions",
    "/new": "begin a new session",
    "/exit": "leave; so does Ctrl-D",
}
LATEST: Final = 15


@click.command("chat")
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("--agent", metavar="NAME", help="The agent of new sessions; the only one by default.")
@click.option("--session", metavar="ID", help="Continue this session.")
@click.option("-c", "--continue", "continues", is_flag=True, help="Continue the latest session.")
@click.option("-y", "--yes", is_flag=True, help="Approve what would need your approval; `deny` rules hold.")
@click.option("-q", "--quiet", is_flag=True, help="Show the answers and errors only.")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    prompt: str | None,
    agent: str | None,
    session: str | None,
    continues: bool,
    yes: bool,
    quiet: bool,
) -> None:
    """Talk with an agent of the service in the terminal.

    PROMPT is sent first. Each line is a prompt, as in `zeus chat`. /help shows the commands. Ctrl-C cancels the turn;
    at the prompt, press it twice to leave. Lines may also be piped in, one prompt each.
    """
    import asyncio

    from zeus_runtime.cli.chat import loop
    from zeus_runtime.cli.prompt_input import PromptInput
    from zeus_runtime.cli.remote.run import latest
    from zeus_runtime.cli.remote.service import async_client_of

    with asyncio.Runner() as runner:
        client = async_client_of(process)
        try:
            if session is not None:
                runner.run(client.session(session))
            elif continues:
                session = runner.run(latest(client, agent))
            chat = _RemoteChat(process, client, runner, agent=agent, session=session, yes=yes, quiet=quiet)
            chat.greet()
            with PromptInput(process.environ, lambda line: process.secrets.hides(line)) as lines:
                ctx.exit(loop(chat.take, lines, prompt, lambda: "> "))
        finally:
            runner.run(client.aclose())


class _RemoteChat:
    def __init__(
        self,
        process: Process,
        client: AsyncServiceClient,
        runner: asyncio.Runner,
        *,
        agent: str | None,
        session: str | None,
        yes: bool,
        quiet: bool,
    ) -> None:
        self._process = process
        self._client = client
        self._runner = runner
        self._agent = agent
        self._session = session
        self._yes = yes
        self._quiet = quiet

    def greet(self) -> None:
        """Say which agent answers; an agent that is not there is an error before the first prompt."""
        from zeus_runtime.errors import UsageError

        agents = self._runner.run(self._client.agents())
        names = [each.name for each in agents]
        if self._agent is None and self._session is None and len(agents) == 1:
            self._agent = names[0]
        if self._session is None and self._agent not in names:
            raise UsageError(
                "the service has several agents"
                if self._agent is None
                else f"there is no agent {self._agent!r}",
                remedy=f"Name one with --agent: {', '.join(names)}.",
            )
        if not self._quiet and is_terminal(sys.stdin):
            complain(
                f"{self._agent or self._session} · {self._process.remote} · /help shows the commands", "dim"
            )
        if self._yes and not self._quiet:
            complain(f"note: {YES_NOTICE}", "yellow")

    def take(self, text: str) -> int:
        """Do what a line asks for; the exit code of a turn, 0 for anything else."""
        from zeus_runtime.errors import ZeusError

        try:
            if text.startswith("/") and not text.startswith("//"):
                self._command(*text.split(maxsplit=1))
                return 0
            return self._say(text.removeprefix("/") if text.startswith("//") else text)
        except ZeusError as error:
            complain(f"error: {self._process.redact(str(error))}", "red")
            return error.exit_code

    def _say(self, prompt: str) -> int:
        from zeus_runtime.cli.remote.run import turn_of
        from zeus_runtime.cli.remote.service import require_dotenv
        from zeus_runtime.cli.view_choice import view_for
        from zeus_runtime.events import RunFailed

        require_dotenv(self._process)
        view = view_for("text", quiet=self._quiet)
        ending = self._runner.run(
            turn_of(self._client, view, prompt, agent=self._agent, session=self._session, yes=self._yes)
        )
        self._session = ending.session or self._session
        return ending.exit_code if isinstance(ending, RunFailed) else 0

    def _command(self, name: str, argument: str = "") -> None:
        from zeus_runtime.cli.output import TextTable, complain_table
        from zeus_runtime.cli.remote.sessions import session_rows
        from zeus_runtime.config.messages.diagnostics import suggestion

        if name == "/help":
            complain_table(TextTable(list(HELP.items())))
        elif name == "/agents":
            agents = self._runner.run(self._client.agents())
            complain_table(TextTable([(each.name, each.model, each.description) for each in agents]))
        elif name == "/session" and argument.strip():
            self._session = self._runner.run(self._client.session(argument.strip())).session
        elif name == "/session":
            complain(self._session or "no session yet")
        elif name == "/sessions":
            found = self._runner.run(self._client.sessions())[:LATEST]
            if found:
                complain_table(TextTable(session_rows(found)))
            else:
                complain("no session yet")
        elif name == "/new":
            self._session = None
            complain("the next prompt begins a new session")
        else:
            known = [each.split()[0] for each in HELP]
            complain(
                f"there is no {name}{suggestion(name, known)} (// sends a line that begins with /)", "yellow"
            )
