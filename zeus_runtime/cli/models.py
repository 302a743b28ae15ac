"""``zeus models``: the models there are tables of, and what is known of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.completion import complete_config, complete_model
from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.model import Profiles

config_option = click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="Count in this config's profiles and Homes.",
)


@click.group("models")
def command() -> None:
    """List models, or show what is known of one."""


@command.command("list")
@click.option("--provider", metavar="NAME", help="Only this provider's, such as openai or bedrock.")
@click.option("--search", metavar="TEXT", help="Only names that hold every word of TEXT, in any case.")
@config_option
@json_option
@click.pass_obj
@click.pass_context
def list_models(
    ctx: click.Context,
    process: Process,
    provider: str | None,
    search: str | None,
    config: str | None,
    as_object: bool,
) -> None:
    """List the models that answer a conversation.

    Limits in tokens, prices in US dollars per million tokens. Any other name that litellm knows runs too, with an
    assumed window.
    """
    from zeus_runtime.cli.profiles import dollars
    from zeus_runtime.models.profiles import catalogue

    overrides, homes = _where(process, config)
    words = (search or "").lower().split()
    found = [
        profile
        for profile in catalogue(overrides=overrides, homes=homes, provider=provider)
        if all(word in profile.name.lower() for word in words)
    ]
    rows = [
        (
            profile.name,
            f"{profile.max_input_tokens:,}" if profile.known else "?",
            f"{profile.max_output_tokens:,}" if profile.max_output_tokens else "?",
            "?" if profile.input_cost_per_token is None else dollars(profile.input_cost_per_token),
            "?" if profile.output_cost_per_token is None else dollars(profile.output_cost_per_token),
        )
        for profile in found
    ]
    tell(
        process,
        found,
        lambda: TextTable(rows, ("MODEL", "INPUT", "OUTPUT", "$ IN", "$ OUT")),
        as_object=as_object,
        nothing="no model fits; `zeus models list` without options shows all",
    )
    if not found and not as_object:
        ctx.exit(1)


@command.command("show")
@click.argument("name", shell_complete=complete_model)
@config_option
@json_option
@click.pass_obj
def show_model(process: Process, name: str, config: str | None, as_object: bool) -> None:
    """Show what is known of a model, and which table each value comes from.

    Names are exact: gpt-5-2 is not gpt-5.2.
    """
    from zeus_runtime.cli.profiles import profile_rows
    from zeus_runtime.models.profiles import lookup, notices

    overrides, homes = _where(process, config)
    profile = lookup(name, overrides=overrides, homes=homes)
    rows = [(label, value, f"({source})") for label, value, source in profile_rows(profile)]
    tell(process, profile, lambda: TextTable([("model", profile.name, ""), *rows]), as_object=as_object)
    for notice in notices(profile):
        complain(f"note: {notice.message}", "yellow")


def _where(process: Process, config: str | None) -> tuple[Profiles | None, tuple[Path, ...]]:
    """The user's profiles and the Homes: a config's, or those of the working directory."""
    if config is not None:
        from zeus_runtime.cli.options import ConfigArgs, read_config

        checked = read_config(process, ConfigArgs(config))
        return checked.config.profiles, checked.homes
    from zeus_runtime.registry.home import search_path

    return None, search_path(directory=process.directory, environ=process.environ)
