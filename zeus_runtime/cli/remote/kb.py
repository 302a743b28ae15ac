"""``zeus --remote URL kb``: the knowledge bases of the token's user at a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.remote.memory import agent_option
from zeus_runtime.cli.remote.service import client_of

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


@click.group("kb")
def command() -> None:
    """List or search knowledge bases of the service."""


@command.command("list")
@agent_option
@json_option
@click.pass_obj
def list_bases(process: Process, agent: str | None, as_object: bool) -> None:
    """List the knowledge bases; an agent itself searches the linked ones."""
    with client_of(process) as client:
        found = client.knowledge_bases(agent=agent)
    rows = [
        (each.name, each.scope, f"{each.documents:,}", f"{each.chunks:,}", "yes" if each.linked else "")
        for each in found
    ]
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: TextTable(rows, ("BASE", "SCOPE", "DOCUMENTS", "CHUNKS", "LINKED")),
        as_object=as_object,
        nothing="no knowledge base",
    )


@command.command("search")
@click.argument("name")
@click.argument("query")
@click.option(
    "-k", "top_k", metavar="N", type=click.IntRange(1, 100), default=5, show_default=True, help="At most N."
)
@agent_option
@json_option
@click.pass_obj
def search(process: Process, name: str, query: str, top_k: int, agent: str | None, as_object: bool) -> None:
    """Search the knowledge base NAME; each passage with its source and place."""
    with client_of(process) as client:
        found = client.search_knowledge(name, query, agent=agent, k=top_k)
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: "\n\n".join(
            f"[{number}] {each.citation} ({each.score:.4f})\n{each.content}"
            for number, each in enumerate(found, 1)
        ),
        as_object=as_object,
        nothing="nothing was found",
    )
