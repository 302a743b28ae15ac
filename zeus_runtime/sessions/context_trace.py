"""Read a stored session to explain its context: log, edits, ledger; unreadable parts are reported and skipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.context.edits import Pin, edit_from_json
from zeus_runtime.context.inspection import Branch, Trace
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.models.messages import from_payload
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.store.branch import Rollback, SessionBranch, edits_aside, line_of, steps_aside
from zeus_runtime.store.rollbacks import rollbacks

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.edits import Edit
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog


async def context_trace(
    log: ThreadLog, checked: Checked, session: str | None = None, agent: str | None = None
) -> Trace:
    """A session with its edits and its ledger; the latest of ``agent`` (of any, if None) by default.

    Parts that cannot be read are left out, and ``Trace.problems`` names them.

    Raises:
        UsageError: there is no such session.
    """
    if session is None:
        latest = await log.sessions(agent=agent, limit=1)
        if not latest:
            whose = "there is no session yet" if agent is None else f"the agent {agent!r} has no session yet"
            raise UsageError(
                whose,
                remedy="Run it once, or name one with --session.",
            )
        session = latest[0].session
    thread = await log.find(session)
    problems: list[str] = []
    written: dict[int, BaseMessage] = {}
    for entry in await log.read(thread):
        try:
            written[entry.seq] = from_payload(json.loads(entry.payload))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"message {entry.seq} of the log cannot be read: {error}")
            # A view with a gap would show a request that was never sent.
            break
    edits = _edits(await log.edit_entries(thread), problems)
    steps = _steps([(each.number, each.payload) for each in await log.steps(thread)], problems)
    *before, now = _branches(written, edits, steps, await rollbacks(log, thread))
    plan = _plan(checked)
    model = next((step.model for step in reversed(steps) if step.model), "")
    profile = lookup(model, overrides=checked.config.profiles, homes=checked.homes)
    return Trace(
        session,
        now.history,
        now.edits,
        steps,
        await log.texts(thread),
        plan.token_counter if plan is not None and plan.profile.name == model else counter_for(profile),
        frozenset(each.tool.name for each in plan.tools if each.tool.replayable_result)
        if plan
        else frozenset(),
        problems,
        before,
        now.aside,
    )


def _branches(
    written: Mapping[int, BaseMessage],
    edits: Sequence[tuple[int, Edit]],
    steps: Sequence[StepRecord],
    made: Sequence[Rollback],
) -> list[Branch]:
    """The session as it was before each rollback, and as it is now."""
    numbered = [(number, at) for number, (at, _) in enumerate(edits, start=1)]
    found = []
    for index in range(len(made) + 1):
        past = made[:index]
        line, gone = line_of(past), edits_aside(past, numbered)
        following = made[index] if index < len(made) else None
        last = len(edits) if following is None else following.edits
        found.append(
            Branch(
                steps[-1].number
                if following is None and steps
                else 0
                if following is None
                else following.steps,
                [written[seq] for seq in sorted(written) if _on(line, seq, following)],
                [
                    # It keeps its place: steps refer to edits by their number.
                    (at, Pin("", "set aside", 0) if number in gone else edit)
                    for number, (at, edit) in enumerate(edits[:last], start=1)
                ],
                steps_aside(past, [(step.number, step.cursor) for step in steps]),
            )
        )
    return found


def _on(line: SessionBranch, seq: int, following: Rollback | None) -> bool:
    return line.place(seq) is not None and (following is None or seq <= following.last_seq)


def _edits(entries: Sequence[tuple[int, int, str]], problems: list[str]) -> list[tuple[int, Edit]]:
    edits = []
    for number, at_seq, text in entries:
        try:
            edits.append((at_seq, edit_from_json(text)))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(
                f"edit {number} cannot be read: {error}; what was sent after it cannot be rebuilt"
            )
            break
    return edits


def _steps(entries: Sequence[tuple[int, str]], problems: list[str]) -> list[StepRecord]:
    steps = []
    for number, text in entries:
        try:
            steps.append(StepRecord.from_json(text))
        except ValueError as error:
            problems.append(f"step {number} of the ledger cannot be read: {error}")
    return steps


def _plan(checked: Checked) -> Plan | None:
    """The config's present plan; None if it cannot be planned."""
    try:
        return make_plan(checked)
    except ZeusError:
        return None
