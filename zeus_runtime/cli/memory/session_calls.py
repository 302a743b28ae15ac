"""The calls that extracted memories from a session, for the commands that show sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.records.batches import Batch
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.plan.validated import Checked


def extraction_calls(process: Process, checked: Checked, session: str) -> Sequence[Batch]:
    """The calls for a session's messages, oldest first; none for a config without memory in its database."""
    from zeus_runtime.cli.memory.opening import with_memory
    from zeus_runtime.errors import ZeusError

    async def work(memory: MemoryService) -> list[Batch]:
        if not memory.is_in_database:
            return []
        return [each.batch for each in await memory.batches.listed() if each.batch.session == session][::-1]

    if checked.config.memory is None:
        return []
    try:
        return with_memory(process, checked, work, looks=True) or []
    except ZeusError:
        # The session itself can be shown, also by a config that can no longer be planned.
        return []


def calls_text(calls: Sequence[Batch]) -> str:
    """One sentence about the calls; empty without any."""
    if not calls:
        return ""
    priced = [each.cost_usd for each in calls if each.cost_usd is not None]
    money = f"${sum(priced):.4f}" if priced else "no price known"
    read, written = sum(each.input_tokens for each in calls), sum(each.output_tokens for each in calls)
    tokens = f"{read:,} tokens in, {written:,} out"
    what = "1 call" if len(calls) == 1 else f"{len(calls):,} calls"
    return f"memories extracted by {what}: {tokens}, {money}; `zeus memory undo` lists them"


def calls_json(calls: Sequence[Batch]) -> dict[str, Any]:
    """The calls as a JSON object: ``memory_calls`` if there are any."""
    found = [
        {
            "batch": each.id,
            "at": each.created_at.isoformat(),
            "messages": [each.first_seq, each.last_seq],
            "model": each.model,
            "input_tokens": each.input_tokens,
            "output_tokens": each.output_tokens,
            "cost_usd": each.cost_usd,
        }
        for each in calls
    ]
    return {"memory_calls": found} if found else {}
