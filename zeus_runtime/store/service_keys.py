"""The keys of a service: their rows hold a digest, never the key."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Select, insert, or_, select, update

from zeus_runtime.config.secrets.searches import TokenForm
from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.escaping import shell_line
from zeus_runtime.store.database import alone
from zeus_runtime.store.tables import SERVICE_KEY

if TYPE_CHECKING:
    from zeus_runtime.store.database import Database

MARK: Final = "zeus"
"""Each key begins with it, so that scanners for secrets find keys in repositories."""
_NAMES: Final = "service keys"
"""The lock of changes that depend on which keys are valid."""
_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_SCHEME: Final = "sha256"
"""The key's secret part is random, with 256 bits. Nobody can guess it, so a slow hash would only slow down requests."""

_ID: Final = f"[0-9a-f]{{{2 * _ID_BYTES}}}"
_SECRET_CHARACTERS: Final = -(-8 * _SECRET_BYTES // 6)
KEY_FORM: Final = TokenForm(
    "ZEUS_KEY",
    rf"{MARK}_({_ID})_[A-Za-z0-9_-]{{{_SECRET_CHARACTERS}}}",
    _ID,
    len(f"{MARK}__") + 2 * _ID_BYTES + _SECRET_CHARACTERS,
)
"""A service masks every text of this form: it does not know the keys, and perhaps nobody logged in since it began."""


@dataclass(frozen=True)
class ServiceKey:
    """A key, without its secret part; times in UTC milliseconds.

    Args:
        id: the part that finds it; not secret.
        name: what it is for.
        user: on whose behalf it acts; None for all users.
        project: the project in which it acts.
        role: the user's role in the project, as long as the project has no members.
        scopes: what it may do.
        agents: the agents that it may use; None for all.
        expires_ms: None for never.
        rotated_from: the id of the key that it replaces.
    """

    id: str
    name: str
    user: str | None
    project: str | None
    role: str | None
    scopes: tuple[str, ...]
    agents: tuple[str, ...] | None
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None
    last_used_ms: int | None = None
    rotated_from: str | None = None

    def state(self, now_ms: int) -> str:
        """``valid``, ``expired`` or ``revoked``."""
        if self.revoked_ms is not None:
            return "revoked"
        return "expired" if self.expires_ms is not None and self.expires_ms <= now_ms else "valid"


def new_secret() -> tuple[str, str]:
    """A new id and a new secret part."""
    return secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)


def key_text(name: str, secret: str) -> str:
    """The key as its user sends it."""
    return f"{MARK}_{name}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret part of a key; None if the text is no key."""
    mark, _, rest = text.partition("_")
    name, _, secret = rest.partition("_")
    return (name, secret) if mark == MARK and len(name) == 2 * _ID_BYTES and secret else None


def digest_of(name: str, secret: str) -> str:
    """The digest to store, with its scheme. The id is part of it, so no row's digest fits another row."""
    return f"{_SCHEME}:{hashlib.sha256(f'{name}:{secret}'.encode()).hexdigest()}"


def fits(name: str, secret: str, digest: str) -> bool:
    """Whether it is the secret part of that key, compared in constant time."""
    return hmac.compare_digest(digest_of(name, secret).encode(), digest.encode())


async def add_key(database: Database, key: ServiceKey, secret: str) -> None:
    """Store a key.

    Raises:
        UsageError: a valid key has the same name.
    """

    def work(connection: Connection) -> None:
        alone(connection, _NAMES)
        _refuse_name(connection, key)
        connection.execute(insert(SERVICE_KEY), _row(key, secret))

    await database.run(work)


async def find_key(database: Database, name: str) -> tuple[ServiceKey, str] | None:
    """The key with that id and its digest."""
    query = _KEYS.where(SERVICE_KEY.c.id == name)
    # `write` and not `run`, although it reads: on SQLite it needs no thread, and each request of the service asks.
    found = await database.write(lambda connection: connection.execute(query).first())
    return None if found is None else (_read(found), found.digest)


async def keys(database: Database) -> Sequence[ServiceKey]:
    """All keys, oldest first."""
    query = _KEYS.order_by(SERVICE_KEY.c.created_ms, SERVICE_KEY.c.id)
    return await database.run(lambda connection: [_read(row) for row in connection.execute(query)])


async def has_keys(database: Database, now_ms: int) -> bool:
    """Whether any key is valid."""
    return any(each.state(now_ms) == "valid" for each in await keys(database))


