"""The gate decides as if it had compared every neighbour, and takes a long text apart in time that grows with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.memory.admission.comparison import compare, tells_change
from zeus_runtime.memory.admission.decisions import Decision, Duplicate, Neighbour, StoredAlone, Superseded
from zeus_runtime.memory.admission.gate import decide
from zeus_runtime.memory.admission.statement import parse
from zeus_runtime.memory.items import MemoryItem, MemorySettings
from zeus_runtime.memory.normalise import duplicate_key, normalise

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "changed_values.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
TEXTS = sorted({text for pair in PAIRS for text in (pair["new"], pair["old"])})
TELLING = (
    "in since until by of 2020 May may mon Tuesdays 3 v2 V1.2 1.2.3 -5 +3 10,000 40k million 3pm 12:30 one thirteen "
    "third 2026-01-02 March 1st ın sİnce no longer used to from to instead of rather than not now was previously "
    "replaced dropped for prefer over I A user 用户 不 再 从 改 为 周三 三月 3月5日 上午十点半 十六个 以前 比起 更 "
    ", . ; 喜欢"
).split()
WORDS = st.sampled_from(sorted({*TELLING, *(word for text in TEXTS for word in text.split())}))
JUMBLES = st.lists(WORDS, max_size=14).map(" ".join)


@st.composite
def touched(draw: st.DrawFn) -> str:
    """A text of the pairs with a few places filled otherwise."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        filled = draw(WORDS | st.text(max_size=2) | st.sampled_from(("ı", "İ", "ſ", " 9", "-", "不", "")))
        text = text[:at] + filled + text[at + draw(st.integers(0, 3)) :]
    return text


RANDOM = (touched() | JUMBLES | st.text(max_size=40)).map(normalise)


def neighbour(number: int, text: str, cosine: float | None, lexical: float | None) -> Neighbour:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    item = MemoryItem(
        id=f"mem_{number}",
        content=text,
        memory_type="fact",
        scope="user",
        scope_id="ann",
        created_by="ann",
        source="user",
        confidence=1.0,
        status="archived" if number % 7 == 6 else "active",
        trust=("trusted", "untrusted", "trusted", "quarantined")[number % 4],
        created_at=now,
        updated_at=now,
    )
    return Neighbour(item, cosine, lexical, editable=number % 3 > 0)


def plain_decision(content: str, neighbours: Sequence[Neighbour], limits: MemorySettings) -> Decision:
    """Every neighbour compared, and the first by kind of those decisions."""
    trusted = {"untrusted": 1, "trusted": 2}
    found: list[tuple[int, Duplicate | Superseded]] = []
    for each in sorted(neighbours, key=lambda one: (-(one.cosine or 0), -(one.lexical or 0), one.item.id)):
        item = each.item
        if item.status != "active" or item.trust == "quarantined":
            continue
        same = duplicate_key(content) == duplicate_key(item.content)
        near = each.cosine is not None and each.cosine >= limits.duplicate_from(None)
        least = limits.related_from(None, told=tells_change(content))
        held = parse(content).held
        related = (each.cosine or -1) >= least or (each.lexical or -1) >= 0.5
        related = related or (held is not None and parse(item.content).held == held)
        if not same and not related:
            continue
        change, more = compare(content, item.content, near=near), 2 - trusted[item.trust]
        if change.decision == "duplicate" and more <= 0:
            found.append((0 if same else 2, Duplicate(item, change.reason)))
        elif change.decision != "different" and each.editable:
            reason = change.reason if change.decision == "superseded" else "trusted more"
            found.append((0 if same else 1, Superseded(item, reason)))
    if not found:
        return StoredAlone()
    first = min(found, key=lambda each: each[0])[1]
    if isinstance(first, Duplicate):
        return first
    others = [each for _, each in sorted(found, key=lambda each: each[0]) if each is not first]
    changes = [each for each in others if isinstance(each, Superseded)]
    also = tuple(each.of for each in changes if each.reason not in ("reworded", "says more"))
    return replace(first, also=also)


SCORES = st.none() | st.sampled_from((0.0, 0.3, 0.5, 0.6, 0.7, 0.85, 0.95, 1.0))


@settings(deadline=None, max_examples=300)
@given(RANDOM, st.lists(st.tuples(RANDOM, SCORES, SCORES), max_size=8), st.booleans())
def test_the_gate_decides_as_if_it_had_compared_every_neighbour(
    content: str, found: list[tuple[str, float | None, float | None]], repeated: bool
) -> None:
    limits = MemorySettings()
    if repeated:
        found = [*found, (content.upper(), None, 0.5), (f"{content} now", 0.9, None)]
    neighbours = [neighbour(number, *each) for number, each in enumerate(found)]
    quick = decide(content, neighbours, extractions=0, explicit=True, settings=limits)
    assert quick == plain_decision(content, neighbours, limits)


@pytest.mark.timeout(60)  # the square of the length would take minutes
@pytest.mark.parametrize(
    "word", ["一", "十", "以前", "以前从", "no longer ", "not a, ", "from a to ", "3点", "差不多"]
)
def test_a_long_text_of_one_word_is_taken_apart_in_time_that_grows_with_it_alone(word: str) -> None:
    parse.__wrapped__((word * 64_000)[:64_000])
