"""How often the turns that answer a question are among the first: ``data/memory_conversations.jsonl``.

Each conversation is the memory of one user, a memory for each turn. Evidence is the turns from which the answer
follows; what is counted is the share of them that is found. For comparison, BM25 over the same turns with the speaker
before each, Snowball stems and nothing else, written here.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "data" / "memory_conversations.jsonl"
HELD_BACK = "garden"
"""No constant was chosen on this one."""


@dataclass(frozen=True)
class Turn:
    """What one person said.

    Args:
        id: the session and the number of the turn in it, such as ``3.12``.
    """

    id: str
    speaker: str
    text: str
    at: datetime


@dataclass
class Conversation:
    """The turns of all sessions, in order, and questions with the ids of the turns that answer them."""

    turns: list[Turn] = field(default_factory=list)
    questions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def conversations() -> dict[str, Conversation]:
    """By source."""
    found: dict[str, Conversation] = {}
    for line in FILE.read_text("utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line)
        own = found.setdefault(entry["source"], Conversation())
        if "question" in entry:
            own.questions.append((entry["question"], tuple(entry["evidence"])))
            continue
        at = datetime.fromisoformat(entry["at"])
        for number, (speaker, text) in enumerate(entry["turns"], 1):
            own.turns.append(Turn(f"{entry['session']}.{number}", speaker, text, at))
    return found


Search = Callable[[str], Awaitable[Sequence[str]]]
"""A question to the ids of the turns that were found, best first."""


async def found(conversation: Conversation, search: Search, depth: int) -> list[float]:
    """For each question the share of its evidence among the first ``depth``."""
    shares = []
    for text, evidence in conversation.questions:
        first = set(list(await search(text))[:depth])
        shares.append(sum(each in first for each in evidence) / len(evidence))
    return shares


def stemmed_bm25(conversation: Conversation) -> Search:
    """BM25 with Snowball's English stems; each CJK character is a word."""
    import re

    from Stemmer import Stemmer

    stemmer = Stemmer("english")

    def words(text: str) -> list[str]:
        return list(stemmer.stemWords(re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text.casefold())))

    texts = [Counter(words(f"{turn.speaker}: {turn.text}")) for turn in conversation.turns]
    having = Counter(word for text in texts for word in text)
    mean = sum(text.total() for text in texts) / len(texts)

    def score(asked: set[str], text: Counter[str]) -> float:
        long = 1.2 * (0.25 + 0.75 * text.total() / mean)
        return sum(
            math.log(1 + (len(texts) - having[word] + 0.5) / (having[word] + 0.5))
            * text[word]
            * 2.2
            / (text[word] + long)
            for word in asked
            if text[word]
        )

    async def search(question: str) -> list[str]:
        asked = set(words(question))
        scored = [(score(asked, text), turn.id) for text, turn in zip(texts, conversation.turns, strict=True)]
        return [each for points, each in sorted(scored, key=lambda pair: -pair[0]) if points]

    return search
