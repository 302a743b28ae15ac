"""Two agents, one inside a tool of the other: what the one sheds, archives and counts is none of the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.context.archive import HISTORY_ROUTE, read_archive
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.models.messages import to_payload
from zeus_runtime.testing.evals.laws import asserted, compactions, shown_text
from zeus_runtime.testing.evals.report import Check, EvaluationFinding
from zeus_runtime.testing.evals.subject import Bench, Subject, running
from zeus_runtime.testing.evals.work import Desk, Part, forgetful, survey, working
from zeus_runtime.testing.scripted_model import calling

if TYPE_CHECKING:
    from zeus_runtime.testing.evals.provider import Script, Sent
    from zeus_runtime.tools import Tool

_COMPACTIONS = 2


@dataclass
class Side:
    """One of the two agents.

    Args:
        name: of it in findings.
        desk: its texts; their label is its mark.
        session: its thread, once it ran.
    """

    name: str
    desk: Desk
    session: str = ""


async def nested(subject: Subject, folder: Path, seed: int) -> Check:
    """Whether two agents of one config, on one database and one workspace, keep their contexts apart.

    The inner one has half of the outer one's window and is called by a tool; both use the same call ids.
    """
    window = subject.plan(folder).profile.max_input_tokens
    small = Subject(subject.checked, subject.name, max(2_000, window // 2))
    one = Side("outer", Desk(window, seed, label=f"OUTER-{seed}"))
    other = Side("inner", Desk(small.window_tokens or window, seed + 1, label=f"INNER-{seed}"))
    found: list[EvaluationFinding] = []
    async with running(small, folder, _inner(other.desk), forgetful, other.desk.tools()) as within:
        tools = [*one.desk.tools(), _delegate(within, other, found)]
        async with running(subject, folder, _outer(one.desk), forgetful, tools) as around:
            one.session, ending = await around.run("Begin.")
            found += ending
            histories = [
                await bench.agent.history(side.session) if side.session else ()
                for bench, side in ((around, one), (within, other))
            ]
            for bench, side, history in zip((around, within), (one, other), histories, strict=True):
                if not history:
                    found.append(EvaluationFinding("run-failed", 0, f"the {side.name} agent did not run"))
                    continue
                found += asserted(bench.provider, history, bench.files, side.session)
                found += _own_archive(bench, side, history)
                found += await _own_ledger(folder, bench, side)
    found += _mixed(around, other, "inner")
    found += _mixed(within, one, "outer")
    shed = [len(compactions(bench.provider.turns)) for bench in (around, within)]
    skipped = "" if min(shed) or found else "one of the two shed nothing"
    return Check("nested", subject.name, "", tuple(found), skipped, len(around.provider.turns), sum(shed))


def _outer(desk: Desk) -> Script:
    sent = yield "waiting"
    sent = yield survey("first")
    sent = yield calling(("eval_delegate", {"task": "Begin, and go on until the end."}))
    yield from _shedding(sent, desk)
    yield "The end."


def _inner(desk: Desk) -> Script:
    sent = yield "waiting"
    yield from _shedding(sent, desk)
    yield "Done."


def _shedding(sent: Sent, desk: Desk) -> Part:
    former, shed = sent, 0

    def over(now: Sent) -> bool:
        nonlocal former, shed
        shed += bool(compactions([former, now]))
        former = now
        return shed >= _COMPACTIONS

    return working(sent, desk, over)


def _delegate(bench: Bench, side: Side, found: list[EvaluationFinding]) -> Tool:
    from zeus_runtime.tools.define import tool

    @tool(access="read")
    async def eval_delegate(task: str) -> str:
        """Give a task to another agent.

        Args:
            task: What it does.
        """
        side.session, ending = await bench.run(task)
        found.extend(ending)
        return "The other agent is done."

    return eval_delegate


def _mixed(bench: Bench, side: Side, whose: str) -> Iterator[EvaluationFinding]:
    for step, sent in enumerate(bench.provider.turns, start=1):
        if side.desk.label in shown_text(sent.messages):
            yield EvaluationFinding(
                "mixed", step, f"a text of the {whose} agent was sent to the other", side.desk.label
            )
            return


def _own_archive(bench: Bench, side: Side, history: Sequence[object]) -> Iterator[EvaluationFinding]:
    path = f"{HISTORY_ROUTE}{side.session}.md"
    from zeus_runtime.tools import WorkspaceError

    try:
        archived, _ = read_archive(bench.files.runtime.read(path, max_bytes=1 << 30))
    except WorkspaceError:
        return
    for each in archived:
        if not 0 < each.seq <= len(history) or to_payload(each.message) != to_payload(history[each.seq - 1]):  # type: ignore[arg-type]
            yield EvaluationFinding(
                "archive-mixed",
                0,
                f"the {side.name} agent's archive holds what it did not say",
                str(each.seq),
            )


async def _own_ledger(folder: Path, bench: Bench, side: Side) -> list[EvaluationFinding]:
    """Check that the agent's ledger has one row for each of its calls, with its window, and edits only its messages."""
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.thread_log import ThreadLog

    database = Database(bench.plan.config.storage.url, directory=folder, acting=EVERYONE)
    try:
        log = ThreadLog(database)
        thread = await log.find(side.session)
        steps = [StepRecord.from_json(entry.payload) for entry in await log.steps(thread)]
        edits = [json.loads(text) for text in await log.read_edits(thread)]
    finally:
        await database.close()
    found = []
    own = {
        number for number, step in enumerate(steps, start=1) if any(each.admitted for each in step.decisions)
    }
    for number in compactions(bench.provider.turns):
        if number not in own:
            told = f"the {side.name} agent's context changed without a decision of its own"
            found.append(EvaluationFinding("view-touched", number, told))
    if len(steps) != len(bench.provider.turns):
        why = f"{len(steps)} rows for {len(bench.provider.turns)} calls of the {side.name} agent"
        found.append(EvaluationFinding("ledger-mixed", 0, why))
    windows = {step.input_limit_tokens for step in steps}
    if windows - {bench.plan.profile.max_input_tokens}:
        found.append(
            EvaluationFinding(
                "budget-mixed", 0, f"the {side.name} agent was planned with another's window", str(windows)
            )
        )
    reported = [step.usage.input_tokens for step in steps if step.usage is not None]
    if reported != [sent.tokens for sent in bench.provider.turns]:
        found.append(
            EvaluationFinding(
                "budget-mixed", 0, f"the {side.name} agent's ledger counts other requests than its own"
            )
        )
    if (steps[-1].edits if steps else 0) != len(edits):
        found.append(
            EvaluationFinding(
                "ledger-mixed", 0, f"the {side.name} agent has other edits than its ledger says"
            )
        )
    return found
