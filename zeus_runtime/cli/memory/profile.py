"""``zeus memory profile``: what is known of the user and the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import bare_config_option, config_option, project_option
from zeus_runtime.cli.options import ConfigArgs, env_option, format_option
from zeus_runtime.cli.output import tell
from zeus_runtime.cli.streams import answer, can_ask, complain
from zeus_runtime.command_lines import name_config

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.profile.fields import ProfileKind


@click.group("profile")
def profile() -> None:
    """Show or edit what is known of the user, or with --project of the project."""


@profile.command("show")
@project_option
@config_option
@format_option
@click.pass_obj
def show(process: Process, project: bool, which: ConfigArgs, as_object: bool) -> None:
    """Show each field, who wrote it (hand, rule or model), and the memories it comes from."""
    from zeus_runtime.cli.memory.tables import profile_table
    from zeus_runtime.memory.profile.fields import profile_fields
    from zeus_runtime.memory.shown import profile_json

    kind = _kind(project)
    checked = read_remembering(process, which)
    found = with_memory(process, checked, lambda memory: memory.profiles.fields(kind), looks=True)
    fields = profile_fields(kind, {}, (), {}) if found is None else found
    value = {"profile": kind, "fields": profile_json(fields)}
    tell(process, value, lambda: profile_table(fields), as_object=as_object)


@profile.command("edit")
@project_option
@click.option(
    "--set",
    "changes",
    metavar="FIELD=VALUE",
    multiple=True,
    help="Write a field; a list takes a JSON list or entries between commas. May be repeated.",
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False, exists=True),
    help="Write the fields of a YAML file; of one that an edit left, those that were changed in it.",
)
@bare_config_option
@env_option
@click.pass_obj
def edit(
    process: Process,
    project: bool,
    changes: tuple[str, ...],
    file: str | None,
    config: str | None,
    env: str | None,
) -> None:
    """Write fields by hand: with --set, from a file, or with neither in the editor ($VISUAL, $EDITOR).

    Fields that you write by hand are never overwritten; an empty value gives the field back. If a field cannot be
    written, the error names its line, nothing is written, and the edited text stays in its file.
    """
    from zeus_runtime.cli.memory.editing import edited_profile, write_profile, write_profile_of_file
    from zeus_runtime.errors import UsageError

    kind, values = _kind(project), {}
    if changes and file is not None:
        raise UsageError("--set and --file exclude each other")
    if not changes and file is None and not can_ask():
        raise UsageError("nothing says what to write", remedy="Give --set FIELD=VALUE or --file FILE.")
    for each in changes:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"{each!r} sets nothing", remedy="Write --set FIELD=VALUE.")
        values[name.strip()] = value
    which = ConfigArgs(config, env)
    # Not by `gather_config`: `--set` is a field of the profile here.
    name_config(which.config, which.laid_over)
    checked = read_remembering(process, which)
    if file is not None:
        values = write_profile_of_file(process, checked, kind, file)
    elif changes:
        write_profile(process, checked, kind, values)
    else:
        edited_profile(process, checked, kind)
        return
    complain(f"wrote {', '.join(values)}" if values else "nothing to write")


@profile.command("draw")
@project_option
@config_option
@click.pass_obj
def draw(process: Process, project: bool, which: ConfigArgs) -> None:
    """Draw the profile anew from the memories, by the rules, without waiting for enough new ones."""
    kind = _kind(project)
    checked = read_remembering(process, which)
    done = with_memory(process, checked, lambda memory: memory.profiles.draw(kind), looks=True) or 0
    answer(f"drew {done} lines")


def _kind(project: bool) -> ProfileKind:
    return "project" if project else "user"
