"""``zeus skills``: the skills an agent has, where each comes from, and why one is not offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.options import (
    ConfigArgs,
    config_args,
    config_argument,
    json_option,
    read_owner,
)
from zeus_runtime.cli.output import ShortCell, TextTable, tell
from zeus_runtime.cli.streams import complain
from zeus_runtime.escaping import printable

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.skills import Skill, Skills

COMPONENT: Final = "skills"
"""The middleware that gives skills to the model."""


@click.group("skills")
def command() -> None:
    """List skills, their sources and their problems; show one."""


@command.command("list")
@config_argument
@click.option("--json", "as_object", is_flag=True, help="JSON for programs, warnings included.")
@click.pass_obj
def list_skills(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """List the skills that a config's agent finds, the nearest first.

    Status: offered to the model, shadowed by a nearer one of its name, untrusted (the project brings it and the YAML
    does not say `skills: {trust_project: true}`), hidden by its author, or unusable. Problems of a file go to standard
    error with their place.
    """
    found, listed = _found(process, which)
    rows = [
        (each.name, _status(each), str(each.folder), ShortCell(each.description, 60)) for each in found.all
    ]
    tell(
        process,
        [_object(each) for each in found.all],
        lambda: TextTable(rows, ("SKILL", "STATUS", "FOLDER", "DESCRIPTION")),
        as_object=as_object,
        nothing="no skills: put a folder with a SKILL.md into ~/.config/zeus/skills, or into a Home's skills/",
    )
    if rows and not as_object:
        _complain_of(found.all, overflow=found.overflow, listed=listed)


@command.command("show")
@click.argument("name")
@config_args(click.option("--config", metavar="CONFIG", help="The config whose skills are meant."))
@json_option
@click.pass_obj
def show_skill(process: Process, name: str, which: ConfigArgs, as_object: bool) -> None:
    """Show one skill: where it is, what is wrong with it, its files and its instructions."""
    from zeus_runtime.skills.discovery import FILE
    from zeus_runtime.skills.front_matter import read_skill_text
    from zeus_runtime.skills.resources import read_skill_resource, skill_resources

    found, listed = _found(process, which)
    skill = _chosen(found, name)
    usable = skill.status != "unusable"
    body = read_skill_text(read_skill_resource(skill.folder, FILE)).body if usable else ""
    files = skill_resources(skill.folder) if usable else []
    shown = [{"path": each.path, "size_bytes": each.size_bytes} for each in files]
    facts = [
        ("name", skill.name),
        ("status", _status(skill)),
        ("file", str(skill.file)),
        ("description", skill.description),
        *([("license", skill.license)] if skill.license else []),
        *(("resource", f"{each.path} ({each.size_bytes:,} bytes)") for each in files),
    ]
    tell(
        process,
        {**_object(skill), "files": shown, "body": body},
        lambda: [TextTable(facts), *([f"\n{body}"] if body else [])],
        as_object=as_object,
    )
    if not as_object:
        _complain_of([skill], overflow=False, listed=listed)


def _found(process: Process, which: ConfigArgs) -> tuple[Skills, bool]:
    """The skills, and whether the config gives them to its model at all."""
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.skills import find_skills, skill_roots

    plan = make_plan(read_owner(process, which)[0])
    planned = next((each for each in plan.middlewares if each.name == COMPONENT), None)
    context = plan.context
    roots = skill_roots(directory=context.directory, workspace=context.workspace.root, homes=context.homes)
    trusted = planned is not None and planned.options.get("trust_project") is True
    return find_skills(roots, trust_project=trusted)[0], planned is not None


def _chosen(found: Skills, name: str) -> Skill:
    from zeus_runtime.config.messages.diagnostics import suggestion
    from zeus_runtime.errors import UsageError

    of_name = [each for each in found.all if each.name == name]
    if not of_name:
        names = dict.fromkeys(each.name for each in found.all)
        raise UsageError(
            f"there is no skill {name!r}{suggestion(name, names)}",
            remedy="`zeus skills list` says which there are.",
        )
    return next((each for each in of_name if each.status == "offered"), of_name[0])


def _status(skill: Skill) -> str:
    return f"shadowed by {skill.by}" if skill.by is not None else skill.status


def _complain_of(skills: Sequence[Skill], *, overflow: bool, listed: bool) -> None:
    for skill in skills:
        for each in skill.warnings:
            place = f"{printable(str(skill.file))}:{each.line}:{each.column}"
            complain(f"{place}: warning: {each.message}", "yellow")
    if any(each.status == "untrusted" for each in skills):
        complain(
            "untrusted skills came with the project and are not offered; if you trust their authors:"
            " `middlewares: [{skills: {trust_project: true}}]`"
        )
    if overflow:
        complain("warning: too many folders; some were not looked into", "yellow")
    if not listed:
        complain(
            "warning: this config does not list the middleware `skills`, so its model gets none", "yellow"
        )


def _object(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "status": skill.status,
        "file": str(skill.file),
        "project": skill.root.project,
        "shadowed_by": None if skill.by is None else str(skill.by),
        "license": skill.license or None,
        "warnings": [vars(each) for each in skill.warnings],
    }
