"""Replay a recorded session under another config, with the real planner and policies and a simulated provider.

No component of the config is called: the recorded answers replace the model, the recorded results replace the tools,
and a separate folder receives the originals that policies archive.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.edits import DropBefore, Edit, Pin, Summarize, edit_from_json
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.context.replay.provider_simulator import (
    SUMMARY_TOKENS,
    SimulatedCall,
    SimulatedCost,
    SimulatedProvider,
    outcome,
)
from zeus_runtime.context.replay.recordings import Recording
from zeus_runtime.errors import ZeusError
from zeus_runtime.middleware.protocol import Turn
from zeus_runtime.run.assembly import run_resources
from zeus_runtime.run.resources import RunResources
from zeus_runtime.run.run import Run
from zeus_runtime.run.stored_thread import StoredThread
from zeus_runtime.run.transcript import Transcript
from zeus_runtime.tools import WorkspaceFiles

if TYPE_CHECKING:
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.models.interface import ModelPiece, ModelRequest
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import Toolset

_SESSION: Final = "backtest"
_RUN: Final = "backtest"
_ENDLESS: Final = 10**9


@dataclass(frozen=True)
class Replayed:
    """One session under one config.

    Args:
        outcome: the totals.
        calls: every call that the provider saw, including refused ones.
        steps: the ledger.
        edits: the admitted edits, each with the ``seq`` of the last message before it.
        cpu_seconds: CPU time of each step, from one answer to the next request.
        provider: its final state.
    """

    outcome: SimulatedCost
    calls: Sequence[SimulatedCall]
    steps: Sequence[StepRecord]
    edits: Sequence[tuple[int, Edit]]
    cpu_seconds: Sequence[float]
    provider: SimulatedProvider


async def replay(
    plan: Plan,
    recording: Recording,
    folder: Path,
    *,
    policy: str,
    needles: Sequence[str] = (),
    summary_tokens: int = SUMMARY_TOKENS,
    listed: Mapping[str, Toolset] | None = None,
    provider_counter: Counter | None = None,
) -> Replayed:
    """Play ``recording`` under ``plan``.

    Args:
        plan: the candidate; its model gives window, prices and cache rules, and is not called.
        recording: the recorded conversation.
        folder: an empty folder for the log and the archive.
        policy: the candidate's name in the outcome.
        needles: texts from the user that the last request should still contain.
        summary_tokens: the length of the summaries that policies get.
        listed: the tools of toolsets, by component name (``listed_toolsets``); without it toolsets have none.
        provider_counter: how the provider counts; the plan's counter by default.
    """
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog

    counter = provider_counter or plan.token_counter
    provider = SimulatedProvider(plan.profile, counter, summary_tokens=summary_tokens)
    database = Database("sqlite:///backtest.db", directory=folder, is_scratch=True)
    try:
        # The recording's time, so that a pause lets the provider's cache expire as it did.
        log = ThreadLog(database, now_ms=provider.now_ms)
        await log.create_tables()
        thread = await log.open(_SESSION, agent=plan.config.name)
        player = _Player(_apart(plan, provider, folder), provider, recording, log, thread, listed or {})
        failure = await player.play()
        edits = [(at_seq, edit_from_json(text)) for _, at_seq, text in await log.edit_entries(thread)]
        steps = [StepRecord.from_json(entry.payload) for entry in await log.steps(thread)]
    finally:
        await database.close()
    found = outcome(
        recording.name,
        policy,
        provider,
        compacted=frozenset(_compactions(recording, edits)),
        needles=(sum(map(provider.holds, needles)), len(needles)),
        failure=failure,
    )
    return Replayed(found, provider.calls, steps, edits, player.cpu_seconds, provider)


class _Player:
    def __init__(
        self,
        plan: Plan,
        provider: SimulatedProvider,
        recording: Recording,
        log: ThreadLog,
        thread: Thread,
        listed: Mapping[str, Toolset],
    ) -> None:
        self._listed = listed
        self.cpu_seconds: list[float] = []
        self._plan = plan
        self._provider = _PausedProvider(provider, self)
        self._recording = recording
        self._log = log
        self._thread = thread
        self._mark = 0.0

    async def play(self) -> str:
        """Play the whole recording; return why it ended early, or an empty text."""
        messages = self._recording.messages
        resources = self._resources()
        transcript = Transcript(
            self._log,
            self._thread,
            StoredThread(),
            counter=resources.counter,
            replayable=[tool.name for tool in resources.toolbox.tools if tool.replayable_result],
        )
        run: Run | None = None
        place = 0
        self._mark = time.process_time()
        while place < len(messages):
            message = messages[place]
            if message.type != "ai":
                await transcript.append(place + 1, _RUN, message)
                # As in a real session: each prompt is another run, with new middlewares.
                run = None if message.type == "human" else run
                place += 1
                continue
            if run is None:
                turn = Turn(session=_SESSION, run_id=_RUN, mode=self._plan.mode)
                run = Run(turn, self._resources(), transcript, lambda _event: None)
            self._provider.simulated.expect(
                message,  # type: ignore[arg-type]
                place=place,
                at_seconds=self._recording.at_seconds[place],
                needles=self._recording.needles.get(place, ()),
            )
            try:
                await run.answer(place + 1, _RUN)
            except ZeusError as error:
                return f"message {place + 1}: {error.message}"
            place += 1
        return ""

    def before(self) -> None:
        self.cpu_seconds.append(time.process_time() - self._mark)

    def after(self) -> None:
        self._mark = time.process_time()

    def _resources(self) -> RunResources:
        resources = run_resources(self._plan, self._provider, _SESSION, opened=self._listed)
        # The recording decides how long the run is: no limit may end it.
        limits = replace(
            resources.limits, max_steps=_ENDLESS, timeout_seconds=None, max_cost_usd=None, repeated_calls=None
        )
        return replace(resources, limits=limits)


class _PausedProvider:
    """The simulated provider, whose own CPU time is not counted."""

    def __init__(self, simulated: SimulatedProvider, player: _Player) -> None:
        self.simulated = simulated
        self._player = player

    @property
    def name(self) -> str:
        return self.simulated.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self._player.before()
        try:
            yield self.simulated.answer(request)
        finally:
            self._player.after()


def _apart(plan: Plan, provider: SimulatedProvider, folder: Path) -> Plan:
    """``plan`` with its files in ``folder`` and ``provider`` as its only model."""
    routes = {prefix: folder / "routes" / prefix.strip("/") for prefix in plan.context.workspace.routes}
    context = replace(
        plan.context,
        directory=folder,
        workspace=WorkspaceFiles(folder / "workspace", routes),
        profile_of=lambda _name: plan.profile,
    )
    return replace(plan, context=context, open_model=lambda _ref: provider)


def _compactions(recording: Recording, edits: Sequence[tuple[int, Edit]]) -> Iterator[int]:
    """The places of the answers before which an edit changed something that an earlier request had shown.

    A result that is replaced before it was ever sent changes no cached prefix and does not count.
    """
    asked = [place for place, message in enumerate(recording.messages) if message.type == "ai"]
    former: Mapping[int, int] = dict(zip(asked[1:], asked, strict=False))
    for at_seq, edit in edits:
        if isinstance(edit, Pin):
            continue
        if isinstance(edit, DropBefore | Summarize) or edit.seq <= former.get(at_seq, 0):
            yield at_seq
