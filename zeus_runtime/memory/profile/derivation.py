"""The profiles of a caller: shown, edited by hand, drawn from memories."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.permissions import Reach, reach

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.operations import Operations
    from zeus_runtime.memory.profile.fields import ProfileField, ProfileKind

_log = logging.getLogger(__name__)

AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Asks a model: (system, user) to its answer."""

CheckFields: TypeAlias = Callable[[tuple["ProfileField", ...]], None]
"""Raises an error if a profile with these fields is not to be edited."""


async def shown(operations: Operations, caller: Caller, kind: ProfileKind) -> tuple[ProfileField, ...]:
    """Every field, with who wrote it and the memories it comes from.

    Raises:
        UsageError: the caller belongs to no project.
    """
    from zeus_runtime.memory.profile import rows

    owner, parts = _profiled(caller, kind, "read")
    now = operations.database.time()
    return await operations.database.read(
        lambda connection: rows.shown(connection, kind, owner, parts, caller.user_id, now), caller
    )


async def edit(
    operations: Operations,
    caller: Caller,
    kind: ProfileKind,
    changes: Mapping[str, str],
    *,
    check: CheckFields | None = None,
) -> None:
    """Write fields by hand.

    Args:
        check: gets the fields as they are now, in the transaction that writes; if it raises, nothing is written.

    Raises:
        UsageError: the caller may not edit it, or a field cannot hold this.
    """
    from zeus_runtime.memory.profile import rows
    from zeus_runtime.memory.profile.fields import written_value

    owner, parts = _profiled(caller, kind, "edit")
    values = {name: written_value(kind, name, text) for name, text in changes.items()}
    now = operations.database.time()

    def work(connection: Connection) -> None:
        former = rows.stored(connection, kind, owner, held=True)
        if check is not None:
            check(rows.shown(connection, kind, owner, parts, caller.user_id, now))
        kept = replace(former, written={**former.written, **values})
        rows.keep(connection, kind, owner, kept, now)

    await operations.database.write(work, caller)


class ExportedProfile(NamedTuple):
    """A profile outside the database.

    Args:
        fields: that a hand wrote, to their texts as ``edit`` takes them.
        lines: that were drawn, as ``ProfileValue.as_json`` gives them.
    """

    kind: ProfileKind
    fields: Mapping[str, str]
    lines: tuple[Mapping[str, Any], ...]


class Restored(NamedTuple):
    """What of an exported profile was left out.

    Args:
        notes: fields, one sentence each.
        lines: how many.
    """

    notes: tuple[str, ...] = ()
    lines: int = 0


async def exported(operations: Operations, caller: Caller, kind: ProfileKind) -> ExportedProfile:
    """A profile as it is now: lines whose memories went or changed are left out.

    Raises:
        UsageError: the caller belongs to no project.
    """
    from zeus_runtime.memory.profile import rows

    owner, parts = _profiled(caller, kind, "read")
    now = operations.database.time()
    found = await operations.database.read(
        lambda connection: rows.standing(connection, kind, owner, parts, caller.user_id, now), caller
    )
    written = {name: text for name, text in found.written.items() if text}
    return ExportedProfile(kind, written, tuple(line.as_json() for line in found.lines))


async def restore(
    operations: Operations, caller: Caller, profile: ExportedProfile, versions: Mapping[str, tuple[str, int]]
) -> Restored:
    """Write the fields that no hand wrote here, and the lines whose memories were imported.

    Args:
        versions: of a memory's id where it was exported, its id and version here.

    Raises:
        UsageError: the caller may not write the profile.
    """
    from zeus_runtime.memory import records
    from zeus_runtime.memory.normalise import duplicate_key
    from zeus_runtime.memory.profile import rows
    from zeus_runtime.memory.profile.fields import line_of, written_value

    kind = profile.kind
    owner, _ = _profiled(caller, kind, "edit")
    values = {name: written_value(kind, name, text) for name, text in profile.fields.items()}
    moved = [kept for line in profile.lines if (kept := line_of(line).moved(versions)) is not None]
    now = operations.database.time()

    def work(connection: Connection) -> Restored:
        former = rows.stored(connection, kind, owner, held=True)
        own = {name: text for name, text in former.written.items() if text}
        there = {(line.field, duplicate_key(line.value)) for line in former.lines}
        lines = [line for line in moved if (line.field, duplicate_key(line.value)) not in there]
        drawn_ms = former.drawn_ms or (records.to_ms(now) if lines else 0)
        kept = replace(
            former,
            # The hand that wrote here wins over the file, so `own` comes last.
            written={**former.written, **values, **own},
            lines=[*lines, *former.lines],
            drawn_ms=drawn_ms,
        )
        rows.keep(connection, kind, owner, kept, now)
        stays = [name for name in values if own.get(name, values[name]) != values[name]]
        notes = tuple(f"the {kind} profile's {name}: it is written by hand here" for name in stays)
        return Restored(notes, len(profile.lines) - len(moved))

    return await operations.database.write(work, caller)


