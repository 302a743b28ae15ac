"""What the readers of a masked log see of events that were stored before a secret was known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import (
    EventData,
    ModelCallStarted,
    Notice,
    Reasoning,
    SubAgentEvent,
    Text,
    ToolCallChunk,
)
from zeus_runtime.notice import EventOrigin
from zeus_runtime.store.backtests import (
    BacktestLimits,
    add_backtest,
    add_outcome,
    backtests_of,
    end_backtest,
    find_backtest,
)
from zeus_runtime.store.database import Database
from zeus_runtime.store.event_log import StoredEvent
from zeus_runtime.store.masked_log import MaskedLog
from zeus_runtime.store.thread_log import ThreadLog

SECRET = "zq81-Tango-55xw-Hotel"
SHOWN = "<secret:API_KEY>"


def seen(*events: EventData) -> list[dict[str, Any]]:
    """The events as a reader sees them who knows the secret."""
    log = MaskedLog(Database("sqlite://", directory=Path()), Redactor().adding({SECRET: "API_KEY"}))
    origin = EventOrigin("session_1", "run", None, 0)
    stored = [
        StoredEvent(seq, "run", json.dumps(each.coming_from(origin).to_wire()))
        for seq, each in enumerate(events, 1)
    ]
    shown = log.shown_events(stored)
    assert [each.seq for each in shown] == [each.seq for each in stored]
    return [json.loads(each.payload) for each in shown]


def passed_on(event: EventData) -> SubAgentEvent:
    return SubAgentEvent("session_2", "helper", "task_1", event.to_wire())


@given(st.lists(st.integers(1, len(SECRET) - 1), max_size=4, unique=True))
def test_a_secret_in_any_pieces_of_a_text_is_masked(cuts: Sequence[int]) -> None:
    places = [0, *sorted(cuts), len(SECRET)]
    parts = ["a ", *(SECRET[a:b] for a, b in pairwise(places)), " z"]
    between = [Notice("late", "It takes long."), Reasoning("hm"), passed_on(Reasoning("hm"))]
    for made in (Text, lambda text: passed_on(Text(text))):
        told = seen(*(each for part in parts for each in (made(part), *between)))
        texts = [each.get("event", each)["text"] for each in told[:: len(between) + 1]]
        assert "".join(texts) == f"a {SHOWN} z"
    calls = [ToolCallChunk(1, "c1" if not place else None, None, each) for place, each in enumerate(parts)]
    told = seen(*calls)
    assert "".join(each["arguments"] for each in told) == f"a {SHOWN} z"


def test_texts_of_several_answers_stay_apart() -> None:
    half, rest = SECRET[:9], SECRET[9:]
    of_answers = seen(Text(half), ModelCallStarted("2", "turn", "m"), Text(rest))
    assert [each.get("text") for each in of_answers] == [half, None, rest]
    of_calls = seen(ToolCallChunk(0, "c1", "f", half), ToolCallChunk(0, "c2", "f", rest))
    assert [each["arguments"] for each in of_calls] == [half, rest]


async def test_a_backtest_from_before_the_secret_was_known_is_read_masked(tmp_path: Path) -> None:
    database = Database("sqlite:///a.db", directory=tmp_path)
    log = ThreadLog(database)
    await log.create_tables()
    await log.open("session_1", agent="test")
    limits = BacktestLimits(running=1, kept=1)
    await add_backtest(log, "b", [("session_1", SECRET)], limits, key=None)
    await add_outcome(log, "b", 0, {"left": [SECRET]})
    await end_backtest(log, "b", "failed", problem=f"no {SECRET}")
    masked = MaskedLog(database, Redactor().adding({SECRET: "API_KEY"}))
    (listed,) = await backtests_of(masked)
    assert listed == await find_backtest(masked, "b")
    assert listed.outcomes == [{"session": "session_1", "policy": SHOWN, "left": [SHOWN]}]
    assert listed.problem == f"no {SHOWN}"
    await database.close()
