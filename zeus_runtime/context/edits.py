"""Edits: what a policy proposes to shed from the view; the history itself is never touched."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class DropBefore:
    """Every message before ``seq`` leaves the view.

    Args:
        policy: the middleware that proposes it.
        reason: one sentence for whoever asks why.
        seq: the first message that stays.
    """

    policy: str
    reason: str
    seq: int


Edit: TypeAlias = DropBefore

_KINDS: dict[str, type[Edit]] = {"drop_before": DropBefore}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def edit_to_json(edit: Edit) -> str:
    """The edit as the log stores it."""
    return json.dumps({"kind": _NAMES[type(edit)], **asdict(edit)}, ensure_ascii=False, separators=(",", ":"))


def edit_from_json(text: str) -> Edit:
    """The edit that ``edit_to_json`` wrote."""
    fields = json.loads(text)
    return _KINDS[fields.pop("kind")](**fields)
