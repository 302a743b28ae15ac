"""Whether a question that names a time finds the memory of that time: ``python -m benchmarks.memory_times``.

The same kind of event happens in six months of a year, each time in another city, so that only the time tells the
memories apart. Each is asked for by its month, by its date, and by words such as "last month", in English, German and
Chinese, where the event is written in that language. The set is made up: it shows that times count, not how often real
questions name one.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.memory import searching
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.service import MemoryService

CITIES = ("Rome", "Oslo", "Lyon", "Porto", "Graz", "Turin")
EVENTS = {
    "en": ("The user visited a fair in {}", "The user gave a talk in {}", "The user met the lawyer in {}"),
    "de": ("Der Nutzer war in {} auf einer Messe", "Der Nutzer hielt in {} einen Vortrag"),
    "zh": ("用户在{}参加了展会", "用户在{}做了演讲"),
}
QUESTIONS = {
    "en": ("fair {}", "talk {}", "lawyer {}"),
    "de": ("Auf welcher Messe war der Nutzer {}?", "Welchen Vortrag hielt der Nutzer {}?"),
    "zh": ("用户{}参加了什么展会", "用户{}做了什么演讲"),
}
MONTHS = {
    "en": ("in January", "in February", "in March", "in April", "in May", "in June"),
    "de": ("im Januar", "im Februar", "im März", "im April", "im Mai", "im Juni"),
    "zh": ("1月", "2月", "3月", "4月", "5月", "6月"),
}
RELATIVE = {
    "en": ("last month", "this month"),
    "de": ("letzten Monat", "diesen Monat"),
    "zh": ("上个月", "本月"),
}
"""Of May and June: it is the end of June."""


@dataclass
class Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


async def measure() -> dict[str, tuple[int, int]]:
    """By kind of question how many found the right memory first, of how many."""
    clock = Clock(datetime(2026, 1, 1, tzinfo=UTC))
    counts: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = MemorySource(
            "sqlite:///memory.db", Path(folder), SqliteVectorStore, StaticEmbedder, now=clock
        )
        memory = MemoryService(source, Caller("ann"))
        right: dict[tuple[str, int, int], str] = {}
        for month, city in enumerate(CITIES):
            for language, events in EVENTS.items():
                for number, event in enumerate(events):
                    clock.now = datetime(2026, month + 1, 10 + number, tzinfo=UTC)
                    saved = await memory.add_explicit_memory(event.format(city), replaces=())
                    assert saved.item is not None
                    right[language, number, month] = saved.item.id
        clock.now = datetime(2026, 6, 28, tzinfo=UTC)

        async def ask(kind: str, question: str, answer: str) -> None:
            found = await memory.search_memories(question, k=1)
            hits, asked = counts.get(kind, (0, 0))
            counts[kind] = hits + (bool(found) and found[0].item.id == answer), asked + 1

        for (language, number, month), answer in right.items():
            question = QUESTIONS[language][number]
            day = datetime(2026, month + 1, 10, tzinfo=UTC) + timedelta(days=number)
            await ask(f"{language}, month", question.format(MONTHS[language][month]), answer)
            await ask(f"{language}, date", question.format(f"{day:%Y-%m-%d}"), answer)
            if month >= 4:
                await ask(f"{language}, relative", question.format(RELATIVE[language][month - 4]), answer)
        await memory.aclose()
    return counts


def main() -> None:
    with patch.object(searching, "periods", lambda _text, _at: []):
        without = asyncio.run(measure())
    found = asyncio.run(measure())
    print(f"{'the right memory comes first':<32}{'of':>6}{'words and vectors':>20}{'with times':>14}")
    for kind, (hits, asked) in found.items():
        print(f"{kind:<32}{asked:>6}{without[kind][0]:>20}{hits:>14}")


if __name__ == "__main__":
    main()