async def revoke_key(database: Database, which: str, now_ms: int) -> ServiceKey:
    """Revoke a key.

    Args:
        which: its id, or its name.

    Raises:
        NotFoundError: there is none that is valid.
    """

    def work(connection: Connection) -> ServiceKey:
        key = _named(connection, which, now_ms)
        here = update(SERVICE_KEY).where(SERVICE_KEY.c.id == key.id)
        connection.execute(here.values(revoked_ms=now_ms))
        return key

    return await database.run(work)


async def rotate_key(
    database: Database, which: str, now_ms: int, *, overlap_ms: int, expires_ms: int | None
) -> tuple[ServiceKey, str]:
    """Replace a key by a new one that may do the same.

    Args:
        which: its id, or its name.
        overlap_ms: how long the former key is still valid.
        expires_ms: when the new one expires; None: after as long a time as the former had.

    Returns:
        the new key and its secret part.

    Raises:
        NotFoundError: there is none that is valid.
    """
    name, secret = new_secret()

    def work(connection: Connection) -> ServiceKey:
        # Of two rotations at once the later one replaces the key that the other has made.
        alone(connection, _NAMES)
        former = _named(connection, which, now_ms)
        until = (
            now_ms + overlap_ms if former.expires_ms is None else min(former.expires_ms, now_ms + overlap_ms)
        )
        connection.execute(update(SERVICE_KEY).where(SERVICE_KEY.c.id == former.id).values(expires_ms=until))
        # From the time that the former key had at first; `until` has just shortened it in the database only.
        lasts = None if former.expires_ms is None else now_ms + former.expires_ms - former.created_ms
        key = ServiceKey(
            id=name,
            name=former.name,
            user=former.user,
            project=former.project,
            role=former.role,
            scopes=former.scopes,
            agents=former.agents,
            created_ms=now_ms,
            expires_ms=lasts if expires_ms is None else expires_ms,
            rotated_from=former.id,
        )
        connection.execute(insert(SERVICE_KEY), _row(key, secret))
        return key

    return await database.run(work), secret


async def note_use(database: Database, used: Mapping[str, int]) -> None:
    """Store when keys were last used, by id."""

    def work(connection: Connection) -> None:
        for name, at_ms in used.items():
            # Several processes of a service report in any order.
            later = or_(SERVICE_KEY.c.last_used_ms.is_(None), SERVICE_KEY.c.last_used_ms < at_ms)
            here = update(SERVICE_KEY).where(SERVICE_KEY.c.id == name, later)
            connection.execute(here.values(last_used_ms=at_ms))

    await database.write(work)


_KEYS: Final[Select[Any]] = select(SERVICE_KEY)


def _named(connection: Connection, which: str, now_ms: int) -> ServiceKey:
    query = _KEYS.where(or_(SERVICE_KEY.c.id == which, SERVICE_KEY.c.name == which))
    valid = [each for each in map(_read, connection.execute(query)) if each.state(now_ms) == "valid"]
    # After a rotation two keys of a name may be valid; the newest is meant.
    exact = [each for each in valid if each.id == which] or sorted(valid, key=lambda each: each.created_ms)
    if not exact:
        raise NotFoundError(f"there is no valid key {which!r}", remedy="`zeus keys list` lists them.")
    return exact[-1]


def _refuse_name(connection: Connection, key: ServiceKey) -> None:
    same = map(_read, connection.execute(_KEYS.where(SERVICE_KEY.c.name == key.name)))
    if any(each.state(key.created_ms) == "valid" for each in same):
        raise UsageError(
            f"there is a valid key {key.name!r} already",
            remedy=f"Choose another name, or replace it: {shell_line('zeus', 'keys', 'rotate', key.name)}",
        )


def _row(key: ServiceKey, secret: str) -> Mapping[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "digest": digest_of(key.id, secret),
        "user_id": key.user,
        "project_id": key.project,
        "role": key.role,
        "scopes": json.dumps(key.scopes),
        "agents": None if key.agents is None else json.dumps(key.agents),
        "created_ms": key.created_ms,
        "expires_ms": key.expires_ms,
        "revoked_ms": key.revoked_ms,
        "last_used_ms": key.last_used_ms,
        "rotated_from": key.rotated_from,
    }


def _read(row: Row[Any]) -> ServiceKey:
    return ServiceKey(
        id=row.id,
        name=row.name,
        user=row.user_id,
        project=row.project_id,
        role=row.role,
        scopes=tuple(json.loads(row.scopes)),
        agents=None if row.agents is None else tuple(json.loads(row.agents)),
        created_ms=row.created_ms,
        expires_ms=row.expires_ms,
        revoked_ms=row.revoked_ms,
        last_used_ms=row.last_used_ms,
        rotated_from=row.rotated_from,
    )
