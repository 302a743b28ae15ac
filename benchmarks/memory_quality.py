"""How often the right memory is among the first: ``python -m benchmarks.memory_quality [--fit] [TRAJECTORIES]``.

The questions of ``data/memory_questions.jsonl`` and ``data/memory_topics.jsonl`` (``data/README.md`` says how they were
made) are asked of all their memories at once, in one scope, all of one type and confidence. By words alone, by the bare
cosine of the bundled table, by both as Zeus has it, and by mem0 on the same vectors. Questions that no memory answers,
and all others once more with their answer away, say how often nothing is found where nothing should be. ``--fit`` shows
what other constants of the fusion give (``memory_fit``). ``--embeddings multilingual`` measures that model. What was
said in TRAJECTORIES distracts further.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.memory import Filled, fill
from benchmarks.memory_conversations import HELD_BACK, Conversation, conversations, stemmed_bm25
from benchmarks.memory_conversations import found as evidence_found
from benchmarks.memory_set import DATA, TOPICS, said
from zeus_runtime.memory.embedding import Embedder
from zeus_runtime.memory.retrieval.fusion import fusion

DEPTH = 10
SHOWN = 5
"""As many memories as a prompt shows."""


@dataclass(frozen=True)
class Question:
    """What is asked, and the number of the memory that answers it.

    Args:
        answer: None where none does.
        group: which column it is counted in.
        source: whence it is; constants are chosen on other sources than they are tried on.
    """

    text: str
    answer: int | None
    group: str
    source: str


def read(further: Sequence[str] = ()) -> tuple[list[str], list[Question]]:
    """The memories and the questions."""
    texts: list[str] = []
    questions: list[Question] = []

    def note(entry: dict[str, Any], group: str, source: str) -> None:
        answer = None
        if entry["memory"] is not None:
            answer = len(texts)
            texts.append(entry["memory"])
        questions.extend(Question(text, answer, group, source) for text in entry["questions"])
        questions.extend(Question(text, answer, "keywords", "keywords") for text in entry.get("keywords", ()))

    for entry in _lines(DATA):
        note(entry, entry["group"], entry["group"])
    for entry in _lines(TOPICS):
        note(entry, f"topics, {entry['language']}", entry["topic"])
    known = set(texts)
    return texts + [text for text in further if text not in known], questions


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


Search = Callable[[str], Awaitable[Sequence[str]]]
"""A question to the texts of the memories that were found, best first."""


class Text(str):
    """The text of a memory that was found.

    Args:
        surely: similar enough that it would be found alone.
    """

    surely: bool = True


@dataclass(frozen=True)
class Found:
    """What a question found.

    Args:
        place: where the answer stood, from 0 on; ``DEPTH`` where it did not.
        others: how many that are no answer stood among the first ``SHOWN``, had there been no answer.
    """

    place: int
    others: int


async def found(questions: Iterable[Question], texts: Sequence[str], search: Search) -> dict[Question, Found]:
    """By question; each is asked once, and what else it finds is what it finds without its answer."""
    results = {}
    for question in questions:
        answers = list(await search(question.text))[:DEPTH]
        answer = None if question.answer is None else texts[question.answer]
        place = answers.index(answer) if answer in answers else DEPTH
        rest = [each for each in answers if each != answer]
        others = min(SHOWN, len(rest)) if any(getattr(each, "surely", True) for each in rest) else 0
        results[question] = Found(place, others)
    return results


def percent(counted: Sequence[bool]) -> str:
    return f"{100 * sum(counted) / len(counted):5.1f}"


def report(name: str, results: dict[Question, Found]) -> None:
    """One line: hits among the first 5 and 10 by group, and what is found that is no answer."""
    answered = {each: result for each, result in results.items() if each.answer is not None}
    groups = list(dict.fromkeys(each.group for each in answered))
    columns = [list(answered.values()), *([answered[q] for q in answered if q.group == g] for g in groups)]
    hits = [
        [percent([each.place < depth for each in column]) for depth in (SHOWN, DEPTH)] for column in columns
    ]
    print(f"{name:<24}" + "".join(f"{'/'.join(pair):>14}" for pair in hits), end="")
    for column in ([results[each] for each in results if each.answer is None], list(answered.values())):
        nothing = percent([not each.others for each in column])
        print(f"   {nothing} {sum(each.others for each in column) / len(column):4.2f}", end="")
    print()


def hits_by_source(results: dict[Question, Found]) -> Counter[str]:
    """How many questions of each source found their answer among ``DEPTH``."""
    return Counter({q.source: 0 for q in results}) + Counter(
        q.source for q, each in results.items() if q.answer is not None and each.place < DEPTH
    )


def zeus(filled: Filled, mode: str) -> Search:
    """Zeus: by ``words`` alone, by bare ``cosine``, or ``fused``."""
    memory = filled.memory
    if mode == "words":
        memory = type(memory)(replace(memory._shared.source, open_embedder=None), memory.caller)

    surely = fusion(None if mode == "words" else filled.embedder.calibration, 1.0).surely

    async def search(text: str) -> list[Text]:
        results = await memory.search_memories(text, k=DEPTH, mode="vector" if mode == "cosine" else "fused")
        texts = []
        for each in results:
            texts.append(Text(each.item.content))
            texts[-1].surely = mode == "cosine" or each.similarity >= surely
        return texts

    return search


async def compare(
    filled: Filled, folder: Path, texts: Sequence[str], questions: Sequence[Question]
) -> list[str]:
    """Zeus and its halves; mem0, if installed, by its own calls and with Zeus's vectors of questions.

    Returns:
        the sources where fused finds less among ten than words alone.
    """
    counts = Counter(each.group for each in questions if each.answer is not None)
    unanswered = sum(each.answer is None for each in questions)
    print(
        f"{len(texts)} memories, {sum(counts.values())} questions: {dict(counts)}; {unanswered} without an answer"
    )
    print(
        "hit@5/hit@10 in percent; nothing found in percent and found among 5: without an answer, answer away"
    )
    print(f"{'':<24}" + "".join(f"{each:>14}" for each in ("all", *counts)))
    by_mode = {mode: await found(questions, texts, zeus(filled, mode)) for mode in MODES}
    for mode, results in by_mode.items():
        report(f"Zeus, {mode}", results)
    hits = {mode: hits_by_source(results) for mode, results in by_mode.items()}
    worse = [source for source, words in hits["words"].items() if hits["fused"][source] < words]
    if importlib.util.find_spec("mem0") is None:
        print("mem0 is not installed")
        return worse
    from benchmarks.memory_peers import Mem0

    asked = [each.text for each in questions]
    for store in ("chroma", "qdrant"):
        for name, queries in (("", ()), (", query vectors", asked)):
            peer = Mem0(store, folder / f"{store}{len(queries)}", filled.embedder, queries)
            peer.fill("ann", texts)

            async def search(text: str, peer: Mem0 = peer) -> list[str]:
                return peer.search("ann", text, DEPTH)

            report(f"mem0, {store}{name}", await found(questions, texts, search))
            peer.close()
    return worse


MODES = ("words", "cosine", "fused")


async def filled_with(conversation: Conversation, folder: Path, model: Embedder | None) -> Filled:
    """A memory with an item for each turn, as an import makes it: the speaker is its subject."""
    turns = [
        {
            "source_id": f"session-{session}#{number}",
            "subject": turn.speaker,
            "created_at": turn.at,
            "updated_at": turn.at,
        }
        for turn in conversation.turns
        for session, number in [turn.id.split(".")]
    ]
    texts = [turn.text for turn in conversation.turns]
    return await fill(folder, texts, alike=True, turns=turns, model=model)


def by_turn(conversation: Conversation, search: Search) -> Search:
    """The ids of turns instead of their texts."""
    ids = {turn.text: turn.id for turn in conversation.turns}

    async def found_ids(question: str) -> list[str]:
        return [ids[text] for text in await search(question)]

    return found_ids


async def compare_conversations(model: Embedder | None) -> list[str]:
    """One line for each way to search, evidence by conversation; where fused is worse than words alone."""
    there = conversations()
    rows: dict[str, list[str]] = {}
    everywhere: dict[str, tuple[list[float], list[float]]] = {}
    worse = []
    for source, conversation in there.items():
        with tempfile.TemporaryDirectory() as folder:
            filled = await filled_with(conversation, Path(folder), model)
            ways = {"BM25 with stems": stemmed_bm25(conversation)}
            ways |= {f"Zeus, {mode}": by_turn(conversation, zeus(filled, mode)) for mode in MODES}
            among_ten = {}
            for name, search in ways.items():
                shares = [await evidence_found(conversation, search, depth) for depth in (SHOWN, DEPTH)]
                rows.setdefault(name, []).append("/".join(map(_mean, shares)))
                for all_, own in zip(everywhere.setdefault(name, ([], [])), shares, strict=True):
                    all_ += own
                among_ten[name] = sum(shares[1])
            if among_ten["Zeus, fused"] < among_ten["Zeus, words"]:
                worse.append(source)
            await filled.memory.aclose()
    print("\nevidence in conversations, found among 5/10, in percent")
    columns = [*(f"{name}{' (held back)' * (name == HELD_BACK)}" for name in there), "all questions"]
    print(f"{'':<24}" + "".join(f"{each:>20}" for each in columns))
    for name, figures in rows.items():
        figures.append("/".join(map(_mean, everywhere[name])))
        print(f"{name:<24}" + "".join(f"{each:>20}" for each in figures))
    return worse


def _mean(shares: Sequence[float]) -> str:
    return f"{100 * sum(shares) / len(shares):5.1f}"


async def measure(*, fitting: bool, further: Sequence[str], model: Embedder | None = None) -> None:
    texts, questions = read(further)
    with tempfile.TemporaryDirectory() as name:
        filled = await fill(Path(name), texts, alike=True, model=model)
        asked = [each.text for each in questions]
        await filled.embedder.prepare(asked)
        await filled.embedder.prepare(asked, purpose="query")
        if fitting:
            from benchmarks.memory_fit import fit

            await fit(filled, texts, questions)
            worse = []
        else:
            worse = await compare(filled, Path(name), texts, questions)
            worse += await compare_conversations(model)
        await filled.memory.aclose()
    if worse:
        sys.exit(f"fused is worse than words alone on: {', '.join(worse)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trajectories", type=Path, nargs="?")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--embeddings", metavar="NAME", choices=["static", "multilingual"], default="static")
    chosen = parser.parse_args()
    further = said(chosen.trajectories) if chosen.trajectories else []
    model: Embedder | None = None
    if chosen.embeddings == "multilingual":
        from zeus_plugins.embeddings.multilingual.embedder import MultilingualEmbedder

        model = MultilingualEmbedder(threads=2)
    asyncio.run(measure(fitting=chosen.fit, further=further, model=model))


if __name__ == "__main__":
    main()
