"""What was fitted still fits: on recorded requests, and to the texts it was fitted to."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tokens as benchmark
from benchmarks.wire import Recorded, read
from scripts import fit_tokens
from zeus_runtime.context.tokens.framing import FITTED

SAMPLE = Path(__file__).parents[2] / "data" / "token-usage.jsonl"
WHOLE = os.environ.get("ZEUS_TOKEN_USAGE")
"""A file of recorded requests like the sample; all of them are measured where it is named."""


@pytest.fixture(scope="module")
def requests() -> list[Recorded]:
    return read(Path(WHOLE) if WHOLE else SAMPLE)


@pytest.mark.parametrize(("group", "most"), [("OpenAI", 0.03), ("Anthropic", 0.08), ("Google", 0.08)])
def test_the_median_error_keeps_the_target(group: str, most: float, requests: list[Recorded]) -> None:
    mine = [
        (benchmark.zeus(each), each.input_tokens)
        for each in requests
        if each.group == group and not each.server_side and each.input_tokens >= 200
    ]
    assert len(mine) >= 8
    assert benchmark.errors(mine).median <= most


def test_few_requests_are_counted_more_than_a_tenth_too_small(requests: list[Recorded]) -> None:
    mine = [
        (benchmark.zeus(each), each.input_tokens)
        for each in requests
        if not each.server_side and each.input_tokens >= 200
    ]
    assert benchmark.errors(mine).under_10_percent <= (0.05 if WHOLE else 0.08)


def test_anchored_the_median_error_keeps_the_target(requests: list[Recorded]) -> None:
    pairs = [
        (benchmark.anchored(benchmark.zeus, first, second), second.input_tokens)
        for first, second in benchmark.growing_pairs(requests)
        if not second.server_side and second.input_tokens >= 200
    ]
    assert len(pairs) >= 8
    measured = benchmark.errors(pairs)
    assert measured.median <= (0.01 if WHOLE else 0.025)
    assert measured.under_10_percent == 0


def test_an_anchor_that_is_exact_corrects_any_counter(requests: list[Recorded]) -> None:
    first = requests[0]
    assert benchmark.anchored(lambda _: 1, first, replace(first)) == first.input_tokens


def test_the_texts_costs_are_what_the_script_fits() -> None:
    fitted = json.loads(FITTED.read_text("utf-8"))["texts"]
    texts, counts = fit_tokens.corpus(), fit_tokens.vocabularies()
    assert set(fitted) == set(counts)
    for name, count in counts.items():
        again = fit_tokens.fit_texts(texts, count)
        assert again == pytest.approx(fitted[name], abs=0.01), "run scripts/fit_tokens.py --write"


def test_the_families_are_the_scripts_and_no_cost_is_off_its_free_range() -> None:
    fitted = json.loads(FITTED.read_text("utf-8"))["families"]
    assert [row["name"] for row in fitted] == [family.framing.name for family in fit_tokens.FAMILIES]
    for row, family in zip(fitted, fit_tokens.FAMILIES, strict=True):
        framing = family.framing
        for name in ("models", "mode", "notation", "vocabulary"):
            assert row[name] == getattr(framing, name)
        assert tuple(row["providers"]) == tuple(framing.providers)
        settled = {name: cost for name, cost in framing.costs.items() if name not in family.free and cost}
        assert settled.items() <= row["costs"].items(), row["name"]


@pytest.mark.skipif(not WHOLE, reason="ZEUS_TOKEN_USAGE names no file of recorded requests")
def test_the_whole_table_is_what_the_script_fits(requests: list[Recorded]) -> None:
    fitted = json.loads(FITTED.read_text("utf-8"))
    again = json.loads(json.dumps(fit_tokens.fitted(requests)))
    assert [row["costs"] for row in again["families"]] == [
        pytest.approx(row["costs"], rel=0.01, abs=0.05) for row in fitted["families"]
    ]


@pytest.mark.skipif(not WHOLE, reason="ZEUS_TOKEN_USAGE names no file of recorded requests")
def test_requests_of_recordings_never_seen_keep_the_targets(requests: list[Recorded]) -> None:
    seen = list(fit_tokens.observed(requests, json.loads(FITTED.read_text("utf-8"))["texts"]))
    crossed = [pair for each in fit_tokens.cross_validated(seen).values() for pair in each]
    first = [(each.group, share) for each, share in crossed if not each.new_only]
    assert sum(share < -0.1 for _, share in first) / len(first) < 0.05
    for group, most in (("OpenAI", 0.03), ("Anthropic", 0.08), ("Google", 0.08)):
        assert statistics.median(abs(share) for name, share in first if name == group) <= most
    assert statistics.median(abs(share) for each, share in crossed if each.new_only) <= 0.01


@pytest.mark.skipif(not WHOLE, reason="ZEUS_TOKEN_USAGE names no file of recorded requests")
def test_families_left_out_of_the_fit_keep_the_targets(requests: list[Recorded]) -> None:
    seen = list(fit_tokens.observed(requests, json.loads(FITTED.read_text("utf-8"))["texts"]))
    pairs = [pair for each in fit_tokens.left_out(seen).values() for pair in each]
    shares = sorted(abs(share) for each, share in pairs if not each.new_only)
    under = sum(share < -0.1 for each, share in pairs if not each.new_only)
    assert statistics.median(shares) <= 0.025
    assert shares[int(0.9 * len(shares))] <= 0.12
    assert under / len(shares) <= 0.04
    assert fit_tokens.beyond_margin(seen) <= 0.06


def _observed(tokens: int, texts: int) -> fit_tokens.Observation:
    return fit_tokens.Observation(
        {"request": 1, "text": texts, "tools": 1, "tool": 1}, tokens, tokens, "a", "other"
    )


def test_a_family_without_requests_deviates_from_its_prior_as_its_makers_others_do() -> None:
    first, second = (
        family for family in fit_tokens.FAMILIES if family.framing.name in ("claude 4", "claude 3")
    )
    prior = first.framing.costs
    counted = fit_tokens.predicted(prior, {"request": 1, "text": 1_000, "tools": 1, "tool": 1})
    seen = [_observed(round(1.05 * counted), 1_000)] * 10
    (known, sure), (unknown, unsure) = fit_tokens.fit([(first, seen), (second, [])])
    assert prior["text"] < unknown["text"] < known["text"]
    assert unsure > sure


def test_a_family_learns_nothing_from_the_others_once_it_has_requests_itself() -> None:
    first, second = (
        family for family in fit_tokens.FAMILIES if family.framing.name in ("claude 4", "claude 3")
    )
    own = [_observed(1_500, 1_000)] * 3
    alone = fit_tokens.fit([(first, own), (second, [])])[0][0]
    beside = fit_tokens.fit([(first, own), (second, [_observed(3_000, 1_000)] * 20)])[0][0]
    assert alone == beside


def test_a_text_of_the_corpus_that_no_tokenizer_counted_says_what_to_run() -> None:
    with pytest.raises(SystemExit, match="run with --tokenizers FOLDER"):
        fit_tokens.vocabularies()["gemma"]("a text that is in no corpus")
