"""``zeus audit``: who did what with a service."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.options import AT_MOST, json_option
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.service_settings import Duration, settings_option, with_service

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


@click.command("audit")
@click.option("--user", metavar="USER", help="Only what this user did.")
@click.option("--since", type=Duration(), metavar="TIME", help="Only the last 30m, 12h, 7d or 4w.")
@click.option("-n", "--limit", type=AT_MOST, default=100, show_default=True, help="So many of the newest.")
@settings_option
@json_option
@click.pass_obj
def command(
    process: Process,
    user: str | None,
    since: int | None,
    limit: int,
    settings_file: Path | None,
    as_object: bool,
) -> None:
    """Show who did what with a service.

    Oldest first: each change, each decision, each refusal.

    The log holds no prompts, answers, arguments or keys. The database refuses to change or delete its rows.
    """
    from zeus_runtime.store.service_audit import entries

    after = 0 if since is None else round(time.time() * 1000) - since
    found = with_service(
        process,
        settings_file,
        lambda database: entries(database, user=user, since_ms=after, at_most=limit),
    )
    rows = [
        (
            local_time(each.at_ms),
            each.user_id or "-",
            each.caller,
            each.action,
            each.session or each.subject or "",
            each.decision or "",
            f"{each.outcome} ({each.status})",
        )
        for each in found
    ]
    header = ("TIME", "USER", "CALLER", "ACTION", "SESSION OR RUN", "DECISION", "OUTCOME")
    tell(
        process,
        {"entries": list(found)},
        lambda: TextTable(rows, header),
        as_object=as_object,
        nothing="nothing was done with the service yet",
    )
