"""``zeus memory extract``: facts from documents that a person names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.memory.moving import progress_bar
from zeus_runtime.cli.memory.opening import read_remembering
from zeus_runtime.cli.memory.options import config_option
from zeus_runtime.cli.options import ConfigArgs
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


@click.command("extract")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--knowledge", "bases", metavar="NAME", multiple=True, help="A knowledge base; may be repeated."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@config_option
@click.pass_obj
def extract(
    process: Process, paths: tuple[Path, ...], bases: tuple[str, ...], yes: bool, which: ConfigArgs
) -> None:
    """Let the model extract facts from files, folders and knowledge bases, and print the batches for `undo`.

    One call of the model of `models.summary`, else of the agent's own, for each 12,000 characters; together they cost
    at most `limits.max_cost_usd`. The facts are untrusted: they enter no profile and replace no trusted memory. Parts
    that were read before are not read again, so you can repeat an extraction that was stopped.
    """
    import asyncio

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.errors import UsageError
    from zeus_runtime.plan.plan import make_plan

    if not paths and not bases:
        raise UsageError("nothing to read", remedy="Name files, folders, or a base with --knowledge NAME.")
    checked = read_remembering(process, which)

    def unread(path: str, why: str) -> None:
        complain(process.redact(f"warning: {path} is left out: {why}"), "yellow")

    async def work() -> list[str]:
        async with Agent(checked, make_plan(checked)) as agent:
            parts = await agent.document_parts(paths, bases, unread=unread)
            if parts and not yes:
                size = sum(len(each.text) for each in parts)
                calls = "1 call" if len(parts) == 1 else f"up to {len(parts):,} calls"
                question = f"Extract facts from {size:,} characters by {calls} of the model?"
                agree(question, unasked=f"{calls} of the model are not made unasked")
            with progress_bar(len(parts), "extracting") as advance:
                return await agent.extract_from_documents(parts, progress=advance)

    with prepared(process):
        batches = asyncio.run(work())
    if not batches:
        complain("there is nothing new to read")
    for name in batches:
        answer(name)
