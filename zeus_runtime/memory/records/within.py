"""What a caller may reach, as a condition on the rows of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import and_, false, literal, or_

from zeus_runtime.memory.items import Scope
from zeus_runtime.memory.permissions import Grant, Reach
from zeus_runtime.store.memory_tables import ITEM

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

Shape: TypeAlias = tuple[tuple[Scope, tuple[Grant, ...]], ...]
"""A reach without whose it is."""


def reach_filter(parts: Sequence[Reach], user_id: str) -> ColumnElement[bool]:
    """A reach as a condition on the rows of items; nothing qualifies for an empty one."""
    return within(shape(parts), whose(parts, user_id).__getitem__)


def within(shape: Shape, value: Callable[[str], Any]) -> ColumnElement[bool]:
    """Rows within a reach.

    Args:
        value: of each name that ``whose`` gives, or a parameter in its place.
    """
    conditions = [
        and_(
            ITEM.c.scope == scope,
            ITEM.c.scope_id == value(f"scope_id{number}"),
            ITEM.c.visibility.in_([literal(each) for each in sorted(grant.visibilities)]),
            *([ITEM.c.created_by == value("user")] if grant.own else []),
        )
        for number, (scope, grants) in enumerate(shape)
        for grant in grants
    ]
    return or_(*conditions) if conditions else false()


def shape(parts: Sequence[Reach]) -> Shape:
    """The condition of a reach, the same for all callers."""
    return tuple((part.scope, part.grants) for part in parts)


def whose(parts: Sequence[Reach], user_id: str) -> dict[str, str]:
    """Whose a reach is, under the names that ``within`` asks for."""
    return {"user": user_id, **{f"scope_id{number}": part.scope_id for number, part in enumerate(parts)}}
