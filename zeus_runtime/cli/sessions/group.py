"""The verb ``zeus sessions`` with its own verbs."""

from __future__ import annotations

import click

from zeus_runtime.cli.sessions.lifecycle import (
    archive_sessions,
    delete_sessions,
    fork_session,
    prune_sessions,
    restore_sessions,
    roll_back_session,
)
from zeus_runtime.cli.sessions.reading import export_session, list_sessions, show_session
from zeus_runtime.cli.sessions.trace import trace_session


@click.group("sessions")
def command() -> None:
    """List, show, roll back, fork, archive or delete sessions."""


for each in (
    list_sessions,
    show_session,
    trace_session,
    export_session,
    roll_back_session,
    fork_session,
    archive_sessions,
    restore_sessions,
    prune_sessions,
    delete_sessions,
):
    command.add_command(each)
