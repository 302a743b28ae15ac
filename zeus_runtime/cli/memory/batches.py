"""``zeus memory undo|consolidate``: what models changed in the background, taken back; and memories tidied now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.deciding import agree_to, memory_lines
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.batches import ListedBatch
    from zeus_runtime.memory.undoing import UndoEffect


@click.command("undo")
@click.argument("batch", required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@config_option
@format_option
@click.pass_obj
def undo(process: Process, batch: str | None, yes: bool, which: ConfigArgs, as_object: bool) -> None:
    """List the batches of memory changes that a model made in the background, or undo BATCH.

    An undo removes the memories that the batch added and restores those that it replaced, dated or retired; it shows
    them before it asks. It is refused if a later change depends on the batch.
    """
    from zeus_runtime.errors import UsageError
    from zeus_runtime.memory.shown import batch_json

    checked = read_remembering(process, which)
    if batch is None:
        found = with_memory(process, checked, lambda memory: memory.batches.listed(), looks=True) or []
        tell(
            process,
            {"batches": [batch_json(each) for each in found]},
            lambda: _table(found),
            as_object=as_object,
            nothing="no model changed memories in the background",
        )
        return
    wanted = batch
    none_such = UsageError(f"there is no batch {batch!r}", remedy="`zeus memory undo` lists those there are.")
    if not yes:
        effect = with_memory(process, checked, lambda memory: memory.batches.undo_effect(wanted), looks=True)
        if effect is None:
            raise none_such
        lines = _effect_lines(effect, process.secrets.text)
        agree_to(lines, f"Undo {batch}?", unasked="nothing is undone unasked")
    undone = with_memory(process, checked, lambda memory: memory.batches.undo(wanted), looks=True)
    if undone is None:
        raise none_such
    parts = (("removed", undone.removed), ("restored", undone.restored), ("deleted before", undone.gone))
    told = "; ".join(f"{name} {', '.join(ids)}" for name, ids in parts if ids)
    complain(f"undone: {told or 'the batch had changed nothing'}")


@click.command("consolidate")
@config_option
@click.pass_obj
def consolidate(process: Process, which: ConfigArgs) -> None:
    """Let the model merge, date and retire memories, derive the profiles again, and print the batch for `undo`.

    One call of the model of `models.summary`, else of the agent's own; `limits.max_cost_usd` limits its cost.
    """
    import asyncio

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.plan.plan import make_plan

    checked = read_remembering(process, which)

    async def work() -> tuple[str | None, ListedBatch | None]:
        async with Agent(checked, make_plan(checked)) as agent:
            batch = await agent.consolidate_memories()
            listed = await agent.memory.batches.listed()
            return batch, next((each for each in listed if each.batch.id == batch), None)

    with prepared(process):
        name, listed = asyncio.run(work())
    if name is None or listed is None:
        complain("there are no memories to consolidate")
        return
    if listed.batch.state == "unreadable":
        complain("the model's answer could not be read, so nothing was changed")
    else:
        complain(_outcomes(listed.outcomes) or "nothing to merge, date or retire")
    answer(name)


def _effect_lines(effect: UndoEffect, mask: Callable[[str], str]) -> Iterator[str]:
    for word, items in (("removes", effect.removed), ("restores", effect.restored)):
        for each in items:
            yield from memory_lines(f"{word} ", each, mask)


def _outcomes(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


def _table(found: list[ListedBatch]) -> TextTable:
    rows = [
        (
            each.batch.id,
            local_time(each.batch.created_at),
            each.batch.kind,
            each.batch.session or "",
            each.batch.state,
            _outcomes(each.outcomes),
            each.batch.model,
            f"{each.batch.input_tokens:,}+{each.batch.output_tokens:,}",
            "unknown" if each.batch.cost_usd is None else f"${each.batch.cost_usd:.4f}",
        )
        for each in found
    ]
    heads = ("BATCH", "WHEN", "KIND", "SESSION", "STATE", "MEMORIES", "MODEL", "TOKENS", "COST")
    return TextTable(rows, heads)
