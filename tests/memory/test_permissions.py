"""Who may do what with which memory, for every combination there is."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

from zeus_runtime.memory.items import ROLES, SCOPES, VISIBILITIES, Caller, MemoryItem, Role, Visibility
from zeus_runtime.memory.permissions import OPERATIONS, Operation, Reach, may, permitted, reach

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PROJECT = {
    # role, operation: visibility of own items that it is allowed on / of others' items
    ("owner", "see"): ("public members owner_only", "public members owner_only"),
    ("owner", "read"): ("public members owner_only", "public members"),
    ("owner", "create"): ("public members owner_only", ""),
    ("owner", "edit"): ("public members owner_only", "public members"),
    ("owner", "delete"): ("public members owner_only", "public members owner_only"),
    ("editor", "see"): ("public members owner_only", "public members"),
    ("editor", "read"): ("public members owner_only", "public members"),
    ("editor", "create"): ("public members owner_only", ""),
    ("editor", "edit"): ("public members owner_only", ""),
    ("editor", "delete"): ("public members owner_only", ""),
    ("viewer", "see"): ("public members owner_only", "public members"),
    ("viewer", "read"): ("public members owner_only", "public members"),
    ("viewer", "create"): ("", ""),
    ("viewer", "edit"): ("", ""),
    ("viewer", "delete"): ("", ""),
}
PROJECT |= {("admin", operation): PROJECT["owner", operation] for operation in OPERATIONS}
"""SPEC section 8, written out."""

EVERY = [*product(ROLES, OPERATIONS, VISIBILITIES, (True, False))]


def item(
    scope: str = "project", scope_id: str = "p1", *, by: str = "u1", visibility: Visibility = "members"
) -> MemoryItem:
    return MemoryItem(
        "m1",
        "text here",
        "fact",
        scope,
        scope_id,
        by,
        "user",
        0.9,
        NOW,
        NOW,
        visibility=visibility,  # type: ignore[arg-type]
    )


def test_the_table_is_whole() -> None:
    assert set(PROJECT) == set(product(ROLES, OPERATIONS))
    assert len(EVERY) == 4 * 5 * 3 * 2


@pytest.mark.parametrize(("role", "operation", "visibility", "own"), EVERY)
def test_a_project_memory_by_role(
    role: Role, operation: Operation, visibility: Visibility, own: bool
) -> None:
    mine, others = PROJECT[role, operation]
    expected = visibility in (mine if own else others).split()
    assert permitted(role, operation, visibility, own=own) is expected
    caller = Caller("u1", "p1", role)
    assert may(caller, operation, item(by="u1" if own else "u2", visibility=visibility)) is expected


@pytest.mark.parametrize(
    ("operation", "visibility", "own"), [*product(OPERATIONS, VISIBILITIES, (True, False))]
)
def test_who_is_no_member_may_do_nothing(operation: Operation, visibility: Visibility, own: bool) -> None:
    assert not permitted(None, operation, visibility, own=own)
    assert not may(Caller("u1", "p1"), operation, item(by="u1" if own else "u2", visibility=visibility))


@pytest.mark.parametrize(("role", "operation", "visibility"), [*product(ROLES, OPERATIONS, VISIBILITIES)])
def test_a_role_in_one_project_is_nothing_in_another(
    role: Role, operation: Operation, visibility: Visibility
) -> None:
    assert not may(Caller("u1", "p2", role), operation, item(visibility=visibility))


@pytest.mark.parametrize(
    ("scope", "operation", "visibility", "role"),
    [*product(("user", "session"), OPERATIONS, VISIBILITIES, (*ROLES, None))],
)
def test_memories_of_a_user_and_a_session_are_their_makers_alone(
    scope: str, operation: Operation, visibility: Visibility, role: Role | None
) -> None:
    caller = Caller("u1", "p1" if role else None, role, "s1")
    own = {"user": "u1", "session": "s1"}[scope]
    assert may(caller, operation, item(scope, own, visibility=visibility))
    assert not may(caller, operation, item(scope, own, by="u2", visibility=visibility))
    assert not may(caller, operation, item(scope, "other", visibility=visibility))


@pytest.mark.parametrize(("own", "visibility"), [*product((True, False), VISIBILITIES)])
def test_a_higher_role_may_no_less(own: bool, visibility: Visibility) -> None:
    for lower, higher in (("viewer", "editor"), ("editor", "admin"), ("admin", "owner")):
        for operation in OPERATIONS:
            if permitted(lower, operation, visibility, own=own):  # type: ignore[arg-type]
                assert permitted(higher, operation, visibility, own=own)  # type: ignore[arg-type]


@pytest.mark.parametrize(("role", "visibility", "own"), [*product(ROLES, VISIBILITIES, (True, False))])
def test_who_may_do_something_with_an_item_may_know_of_it(
    role: Role, visibility: Visibility, own: bool
) -> None:
    for operation in OPERATIONS:
        if permitted(role, operation, visibility, own=own):
            assert permitted(role, "see", visibility, own=own)


@pytest.mark.parametrize(
    ("caller", "scopes"),
    [
        (Caller("u1"), ["user"]),
        (Caller("u1", session_id="s1"), ["user", "session"]),
        (Caller("u1", "p1", "viewer", "s1"), ["user", "project", "session"]),
        (Caller("u1", "p1", None, "s1"), ["user", "session"]),
        (Caller("", "p1", "owner", "s1"), []),
    ],
)
def test_the_reach_names_the_scopes_that_the_caller_has(caller: Caller, scopes: list[str]) -> None:
    assert [part.scope for part in reach(caller, "read")] == scopes
    assert {part.scope for scope in SCOPES for part in reach(caller, "read", scope)} == set(scopes)


@pytest.mark.parametrize(("role", "operation"), [*product((*ROLES, None), OPERATIONS)])
def test_the_reach_as_a_filter_is_the_same_as_asking_for_each_item(
    role: Role | None, operation: Operation
) -> None:
    caller = Caller("u1", "p1", role, "s1")
    items = [
        item(scope, scope_id, by=by, visibility=visibility)
        for (scope, scope_id), by, visibility in product(
            [
                ("user", "u1"),
                ("user", "u2"),
                ("project", "p1"),
                ("project", "p2"),
                ("session", "s1"),
                ("session", "s2"),
            ],
            ("u1", "u2"),
            VISIBILITIES,
        )
    ]
    parts = reach(caller, operation)
    assert [_found(each, parts, caller) for each in items] == [may(caller, operation, each) for each in items]


def _found(one: MemoryItem, parts: tuple[Reach, ...], caller: Caller) -> bool:
    """As a database would."""
    return any(
        (one.scope, one.scope_id) == (part.scope, part.scope_id)
        and one.visibility in grant.visibilities
        and (not grant.own or one.created_by == caller.user_id)
        for part in parts
        for grant in part.grants
    )
