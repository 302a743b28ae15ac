"""The benchmark's sessions, and what both engines' results have in common."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from zeus_runtime.context.replay.provider_simulator import SimulatedCost, SimulatedProvider
from zeus_runtime.context.replay.recordings import Recording, chained, read_trajectories, recording

_WORDS = ("error", "request", "server", "value", "retry", "user", "file", "line", "cache", "token", "step")
_CHINESE = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"
    "自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起"
)
_ROOT = Path(__file__).parents[1]
DATA = _ROOT.parent / "shared" / "data" / "trajectories.jsonl"
SAMPLE = _ROOT / "tests" / "data" / "trajectories.jsonl"


@dataclass(frozen=True)
class Played:
    """One engine on one session.

    Args:
        outcome: what the provider saw.
        cpu_seconds: of each step, between one model call and the next.
        recoverable, removed: messages whose originals can be read back byte for byte, of those that left the context.
    """

    outcome: SimulatedCost
    cpu_seconds: Sequence[float]
    recoverable: int = 0
    removed: int = 0

    @property
    def growth(self) -> float:
        """The last tenth's CPU per step over the first tenth's: means, since a compaction is part of the cost."""
        tenth = max(1, len(self.cpu_seconds) // 10)
        first = sum(self.cpu_seconds[:tenth])
        return sum(self.cpu_seconds[-tenth:]) / first if first else 1.0


def trajectories(path: Path | None = None) -> tuple[Recording, ...]:
    """Those of a file; by default the shared set, or the three of the tests where that is not there."""
    source = path or (DATA if DATA.exists() else SAMPLE)
    return read_trajectories(source.read_text("utf-8"), str(source))


def chains(found: Sequence[Recording], lengths: Sequence[int]) -> Iterator[Recording]:
    """The trajectories played one after the other in one thread."""
    for length in lengths:
        yield chained(f"{length} messages", found, length)


def paused(played: Recording, seconds: float = 3600.0) -> Recording:
    """The session with a pause before each of the user's messages but the first."""
    at, times = 0.0, []
    for place, (message, when) in enumerate(zip(played.messages, played.at_seconds, strict=True)):
        at += seconds if place and message.type == "human" else 0.0
        times.append(when + at)
    return Recording(f"{played.name}, paused", played.messages, tuple(times))


def synthetic(turns: int = 40) -> Iterator[Recording]:
    """Sessions of large tool results: 100 KB of log, of Chinese, of base64, of minified code.

    Args:
        turns: user turns of each, with two calls each.
    """
    dice = random.Random(7)

    def log(size: int) -> str:
        return "".join(
            f"2026-11-{dice.randrange(1, 29):02} {dice.choice(_WORDS)} {dice.choice(_WORDS)}"
            f" id={dice.randrange(10**9)}\n"
            for _ in range(size // 32)
        )

    def minified(size: int) -> str:
        return "".join(
            f"function {dice.choice('abcdefgh')}{dice.randrange(999)}(e,t)"
            f"{{return e.{dice.choice('xyz')}+t[{dice.randrange(99)}]||0}}"
            for _ in range(size // 42)
        )

    kinds: dict[str, Any] = {
        "100 KB results": lambda: log(100_000),
        "Chinese": lambda: "".join(dice.choice(_CHINESE) for _ in range(10_000)),
        "base64": lambda: base64.b64encode(dice.randbytes(15_000)).decode(),
        "minified code": lambda: minified(30_000),
    }
    for name, make in kinds.items():
        yield recording(f"{name}", _session(name, make, turns))


def _session(name: str, make: Any, turns: int) -> Iterator[BaseMessage]:
    for turn in range(turns):
        yield HumanMessage(f"Turn {turn}: fetch part-{turn:04} and tell me its beginning.")
        for half in ("first", "second"):
            call_id = f"call_{turn}_{half}"
            yield AIMessage(
                "",
                tool_calls=[
                    {"name": "fetch", "args": {"key": f"part-{turn:04}", "half": half}, "id": call_id}
                ],
            )
            yield ToolMessage(make(), tool_call_id=call_id, name="fetch")
        yield AIMessage(f"Part {turn} begins as expected; nothing to worry about.")


def step(provider: SimulatedProvider, played: Recording, place: int) -> None:
    """Tell the provider which recorded answer comes next."""
    answer = played.messages[place]
    assert isinstance(answer, AIMessage), f"message {place} is no answer"
    provider.expect(
        answer, place=place, at_seconds=played.at_seconds[place], needles=played.needles.get(place, ())
    )


def recoverable(played: Recording, upto: int, provider: SimulatedProvider, archive: str) -> tuple[int, int]:
    """How many messages that the last request no longer showed whole stand whole in ``archive``; of how many.

    A message stands there whole when its text and each of its calls' argument texts do.
    """
    found = removed = 0
    for message in played.messages[:upto]:
        pieces = [str(message.content), *_arguments(message)]
        if all(provider.holds(piece) for piece in pieces if piece):
            continue
        removed += 1
        found += all(piece in archive for piece in pieces if piece)
    return found, removed


def _arguments(message: BaseMessage) -> Iterator[str]:
    for call in getattr(message, "tool_calls", ()):
        yield from (value for value in call["args"].values() if isinstance(value, str))
