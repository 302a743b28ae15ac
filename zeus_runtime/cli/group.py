"""The command group: Zeus's verbs from a table that imports nothing, and plugins' commands for all other words."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from zeus_runtime import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from zeus_runtime.cli.process import Process
    from zeus_runtime.registry import PluginProblem

VERBS: Final[Mapping[str, str]] = {
    "run": "Run an agent: one prompt, or a conversation.",
    "chat": "Talk with an agent in the terminal.",
    "resume": "Resume a session's run and decide its pending approvals.",
    "validate": "Check configs and report every problem with its position.",
    "plan": "Show exactly what will run and where each value comes from.",
    "trust": "Show what a config executes and where it sends data, and allow it once.",
    "init": "Write a zeus.yaml.",
    "schema": "Print the JSON Schema of configs, installed plugins included.",
    "doctor": "Check the installation, the plugins and the keys.",
    "models": "List models, or show what is known of one.",
    "tools": "List the tools an agent has, mode by mode.",
    "auth": "Authorise the accounts that tools need, or take them back.",
    "mcp": "Serve an agent as an MCP server.",
    "serve": "Serve agents over HTTP.",
    "keys": "Make, list, rotate or revoke the keys of `zeus serve`.",
    "audit": "Show who did what with a service.",
    "skills": "List skills, their sources and their problems; show one.",
    "plugins": "List plugins, their components and their problems.",
    "sessions": "List, show, roll back, fork, archive or delete sessions.",
    "approvals": "List what waits for a decision, how often to ask, and your allowlist.",
    "memory": "List, search, add, delete, move or index memories; profiles and members.",
    "kb": "Fill, list, search or remove knowledge bases.",
    "db": "Show or upgrade the schema of a database.",
    "eval": "Run the cases of an evaluation file, or make a case of a session.",
    "context": "Show what the model saw, explain it, and test other policies on it.",
}
"""Verb to its line in ``zeus --help``; the module ``zeus_runtime.cli.VERB`` has its ``command``."""


REMOTE: Final = ("run", "chat", "sessions", "approvals", "memory", "kb", "context")
"""The verbs that work with a service, in ``zeus_runtime.cli.remote``."""

READER_GONE: Final = 141
"""The exit code when the output's reader went away: what a shell reports of a program that SIGPIPE ended."""


class Verbs(click.Group):
    """The verbs in the table's order; a verb's module is imported when the verb is used, a plugin when none fits."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.params.get("remote") is not None and cmd_name in REMOTE:
            remote: click.Command = import_module(f"zeus_runtime.cli.remote.{cmd_name}").command
            return remote
        if cmd_name in VERBS:
            command: click.Command = import_module(f"zeus_runtime.cli.{cmd_name}").command
            return command
        return None if ctx.resilient_parsing else self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if ctx.params.get("remote") is not None and name not in REMOTE and not ctx.resilient_parsing:
            told = f"--remote works with {', '.join(REMOTE)}, and not with {name!r}"
            raise click.UsageError(f"{told}; the others work on the service's machine", ctx)
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            problems = self._add_plugins(ctx)
            if name not in self.commands:
                raise click.UsageError(_unknown(name, self.commands, problems), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        from zeus_runtime.cli.start import mask_logs

        mask_logs(ctx.obj)
        # Only ``ctx.exit`` sets an exit code; the return value of a plugin's command is ignored.
        try:
            super().invoke(ctx)
        except BrokenPipeError:
            # Left to click, this would end as a failure.
            ctx.exit(READER_GONE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=line) for name, line in VERBS.items() if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def _add_plugins(self, ctx: click.Context) -> tuple[PluginProblem, ...]:
        import os

        from zeus_runtime.registry import discover
        from zeus_runtime.registry.commands import plugin_commands

        # Loaded here, so that a plugin's command cannot take a verb's name.
        for name in VERBS:
            command = self.get_command(ctx, name)
            assert command is not None
            self.commands[name] = command
        registry = discover(environ=os.environ)
        added, problems = plugin_commands(registry, self)
        for _, command in added:
            self.add_command(command)
        return (*registry.problems, *problems)


def _unknown(name: str, known: Mapping[str, object], problems: tuple[PluginProblem, ...]) -> str:
    from zeus_runtime.config.messages.diagnostics import suggestion

    lines = [f"there is no command '{name}'{suggestion(name, known)}"]
    lines += [
        f"A plugin that is broken may have it: {problem}" for problem in problems if not problem.is_harmless
    ]
    return "\n".join(lines)


@click.group(
    cls=Verbs,
    name="zeus",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Plugins may add commands: `zeus plugins` lists them.",
)
@click.version_option(__version__, "-V", "--version", message="zeus %(version)s")
@click.option(
    "--remote",
    metavar="URL",
    help=f"Use the agents of this service (`zeus serve`), for {', '.join(REMOTE)}; its token: ZEUS_TOKEN.",
)
@click.pass_obj
def zeus(process: Process, remote: str | None) -> None:
    """Run agents that one YAML file declares."""
    process.remote = remote
