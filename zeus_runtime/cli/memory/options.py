"""The options that the commands of ``zeus memory`` share."""

from __future__ import annotations

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.options import config_args
from zeus_runtime.memory.items import MEMORY_TYPES, SCOPES

bare_config_option = click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="Whose memory: a file or preset; zeus.yaml by default, and without one the preset zeus.",
)
config_option = config_args(bare_config_option)
session_option = click.option(
    "--session",
    "-s",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Also the memories of this session.",
)
type_option = click.option("--type", "memory_type", type=click.Choice(MEMORY_TYPES), help="Only this kind.")
scope_option = click.option("--scope", type=click.Choice(SCOPES), help="Only this scope.")
project_option = click.option("--project", is_flag=True, help="The project's profile instead of the user's.")