async def news(operations: Operations, caller: Caller, kind: ProfileKind) -> int:
    """How many memories are new, changed or gone since the profile was drawn; 0 for who may not draw it."""
    from zeus_runtime.memory.profile import rows

    if not _may_draw(caller, kind):
        return 0
    owner, parts = _profiled(caller, kind, "read")
    now = operations.database.time()
    return await operations.database.read(
        lambda connection: rows.fresh(connection, kind, owner, parts, caller.user_id, now), caller
    )


async def is_drawn(operations: Operations, caller: Caller, kind: ProfileKind) -> bool:
    """Whether the profile was ever drawn."""
    from zeus_runtime.memory.profile import rows

    owner, _ = _profiled(caller, kind, "read")
    return await operations.database.read(
        lambda connection: rows.stored(connection, kind, owner).drawn_ms > 0, caller
    )


async def draw(operations: Operations, caller: Caller, kind: ProfileKind, ask: AskModel | None) -> int:
    """Draw the lines anew: by rules, and by a model what the rules do not find; how many there are.

    Raises:
        UsageError: the caller belongs to no project, or only reads it.
    """
    from zeus_runtime.memory import records
    from zeus_runtime.memory.profile import rows
    from zeus_runtime.memory.profile.asking import lines_by_model, profile_question
    from zeus_runtime.memory.profile.rules import lines_by_rule

    if not _may_draw(caller, kind):
        raise UsageError(
            f"the {kind}'s profile cannot be drawn by {caller.user_id!r}",
            remedy="A viewer only reads it; owner, admin and editor draw it (memory.role).",
        )
    owner, parts = _profiled(caller, kind, "read")
    user, now = caller.user_id, operations.database.time()
    items = await operations.database.read(
        lambda connection: rows.sources(connection, kind, owner, parts, user, now), caller
    )
    lines = lines_by_rule(items, kind)
    if ask is not None and items:
        try:
            answer = await ask(*profile_question(items, kind, lines))
            # The rules' lines last: of a field with one value, the last line is shown.
            lines = [*lines_by_model(answer, items, kind), *lines]
        except (ValueError, ZeusError) as error:
            _log.warning("the %s profile is drawn by rules alone: %s", kind, error)

    def work(connection: Connection) -> int:
        former = rows.stored(connection, kind, owner, held=True)
        # The newest change that was read, not the time now: a memory that was saved meanwhile counts as news.
        drawn_ms = max((records.to_ms(item.updated_at) for item in items), default=former.drawn_ms)
        # A memory may have been deleted while the model was asked.
        there = records.by_ids(connection, [item.id for item in items], parts, user)
        gone = {item.id for item in items} - there.keys()
        left = [kept for line in lines if (kept := line.without(gone)) is not None]
        rows.keep(connection, kind, owner, replace(former, lines=left, drawn_ms=drawn_ms), now)
        return len(left)

    return await operations.database.write(work, caller)


def _profiled(
    caller: Caller, kind: ProfileKind, operation: Literal["read", "edit"]
) -> tuple[str, tuple[Reach, ...]]:
    """Whose profile it is, and the part of the memories that it is about."""
    owner = caller.scope_id(kind)
    if owner is None or (kind == "project" and caller.role is None):
        raise UsageError("there is no project", remedy="Name one under memory.project.")
    if kind == "project" and operation == "edit" and caller.role not in ("owner", "admin"):
        raise UsageError(
            f"a project's profile is edited by its owner or an admin, and {caller.user_id!r} is {caller.role}",
            remedy="Ask one of them, or edit your own profile.",
        )
    return owner, reach(caller, "read", kind)


def _may_draw(caller: Caller, kind: ProfileKind) -> bool:
    return bool(reach(caller, "create", kind))
