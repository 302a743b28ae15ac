"""Classifies the failures of a call."""

from __future__ import annotations

from datetime import UTC, datetime

from zeus_plugins.models.litellm.reading import unreadable
from zeus_runtime.plugin.model import ModelError, model_error


def classified(error: Exception) -> ModelError:
    """Return the ``ModelError`` for an exception of litellm, of httpx, or of reading an answer."""
    if isinstance(error, ModelError):
        return error
    return unreadable(error) or model_error(error, now=datetime.now(UTC))


def redirected(location: str | None) -> ModelError:
    """Return the error for a redirect, which is never followed: the next address would get the key."""
    return ModelError(
        f"the provider answered with a redirect to {location or 'another address'}",
        kind="bad_request",
        remedy="Correct api_base",
    )
