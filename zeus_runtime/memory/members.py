"""Who belongs to a project, and as what: rows that win over the role that a config says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.model import USER_NAME
from zeus_runtime.errors import ErrorsMasked, UsageError
from zeus_runtime.memory.items import Caller, Role

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.opened import OpenedMemory

_HEADS: Final = ("owner", "admin")


@dataclass(frozen=True)
class Member:
    """A user of a project.

    Args:
        since: when the row was first written, UTC.
    """

    user_id: str
    role: Role
    since: datetime


class Members(ErrorsMasked):
    """The members of the caller's project.

    In a project without members, the config decides the roles. From its first member on, a user without a row is not a
    member, whatever a config says.

    Args:
        opened: the memories.
        caller: as the config says.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._opened = opened
        self._caller = caller

    def _error_mask(self) -> Redactor:
        return self._opened.source.secrets

    async def all(self) -> tuple[Member, ...]:
        """Every member, by name.

        Raises:
            UsageError: the caller has no project or is not a member.
        """
        caller = await self._admitted()
        operations = await self._opened.operations()
        return await operations.database.read(lambda connection: members_of(connection, caller), caller)

    async def put(self, user_id: str, role: Role) -> Member:
        """Make a user a member, or give a member another role.

        Raises:
            UsageError: the caller may not (``refusal``), or the name is not valid.
        """
        import re

        from zeus_runtime.memory import records

        if re.search(USER_NAME, user_id) is None:
            raise UsageError(
                f"{user_id!r} is not a user's name",
                remedy="Write it on one line, without white space around it.",
            )
        caller = await self._admitted()
        operations = await self._opened.operations()
        now = operations.database.time()

        def work(connection: Connection) -> Member:
            there = _held(connection, caller)
            # By the members under the lock: meanwhile another one may have taken the caller's role away.
            _refuse(acting_as(caller, there), there, user_id, role)
            since = there[user_id].since if user_id in there else now
            _write(connection, caller, Member(user_id, role, since), records.to_ms(since))
            return Member(user_id, role, since)

        return await operations.database.write(work, caller)

    async def remove(self, user_id: str) -> None:
        """Take a member out of the project; the memories that the user made for it stay.

        Raises:
            UsageError: there is no such member, or the caller may not (``refusal``).
        """
        from sqlalchemy import delete

        from zeus_runtime.store.memory_tables import PROJECT_MEMBER

        caller = await self._admitted()
        operations = await self._opened.operations()

        def work(connection: Connection) -> None:
            there = _held(connection, caller)
            if user_id not in there:
                raise UsageError(
                    f"{user_id!r} is not a member of the project {caller.project_id!r}",
                    remedy="`zeus memory members list` shows who is.",
                )
            _refuse(acting_as(caller, there), there, user_id, None)
            mine = PROJECT_MEMBER.c.project_id == caller.project_id
            connection.execute(delete(PROJECT_MEMBER).where(mine, PROJECT_MEMBER.c.user_id == user_id))

        await operations.database.write(work, caller)

    async def _admitted(self) -> Caller:
        if self._caller.project_id is None:
            raise UsageError(
                "this memory has no project", remedy="Name one in the config: `memory: {project: NAME}`."
            )
        caller = await self._opened.acting(self._caller)
        if caller.role is None:
            raise UsageError(
                f"{caller.user_id!r} is not a member of the project {caller.project_id!r}",
                remedy="Ask an owner or admin of the project: `zeus memory members put USER ROLE`.",
            )
        return caller


def acting_as(caller: Caller, members: Mapping[str, Member]) -> Caller:
    """The caller with the role that holds: the member's, where the project has members; else the config's."""
    if not members:
        return caller
    own = members.get(caller.user_id)
    return replace(caller, role=None if own is None else own.role)


def refusal(caller: Caller, members: Mapping[str, Member], user_id: str, role: Role | None) -> str | None:
    """Why ``caller``, whose role holds, may not give ``user_id`` a role (None: take them out); None where they may.

    Owners decide about everybody, admins about editors and viewers, everybody about leaving. The first member is an
    owner, and the last owner stays one, so that a project that has members never falls back to what a config says.
    """
    before = members[user_id].role if user_id in members else None
    owners = [each for each in members.values() if each.role == "owner"]
    if not members and role != "owner":
        return "the first member of a project is an owner"
    if before == "owner" and role != "owner" and len(owners) == 1:
        return f"{user_id!r} is the only owner of the project"
    leaves = user_id == caller.user_id and role is None
    if leaves or caller.role == "owner":
        return None
    if caller.role == "admin" and members and before not in _HEADS and role not in _HEADS:
        return None
    return f"the role {caller.role!r} does not allow it"


def current_role(connection: Connection, caller: Caller) -> Role | None:
    """The role that holds for the caller in their project."""
    from sqlalchemy import select

    from zeus_runtime.store.memory_tables import PROJECT_MEMBER

    own = PROJECT_MEMBER.c.user_id == caller.user_id
    found = connection.execute(
        select(PROJECT_MEMBER.c.role, own)
        .where(PROJECT_MEMBER.c.project_id == caller.project_id)
        # The caller's own row first; without one, another's row tells that the project has members.
        .order_by(own.desc())
        .limit(1)
    ).first()
    if found is None:
        return caller.role
    role, is_own = found
    return role if is_own else None


def members_of(connection: Connection, caller: Caller) -> tuple[Member, ...]:
    """The members of the caller's project, by name."""
    from sqlalchemy import select

    from zeus_runtime.memory import records
    from zeus_runtime.store.memory_tables import PROJECT_MEMBER

    columns = (PROJECT_MEMBER.c.user_id, PROJECT_MEMBER.c.role, PROJECT_MEMBER.c.since_ms)
    found = connection.execute(
        select(*columns).where(PROJECT_MEMBER.c.project_id == caller.project_id).order_by(columns[0])
    )
    return tuple(Member(user, role, records.from_ms(since)) for user, role, since in found)


def _held(connection: Connection, caller: Caller) -> dict[str, Member]:
    """The members, locked against changes by others until the transaction ends."""
    from zeus_runtime.memory import records

    records.lock(connection, f"members of {caller.project_id}")
    return {each.user_id: each for each in members_of(connection, caller)}


def _refuse(caller: Caller, members: Mapping[str, Member], user_id: str, role: Role | None) -> None:
    if why := refusal(caller, members, user_id, role):
        raise UsageError(
            f"{caller.user_id!r} may not change this member: {why}",
            remedy="Owners decide about everybody, admins about editors and viewers.",
        )


def _write(connection: Connection, caller: Caller, member: Member, since_ms: int) -> None:
    from sqlalchemy import delete, insert

    from zeus_runtime.store.memory_tables import PROJECT_MEMBER

    key = {"project_id": caller.project_id, "user_id": member.user_id}
    same = [PROJECT_MEMBER.c[name] == value for name, value in key.items()]
    connection.execute(delete(PROJECT_MEMBER).where(*same))
    connection.execute(insert(PROJECT_MEMBER).values(**key, role=member.role, since_ms=since_ms))
