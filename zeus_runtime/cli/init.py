"""``zeus init``: one zeus.yaml, written from a few answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zeus_runtime.cli.asking import ask
from zeus_runtime.cli.completion import complete_model
from zeus_runtime.cli.streams import can_ask, complain
from zeus_runtime.cli.whole_file import unnamed_place
from zeus_runtime.escaping import shell_line
from zeus_runtime.tools.own_folders import own_path

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.layers.plugin_home import PluginHome

MODEL_BY_KEY: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5.2",
    "GEMINI_API_KEY": "gemini/gemini-2.5-pro",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
    "MISTRAL_API_KEY": "mistral/mistral-large-latest",
}
"""The model that is proposed where this key is set; the first one counts."""

DEFAULT_PRESET: Final = "default"
DEFAULT_MODEL: Final = "openai/gpt-5.2"
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_TEXT: Final = frozenset({"true", "false", "null"})


@click.command("init")
@click.argument(
    "file", metavar="[FILE]", default="zeus.yaml", type=click.Path(dir_okay=False, path_type=Path)
)
@click.option("--name", metavar="NAME", help="The agent's name; the folder's by default.")
@click.option(
    "--model", metavar="NAME", shell_complete=complete_model, help="The model, as litellm names it."
)
@click.option("--preset", metavar="NAME", help="The preset to extend; default by default.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the defaults for what is not given.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    file: Path,
    name: str | None,
    model: str | None,
    preset: str | None,
    yes: bool,
    force: bool,
) -> None:
    """Write a zeus.yaml.

    On a terminal it asks for what the options do not say. It writes that one file and no other.
    """
    target = unnamed_place(own_path(process.directory / file), process.directory)
    if target.exists() and not force:
        raise click.UsageError(f"{file} is there already; --force overwrites it", ctx)
    asks = not yes and can_ask()
    if not asks and not yes and model is None and preset is None:
        raise click.UsageError(
            "not a terminal, so no questions can be asked: pass --yes, --model or --preset", ctx
        )
    folder = target.resolve().parent.name or "zeus"
    if asks:
        name = name or ask("Name of the agent", folder)
        preset = preset or _asked_preset(_presets(process))
        model = model if model is not None else _asked_model(process, preset)
    preset = preset or DEFAULT_PRESET
    if model is None and (not _has_model(process, preset) or _key_decides(process, preset)):
        model = proposed_model(process.environ)
    hints = _hints(process, preset)
    text = written(name=name or folder, model=model or None, preset=preset, hints=hints)
    _validate(process, text)
    _write(target, text, file, force=force)
    complain(f"wrote {file}")
    for warning in _warnings(process, target):
        complain(f"note: {warning}", "yellow")
    which = [] if str(file) == "zeus.yaml" else [str(file)]
    asking = shell_line("zeus", "run", *which, "What can you do?")
    complain(f"next: {shell_line('zeus', 'plan', *which)}, or {asking}")


_HINTS: Final[Mapping[str, tuple[str, str]]] = {
    "instructions": (
        "The agent's own task and rules; a longer text goes into a file: {file: instructions.md}.",
        "instructions: You are a reviewer of Go code. Look for races and unchecked errors first.",
    ),
    "approvals": (
        "The agent asks you before a tool that writes runs. This line lets it run without asking.",
        "approvals: run_everything",
    ),
    "memory": (
        "Nothing is remembered beyond a session. This line turns long-term memory on, on this machine.",
        "memory: {user: local}",
    ),
}
"""Key to what it is for and a line that sets it: what most people change first."""


def written(*, name: str, model: str | None, preset: str, hints: Sequence[str] = ()) -> str:
    """The file's text.

    Args:
        name: the agent's name.
        model: the model's name; None leaves the preset's, with a commented line to change it.
        preset: what it extends.
        hints: the keys that it contains as commented lines.
    """
    lines = [
        "# yaml-language-server: $schema=.zeus/zeus.schema.json",
        "# An agent. `zeus plan` shows every value and where it comes from; `zeus schema -o .zeus/zeus.schema.json`",
        "# lets an editor complete this file.",
        "version: 1",
        f"extends: {_scalar(preset)}",
        f"name: {_scalar(name)}",
    ]
    if model:
        lines.append(f"model: {_scalar(model)}")
    else:
        lines += [
            "",
            "# The preset names the model. `zeus models list` shows others.",
            f"# model: {DEFAULT_MODEL}",
        ]
    for key in hints:
        meaning, line = _HINTS[key]
        lines += ["", f"# {meaning}", f"# {line}"]
    return "\n".join(lines) + "\n"


def proposed_model(environ: Mapping[str, str]) -> str:
    """The model to propose, by the keys that are set."""
    return next((model for key, model in MODEL_BY_KEY.items() if environ.get(key)), DEFAULT_MODEL)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT
    # A dollar begins a variable, so it is doubled. JSON strings are valid YAML.
    return text if plain else json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def _presets(process: Process) -> Sequence[str]:
    from zeus_runtime.config.layers.plugin_home import presets_of

    found = {path.stem for home in _homes(process) for path in (home / "configs").glob("*.yaml")}
    near = sorted(found - {"profiles"})
    return [*near, *presets_of(_plugin_homes(process), near)]


def _plugin_homes(process: Process) -> Sequence[PluginHome]:
    from zeus_runtime.registry import installed_homes

    return installed_homes({}, process.environ)


def _homes(process: Process) -> Sequence[Path]:
    from zeus_runtime.registry.home import search_path

    return search_path(directory=process.directory, environ=process.environ)


def _asked_preset(presets: Sequence[str]) -> str:
    if not presets:
        return DEFAULT_PRESET
    default = DEFAULT_PRESET if DEFAULT_PRESET in presets else presets[0]
    return ask("Preset to extend", default, presets)


def _asked_model(process: Process, preset: str) -> str:
    proposed = (
        "" if preset != DEFAULT_PRESET and _has_model(process, preset) else proposed_model(process.environ)
    )
    text = "Model (empty: the preset's)" if not proposed else "Model"
    return ask(text, proposed)


def _key_decides(process: Process, preset: str) -> bool:
    """Whether to write the model of a key that is set: neither another preset nor ZEUS_MODEL chooses one."""
    environ = process.environ
    return preset == DEFAULT_PRESET and not environ.get("ZEUS_MODEL") and any(map(environ.get, MODEL_BY_KEY))


def _has_model(process: Process, preset: str) -> bool:
    from zeus_runtime.config import load

    document = load(
        preset,
        environ=process.environ,
        homes=_homes(process),
        plugin_homes=lambda rules: _plugin_homes(process),
        directory=process.directory,
    )
    return document.get(("model",)) is not None


def _hints(process: Process, preset: str) -> Sequence[str]:
    """The keys whose commented lines are valid with the preset, so that a user can uncomment them without an error."""
    from zeus_runtime.config import ConfigError, load

    try:
        document = load(preset, environ=process.environ, homes=_homes(process), directory=process.directory)
    except ConfigError:
        return ()  # validation reports the error later
    names = {
        key: {each if isinstance(each, str) else next(iter(each), "") for each in document.get((key,)) or ()}
        for key in ("tools", "middlewares")
    }
    works = {
        "instructions": True,
        "approvals": "approve" in names["middlewares"],
        "memory": "memory" in names["tools"] and document.get(("memory",)) is None,
    }
    return [key for key in _HINTS if works[key]]


def _validate(process: Process, text: str) -> None:
    """Refuse to write what would not be valid.

    Raises:
        ConfigError: it would not.
    """
    from io import BytesIO

    from zeus_runtime.plan.validated import examine_config

    examine_config("-", directory=process.directory, environ=process.environ, stdin=BytesIO(text.encode()))


def _warnings(process: Process, written: Path) -> list[str]:
    """Warnings about the file that was written, such as a model that is not known."""
    from zeus_runtime.plan.validated import examine_config

    checked = examine_config(str(written), directory=process.directory, environ=process.environ)
    return [process.redact(each.message) for each in checked.notices]


def _write(target: Path, text: str, shown: Path, *, force: bool) -> None:
    from zeus_runtime.errors import UsageError

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # `x`: a file that was made since the look above is not overwritten.
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be written: {error.strerror}", remedy="Name another file."
        ) from error
