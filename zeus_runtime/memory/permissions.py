"""Who may do what with which memory: one table as data, from which a test and a SQL filter are built alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import SCOPES, VISIBILITIES, Caller, MemoryItem, Role, Scope, Visibility

Operation: TypeAlias = Literal["see", "read", "create", "edit", "delete"]
"""``see`` is to know that an item exists, who made it and when; ``read`` is its content."""

OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)


@dataclass(frozen=True)
class Grant:
    """Items that an operation is allowed on: any of these visibilities and, if ``own``, only the caller's own."""

    visibilities: frozenset[Visibility]
    own: bool

    def covers(self, visibility: Visibility, *, own: bool) -> bool:
        return visibility in self.visibilities and (own or not self.own)


_ALL: Final = frozenset(VISIBILITIES)
_SHARED: Final = _ALL - {"owner_only"}
_OWN: Final = Grant(_ALL, own=True)
_EVERY: Final = Grant(_ALL, own=False)
_OPEN: Final = Grant(_SHARED, own=False)

_HEAD: Final[Mapping[Operation, tuple[Grant, ...]]] = {
    "see": (_EVERY,),
    "read": (_OPEN, _OWN),
    "create": (_OWN,),
    "edit": (_OPEN, _OWN),
    "delete": (_EVERY,),
}
PROJECT_GRANTS: Final[Mapping[Role, Mapping[Operation, tuple[Grant, ...]]]] = {
    "owner": _HEAD,
    "admin": _HEAD,
    "editor": {
        "see": (_OPEN, _OWN),
        "read": (_OPEN, _OWN),
        "create": (_OWN,),
        "edit": (_OWN,),
        "delete": (_OWN,),
    },
    "viewer": {"see": (_OPEN, _OWN), "read": (_OPEN, _OWN), "create": (), "edit": (), "delete": ()},
}
"""Project memories by role (SPEC section 8). ``public`` and ``members`` are both every member of the project; the
content of ``owner_only`` is its creator's alone, while owner and admin see that it exists and may delete it."""


def permitted(role: Role | None, operation: Operation, visibility: Visibility, *, own: bool) -> bool:
    """Whether a member of a project may do this with a project memory.

    Args:
        role: in the project; None for a stranger, who may do nothing.
        own: whether the caller created it.
    """
    if role is None:
        return False
    return any(grant.covers(visibility, own=own) for grant in PROJECT_GRANTS[role][operation])


@dataclass(frozen=True)
class Reach:
    """A part of what a caller may operate on: items of this scope and ``scope_id`` that one of the grants covers."""

    scope: Scope
    scope_id: str
    grants: tuple[Grant, ...]


@lru_cache(256)
def reach(caller: Caller, operation: Operation, scope: Scope | None = None) -> tuple[Reach, ...]:
    """All that ``caller`` may operate on, as data: an item qualifies if one part of the reach covers it.

    As SQL: ``OR`` over the parts and their grants of ``scope = … AND scope_id = … AND visibility IN (…)``, and where
    the grant is for own items ``AND created_by = user_id``. No part means no item. A user's and a session's memories
    are those of the user who made them.

    Args:
        scope: this one only; all by default.
    """
    parts = []
    for each in SCOPES if scope is None else (scope,):
        scope_id = caller.scope_id(each)
        if each != "project":
            grants: tuple[Grant, ...] = (_OWN,)
        else:
            grants = PROJECT_GRANTS[caller.role][operation] if caller.role else ()
        if scope_id is not None and grants and caller.user_id:
            parts.append(Reach(each, scope_id, grants))
    return tuple(parts)


def may(caller: Caller, operation: Operation, item: MemoryItem) -> bool:
    """Whether ``caller`` may do this with ``item``: the same as that ``reach`` covers it."""
    own = item.created_by == caller.user_id
    return any(
        part.scope_id == item.scope_id and grant.covers(item.visibility, own=own)
        for part in reach(caller, operation, item.scope)
        for grant in part.grants
    )


def creation_refused(caller: Caller, scope: str) -> tuple[str, str] | None:
    """Why ``caller`` may save nothing in this scope: a code and a sentence for the model; None if they may.

    Args:
        scope: as the model gave it; what is no scope is not judged here.
    """
    if scope not in SCOPES or reach(caller, "create", scope):
        return None
    if caller.scope_id(scope) is None:
        others = " or ".join(each for each in SCOPES if reach(caller, "create", each))
        there = f"use the scope {others}" if others else "nothing can be saved here, continue without saving"
        return "no_scope", f"This run belongs to no {scope}: {there}."
    return (
        "forbidden",
        f"You may not save memories of this {scope}: save it for the user, or continue without saving.",
    )
