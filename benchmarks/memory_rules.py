"""What each rule about memories is worth: ``python -m benchmarks.memory_rules [--ablate] [TRAJECTORIES]``.

Labelled pairs of an older and a newer statement go through the whole gate with the bundled table of word vectors, each
pair in a scope of its own. ``dev`` are the pairs that rules were mended for, ``older`` were held out then, ``before``
(98) were labelled before the rules ran on them, ``new`` (74) before the words of the rules became data. Sentences that
are all true together (facts of the tests' stories, turns of conversations, what was said in TRAJECTORIES) are saved one
after the other, each story and source in one scope. ``--ablate`` switches each rule off alone.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from benchmarks.memory_conversations import conversations
from benchmarks.memory_set import said
from tests.support.memory import service
from zeus_runtime.memory.admission.statement import parse
from zeus_runtime.memory.items import Caller

DATA = Path(__file__).parents[1] / "tests" / "memory" / "admission" / "data"
BEFORE = {"written_before_looking": "before", "written_before_rewriting": "new"}
DEV = {"looked_at", "built_on", "listed"}
GROUPS = ("dev", "older", "before", "new")
LABELS = ("superseded", "different", "duplicate")


class Rule(NamedTuple):
    """A rule that can be switched off: its function answers ``off`` to everything.

    Args:
        name: for the table.
        function: its module, below ``zeus_runtime.memory.admission``, and its name.
        off: what it answers where it finds nothing.
    """

    name: str
    function: str
    off: Any


RULES = (
    Rule("frame of a place", "comparison._framed", False),
    Rule("denial", "statement._negates", False),
    Rule("subject", "comparison._other_subject", False),
    Rule("told as gone, came to", "comparison._told", None),
    Rule("one home, one employer", "statement._held", None),
    Rule("another side", "comparison._another_side", False),
    Rule("planned, also, formerly", "comparison._beside", None),
    Rule("the same in the past", "comparison._was", False),
    Rule("values of other things", "comparison._of_other_things", False),
    Rule("entries of a list", "comparison._which", False),
    Rule("narrower", "comparison._narrows", False),
    Rule("numbers that name things", "statement._is_label", False),
    Rule("he and she, I and they", "comparison._other_person", False),
    Rule("little in common", "comparison._share_little", False),
    Rule("long near-repeats", "comparison._is_short", True),
    Rule("part of a list or table", "comparison._is_part", False),
    Rule("it, this, these", "statement._points_back", False),
    Rule("before the subject", "statement._opening", 0),
)


def lines(rule: Rule) -> int:
    """How many lines of Python the rule has."""
    module, name = rule.function.split(".")
    place = importlib.import_module(f"zeus_runtime.memory.admission.{module}")
    return len(inspect.getsource(getattr(place, name)).splitlines())


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Switch the rule off; texts are taken apart anew."""

    def off(*_: object, **__: object) -> Any:
        return rule.off

    with mock.patch(f"zeus_runtime.memory.admission.{rule.function}", off):
        parse.cache_clear()
        yield
    parse.cache_clear()


def pairs() -> list[dict[str, Any]]:
    """All labelled pairs, each with its group."""
    found = []
    for file in ("statements", "changed_values"):
        for line in (DATA / f"{file}.jsonl").read_text("utf-8").splitlines():
            pair = json.loads(line)
            part = pair["part"]
            found.append({**pair, "group": BEFORE.get(part, "dev" if part in DEV else "older")})
    return found


def true_together(file: Path | None) -> list[list[str]]:
    """Sentences none of which should replace another of the same list."""
    stories = [json.loads(line) for line in (DATA / "stories.jsonl").read_text("utf-8").splitlines() if line]
    turns = [[turn.text for turn in each.turns] for each in conversations().values()]
    found = [*(story["facts"] for story in stories), *turns, *([said(file)] if file else ())]
    return [*found, documented(max(0, TOGETHER - sum(map(len, found))))]


TOGETHER: Final = 2_000
PAGES: Final = Path(__file__).parents[1] / "docs" / "how-to"


