"""The options that the commands of ``zeus memory`` share."""

from __future__ import annotations

import click

from zeus_runtime.cli.completion import complete_config, complete_session

TYPES = ("preference", "fact", "skill", "habit", "event", "context", "constraint", "decision")
SCOPES = ("user", "project", "session")

config_option = click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="Whose memory: a file or preset; zeus.yaml by default, and without one the preset zeus.",
)
session_option = click.option(
    "--session",
    "-s",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Also the memories of this session.",
)
type_option = click.option("--type", "memory_type", type=click.Choice(TYPES), help="Only this kind.")
scope_option = click.option("--scope", type=click.Choice(SCOPES), help="Only this scope.")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)
project_option = click.option("--project", is_flag=True, help="The project's profile instead of the user's.")
