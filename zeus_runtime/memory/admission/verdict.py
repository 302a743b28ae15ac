"""The relation of a new text to an older one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["duplicate", "superseded", "different"]

OfAKind: TypeAlias = Callable[[str, str], bool | None]
"""Whether two words or short phrases name values of one kind; None where that is not known (``Embedder.of_a_kind``)."""


class TextVerdict(NamedTuple):
    """The relation of a new text to an older one, and the rule that found it."""

    decision: Verdict
    reason: str
