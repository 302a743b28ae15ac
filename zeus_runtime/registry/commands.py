"""The commands that plugins add to ``zeus``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.registry.contribution import HookError, checked_iterable
from zeus_runtime.registry.importing import FAILURES, brief
from zeus_runtime.registry.plugin import Plugin, PluginProblem
from zeus_runtime.registry.registry import Registry

if TYPE_CHECKING:
    import click


def plugin_commands(
    registry: Registry, cli: click.Group
) -> tuple[tuple[tuple[Plugin, click.Command], ...], tuple[PluginProblem, ...]]:
    """The plugins' commands, each with its plugin, and the problems; ``cli`` itself is not changed.

    A plugin whose hook raises, or returns something else than commands, adds none. A command whose name belongs to Zeus
    or to an earlier plugin is left out.
    """
    import click

    commands: list[tuple[Plugin, click.Command]] = []
    problems: list[PluginProblem] = []
    taken = dict.fromkeys(cli.commands, "Zeus itself")
    for plugin, function in registry.commands:
        try:
            returned = checked_iterable("register_commands", function(cli=cli), click.Command)
        except HookError as error:
            problems.append(_problem(plugin, str(error)))
            continue
        except FAILURES as error:
            problems.append(_problem(plugin, f"register_commands raised {brief(error)}"))
            continue
        for command in returned:
            name = command.name
            if not name or name in taken:
                why = (
                    f"the command name '{name}' is taken by {taken[name]}"
                    if name
                    else "a command has no name"
                )
                problems.append(_problem(plugin, why))
                continue
            taken[name] = f"plugin {plugin}"
            commands.append((plugin, command))
    return tuple(commands), tuple(problems)


def _problem(plugin: Plugin, what: str) -> PluginProblem:
    return PluginProblem(
        "plugin-command",
        f"plugin {plugin}: {what}",
        plugin.remedy,
        plugin,
    )
