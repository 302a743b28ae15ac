"""The search of ``zeus context tune``: its replays, its budget, its progress, and the trials that it keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.context.tune_report import TuningReport, price_text, value_text
from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import complain, is_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.agent.tuning import Bounds, Candidate, Measure, Piece, TrialFigures, TunedOption, Tuning
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
        self._known = 0

    def run(self) -> TuningReport:
        import asyncio
        import signal

        from zeus_runtime.agent.tuning import Line, Tuning, tunable_options, written
        from zeus_runtime.cli.start import prepared
        from zeus_runtime.errors import UsageError

        present = tuple(map(Line.of, self._lines()))
        plan = self._plan(present)
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
                tuning = Tuning(
                    present, options, self._measured(self._tuned, shown), self._bounds, shown.improved
                )
                shown.tuning = tuning
                loop = asyncio.get_running_loop()
                self._budget.start()

                def end() -> None:
                    # A second Ctrl-C ends the command.
                    loop.remove_signal_handler(signal.SIGINT)
                    complain("the search ends after this trial", "plain")
                    shown.stop()

                with suppress(NotImplementedError):  # Windows
                    loop.add_signal_handler(signal.SIGINT, end)
                try:
                    await tuning.run()
                finally:
                    with suppress(NotImplementedError):
                        loop.remove_signal_handler(signal.SIGINT)
                changes = await tuning.changes()
            is_ended = not tuning.stopped
            trials = self._budget.done
            held_present = held_tuned = None
            refusal = ""
            if changes:
                check = self._measured(self._held, None)
                held_present, held_tuned = await check(present), await check(tuning.best)
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
                self._known,
                refusal,
                (_names(self._tuned), _names(self._held)),
                is_ended,
            )

        with prepared(self._process):
            return asyncio.run(search())

    def _lines(self) -> list[Any]:
        """The value of ``middlewares`` as it is written, without secrets.

        Raises:
            UsageError: a secret is among the options, and an overlay would show it.
        """
        from zeus_runtime.errors import UsageError

        lines: list[Any] = self._checked.document.get(("middlewares",), [])
        if self._checked.document.redactor.masked(lines) != lines:
            raise UsageError(
                "an option of a middleware is a secret, and the overlay would hold it",
                remedy="Write the option elsewhere, such as in an environment variable that the middleware reads.",
            )
        return lines

    def _plan(self, lines: Candidate) -> Plan | None:
        """The plan of a candidate; None if its options do not fit each other."""
        from zeus_runtime.agent.tuning import written
        from zeus_runtime.config import ConfigError
        from zeus_runtime.plan.plan import make_plan
        from zeus_runtime.plan.validated import check

        named = self._checked.document.path
        config = self._which.config or (None if named is None else str(named))
        try:
            return make_plan(
                check(
                    config,
                    env=self._which.env,
                    sets=(*self._which.sets, f"middlewares={as_json(written(lines), indent=None)}"),
                    directory=self._process.directory,
                    environ=self._process.environ,
                )
            )
        except ConfigError:
            return None

    def _measured(self, pieces: Sequence[Piece], shown: _SearchProgress | None) -> Measure:
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from zeus_runtime.agent.backtest import replay
        from zeus_runtime.agent.tuning import TrialFigures
        from zeus_runtime.cli.context.backtest import listed_tools

        async def measure(lines: Candidate) -> TrialFigures | None:
            plan = self._plan(lines)
            if plan is None:
                return None
            total = TrialFigures()
            is_new = False
            for piece in pieces:
                key = _key(plan, piece, self._summary_tokens)
                found = self._trials.find(key)
                if found is None:
                    is_new = True
                    listed = listed_tools(plan, piece.recording)
                    with TemporaryDirectory(prefix="zeus-tune-") as folder:
                        played = await replay(
                            plan,
                            piece.recording,
                            Path(folder),
                            policy="candidate",
                            summary_tokens=self._summary_tokens,
                            listed=listed,
                        )
                    found = TrialFigures.of(played, piece.from_place)
                    self._trials.keep(key, found)
                total = total + found
            self._known += not is_new
            if shown is not None:
                self._budget.done += is_new
                shown.tried()
            return total

        return measure


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
        self._file = directory / ".zeus" / "tune.jsonl"
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

    def tried(self) -> None:
        self._told(f"{self._budget.done} trials")
        if self._budget.is_spent:
            self.stop()

    def stop(self) -> None:
        if self.tuning is not None:
            self.tuning.stopped = True


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
