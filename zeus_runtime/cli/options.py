"""What several verbs take: the config, its overlay and overrides, the mode, the form of what they print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from zeus_runtime.cli.completion import complete_config, complete_model
from zeus_runtime.command_lines import command_for, name_config
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.trust.decision import Trust

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

MODES = ("agent", "ask", "plan")


class _AtMost(click.IntRange):
    """A number of rows; one that is larger than a database can count means all of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return min(int(super().convert(value, param, ctx)), 1_000_000_000)


AT_MOST: Final = _AtMost(min=1)


@dataclass(frozen=True)
class ConfigArgs:
    """Which config a command line means.

    Args:
        config: a file, a preset's name, or ``-``; None for ``zeus.yaml``.
        env: the overlay's name.
        sets: ``a.b=value`` overrides.
    """

    config: str | None = None
    env: str | None = None
    sets: Sequence[str] = ()

    @property
    def laid_over(self) -> list[str]:
        """The words of the command line that lay something over the config, without what it would not show."""
        from zeus_runtime.config.layers.loading import shown_setting

        words = ["--env", self.env] if self.env else []
        for each in self.sets:
            words += ["--set", shown_setting(each)]
        return words

    def command(self, *words: str, is_argument: bool = False) -> str:
        """A command of ``zeus`` that means this config, as ``zeus_command``."""
        return command_for(self.config, self.laid_over, *words, is_argument=is_argument)


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


def gather_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Below what says the config, --env and --set: the command gets them as one ConfigArgs, ``which``."""

    @wraps(command)
    def gathered(*args: Any, config: str | None, env: str | None, sets: tuple[str, ...], **rest: Any) -> Any:
        which = ConfigArgs(config, env, sets)
        name_config(which.config, which.laid_over)
        return command(*args, which=which, **rest)

    return gathered


def config_args(config: Decorator) -> Decorator:
    """What says the config, then --env and --set; the command gets one ConfigArgs, ``which``."""
    return lambda command: config(env_option(set_option(gather_config(command))))


bare_config_argument: Decorator = click.argument(
    "config", metavar="[CONFIG]", required=False, shell_complete=complete_config
)
config_argument = config_args(bare_config_argument)
json_option: Decorator = click.option("--json", "as_object", is_flag=True, help="JSON for programs.")
format_option: Decorator = click.option(
    "--format",
    "as_object",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    callback=lambda _context, _option, form: form == "json",
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
model_option: Decorator = click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_model,
    help="The name of the model; the other options of `litellm` stay.",
)
quiet_option: Decorator = click.option("-q", "--quiet", is_flag=True, help="On standard error only errors.")


def with_model(which: ConfigArgs, model: str | None) -> ConfigArgs:
    """``which`` with the model of ``--model`` laid over it.

    The other options of a litellm model stay: without its `api_base` the text would go to another server.
    """
    import json

    if model is None:
        return which
    # As JSON, which is YAML: a name such as `on` stays a text. `${NAME}` is no variable, because an evaluation file may
    # name the model, and an address in a name would send the variable's value to its host.
    literal = json.dumps(model.replace("$", "$$"))
    return replace(which, sets=(*which.sets, f"model.litellm.model={literal}"))


def read_config(
    process: Process, which: ConfigArgs, *, text: str | None = None, trust: Trust | None = None
) -> Checked:
    """The config, checked; its secrets are masked in messages from now on.

    Args:
        text: is read instead of the content of its file.
        trust: decides what may be executed; None for the record of this process's user.

    Raises:
        ConfigError: with every problem.
        MissingError: a plugin the config asks for is not there.
    """
    from zeus_runtime.plan.validated import check

    checked = check(
        which.config,
        env=which.env,
        sets=which.sets,
        directory=process.directory,
        environ=process.environ,
        trust=trust,
        text=text,
    )
    process.learn(checked.document.redactor)
    return checked


def read_owner(process: Process, which: ConfigArgs, *, preset: str = "default") -> tuple[Checked, bool]:
    """The config whose database is meant, and whether the user named it or has it here.

    A folder where only presets ran has sessions and no zeus.yaml: they are in the default place.

    Args:
        preset: the preset to use if there is none.
    """
    own = which.config is not None or (process.directory / "zeus.yaml").exists()
    return read_config(process, which if own else replace(which, config=preset)), own
