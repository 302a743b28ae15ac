"""The prompt caches of providers: minimum, blocks, lifetime, breakpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.context.cache_model import (
    CacheRules,
    PrefixCache,
    Segment,
    Split,
    rules_for,
    shared_tokens,
)

OPENAI = CacheRules(1024, block_tokens=128, lifetime_seconds=300)
ANTHROPIC = CacheRules(1024, lifetime_seconds=300, marked=True, lookback=3)


def segments(*tokens: int, first_key: int = 0) -> list[Segment]:
    return [Segment(first_key + place, size) for place, size in enumerate(tokens)]


def test_a_repeated_prefix_is_read_in_whole_blocks() -> None:
    cache = PrefixCache(OPENAI)
    assert cache.send(segments(1000, 200), at_seconds=0) == Split(1200)
    assert cache.send(segments(1000, 200, 50), at_seconds=1) == Split(1250 - 1152, read_tokens=1152)


def test_a_prefix_below_the_minimum_is_not_read() -> None:
    cache = PrefixCache(OPENAI)
    cache.send(segments(1000), at_seconds=0)
    assert cache.send(segments(1000, 100), at_seconds=1).read_tokens == 0


def test_a_prefix_that_was_not_used_for_the_lifetime_is_gone_and_each_use_prolongs_it() -> None:
    cache = PrefixCache(OPENAI)
    cache.send(segments(2048), at_seconds=0)
    assert cache.send(segments(2048), at_seconds=300).read_tokens == 2048
    assert cache.send(segments(2048), at_seconds=600).read_tokens == 2048
    assert cache.send(segments(2048), at_seconds=901).read_tokens == 0


def test_what_changes_early_makes_everything_after_it_fresh() -> None:
    cache = PrefixCache(OPENAI)
    cache.send(segments(2000, 100, 3000), at_seconds=0)
    changed = [Segment(0, 2000), Segment(99, 100), Segment(2, 3000)]
    assert cache.send(changed, at_seconds=1).read_tokens == 1920


def test_a_provider_with_breakpoints_charges_for_writing_and_reads_what_it_wrote() -> None:
    cache = PrefixCache(ANTHROPIC)
    assert cache.send(segments(1500, 100), at_seconds=0) == Split(0, written_tokens=1600)
    assert cache.send(segments(1500, 100, 30), at_seconds=1) == Split(0, read_tokens=1600, written_tokens=30)


def test_only_a_marked_prefix_is_written() -> None:
    cache = PrefixCache(ANTHROPIC)
    assert cache.send(segments(1500, 100), at_seconds=0, marks=[1]) == Split(100, written_tokens=1500)
    assert cache.send(segments(1500, 100), at_seconds=1, marks=[1]) == Split(100, read_tokens=1500)


def test_an_entry_further_back_than_the_lookback_is_found_by_an_earlier_breakpoint() -> None:
    cache = PrefixCache(ANTHROPIC)
    cache.send(segments(1500, 10), at_seconds=0, marks=[1, 2])
    far = segments(1500, 10, 1, 1, 1, 1, 1)
    assert cache.send(far, at_seconds=1, marks=[1, 7]).read_tokens == 1500
    near = PrefixCache(ANTHROPIC)
    near.send(segments(1500, 10), at_seconds=0, marks=[2])
    assert near.send(far, at_seconds=1, marks=[7]).read_tokens == 0


def test_an_unknown_provider_has_no_cache() -> None:
    cache = PrefixCache(rules_for("somebody/very-new"))
    cache.send(segments(5000), at_seconds=0)
    assert cache.send(segments(5000), at_seconds=1) == Split(5000)


@pytest.mark.parametrize(
    ("name", "minimum", "marked"),
    [
        ("gpt-5", 1024, False),
        ("openai/gpt-5.2", 1024, False),
        ("anthropic/claude-sonnet-4-5", 1024, True),
        ("claude-haiku-4-5-20251001", 4096, True),
        ("bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", 1024, True),
        ("gemini/gemini-2.5-flash", 1024, False),
        ("deepseek/deepseek-chat", 64, False),
    ],
)
def test_the_rules_are_found_through_prefixes_of_the_name(name: str, minimum: int, *, marked: bool) -> None:
    rules = rules_for(name)
    assert rules is not None
    assert (rules.minimum_tokens, rules.marked) == (minimum, marked)


requests = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 900)), min_size=1, max_size=8), max_size=12
)


@given(requests, st.sampled_from([OPENAI, ANTHROPIC, None]))
def test_every_token_is_charged_once_and_nothing_is_read_that_was_never_sent(
    sent: list[list[tuple[int, int]]], rules: CacheRules | None
) -> None:
    cache = PrefixCache(rules)
    former: list[list[Segment]] = []
    for at, pieces in enumerate(sent):
        request = [Segment(hash(piece), piece[1]) for piece in pieces]
        split = cache.send(request, at_seconds=at)
        assert split.input_tokens == sum(size for _, size in pieces)
        assert min(split.fresh_tokens, split.read_tokens, split.written_tokens) >= 0
        assert split.read_tokens <= max((shared_tokens(old, request) for old in former), default=0)
        former.append(request)
