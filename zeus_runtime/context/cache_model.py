"""A model of providers' prompt caches: what requests read and write. Rules are data, a cache is state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.models.interface import CachePoints


@dataclass(frozen=True)
class CacheRules:
    """How one provider caches prefixes.

    Args:
        minimum_tokens: shorter prefixes are not cached.
        block_tokens: reads are a multiple of this.
        lifetime_seconds: how long an entry lives after its last use.
        marked: whether only prefixes that end at a breakpoint are written (Anthropic); else every prefix is.
        lookback: how many segments before a breakpoint an older entry is found; 0 for any number.
    """

    minimum_tokens: int
    block_tokens: int = 1
    lifetime_seconds: float = 300.0
    marked: bool = False
    lookback: int = 0


@dataclass(frozen=True)
class Segment:
    """A piece of a request that is compared as a whole: a section, the tool schemas, a message.

    Args:
        key: equal keys mean equal bytes.
        tokens: its size.
    """

    key: int
    tokens: int


@dataclass(frozen=True)
class Split:
    """The input tokens of one request, by price."""

    fresh_tokens: int
    read_tokens: int = 0
    written_tokens: int = 0

    @property
    def input_tokens(self) -> int:
        return self.fresh_tokens + self.read_tokens + self.written_tokens


LIFETIME_SECONDS: Final[Mapping[str, float]] = {"5m": 300.0, "1h": 3600.0}
"""Seconds for each ``lifetime`` that a request may ask for."""

_UNKNOWN_SECONDS: Final = 300.0

_ANTHROPIC: Final = CacheRules(1024, lifetime_seconds=300, marked=True, lookback=20)
_ANTHROPIC_4096: Final = CacheRules(4096, lifetime_seconds=300, marked=True, lookback=20)
_ANTHROPIC_2048: Final = CacheRules(2048, lifetime_seconds=300, marked=True, lookback=20)
_OPENAI: Final = CacheRules(1024, block_tokens=128, lifetime_seconds=300)
_GEMINI: Final = CacheRules(1024, lifetime_seconds=300)
_GEMINI_PRO: Final = CacheRules(2048, lifetime_seconds=300)
_DEEPSEEK: Final = CacheRules(64, block_tokens=64, lifetime_seconds=3600)

RULES: Final[Sequence[tuple[str, CacheRules]]] = (
    ("claude-opus-4-5", _ANTHROPIC_4096),
    ("claude-opus-4-6", _ANTHROPIC_4096),
    ("claude-opus-4-7", _ANTHROPIC_4096),
    ("claude-haiku-4-5", _ANTHROPIC_4096),
    (
        "claude-sonnet-4-6",
        _ANTHROPIC_2048,
    ),  # the documentation says 1,024; 2,048 was observed (anthropic-sdk-python #1194)
    ("claude-3-5-haiku", _ANTHROPIC_2048),
    ("claude-3-haiku", _ANTHROPIC_2048),
    ("claude", _ANTHROPIC),
    ("gpt-", _OPENAI),
    ("chatgpt", _OPENAI),
    ("o1", _OPENAI),
    ("o3", _OPENAI),
    ("o4", _OPENAI),
    ("gemini-2.5-pro", _GEMINI_PRO),
    ("gemini-3", _GEMINI_PRO),
    ("gemini", _GEMINI),
    ("deepseek", _DEEPSEEK),
)
"""Rules by the beginning of a model's name, without the provider prefix; the first match counts.

