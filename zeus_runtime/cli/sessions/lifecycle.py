"""``zeus sessions rollback``, ``fork``, ``archive``, ``restore``, ``prune``, ``delete``: what becomes of sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.database_file import is_missing
from zeus_runtime.cli.log import thread_of
from zeus_runtime.cli.options import ConfigArgs, json_option, read_owner
from zeus_runtime.cli.output import as_json, complain_table
from zeus_runtime.cli.sessions.options import (
    Age,
    config_option,
    middlewares_option,
    sessions_argument,
    yes_option,
)
from zeus_runtime.cli.sessions.reading import session_table
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.model import Retention
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.sessions.lifecycle import SessionLifecycle
    from zeus_runtime.sessions.retention import Pruned
    from zeus_runtime.store.listing import SessionInfo

T = TypeVar("T")

_MOST_SHOWN: Final = 200
"""Sessions before a question about several."""


@click.command("rollback")
@click.argument("session")
@click.option(
    "--to",
    required=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="A message of yours, by the number that `zeus sessions show` prints.",
)
@click.option("--before", is_flag=True, help="Set the message itself aside too, to reword it.")
@config_option
@click.pass_obj
def roll_back_session(
    process: Process,
    session: str,
    to: int,
    before: bool,
    which: ConfigArgs,
) -> None:
    """Go back to an earlier message; later messages are set aside, not deleted.

    `zeus run --session SESSION --continue` answers the message again; with a prompt, it continues after the message.
    `zeus sessions show --all` shows the messages that were set aside.
    """
    checked, _ = read_owner(process, which)
    aside = _with_keeper(process, checked, lambda lifecycle: lifecycle.roll_back(session, to, before=before))
    complain(
        f"{session} is back {'before' if before else 'at'} message {to}; {aside} message(s) were set aside"
    )


@click.command("fork")
@click.argument("session")
@click.option(
    "--step",
    required=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="A step, by the number that `zeus context steps` prints.",
)
@middlewares_option
@config_option
@click.pass_obj
def fork_session(
    process: Process,
    session: str,
    step: int,
    middlewares: str | None,
    which: ConfigArgs,
) -> None:
    """Begin a new session as SESSION was when step N was asked, and print its id; SESSION does not change.

    `zeus run --session NEW --continue` asks that step again, under the config as it is now; with a prompt, it continues
    from there. Files of the workspace stay as they are.

    With --middlewares, NEW has its own policies, and keeps them. Lines that judge calls, such as `approve` and
    `hooks`, stay as the config has them.
    """
    checked, _ = read_owner(process, which)

    async def fork(lifecycle: SessionLifecycle) -> str:
        if middlewares is not None:
            await thread_of(lifecycle.log, session, checked)  # they were checked with its config
        return await lifecycle.fork(session, step, policies=middlewares)

    answer(_with_keeper(process, checked, fork, policies=middlewares))


@click.command("archive")
@sessions_argument
@config_option
@click.pass_obj
def archive_sessions(
    process: Process,
    sessions: tuple[str, ...],
    which: ConfigArgs,
) -> None:
    """Pack sessions away: out of the lists, a fraction of the room, and back with `zeus sessions restore`."""
    _each(process, sessions, which, lambda lifecycle, name: lifecycle.archive(name), "archived")


@click.command("restore")
@sessions_argument
@config_option
@click.pass_obj
def restore_sessions(
    process: Process,
    sessions: tuple[str, ...],
    which: ConfigArgs,
) -> None:
    """Bring archived sessions back as they were."""
    _each(process, sessions, which, lambda lifecycle, name: lifecycle.restore(name), "restored")


@click.command("prune")
@click.option(
    "--older-than", metavar="AGE", type=Age(), help="What was not used for so long, such as 30d (m, h, d, w)."
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=1), help="All but the N sessions that were used last."
)
@click.option("--delete", is_flag=True, help="Delete instead of archiving, whatever retention.archive says.")
@click.option("--all", "every", is_flag=True, help="Of all agents that use the database, not only this one.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
@yes_option
@config_option
@json_option
@click.pass_obj
def prune_sessions(
    process: Process,
    older_than: float | None,
    keep: int | None,
    delete: bool,
    every: bool,
    dry_run: bool,
    yes: bool,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Archive (or delete) sessions that are old or too many; by default as the config's `retention` says.

    A session that runs is left alone.
    """
    from dataclasses import asdict

    from zeus_runtime.sessions.retention import Pruner

    checked, own = read_owner(process, which)
    retention = _wanted(checked.config.retention, older_than, keep, delete=delete)
    agent = None if every or not own else checked.config.name

    def prune(*, dry_run: bool, among: Sequence[str] | None = None) -> Pruned:
        return _with_keeper(
            process, checked, lambda lifecycle: Pruner(lifecycle, retention, agent, dry_run, among).run()
        )

    # Looked at first to ask, then judged anew: a session that was used since the question stays.
    found = prune(dry_run=True)
    if (found.archived or found.deleted) and not dry_run:
        what = " and ".join(
            f"{verb} {len(each)}"
            for verb, each in (("archive", found.archived), ("delete", found.deleted))
            if each
        )
        if not yes:
            _show(process, found.archived, which, stays=True)
            _show(process, found.deleted, which)
            done = "deleted" if found.deleted else "archived"
            agree(f"{what.capitalize()} session(s)?", unasked=f"nothing is {done} unasked")
        found = prune(dry_run=False, among=(*found.archived, *found.deleted))
    if as_object:
        answer(as_json({**asdict(found), "dry_run": dry_run}, mask=process.secrets.json))
    else:
        _tell_pruned(found, archives=retention.archive, dry_run=dry_run)
    if found.failed:
        click.get_current_context().exit(1)


