"""Whether a new text says the same as an older one, says that its value changed, or says something else."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.memory.values import agree, values

Verdict: TypeAlias = Literal["duplicate", "superseded", "different"]


class Change(NamedTuple):
    """What a new text is beside an older one, and by which rule."""

    decision: Verdict
    reason: str


def compare(new: str, old: str, *, near: bool) -> Change:
    """Whether ``new`` repeats, replaces or leaves alone what ``old`` says.

    Args:
        near: whether the embedding model takes them for the same.
    """
    if duplicate_key(new) == duplicate_key(old):
        return Change("duplicate", "same words")
    if not near:
        return Change("different", "not near")
    ours, theirs = values(new), values(old)
    if len(ours) == len(theirs) and all(map(agree, ours, theirs)):
        return Change("duplicate", "near")
    return Change("superseded", "value")
