"""``zeus memory embeddings``: the model that embeds a user's memories and queries, and the user's own choice of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.memory.moving import progress_bar
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config import Ref
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.plan.validated import Checked


@click.group("embeddings")
def embeddings() -> None:
    """Show or choose the model that embeds what the user saves and asks.

    The choice is the user's own (memory.user) and is kept in the database: it goes before the config's
    memory.embeddings, in every agent that uses this database.
    """


@embeddings.command("show")
@config_option
@format_option
@click.pass_obj
def show(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """Show the model in use, whose choice it is, and how many memories have no vector of it."""
    from zeus_runtime.plan.chosen_embeddings import embeddings_in_use
    from zeus_runtime.plan.plan import make_plan

    checked = read_remembering(process, which)
    stored = with_memory(process, checked, lambda memory: memory.embeddings.stored(), looks=True)
    plan = make_plan(checked)
    used = embeddings_in_use(checked, plan, stored)
    if used.problem is not None:
        raise used.problem
    component, user = used.component, _user(checked)
    assert component is not None, "there is no problem"
    found = with_memory(process, checked, _in_use, looks=True)
    by = {"user": f"{user}, in the database", "config": "the config", "default": "nobody"}[used.by]
    rows = [("embeddings", component.name), ("chosen by", by)]
    value: dict[str, Any] = {
        "user": user,
        "by": used.by,
        "name": component.name,
        "options": dict(component.options),
    }
    if found is not None:
        model, dimension, waiting = found
        rows += [("model", model), ("dimension", str(dimension)), ("waiting", str(waiting))]
        value |= {"model": model, "dimension": dimension, "waiting": waiting}
    tell(process, value, lambda: TextTable(rows), as_object=as_object)
    if found is not None and not as_object:
        _tell_waiting(found[2])


@embeddings.command("use")
@click.argument("model", metavar="MODEL")
@click.option("--later", is_flag=True, help="Embed the memories again in the background of the next agent.")
@config_option
@click.pass_obj
def use(process: Process, model: str, later: bool, which: ConfigArgs) -> None:
    """Embed by MODEL from now on: a component's name, or as in the YAML '{litellm: {model: NAME}}'.

    `multilingual` runs offline and knows 16 languages. The model embeds a text to see that it can: an unknown name,
    wrong options, a missing key or package change nothing. Keys do not belong here, they are read from the environment.
    Then the user's memories are embedded again. Ctrl-C stops that, and the agents of this database continue in the
    background.
    """
    from zeus_runtime.memory.embedding_choice import written_choice

    checked = read_remembering(process, which)
    _choose(process, checked, written_choice(model), later=later)


@embeddings.command("reset")
@config_option
@click.pass_obj
def reset(process: Process, which: ConfigArgs) -> None:
    """Give up the user's own choice: the config's model embeds again."""
    _choose(process, read_remembering(process, which), None, later=True)


def _choose(process: Process, checked: Checked, ref: Ref | None, *, later: bool) -> None:
    async def work(memory: MemoryService) -> int:
        await memory.embeddings.choose(ref)
        model, dimension, waiting = await _in_use(memory)
        complain(
            f"the memories of {_user(checked)} are embedded by {model} ({dimension} dimensions) from now on"
        )
        if later or not waiting:
            return waiting
        with progress_bar(waiting, "embedding") as advance:
            done = await memory.embeddings.embed_again(progress=advance)
        complain(f"embedded again: {done}")
        return (await _in_use(memory))[2]

    waiting = with_memory(process, checked, work)
    assert waiting is not None, "a choice is written, so the database was opened"
    _tell_waiting(waiting)


async def _in_use(memory: MemoryService) -> tuple[str, int, int]:
    embedding = await memory.embeddings.model()
    assert embedding is not None, "a config always has one"
    return embedding.model, embedding.dimension, (await memory.stats()).waiting


def _tell_waiting(waiting: int) -> None:
    if waiting:
        complain(f"found by words alone until `zeus memory reindex`: {waiting}", "yellow")


def _user(checked: Checked) -> str:
    assert checked.config.memory is not None, "read_remembering saw to it"
    return checked.config.memory.user