def _wanted(retention: Retention, older_than: float | None, keep: int | None, *, delete: bool) -> Retention:
    """What the command line asks for, else what the config says.

    Raises:
        UsageError: neither says which sessions go.
    """
    from dataclasses import replace

    from zeus_runtime.errors import UsageError

    if older_than is not None or keep is not None:
        retention = replace(retention, max_age_days=older_than, max_sessions=keep, archived_max_age_days=None)
    if retention.keeps_all:
        raise UsageError(
            "nothing says which sessions go", remedy="Say --older-than 30d or --keep 100, or set `retention`."
        )
    return replace(retention, archive=False) if delete else retention


def _tell_pruned(found: Pruned, *, archives: bool, dry_run: bool) -> None:
    for name in (*found.archived, *found.deleted):
        answer(name)
    for done, each in (("archived", found.archived), ("deleted", found.deleted)):
        if each or (done == "archived") == archives:
            complain(f"{len(each)} session(s) {'would be ' if dry_run else ''}{done}")
    if found.running:
        complain(f"{len(found.running)} left alone: {', '.join(found.running)} running")
    for session, reason in found.failed:
        complain(f"{session} stays: {reason}")


@click.command("delete")
@sessions_argument
@config_option
@yes_option
@click.pass_obj
def delete_sessions(
    process: Process,
    sessions: tuple[str, ...],
    which: ConfigArgs,
    yes: bool,
) -> None:
    """Delete sessions with all their messages, checkpoints and archived originals, archived sessions too."""

    shown: Sequence[SessionInfo] | None = None

    async def delete(lifecycle: SessionLifecycle, session: str) -> bool:
        await lifecycle.delete(session, shown=shown)
        return True

    if not yes:
        shown = _show(process, sessions, which)
        agree("Delete this with all messages?", unasked="nothing is deleted unasked")
    _each(process, sessions, which, delete, "deleted")