The figures are the providers' own: Anthropic "Prompt caching" (minimum by model, five minutes refreshed by each use, a
look-back of 20 blocks, at most four breakpoints), OpenAI "Prompt caching" (1,024 tokens, then steps of 128, gone after
five to ten minutes without use: five are assumed), Gemini "Context caching", DeepSeek "Context caching" (blocks of 64,
stored for hours: one is assumed). Where a provider states no lifetime, five minutes are assumed.
"""


def rules_for(model: str) -> CacheRules | None:
    """The cache rules of a model by its name; None where no cache is known, and then nothing counts as read."""
    name = model.rpartition("/")[2]
    # Bedrock's names have dots: "us.anthropic.claude-sonnet-4-6". The whole name is tried for "gemini-2.5-pro".
    for part in name.split("."):
        for prefix, rules in RULES:
            if part.startswith(prefix) or name.startswith(prefix):
                return rules
    return None


def cached_seconds(model: str, points: CachePoints | None) -> float:
    """How long the provider keeps a request cached if no other one uses it; 0 if it does not cache the request.

    Args:
        model: its name. Of a provider whose cache is not known, five minutes are assumed.
        points: the request's.
    """
    rules = rules_for(model)
    if rules is None:
        return _UNKNOWN_SECONDS
    if not rules.marked:
        return rules.lifetime_seconds
    return 0.0 if points is None else LIFETIME_SECONDS[points.lifetime]


class PrefixCache:
    """One provider's cache from the view of one session.

    Args:
        rules: None for a provider without a cache.
    """

    def __init__(self, rules: CacheRules | None) -> None:
        self._rules = rules
        self._until: dict[int, float] = {}

    def send(
        self,
        segments: Sequence[Segment],
        *,
        at_seconds: float,
        marks: Sequence[int] | None = None,
        lifetime_seconds: float | None = None,
    ) -> Split:
        """Charge one request and remember it.

        Args:
            segments: the whole request in order.
            at_seconds: the time of the request on the caller's clock, which must not go back.
            marks: how many leading segments each breakpoint covers; by default one covers the whole request. Providers
                that cache without breakpoints ignore it.
            lifetime_seconds: the lifetime that the request asks for; the rules' by default.
        """
        rules = self._rules
        chain, total = 0, 0
        ends: list[tuple[int, int]] = []
        for segment in segments:
            # A chained hash: a segment only matches after the same prefix.
            chain = hash((chain, segment.key))
            total += segment.tokens
            ends.append((chain, total))
        if rules is None or not ends:
            return Split(total)
        until = at_seconds + (rules.lifetime_seconds if lifetime_seconds is None else lifetime_seconds)
        if rules.marked:
            places = [len(ends)] if marks is None else sorted(set(marks))
            return self._marked(rules, ends, places, at_seconds, until)
        return self._unmarked(rules, ends, at_seconds, until)

    def _unmarked(
        self, rules: CacheRules, ends: Sequence[tuple[int, int]], now: float, until: float
    ) -> Split:
        common = next((total for chain, total in reversed(ends) if self._alive(chain, now)), 0)
        # Each use of a prefix prolongs the life of all its beginnings.
        self._until.update((chain, until) for chain, _ in ends)
        read = common // rules.block_tokens * rules.block_tokens
        if read < rules.minimum_tokens:
            read = 0
        return Split(ends[-1][1] - read, read)

    def _marked(
        self,
        rules: CacheRules,
        ends: Sequence[tuple[int, int]],
        marks: Sequence[int],
        now: float,
        until: float,
    ) -> Split:
        read = 0
        # From the longest prefix on: the first that is found is the most that can be read.
        for mark in reversed(marks):
            earliest = max(0, mark - rules.lookback) if rules.lookback else 0
            places = range(mark - 1, earliest - 1, -1)
            found = next((place for place in places if self._alive(ends[place][0], now)), None)
            if found is not None:
                read = ends[found][1]
                self._until[ends[found][0]] = until
                break
        covered = ends[marks[-1] - 1][1] if marks else 0
        for mark in marks:
            chain, total = ends[mark - 1]
            if total >= rules.minimum_tokens:
                self._until[chain] = until
        written = max(0, covered - read) if covered >= rules.minimum_tokens else 0
        return Split(ends[-1][1] - read - written, read, written)

    def _alive(self, chain: int, now: float) -> bool:
        return self._until.get(chain, now - 1) >= now


def shared_tokens(former: Sequence[Segment], request: Sequence[Segment]) -> int:
    """How many leading tokens of ``request`` are byte-identical to the ``former`` request's."""
    shared = 0
    for before, now in zip(former, request, strict=False):
        if before.key != now.key:
            break
        shared += now.tokens
    return shared
