"""The search of ``zeus context tune``: its replays, its budget, its progress, and the trials that it keeps."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.context.tune_report import TuningReport, price_text, value_text
from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import complain, is_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.agent.tuning import Bounds, Candidate, Piece, TrialFigures, TunedOption, Tuning
    from zeus_runtime.cli.context.tune_replays import Replays, ReplayWorkers
    from zeus_runtime.cli.options import ConfigArgs
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


@dataclass
class TrialBudget:
    """The limits of a search."""

    seconds: float
    trials: int | None
    done: int = 0
    end: float = 0.0

    def start(self) -> None:
        from time import monotonic

        self.end = monotonic() + self.seconds

    @property
    def is_spent(self) -> bool:
        from time import monotonic

        return monotonic() >= self.end or (self.trials is not None and self.done >= self.trials)


class TuningSearch:
    """The replays of one command, with their budget and the trials that are kept."""

    def __init__(
        self,
        process: Process,
        which: ConfigArgs,
        checked: Checked,
        recordings: Sequence[Recording],
        bounds: Bounds,
        budget: TrialBudget,
        summary_tokens: int,
        workers: int,
    ) -> None:
        from zeus_runtime.agent.tuning import divided

        self._process = process
        self._which = which
        self._checked = checked
        self._bounds = bounds
        self._budget = budget
        self._summary_tokens = summary_tokens
        self._tuned, self._held = divided(recordings)
        self._trials = _Trials(process.directory)
        self._workers = workers

    def run(self) -> TuningReport:
        from zeus_runtime.agent.tuning import Line, Tuning, tunable_options, written
        from zeus_runtime.cli.start import prepared
        from zeus_runtime.config.layers.interpolation import escaped
        from zeus_runtime.errors import UsageError

        # They are read again, as an overlay or as `--set`, where a dollar may begin a variable.
        present = tuple(map(Line.of, escaped(self._checked.middlewares_for_overlay())))
        plan = self._replays(()).plan(present, self._process.environ)
        schema = self._checked.document.schema
        options = () if plan is None or schema is None else tunable_options(present, plan, schema)
        if plan is None or not options:
            raise UsageError(
                "the config has no context policy with an option to tune",
                remedy="Add `eviction`, `dedupe`, `truncation` or `summarization` to `middlewares`.",
            )
        if plan.profile.input_cost_per_token is None:
            complain(
                f"note: no price of {plan.profile.name} is known, so the tokens sent are made fewer", "yellow"
            )

        async def search() -> TuningReport:
            with _progress(self._budget) as shown:
                async with self._measuring(self._tuned, shown) as measure:
                    tuning = Tuning(present, options, measure, self._bounds, shown.improved, measure.ahead)
                    shown.tuning = tuning
                    self._budget.start()
                    with _ended_by_ctrl_c(shown):
                        await tuning.run()
                    changes = await tuning.changes()
                    known = measure.known
            is_ended = not tuning.stopped
            trials = self._budget.done
            held_present = held_tuned = None
            refusal = ""
            if changes:
                async with self._measuring(self._held, None) as check:
                    check.ahead([present, tuning.best])
                    held_present, held_tuned = await check(present), await check(tuning.best)
                    known += check.known
                assert held_present is not None
                assert held_tuned is not None
                refusal = self._bounds.broken(held_tuned, held_present)
                if not refusal and held_tuned.price >= held_present.price:
                    refusal = "the tuned config is not cheaper there"
            return TuningReport(
                tuning.present,
                tuning.figures,
                held_present,
                held_tuned,
                changes,
                written(tuning.best),
                trials,
                known,
                refusal,
                (_names(self._tuned), _names(self._held)),
                is_ended,
            )

        with prepared(self._process):
            return asyncio.run(search())

    def _replays(self, pieces: Sequence[Piece]) -> Replays:
        from zeus_runtime.cli.context.tune_replays import Replays
        from zeus_runtime.cli.options import ConfigArgs

        named = self._checked.document.path
        config = self._which.config or (None if named is None else str(named))
        which = ConfigArgs(config, self._which.env, tuple(self._which.sets))
        return Replays(which, self._process.directory, tuple(pieces), self._summary_tokens)

    @asynccontextmanager
    async def _measuring(
        self, pieces: Sequence[Piece], shown: _SearchProgress | None
    ) -> AsyncIterator[_Measuring]:
        from zeus_runtime.cli.context.tune_replays import ReplayWorkers

        replays = self._replays(pieces)
        workers = ReplayWorkers(replays, self._workers) if self._workers > 1 else None
        measuring = _Measuring(replays, workers, self._workers, self._trials, self._process.environ, shown)
        try:
            yield measuring
        finally:
            await measuring.close()


class _Measuring:
    """Measures candidates on some pieces; with workers, also those that may be needed next.

    Args:
        replays: the replays.
        workers: the processes that make them; None for this process.
        count: how many replays may run at the same time.
        trials: those that are kept.
        environ: the environment variables.
        shown: told of each candidate that was asked for.
    """

    def __init__(
        self,
        replays: Replays,
        workers: ReplayWorkers | None,
        count: int,
        trials: _Trials,
        environ: Mapping[str, str],
        shown: _SearchProgress | None,
    ) -> None:
        self.known = 0
        self._replays = replays
        self._workers = workers
        self._count = count
        self._trials = trials
        self._environ = environ
        self._shown = shown
        self._running: dict[str, asyncio.Task[TrialFigures]] = {}
        self._made: set[str] = set()
        self._ahead: list[tuple[Candidate, Plan, int, str]] = []

    async def __call__(self, lines: Candidate) -> TrialFigures | None:
        """The figures of a candidate; None if the config refuses it."""
        from zeus_runtime.agent.tuning import TrialFigures

        plan = self._replays.plan(lines, self._environ)
        if plan is None:
            return None
        keys = [(place, self._key(plan, place)) for place in range(len(self._replays.pieces))]
        if self._workers is not None:
            for place, key in keys:
                self._start(lines, plan, place, key)
        total = TrialFigures()
        for place, key in keys:
            found = self._trials.find(key)
            if found is None:
                self._start(lines, plan, place, key)
                # It may be a replay that was begun ahead: each is made once.
                found = await self._running[key]
            total = total + found
        # Counted when it is asked for, so that the count does not depend on the workers.
        asked = {key for _, key in keys}
        is_new = not self._made.isdisjoint(asked)
        self._made -= asked
        self.known += not is_new
        if self._shown is not None:
            self._shown.tried(is_new=is_new)
        return total

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """Measure these while processors are idle."""
        self._ahead = []
        if self._workers is None:
            return
        for lines in candidates[: 2 * self._count]:
            plan = self._replays.plan(lines, self._environ)
            if plan is not None:
                places = range(len(self._replays.pieces))
                self._ahead += [(lines, plan, place, self._key(plan, place)) for place in places]
        self._fill()

    def _fill(self) -> None:
        is_over = self._shown is not None and self._shown.is_over
        while self._ahead and len(self._running) < self._count and not is_over:
            self._start(*self._ahead.pop(0))

    def _key(self, plan: Plan, place: int) -> str:
        return _key(plan, self._replays.pieces[place], self._replays.summary_tokens)

    def _start(self, lines: Candidate, plan: Plan, place: int, key: str) -> None:
        # No await comes before the task is in `_running`, so two callers never start the same.
        if key not in self._running and self._trials.find(key) is None:
            self._running[key] = asyncio.create_task(self._replayed(lines, plan, place, key))

    async def _replayed(self, lines: Candidate, plan: Plan, place: int, key: str) -> TrialFigures:
        found = None if self._workers is None else await self._workers.figures(lines, place)
        if found is None:
            # Here an error of the replay is raised, and not in a worker, which only says None.
            found = await self._replays.figures(plan, place)
        self._trials.keep(key, found)
        self._made.add(key)
        del self._running[key]
        self._fill()
        return found

    async def close(self) -> None:
        """End what still runs."""
        self._ahead = []
        running = list(self._running.values())
        for task in running:
            task.cancel()
        # The search has ended: the errors of replays that were begun ahead do not matter.
        await asyncio.gather(*running, return_exceptions=True)
        if self._workers is not None:
            await self._workers.close()


def _names(pieces: Sequence[Piece]) -> list[str]:
    return [
        f"{each.recording.name}, from message {each.from_place + 1}"
        if each.from_place
        else each.recording.name
        for each in pieces
    ]


def _key(plan: Plan, piece: Piece, summary_tokens: int) -> str:
    """What decides the figures of one replay."""
    from hashlib import sha256

    from zeus_runtime import __version__
    from zeus_runtime.models.messages import to_payload
    from zeus_runtime.plan.fingerprint import plan_digest

    recording = piece.recording
    messages = [to_payload(each) for each in recording.messages]
    content = [
        __version__,
        plan_digest(plan),
        str(plan.profile),
        [recording.name, messages, recording.at_seconds],
        [piece.from_place, summary_tokens],
    ]
    return sha256(as_json(content).encode()).hexdigest()


class _Trials:
    """The figures of finished replays, one JSON line each. A line that was cut off is one trial less."""

    def __init__(self, directory: Path) -> None:
        from zeus_runtime.tools.own_folders import own_path

        self._file = own_path(directory / ".zeus" / "tune.jsonl")
        self._found: dict[str, Any] = {}
        text = b"" if not self._file.exists() else self._opened(os.O_RDONLY)
        for line in text.decode("utf-8", "replace").splitlines():
            try:
                row = json.loads(line)
                self._found[row["key"]] = row["figures"]
            except (ValueError, TypeError, KeyError):
                continue

    def find(self, key: str) -> TrialFigures | None:
        from zeus_runtime.agent.tuning import figures_from_json

        found = self._found.get(key)
        try:
            return None if found is None else figures_from_json(found)
        except TypeError:
            return None  # of another version

    def keep(self, key: str, figures: TrialFigures) -> None:
        from zeus_runtime.agent.tuning import figures_json
        from zeus_runtime.store.database import make_state_folder

        self._found[key] = figures_json(figures)
        make_state_folder(self._file.parent)
        line = as_json({"key": key, "figures": self._found[key]}, indent=None)
        # A line break first: the last line may have been cut off.
        self._opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT, f"\n{line}\n".encode())

    def _opened(self, flags: int, text: bytes = b"") -> bytes:
        """Read or append. A repository may contain a link here, which is not followed.

        Raises:
            UsageError: the file cannot be used.
        """
        from zeus_runtime.errors import UsageError

        try:
            descriptor = os.open(self._file, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with os.fdopen(descriptor, "ab" if text else "rb") as file:
                if not text:
                    return file.read()
                file.write(text)
        except OSError as error:
            raise UsageError(
                f"the trials in {self._file} cannot be used: {error.strerror}", remedy="Delete that file."
            ) from None
        return b""


class _SearchProgress:
    """The progress of a search on standard error."""

    def __init__(self, budget: TrialBudget, told: Callable[[str], None]) -> None:
        self.tuning: Tuning | None = None
        self._budget = budget
        self._told = told

    def improved(self, option: TunedOption, value: Any, figures: TrialFigures) -> None:
        text = (
            f"trial {self._budget.done}: {option} = {value_text(value)}: {price_text(figures.price, figures)}"
        )
        complain(text, "plain")

    @property
    def is_over(self) -> bool:
        """Whether the search is being ended."""
        return self.tuning is not None and self.tuning.stopped

    def tried(self, *, is_new: bool) -> None:
        self._budget.done += is_new
        self._told(f"{self._budget.done} trials")
        if self._budget.is_spent:
            self.stop()

    def stop(self) -> None:
        if self.tuning is not None:
            self.tuning.stopped = True


@contextmanager
def _ended_by_ctrl_c(shown: _SearchProgress) -> Iterator[None]:
    """The first Ctrl-C ends the search after the running trial, a second one ends the command."""
    import signal

    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        complain("the search ends after this trial", "plain")
        shown.stop()

    with suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGINT, end)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _progress(budget: TrialBudget) -> Iterator[_SearchProgress]:
    """A bar on a terminal; elsewhere only a line for each better candidate."""
    import sys
    from time import monotonic

    if not is_terminal(sys.stderr):
        yield _SearchProgress(budget, lambda _text: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=budget.seconds)

        def told(text: str) -> None:
            bar.update(task, description=text, completed=budget.seconds - (budget.end - monotonic()))

        yield _SearchProgress(budget, told)