def _show(
    process: Process, sessions: Sequence[str], which: ConfigArgs, *, stays: bool = False
) -> Sequence[SessionInfo]:
    """Show sessions with those of their sub-agents, and what goes with them; of very many, the first.

    Args:
        stays: whether the sessions are archived, so that nothing goes.
    """
    from zeus_runtime.sessions.stored import family

    if not sessions:
        return ()
    checked, _ = read_owner(process, which)
    shown = list(dict.fromkeys(sessions))[:_MOST_SHOWN]

    async def look(lifecycle: SessionLifecycle) -> tuple[list[SessionInfo], tuple[int, int | None]]:
        log = lifecycle.log
        named = [await log.info(await log.find(each, archived=True)) for each in shown]
        # A session is deleted with those of its sub-agents.
        found = [one for each in named for one in await family(log, each)]
        return found, (0, 0) if stays else await lifecycle.goes_along([each.session for each in found])

    found, (files, memories) = _with_keeper(process, checked, look)
    complain_table(session_table(found), mask=process.redact)
    if len(shown) < len(set(sessions)):
        complain(f"… and {len(set(sessions)) - len(shown):,} more: --dry-run names all")
    along = [f"{files:,} file(s) of their own workspaces"] if files else []
    if memories != 0:
        count = "the memories" if memories is None else f"{memories:,} memory(s)"
        along.append(f"{count} that were saved for them alone")
    if along:
        complain(f"With them go {' and '.join(along)}.", "yellow")
    return found


def _each(
    process: Process,
    sessions: Sequence[str],
    which: ConfigArgs,
    do: Callable[[SessionLifecycle, str], Awaitable[bool]],
    done: str,
) -> None:
    """Do something with each session, also after one with which it fails; with none of them unless all are there."""
    from functools import partial

    from zeus_runtime.tools.run_to_completion import all_tried

    checked, _ = read_owner(process, which)

    async def work(lifecycle: SessionLifecycle) -> None:
        async def one(session: str) -> None:
            is_done = await do(lifecycle, session)
            complain(f"{done} {session}" if is_done else f"{session} is {_ALREADY[done]}")

        for session in sessions:
            await lifecycle.log.find(session, archived=True)
        works = [partial(one, session) for session in dict.fromkeys(sessions)]
        await all_tried(*works, lifecycle.log.database.compact, stops=True)

    _with_keeper(process, checked, work)


_ALREADY = {"archived": "archived already", "restored": "not archived"}


def _with_keeper(
    process: Process,
    checked: Checked,
    work: Callable[[SessionLifecycle], Awaitable[T]],
    *,
    policies: str | None = None,
) -> T:
    """What ``work`` gives, with the database and the checkpointer of a config open; no model is needed.

    Args:
        policies: checked first, as those of a session.

    Raises:
        UsageError: the database does not exist.
        ZeusError: the policies cannot be a session's; ``SessionPlans.check`` says when.
    """
    import asyncio
    from functools import partial

    from zeus_runtime.agent.session_plans import SessionPlans
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.errors import UsageError
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import sandboxes_of
    from zeus_runtime.sessions.deletion import forgetting, own_files
    from zeus_runtime.sessions.lifecycle import SessionLifecycle
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.run_to_completion import all_tried

    url = checked.config.storage.url
    if is_missing(checked):
        raise UsageError("there is no session yet", remedy=f"There is no database {url}.")

    async def run() -> T:
        plan = make_plan(checked)
        database = Database(url, directory=checked.directory, acting=EVERYONE)
        try:
            if policies is not None:
                await SessionPlans(checked, plan).check(policies)
            log = ThreadLog(database)
            await log.create_tables()
            async with plan.checkpointer.create(plan.context) as saver:
                context = plan.context
                lifecycle = SessionLifecycle(
                    log,
                    saver,
                    files=context.workspace,
                    forget=forgetting(plan),
                    memory=context.memory,
                    own_files=partial(own_files, plan),
                )
                return await work(lifecycle)
        finally:
            of_memory = None if plan.context.memory is None else plan.context.memory.aclose
            sandboxes = (each.aclose for each in sandboxes_of(plan))
            await all_tried(database.close, *sandboxes, of_memory)

    with prepared(process):
        return asyncio.run(run())
