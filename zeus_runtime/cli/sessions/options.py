"""What the verbs of ``zeus sessions`` share: whose database, which sessions, and for how long."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.options import Decorator, config_args

config_option: Decorator = config_args(
    click.option(
        "--config",
        metavar="CONFIG",
        shell_complete=complete_config,
        help="Whose database: a file or preset; zeus.yaml by default, and without one the default preset.",
    )
)
yes_option: Decorator = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
session_argument: Decorator = click.argument("session", required=False, shell_complete=complete_session)
sessions_argument: Decorator = click.argument(
    "sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=complete_session
)
form_option: Decorator = click.option(
    "--format",
    "form",
    type=click.Choice(("json", "markdown")),
    default="json",
    show_default=True,
    help="json has everything that is stored of it; markdown is for reading.",
)
file_option: Decorator = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write it there.",
)


class Given(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A text, or ``-`` for that of standard input."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        if value != "-":
            return str(value)
        try:
            return sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            self.fail(f"standard input is not UTF-8: {error}.", param, ctx)


middlewares_option: Decorator = click.option(
    "--middlewares",
    metavar="YAML",
    type=Given(),
    help="The value of `middlewares` for the new session, in YAML (`-`: standard input); without it, those of SESSION.",
)

_DAYS: Final = {"m": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
# Takes `30d` and `1.5h`, and not `30` or `-1d`.
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)([mhdw])\Z")


class Age(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A length of time such as ``30d``, as days."""

    name = "AGE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """``30d`` as 30.0."""
        if isinstance(value, float):
            return value
        match = _AGE.match(str(value))
        if match is None:
            self.fail(f"{value!r} is not an age; say 90m, 12h, 30d or 8w.", param, ctx)
        return float(match[1]) * _DAYS[match[2]]
