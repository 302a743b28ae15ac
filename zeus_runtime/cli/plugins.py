"""``zeus plugins``: list the plugins, their components and their problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.cli.process import Process
    from zeus_runtime.registry import Plugin, PluginProblem, Registry


@click.group("plugins", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List plugins, their components and their problems."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_plugins, config=None, as_object=False)


@command.command("list")
@click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="As this config has them: its rules and its own plugin files.",
)
@json_option
@click.pass_obj
@click.pass_context
def list_plugins(ctx: click.Context, process: Process, config: str | None, as_object: bool) -> None:
    """List plugins with status, distribution and version, and what each brings.

    That is: its components by the names a config writes, its commands, and its Homes with their presets, prompts and
    skills. A config turns a Home on with `homes: [plugin:NAME]`. Problems go to standard error.
    """
    from zeus_runtime.cli.group import zeus
    from zeus_runtime.registry.commands import plugin_commands

    registry = _registry(process, config)
    for name in zeus.list_commands(ctx):
        own = zeus.get_command(ctx, name)
        assert own is not None
        zeus.commands[name] = own
    commands, more = plugin_commands(registry, zeus)
    found = [
        _object(plugin, registry, [command.name or "" for owner, command in commands if _same(owner, plugin)])
        for plugin in registry.plugins
    ]
    problems = [*registry.problems, *more]
    value = {"plugins": found, "problems": list(map(_problem, problems))}
    tell(process, value, lambda: _table(found), as_object=as_object)
    for problem in () if as_object else problems:
        complain(f"note: {problem}", "yellow")


def _registry(process: Process, config: str | None) -> Registry:
    from zeus_runtime.registry import discover

    if config is None:
        return discover(environ=process.environ)
    from zeus_runtime.config import load
    from zeus_runtime.config.schema.validate import read_early
    from zeus_runtime.plan.validated import discovered, trust_of
    from zeus_runtime.registry import installed_homes, search_path

    # Not the whole check: what is wrong with a plugin must be seen even where the config needs that plugin.
    homes = search_path(directory=process.directory, environ=process.environ)
    document = load(
        config,
        environ=process.environ,
        homes=homes,
        plugin_homes=lambda rules: installed_homes(rules, process.environ),
        directory=process.directory,
    )
    process.learn(document.redactor)
    trust = trust_of(document, [config], environ=process.environ)
    early = read_early(document)
    return discovered(document, early.plugins, environ=process.environ, homes=homes, trust=trust)


def _object(plugin: Plugin, registry: Registry, commands: list[str]) -> dict[str, Any]:
    components = [
        each for found in registry.components.values() for each in found if _same(each.plugin, plugin)
    ]
    return {
        "name": plugin.name,
        "status": plugin.status,
        "reason": plugin.reason,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "source": plugin.source,
        "components": [
            {"kind": each.kind, "name": each.name, "summary": each.summary} for each in components
        ],
        "commands": commands,
        "homes": [_home(home) for owner, home in registry.homes if _same(owner, plugin)],
    }


def _home(home: Path) -> dict[str, Any]:
    """The contents of a Home."""
    presets = sorted(path.stem for path in home.glob("configs/*.yaml"))
    return {
        "path": str(home),
        "presets": [name for name in presets if name != "profiles"],
        "profiles": "profiles" in presets,
        "prompts": sorted(path.name for path in home.glob("prompts/*") if path.is_file()),
        "skills": sorted(path.parent.name for path in home.glob("skills/*/SKILL.md")),
        "plugins": sorted(path.name for path in home.glob("plugins/*.py")),
    }


def _same(one: Plugin, other: Plugin) -> bool:
    """Whether two are one plugin, whatever its status was when each was noted."""
    return (one.name, one.source) == (other.name, other.source)


def _table(found: Sequence[dict[str, Any]]) -> TextTable:
    """A table of the plugins, below each of them a row for each thing it brings."""
    rows = [
        (each["name"], each["status"], each["distribution"] or "(file)", each["version"] or "", _why(each))
        for each in found
    ]
    return TextTable(
        rows, ("PLUGIN", "STATUS", "DISTRIBUTION", "VERSION", ""), below=list(map(_brought, found))
    )


def _why(plugin: dict[str, Any]) -> str:
    """Why a plugin is blocked; why one failed is among the problems."""
    return str(plugin["reason"]) if plugin["status"] == "blocked" else ""


def _brought(plugin: dict[str, Any]) -> list[tuple[str, str]]:
    """What a plugin brings, each with its summary."""
    return [
        *((f"{each['kind']} {each['name']}", each["summary"]) for each in plugin["components"]),
        *((f"command {name}", "") for name in plugin["commands"]),
        *((f"home plugin:{plugin['name']}", _held(each)) for each in plugin["homes"]),
    ]


def _held(home: dict[str, Any]) -> str:
    kinds = ("presets", "prompts", "skills", "plugins")
    held = [f"{kind}: {', '.join(home[kind])}" for kind in kinds if home[kind]]
    if home["profiles"]:
        held.append("model profiles")
    return f"{'; '.join(held) or 'empty'} ({home['path']})"


def _problem(problem: PluginProblem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "message": problem.message,
        "remedy": problem.remedy,
        "plugin": problem.plugin.name if problem.plugin else None,
    }
