"""Events without the secrets of the configs that they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.config import Redactor
    from zeus_runtime.events import Event


def redacted(event: Event, redactor: Redactor) -> Event:
    """``event`` with every known secret masked."""
    if not redactor.secrets:
        return event
    changes = {
        name: redactor.json(value) for name, value in vars(event).items() if isinstance(value, str | dict)
    }
    return replace(event, **changes)
