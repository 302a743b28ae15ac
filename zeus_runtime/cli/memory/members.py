"""``zeus memory members``: who belongs to the project, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import complain
from zeus_runtime.memory.items import ROLES

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.items import Role


@click.group("members")
def members() -> None:
    """List, add or remove the members of the project (`memory: {project: NAME}`).

    While a project has no members, everyone has the role that their config says. From the first member on, only
    members have access to the project's memories and knowledge bases.
    """


@members.command("list")
@config_option
@format_option
@click.pass_obj
def list_members(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """List the members of the project."""

    checked = read_remembering(process, which)
    found = with_memory(process, checked, lambda memory: memory.members.all(), looks=True) or ()
    rows = [(each.user_id, each.role, each.since.astimezone().strftime("%Y-%m-%d")) for each in found]
    listed = [{"user": each.user_id, "role": each.role, "since": each.since} for each in found]
    tell(
        process,
        {"members": listed},
        lambda: TextTable(rows, ("USER", "ROLE", "SINCE")),
        as_object=as_object,
        nothing="the project has no members, so each config says the role of its user",
    )


@members.command("put")
@click.argument("user")
@click.argument("role", type=click.Choice(ROLES))
@config_option
@click.pass_obj
def put_member(process: Process, user: str, role: Role, which: ConfigArgs) -> None:
    """Make USER a member of the project with ROLE, or change the role of a member.

    The first member must be an owner. Owners manage all members, admins manage editors and viewers.
    """
    checked = read_remembering(process, which)
    with_memory(process, checked, lambda memory: memory.members.put(user, role), saves=True)
    complain(f"{user} is now {role} of the project")


@members.command("remove")
@click.argument("user")
@config_option
@click.pass_obj
def remove_member(process: Process, user: str, which: ConfigArgs) -> None:
    """Remove USER from the project. The memories that USER made for it stay. The last owner cannot leave."""
    checked = read_remembering(process, which)
    with_memory(process, checked, lambda memory: memory.members.remove(user))
    complain(f"{user} is no longer a member of the project")
