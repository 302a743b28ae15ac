"""What a new text is beside an older one."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["duplicate", "superseded", "different"]


class Change(NamedTuple):
    """What a new text is beside an older one, and by which rule."""

    decision: Verdict
    reason: str
