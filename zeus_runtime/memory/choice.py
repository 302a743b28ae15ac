"""Which embedding model a user's memories are compared by, and where the user's own choice is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import OptionsError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

SETTING: Final = "embeddings"
"""The name of the choice among a user's settings."""

KEY: Final = "OPENAI_API_KEY"
"""With it the default model of ``litellm`` (text-embedding-3-small) can be asked."""


def create_embeddings(
    user_id: str,
    *,
    choices: Mapping[str, Ref | str | Mapping[str, Any]],
    configured: Ref | None,
    environ: Mapping[str, str],
) -> Ref:
    """The embedding component for ``user_id``: the user's own, else the YAML's, else what there is a key for.

    Without any of them ``litellm`` if ``OPENAI_API_KEY`` is set, else ``static``, which is always there.

    The choice decides how a new text and a query are embedded. Memories embedded by another model stay as they are:
    they are found by their words, their vectors are compared with nothing, and `zeus memory reindex` embeds them
    again. So a user who takes another model, or a key that appears, loses no memory and mixes no cosines.

    Args:
        choices: by user id, as stored: ``name``, ``{name: {options}}`` or a Ref.
        configured: ``memory.embeddings`` of the YAML.
        environ: the process environment with ``.env`` beneath it.

    Raises:
        OptionsError: the user's stored choice is none.
    """
    own = choices.get(user_id)
    if own is not None:
        return _ref(own, user_id)
    if configured is not None:
        return configured
    return Ref("litellm" if environ.get(KEY, "").strip() else "static")


def as_stored(ref: Ref) -> str:
    """A choice as it is kept: the JSON of ``{name: {options}}``.

    Raises:
        UsageError: the options are no JSON.
    """
    try:
        return json.dumps({ref.name: dict(ref.options)}, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the options of the embedding model {ref.name!r} cannot be stored: {error}"
        ) from None


def stored_choice(connection: Connection, user_id: str) -> str | None:
    """The JSON that is kept for the user, inside a transaction; None without a choice."""
    from sqlalchemy import select

    from zeus_runtime.store.memory_tables import USER_SETTING

    query = select(USER_SETTING.c.value).where(
        USER_SETTING.c.user_id == user_id, USER_SETTING.c.name == SETTING
    )
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def store_choice(connection: Connection, user_id: str, stored: str | None, at: datetime) -> None:
    """Keep the JSON for the user, or nothing any more, inside a transaction that may write."""
    from sqlalchemy import delete, insert

    from zeus_runtime.memory.records import lock, to_ms
    from zeus_runtime.store.memory_tables import USER_SETTING

    lock(connection, f"settings of {user_id}")
    connection.execute(
        delete(USER_SETTING).where(USER_SETTING.c.user_id == user_id, USER_SETTING.c.name == SETTING)
    )
    if stored is not None:
        row = {
            "user_id": user_id,
            "name": SETTING,
            "value": stored,
            "secret": False,
            "updated_ms": to_ms(at),
        }
        connection.execute(insert(USER_SETTING).values(row))


def chosen_ref(stored: str, user_id: str) -> Ref:
    """The choice that ``as_stored`` made JSON of.

    Raises:
        OptionsError: it is none.
    """
    try:
        return _ref(json.loads(stored), user_id)
    except ValueError:
        raise _unusable(user_id) from None


def _ref(stored: Ref | str | Mapping[str, Any], user_id: str) -> Ref:
    if isinstance(stored, Ref):
        return stored
    if isinstance(stored, str) and stored.strip():
        return Ref(stored.strip())
    if isinstance(stored, Mapping) and len(stored) == 1:
        ((name, options),) = stored.items()
        if name and (options is None or isinstance(options, Mapping)):
            return Ref(name, dict(options or {}))
    raise _unusable(user_id)


def _unusable(user_id: str) -> OptionsError:
    return OptionsError(
        f"the embedding model stored for the user {user_id!r} is neither a name nor {{name: options}}",
        remedy="Store it again, or remove it to use the YAML's memory.embeddings",
    )