def documented(count: int) -> list[str]:
    """So many sentences of this project's own pages, which do not contradict each other."""
    found: dict[str, None] = {}
    for page in sorted(PAGES.glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n|\n(?=[-|#])", prose):
            if block[:1] not in ("|", "#"):
                plain = " ".join(re.sub(r"[`*]|\]\([^)]*\)|\[", "", block.removeprefix("- ")).split())
                for sentence in re.split(r"(?<=[.])\s+(?=[A-Z])", plain):
                    if 30 <= len(sentence) <= 300 and sentence.endswith("."):
                        found[sentence] = None
    return list(found)[:count]


class Result(NamedTuple):
    """How often each label got each verdict by group, and what else went wrong.

    Args:
        alone: updates of the group ``before`` that were stored without a link to what they change.
        replaced: of the sentences that are true together.
    """

    tables: dict[str, Counter[tuple[str, str]]]
    alone: int
    replaced: list[tuple[str, str]]

    def macro_f1(self, group: str) -> float:
        """The mean of the three verdicts' F1."""
        return sum(_f1(self.tables[group], label) for label in LABELS) / len(LABELS)

    def lost(self, group: str) -> int:
        """True facts that were replaced or taken for repeats."""
        return sum(n for (label, got), n in self.tables[group].items() if label == "different" != got)


def _f1(table: Counter[tuple[str, str]], label: str) -> float:
    wanted = sum(n for (want, _), n in table.items() if want == label)
    given = sum(n for (_, got), n in table.items() if got == label)
    return 2 * table[label, label] / (wanted + given) if wanted + given else 0.0


async def measure(
    labelled: Sequence[dict[str, Any]], sentences: Sequence[Sequence[str]], *, show: bool = False
) -> Result:
    """Save every pair in a scope of its own, and all the sentences in one for each story or source."""
    tables: dict[str, Counter[tuple[str, str]]] = {group: Counter() for group in GROUPS}
    alone, replaced = 0, []
    with tempfile.TemporaryDirectory() as folder:
        memory = service(Path(folder), embedder=StaticEmbedder())
        for number, pair in enumerate(labelled):
            mine = memory.for_caller(Caller(f"user{number}"))
            await mine.add_explicit_memory(pair["old"])
            saved = await mine.add_explicit_memory(pair["new"])
            got = "different" if saved.outcome == "stored" else saved.outcome
            tables[pair["group"]][pair["label"], got] += 1
            alone += (pair["group"], pair["label"], got, bool(saved.near)) == (
                "before",
                "superseded",
                "different",
                False,
            )
            if show and got != pair["label"]:
                print(f"{pair['group']:<7} {pair['label']:<11} {got:<11} {pair['old']} | {pair['new']}")
        for number, together in enumerate(sentences):
            mine = memory.for_caller(Caller(f"teller{number}"))
            for text in together:
                saved = await mine.add_explicit_memory(text)
                replaced += [(each.content, text) for each in saved.all_replaced]
        await memory.aclose()
    return Result(tables, alone, replaced)


def report(name: str, result: Result, size: int | str = "") -> None:
    """One row of a Markdown table."""
    figures = " / ".join(f"{result.macro_f1(group):.3f}" for group in GROUPS)
    lost = " / ".join(str(result.lost(group)) for group in GROUPS)
    print(f"| {name} | {size} | {figures} | {lost} | {result.alone} | {len(result.replaced)} |", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trajectories", type=Path, nargs="?")
    parser.add_argument("--ablate", action="store_true", help="switch each rule off alone")
    parser.add_argument("--errors", action="store_true", help="list the pairs that got another verdict")
    chosen = parser.parse_args()
    labelled, sentences = pairs(), true_together(chosen.trajectories)
    print(f"{len(labelled)} pairs, {sum(map(len, sentences))} sentences")
    print(f"| rule off | lines | macro F1: {' / '.join(GROUPS)} | lost | stale alone | replaced |")
    print("|---|---|---|---|---|---|")
    result = await measure(labelled, sentences, show=chosen.errors)
    report("none", result)
    for old, new in result.replaced:
        print(f"<!-- replaced: {old} | {new} -->")
    for rule in RULES if chosen.ablate else ():
        size = lines(rule)
        with without(rule):
            report(rule.name, await measure(labelled, sentences), size)


if __name__ == "__main__":
    asyncio.run(main())
