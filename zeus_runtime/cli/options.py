"""What several verbs take: the config, its overlay and overrides, the mode, the form of what they print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from zeus_runtime.cli.completion import complete_config

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.process import Process

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

MODES = ("agent", "ask", "plan")


class _AtMost(click.IntRange):
    """A number of rows; one that is larger than a database can count means all of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return min(int(super().convert(value, param, ctx)), 1_000_000_000)


AT_MOST: Final = _AtMost(min=1)

config_argument: Decorator = click.argument(
    "config", metavar="[CONFIG]", required=False, shell_complete=complete_config
)
env_option: Decorator = click.option(
    "--env", metavar="NAME", help="Lay the overlay FILE.NAME.yaml over the config."
)
set_option: Decorator = click.option(
    "--set",
    "sets",
    metavar="PATH=VALUE",
    multiple=True,
    help="Override one value, such as limits.max_steps=5; may be repeated.",
)
mode_option: Decorator = click.option(
    "--mode", type=click.Choice(MODES), help="The mode, instead of the config's."
)
format_option: Decorator = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)
attach_option: Decorator = click.option(
    "--attach",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file that goes with the (first) prompt; may be repeated.",
)
output_option: Decorator = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "ndjson"]),
    default="text",
    show_default=True,
    help="The answer as text, one JSON object at the end, or one JSON event per line.",
)
quiet_option: Decorator = click.option("-q", "--quiet", is_flag=True, help="On standard error only errors.")


def read_config(
    process: Process, config: str | None, *, env: str | None = None, sets: Sequence[str] = ()
) -> Checked:
    """The config, checked; its secrets are masked in messages from now on.

    Raises:
        ConfigError: with every problem.
        MissingError: a plugin the config asks for is not there.
    """
    from zeus_runtime.agent.checked import check

    checked = check(config, env=env, sets=sets, directory=process.directory, environ=process.environ)
    process.learn(checked.document.redactor)
    return checked


def read_owner(
    process: Process, config: str | None, *, env: str | None = None, sets: Sequence[str] = ()
) -> tuple[Checked, bool]:
    """The config whose database is meant, and whether the user named it or has it here.

    A folder where only presets ran has sessions and no zeus.yaml: they are in the default place.
    """
    own = config is not None or (process.directory / "zeus.yaml").exists()
    return read_config(process, config if own else "default", env=env, sets=sets), own
