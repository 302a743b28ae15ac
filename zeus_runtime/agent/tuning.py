"""Search for cheaper context policies by replaying recorded sessions; no model and no tool is called.

The search is a line search along one option at a time, from the present config, over the values that policies declare
(``Tunable``). It is deterministic. Each candidate costs a whole replay, so it tries neighbours of what is there instead
of every combination.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.edits import DropBefore, Edit, Evict, Summarize, TruncateArguments

if TYPE_CHECKING:
    from zeus_runtime.agent.backtest import Replayed
    from zeus_runtime.config.schema.walk import Schema
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.plan import Plan

_LEAST_GAIN: Final = 0.005
"""A candidate must be cheaper by this share, so that noise in the counts changes nothing."""
_ROOM_MAKERS: Final[frozenset[type[Edit]]] = frozenset({DropBefore, Summarize})
"""Edits that make room in every conversation: without them a longer session than the recorded ones would not fit."""
_CUTS: Final[frozenset[type[Edit]]] = frozenset({Evict, TruncateArguments})


@dataclass(frozen=True)
class Line:
    """One entry of ``middlewares``.

    Args:
        name: the component's.
        options: those that are written.
    """

    name: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, written: Any) -> Line:
        """The line that a YAML value means: ``dedupe``, or ``{eviction: {max_tokens: 8000}}``."""
        if isinstance(written, str):
            return cls(written, {})
        ((name, options),) = written.items()
        return cls(name, options or {})

    @property
    def written(self) -> Any:
        return {self.name: dict(self.options)} if self.options else self.name


@dataclass(frozen=True)
class TunedOption:
    """Something that may differ from the present config: an option of a line, or whether a line is there.

    Args:
        place: the line's index.
        name: the component's.
        option: None for the line itself.
        values: what is tried, smallest first; None stands for YAML's null.
        default: the value of an option that is not written.
    """

    place: int
    name: str
    option: str | None
    values: tuple[Any, ...]
    default: Any = None

    def __str__(self) -> str:
        return self.name if self.option is None else f"{self.name}.{self.option}"

    def value(self, lines: Candidate) -> Any:
        line = lines[self.place]
        if self.option is None:
            return line is not None
        return None if line is None else line.options.get(self.option, self.default)

    def changed(self, lines: Candidate, value: Any) -> Candidate:
        """``lines`` with this value; an option of a line that is left out changes nothing."""
        line = lines[self.place]
        if self.option is None:
            new = None if value is False else line
        elif line is None:
            return lines
        else:
            new = Line(line.name, {**line.options, self.option: value})
        return (*lines[: self.place], new, *lines[self.place + 1 :])

    def restored(self, lines: Candidate, present: Candidate) -> Candidate:
        """``lines`` with this option as the present config writes it."""
        line, before = lines[self.place], present[self.place]
        if self.option is None or line is None or before is None:
            new = before if self.option is None else line
        else:
            options = {key: value for key, value in line.options.items() if key != self.option}
            if self.option in before.options:
                options[self.option] = before.options[self.option]
            new = Line(line.name, options)
        return (*lines[: self.place], new, *lines[self.place + 1 :])


Candidate = tuple[Line | None, ...]
"""The lines of ``middlewares`` in order; None for one that is left out."""


def written(lines: Candidate) -> list[Any]:
    """The value of ``middlewares`` in YAML."""
    return [line.written for line in lines if line is not None]


def tunable_options(lines: Candidate, plan: Plan, schema: Schema) -> tuple[TunedOption, ...]:
    """What may differ: the options that are marked ``Tunable``, and each policy that only cuts."""
    found: list[TunedOption] = []
    makers = {each.name: each.loaded for each in plan.middlewares}
    for place, line in enumerate(lines):
        if line is None:
            continue
        properties = _options_schema(schema, line.name).get("properties", {})
        for option, described in properties.items():
            values = described.get(TUNABLE)
            if values:
                found.append(TunedOption(place, line.name, option, tuple(values), described.get("default")))
        made = makers.get(line.name)
        kinds = frozenset() if made is None else frozenset(made.proposes)
        if kinds & _CUTS and not kinds & _ROOM_MAKERS:
            found.append(TunedOption(place, line.name, None, (False, True)))
    return tuple(found)


TUNABLE: Final = "x-zeus-tunable"


def _options_schema(schema: Schema, name: str) -> Schema:
    found: Schema = schema.get("$defs", {}).get(f"middleware.{name}", {})
    return found


@dataclass(frozen=True)
class Piece:
    """A recording, or its end, on which a candidate is measured.

    Args:
        recording: what is replayed, whole.
        from_place: only calls for answers from this place on count.
    """

    recording: Recording
    from_place: int = 0


@dataclass(frozen=True)
class TrialFigures:
    """What one candidate cost on some pieces.

    Args:
        cost_usd: None where a price is unknown.
        sent_tokens, read_tokens: the input of all calls, and the part that the cache read.
        steps: answered turns.
        summaries: calls that policies made; each is a wait.
        overflows: requests that the provider refused.
        needles_kept, needles_needed: values that a recorded call needed and that its request showed, and all of them.
        cpu_seconds: of planning.
        failure: why a session ended early; empty if none did.
    """

    cost_usd: float | None = 0.0
    sent_tokens: int = 0
    read_tokens: int = 0
    steps: int = 0
    summaries: int = 0
    overflows: int = 0
    needles_kept: int = 0
    needles_needed: int = 0
    cpu_seconds: float = 0.0
    failure: str = ""

    @classmethod
    def of(cls, played: Replayed, from_place: int) -> TrialFigures:
        counted = [call for call in played.calls if call.answer >= from_place]
        answered = [call for call in counted if not call.overflow]
        costs = [call.cost_usd for call in answered]
        turns = sum(call.purpose == "turn" for call in answered)
        return cls(
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            sent_tokens=sum(call.input_tokens for call in answered),
            read_tokens=sum(call.read_tokens for call in answered),
            steps=turns,
            summaries=len(answered) - turns,
            overflows=len(counted) - len(answered),
            needles_kept=played.outcome.needles_kept,
            needles_needed=played.outcome.needles_needed,
            cpu_seconds=sum(played.cpu_seconds),
            failure=played.outcome.failure,
        )

    def __add__(self, other: TrialFigures) -> TrialFigures:
        known = self.cost_usd is not None and other.cost_usd is not None
        return TrialFigures(
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            sent_tokens=self.sent_tokens + other.sent_tokens,
            read_tokens=self.read_tokens + other.read_tokens,
            steps=self.steps + other.steps,
            summaries=self.summaries + other.summaries,
            overflows=self.overflows + other.overflows,
            needles_kept=self.needles_kept + other.needles_kept,
            needles_needed=self.needles_needed + other.needles_needed,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            failure=self.failure or other.failure,
        )

    @property
    def price(self) -> float:
        """What the search makes smaller: money, or the tokens sent where a price is unknown."""
        return float(self.sent_tokens) if self.cost_usd is None else self.cost_usd


@dataclass(frozen=True)
class Bounds:
    """What a candidate may not do worse than the present config.

    Args:
        keep: the share of the needles that the present config shows.
        summaries: how many times as many calls its policies may make; one more is always allowed.
    """

    keep: float = 0.99
    summaries: float = 1.5

    def broken(self, found: TrialFigures, present: TrialFigures) -> str:
        """Why a candidate is refused; an empty text if it is not."""
        if found.failure:
            return f"a session ended early: {found.failure}"
        if found.overflows > 0:
            return f"the provider refused {found.overflows} requests as too large"
        if found.needles_kept < self.keep * present.needles_kept:
            return f"{found.needles_kept} of {present.needles_kept} values that calls needed were still shown"
        if found.summaries > max(present.summaries + 1, self.summaries * present.summaries):
            return f"its policies called the model {found.summaries} times, and {present.summaries} times now"
        return ""


@dataclass(frozen=True)
class OptionChange:
    """An option of the candidate that differs.

    Args:
        option: its name, as ``summarization.keep``.
        before, after: its values.
        saves: what it saves: the candidate's price without it, less the candidate's.
    """

    option: str
    before: Any
    after: Any
    saves: float


Measure = Callable[[Candidate], Awaitable[TrialFigures | None]]
"""The figures of a candidate on the pieces that it is tuned on; None if the config refuses it."""


class Tuning:
    """One search.

    Args:
        present: the lines as they are.
        options: what may differ.
        measure: replays.
        bounds: what holds.
        improved: told of each better candidate: the change, and its figures.
        ahead: told of the candidates that may be measured next, most likely first, so that they can be measured at the
            same time. The search never depends on it.

    Attributes:
        best: the cheapest candidate so far that keeps the bounds.
        figures: its figures.
        stopped: set it to end the search after the running trial.
    """

    def __init__(
        self,
        present: Candidate,
        options: Sequence[TunedOption],
        measure: Measure,
        bounds: Bounds,
        improved: Callable[[TunedOption, Any, TrialFigures], None],
        ahead: Callable[[Sequence[Candidate]], None] = lambda candidates: None,
    ) -> None:
        self.best = self._present = present
        self.stopped = False
        self._options = options
        self._measure = measure
        self._bounds = bounds
        self._improved = improved
        self._ahead = ahead
        self._seen: dict[str, TrialFigures | None] = {}

    async def run(self) -> None:
        """Search until no step helps, or ``stopped`` is set.

        Raises:
            ValueError: the present config itself cannot be measured.
        """
        present = await self._figures(self._present)
        if present is None:
            raise ValueError("the present config cannot be replayed")
        self.present = self.figures = present
        going = True
        # Each round must have found a cheaper candidate, by `_LEAST_GAIN` at least, so there is an end.
        while going and not self.stopped:
            going = False
            for place, option in enumerate(self._options):
                self._look_ahead(self._options[place:])
                going = await self._along(option) or going

    def _look_ahead(self, options: Sequence[TunedOption]) -> None:
        """Tell which candidates come next: along the first option, then the nearest ones of the others."""
        changes: list[tuple[TunedOption, Any]] = []
        for place, option in enumerate(options):
            lines = [list(values) for values in _directions(option, option.value(self.best))]
            nearest = zip_longest(
                *(values if place == 0 else values[:1] for values in lines), fillvalue=_NO_VALUE
            )
            changes += [(option, value) for values in nearest for value in values if value is not _NO_VALUE]
        candidates = (option.changed(self.best, value) for option, value in changes)
        self._ahead([each for each in candidates if _key(each) not in self._seen])

    async def _along(self, option: TunedOption) -> bool:
        """Move along one option, in both directions, as long as it helps."""
        helped = False
        for values in _directions(option, option.value(self.best)):
            for value in values:
                if self.stopped:
                    return helped
                is_better = await self._try(option, value)
                if is_better is False:
                    break
                helped = helped or is_better is True
            if helped:
                # The other direction leads back to where the search came from.
                break
        return helped

    async def _try(self, option: TunedOption, value: Any) -> bool | None:
        """Whether a value is better; None if it makes hardly a difference, so that the next one may."""
        candidate = option.changed(self.best, value)
        found = await self._figures(candidate)
        if found is None or self._bounds.broken(found, self.present):
            return False
        # A flat stretch is crossed, since the option may have an effect only further on; a clear loss ends the
        # direction.
        if found.price >= self.figures.price * (1 - _LEAST_GAIN):
            return None if found.price <= self.figures.price * (1 + _LEAST_GAIN) else False
        self.best, self.figures = candidate, found
        self._improved(option, value, found)
        return True

    async def _figures(self, candidate: Candidate) -> TrialFigures | None:
        key = _key(candidate)
        # By the YAML that is written: two ways to the same lines are measured once. A refused candidate is remembered
        # as None.
        if key not in self._seen:
            self._seen[key] = await self._measure(candidate)
        return self._seen[key]

    async def changes(self) -> tuple[OptionChange, ...]:
        """Each change of the best candidate with what it saves; one that saves nothing is taken back."""
        kept: list[OptionChange] = []
        self._ahead([option.restored(self.best, self._present) for option in self._options])
        for option in self._options:
            before, after = option.value(self._present), option.value(self.best)
            if before == after or (option.option is not None and self.best[option.place] is None):
                continue
            without = option.restored(self.best, self._present)
            found = await self._figures(without)
            if found is not None and not self._bounds.broken(found, self.present):
                if found.price <= self.figures.price:
                    self.best, self.figures = without, found
                    continue
                kept.append(OptionChange(str(option), before, after, found.price - self.figures.price))
            else:
                kept.append(OptionChange(str(option), before, after, 0.0))
        return tuple(kept)


_NO_VALUE: Final = object()


def _key(candidate: Candidate) -> str:
    return json.dumps(written(candidate), sort_keys=True)


def _directions(option: TunedOption, present: Any) -> Iterator[Sequence[Any]]:
    """The values above the present one, nearest first, and those below; all others for one that has no place."""
    values = list(option.values)
    if present in values:
        # For Python True equals 1 and 0 equals False, and both may be among the values.
        at = next(
            index for index, each in enumerate(values) if each == present and type(each) is type(present)
        )
        yield values[at + 1 :]
        yield values[:at][::-1]
        return
    if isinstance(present, int | float):
        yield [each for each in values if each is None or each > present]
        yield [each for each in values if each is not None and each < present][::-1]
        return
    for each in values:
        yield [each]


def divided(recordings: Sequence[Recording]) -> tuple[list[Piece], list[Piece]]:
    """What is tuned on, and what is held out: every fifth session and at least one, or the last third of a lone one.

    A lone session is held out as its whole replay, of which only the calls of the last third count.
    """
    if len(recordings) > 1:
        last = len(recordings) - 1
        # Every fifth and not a random one: two searches over the same sessions must agree.
        held = {index for index in range(len(recordings)) if index % 5 == 4} or {last}
        return (
            [Piece(each) for index, each in enumerate(recordings) if index not in held],
            [Piece(each) for index, each in enumerate(recordings) if index in held],
        )
    (whole,) = recordings
    answers = [place for place, message in enumerate(whole.messages) if message.type == "ai"]
    cut = answers[len(answers) * 2 // 3]
    first = replace(whole, messages=whole.messages[:cut], at_seconds=whole.at_seconds[:cut])
    return [Piece(first)], [Piece(whole, cut)]


def figures_json(figures: TrialFigures) -> dict[str, Any]:
    """As stored between two searches."""
    return asdict(figures)


def figures_from_json(value: Mapping[str, Any]) -> TrialFigures:
    """What ``figures_json`` gave.

    Raises:
        TypeError: it has other fields.
    """
    return TrialFigures(**value)
