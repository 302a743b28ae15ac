"""The options that the commands of ``zeus context`` share."""

from __future__ import annotations

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.options import config_args

config_option = config_args(
    click.option(
        "--config",
        metavar="CONFIG",
        shell_complete=complete_config,
        help="Whose database: a file or preset; zeus.yaml by default.",
    )
)
session_option = click.option(
    "--session",
    "-s",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Which session; the agent's latest by default.",
)
step_option = click.option(
    "--step",
    metavar="N",
    type=click.IntRange(min=1),
    help="Which model call, from 1; the last by default.",
)
plot_option = click.option(
    "--plot",
    metavar="FILE.html",
    help="Also draw the steps: one HTML page with the chart of `zeus serve`, which loads nothing.",
)
