"""Which embedding model a user's memories are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import OptionsError

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


def _ref(stored: Ref | str | Mapping[str, Any], user_id: str) -> Ref:
    if isinstance(stored, Ref):
        return stored
    if isinstance(stored, str) and stored.strip():
        return Ref(stored.strip())
    if isinstance(stored, Mapping) and len(stored) == 1:
        ((name, options),) = stored.items()
        if isinstance(name, str) and name and (options is None or isinstance(options, Mapping)):
            return Ref(name, dict(options or {}))
    raise OptionsError(
        f"the embedding model stored for the user {user_id!r} is neither a name nor {{name: options}}",
        remedy="Store it again, or remove it to use the YAML's memory.embeddings",
    )
