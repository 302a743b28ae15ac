"""How often the right memory is among the first: ``python -m benchmarks.memory_quality [--fit]``.

The questions of ``data/memory_questions.jsonl`` (``memory_set`` says how they were made) are asked of all its memories
at once, in one scope, all of one type and confidence. By words alone, by the bare cosine of the bundled table, by both
as Zeus has it, and by mem0 on the same vectors. Both halves are told apart by the memory's number: constants may be
chosen on the even half only, and ``--fit`` shows on both what others would give.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.memory import Filled, fill
from benchmarks.memory_set import DATA
from zeus_runtime.memory.retrieval.fusion import Fusion, corpus, lexical_similarity, search_tokens
from zeus_runtime.memory.retrieval.search import Fused

_DEPTH = 10
_NAMES = {
    "English": "written, English",
    "Chinese": "written, Chinese",
    "across": "asked in the other language",
}


@dataclass(frozen=True)
class Question:
    """What is asked, and the number of the memory that answers it."""

    text: str
    answer: int
    group: str


def read() -> tuple[list[str], list[Question]]:
    """The memories and the questions."""
    entries = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    questions = [
        Question(text, number, entry["group"])
        for number, entry in enumerate(entries)
        for text in entry["questions"]
    ]
    return [entry["memory"] for entry in entries], questions


Search = Callable[[str], Awaitable[Sequence[str]]]
"""A question to the texts of the memories that were found, best first."""


async def places(questions: Iterable[Question], texts: Sequence[str], search: Search) -> dict[Question, int]:
    """Where the answer stood, from 0 on; ``_DEPTH`` where it did not."""
    found = {}
    for question in questions:
        answers = list(await search(question.text))[:_DEPTH]
        answer = texts[question.answer]
        found[question] = answers.index(answer) if answer in answers else _DEPTH
    return found


def share(found: dict[Question, int], depth: int, wanted: Callable[[Question], bool] = lambda _: True) -> str:
    """Hits among the first ``depth``, in percent."""
    counted = [place < depth for question, place in found.items() if wanted(question)]
    return f"{100 * sum(counted) / len(counted):5.1f}"


def report(name: str, found: dict[Question, int]) -> None:
    groups = list(dict.fromkeys(question.group for question in found))
    columns = [lambda _: True, *(lambda q, g=group: q.group == g for group in groups)]
    columns += [lambda q: q.answer % 2 == 0, lambda q: q.answer % 2 == 1]
    print(f"{name:<24}" + "".join(f"{share(found, 5, each):>7}/{share(found, 10, each)}" for each in columns))


async def zeus(filled: Filled, mode: str) -> Search:
    """Zeus: by ``words`` alone, by bare ``cosine``, or ``fused``."""
    memory = filled.memory
    if mode == "words":
        memory = type(memory)(replace(memory._shared.source, open_embedder=None), memory.caller)

    async def search(text: str) -> list[str]:
        found = await memory.search_memories(text, k=_DEPTH, mode="vector" if mode == "cosine" else "fused")
        return [each.item.content for each in found]

    return search


async def fit(filled: Filled, questions: Sequence[Question], texts: Sequence[str]) -> None:
    """What other constants of the fusion would give, by brute force; today's come first."""
    scale = filled.embedder.calibration
    tokens = [search_tokens(text) for text in texts]
    known = corpus(tokens)
    asked = [search_tokens(question.text) for question in questions]
    lexical = np.array([[lexical_similarity(query, text, known) for text in tokens] for query in asked])
    queries = await filled.embedder.embed([question.text for question in questions], purpose="query")
    cosines = queries @ filled.vectors.T
    coverage = [filled.embedder.coverage(question.text) for question in questions]
    print("dense trust, lexical trust, cosine_zero: hit@5/hit@10 of the even and of the odd half")
    rows: list[tuple[str, str, tuple[float, float, float]]] = []
    zeros, trusts = (scale.cosine_zero, 0.0, 0.1, 0.3), (0.9, 0.7, 0.5, 0.3, 0.2, 0.1)
    for constants in product((scale.trust, 0.4, 0.8, 0.95), trusts, zeros):
        dense, words, zero = constants
        found = {}
        for row, question in enumerate(questions):
            fusion = Fusion(zero, scale.cosine_one, dense_trust=dense * coverage[row], lexical_trust=words)
            similarity = Fused(fusion)(cosines[row], lexical[row])
            answer = similarity[question.answer]
            before = int(np.count_nonzero(similarity > answer))
            found[question] = before if fusion.relevant(float(answer)) else _DEPTH
        halves = [lambda q, half=half: q.answer % 2 == half for half in (0, 1)]
        even, odd = (f"{share(found, 5, half)}/{share(found, 10, half)}" for half in halves)
        rows.append((even, odd, constants))
    today, *others = rows
    for even, odd, constants in [today, *sorted(others, key=lambda row: row[0], reverse=True)]:
        print(*constants, even, odd)


async def measure(*, fitting: bool) -> None:
    texts, questions = read()
    with tempfile.TemporaryDirectory() as name:
        filled = await fill(Path(name), texts, alike=True)
        await filled.embedder.prepare([each.text for each in questions])
        if fitting:
            await fit(filled, questions, texts)
            await filled.memory.aclose()
            return
        counts = Counter(each.group for each in questions)
        print(f"{len(texts)} memories, {len(questions)} questions: {dict(counts)}; hit@5/hit@10 in percent")
        print(f"{'':<24}" + "".join(f"{each:>13}" for each in ("all", *counts, "even half", "odd half")))
        for mode in ("words", "cosine", "fused"):
            report(f"Zeus, {mode}", await places(questions, texts, await zeus(filled, mode)))
        await filled.memory.aclose()
        for store in ("chroma", "qdrant"):
            from benchmarks.memory_peers import Mem0

            peer = Mem0(store, Path(name) / store, filled.embedder)
            for text in texts:
                peer.add("ann", text)

            async def search(text: str, peer: Mem0 = peer) -> list[str]:
                return peer.search("ann", text, _DEPTH)

            report(f"mem0, {store}", await places(questions, texts, search))
            peer.close()


def main() -> None:
    asyncio.run(measure(fitting="--fit" in sys.argv))


if __name__ == "__main__":
    main()
