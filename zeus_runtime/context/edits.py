"""Edits: a policy's proposals to remove content from the view; the history itself never changes.

An edit is frozen and contains everything that the fold needs, so the same history and edits always give the same view.
The planner fills in ``tokens_before`` and ``tokens_after`` when it admits an edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TypeAlias

from zeus_runtime.frozen import dataclass


@dataclass(frozen=True)
class DropBefore:
    """Every message before ``seq`` leaves the view, except pinned ones.

    Args:
        policy: the middleware that proposes it.
        reason: one sentence for a person who asks why.
        seq: the first message that stays.
        handle: the path of the originals; empty if only the history has them.
    """

    policy: str
    reason: str
    seq: int
    handle: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True)
class Evict:
    """The text of one message (a tool result, or a user's) is shown as ``content``: a pointer and a preview.

    Args:
        seq: the message.
        content: the text that is shown instead; it must be deterministic.
        handle: the path of the original text.
    """

    policy: str
    reason: str
    seq: int
    content: str
    handle: str
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True)
class TruncateArguments:
    """Some arguments of one tool call are shown shortened.

    Args:
        seq: the answer that contains the call.
        call_id: the call.
        arguments: the text that is shown instead, by argument name.
        handle: the path of the original.
    """

    policy: str
    reason: str
    seq: int
    call_id: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    handle: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True)
class Summarize:
    """Every message before ``seq``, except pinned ones, is shown as one user message with ``content``.

    A later ``Summarize`` or ``DropBefore`` replaces an earlier summary.

    Args:
        seq: the first message that stays unchanged.
        content: the summary, which says where the originals are.
        handle: the path of the archived originals.
        cost_usd: the cost of making it, where known.
    """

    policy: str
    reason: str
    seq: int
    content: str
    handle: str
    cost_usd: float | None = None
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True)
class Pin:
    """The message at ``seq`` (with its whole tool group) stays unchanged for ever; this removes nothing.

    Args:
        seq: the message.
    """

    policy: str
    reason: str
    seq: int
    handle: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


Edit: TypeAlias = DropBefore | Evict | TruncateArguments | Summarize | Pin

_KINDS: Mapping[str, type[Edit]] = {
    "drop_before": DropBefore,
    "evict": Evict,
    "truncate_arguments": TruncateArguments,
    "summarize": Summarize,
    "pin": Pin,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def edit_kind(edit: Edit) -> str:
    """The edit's name in the log and the ledger."""
    return _NAMES[type(edit)]


def edit_to_json(edit: Edit) -> str:
    """The edit as the log stores it."""
    return json.dumps({"kind": edit_kind(edit), **asdict(edit)}, ensure_ascii=False, separators=(",", ":"))


def edit_from_json(text: str) -> Edit:
    """The edit that ``edit_to_json`` wrote."""
    fields = json.loads(text)
    return _KINDS[fields.pop("kind")](**fields)
