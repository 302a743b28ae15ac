"""``zeus db``: the schema of an agent's database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.database_file import is_missing
from zeus_runtime.cli.options import ConfigArgs, config_argument, json_option, read_owner
from zeus_runtime.cli.output import tell
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.validated import Checked


@click.group("db")
def command() -> None:
    """Show or upgrade the schema of a database."""


@command.command("current")
@config_argument
@json_option
@click.pass_obj
def show_current(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """Print the revision that a database has, and whether it is this program's."""
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.store.database_url import without_password
    from zeus_runtime.store.schema import HEAD, state

    checked, _ = read_owner(process, which)
    url = checked.config.storage.url
    found = None
    if not is_missing(checked):
        with prepared(process):
            found = asyncio.run(_current(checked))
    shown = {"database": without_password(url), "revision": found, "newest": HEAD, "state": state(found)}
    tell(process, shown, lambda: f"{found or 'none'} ({state(found)})", as_object=as_object)
    if state(found) == "older" and not as_object:
        complain(f"`zeus db upgrade` brings it to {HEAD}")


@command.command("upgrade")
@config_argument
@click.pass_obj
def upgrade(process: Process, which: ConfigArgs) -> None:
    """Bring a database to this program's schema, in one transaction; make the tables of an empty one.

    On a server the tables of the checkpointer and of memory's vectors are made too. Back up first; running
    agents wait meanwhile.
    """
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.store.schema import HEAD

    checked, _ = read_owner(process, which)
    with prepared(process):
        found = asyncio.run(_upgrade(checked))
    if found == HEAD:
        complain(f"the database is at {HEAD} already")
    else:
        complain(f"upgraded from {found} to {HEAD}" if found else f"made the tables of {HEAD}")
    answer(HEAD)


async def _current(checked: Checked) -> str | None:
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.schema import current

    database = Database(checked.config.storage.url, directory=checked.directory, acting=EVERYONE)
    try:
        return await current(database)
    finally:
        await database.close()


async def _upgrade(checked: Checked) -> str | None:
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.services import planned_vectors
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.schema import upgrade as bring_up
    from zeus_runtime.store.word_entries import prepare_words

    database = Database(checked.config.storage.url, directory=checked.directory, acting=EVERYONE)
    try:
        found = await bring_up(database)
        if database.is_server:
            plan = make_plan(checked)
            async with plan.checkpointer.create(plan.context):
                pass
            if plan.memory is not None:
                await database.run(prepare_words)
            if plan.memory is not None or plan.config.knowledge:
                vectors = planned_vectors(checked).create(plan.context)
                try:
                    if vectors.transactional:
                        await database.run(vectors.prepare)
                        await database.outside(vectors.index)
                finally:
                    vectors.close()
        return found
    finally:
        await database.close()
