"""A simulated provider: it answers from a recording, counts exactly, enforces its window, caches and charges."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.cache_model import (
    LIFETIME_SECONDS,
    PrefixCache,
    Segment,
    rules_for,
    shared_tokens,
)
from zeus_runtime.models.content import whole_text
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import ModelPiece, ModelRequest, ModelResponse, Usage
from zeus_runtime.models.messages import to_chat
from zeus_runtime.models.pictures import pictures_of
from zeus_runtime.models.profiles import ModelProfile, cost_usd

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.context.tokens import Counter

SUMMARY_TOKENS: Final = 600
"""Tokens of the simulated provider's summaries, by default."""


@dataclass(frozen=True)
class SimulatedCall:
    """One call that the simulated provider answered or refused.

    Args:
        purpose: ``turn``, or the purpose of a policy's call.
        answer: the place of the recorded answer that it was made for.
        input_tokens: by the provider's own count, including cached ones.
        read_tokens, written_tokens: those of them that the cache read and wrote.
        output_tokens: the answer's.
        shared_tokens: leading tokens equal to the former turn's request.
        former_tokens: the former turn's request; 0 for the first.
        cost_usd: in US dollars; None where no price is known.
        overflow: whether it was refused because it does not fit the window.
        sources: tokens by source: ``system``, ``tools``, ``user``, ``assistant``, ``tool:NAME``.
    """

    purpose: str
    answer: int
    input_tokens: int
    read_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    shared_tokens: int = 0
    former_tokens: int = 0
    cost_usd: float | None = 0.0
    overflow: bool = False
    sources: Mapping[str, int] | None = None


class SimulatedProvider:
    """A Model without a network: it returns the recorded answers, and to policies a summary of a given length.

    Args:
        profile: its name, window and prices.
        counter: counts tokens.
        summary_tokens: the length of a summary.
        marked: whether requests without cache points get breakpoints, for a provider that caches at breakpoints.
    """

    def __init__(
        self,
        profile: ModelProfile,
        counter: Counter,
        *,
        summary_tokens: int = SUMMARY_TOKENS,
        marked: bool = False,
    ) -> None:
        self.calls: list[SimulatedCall] = []
        self.needles_needed = 0
        self.needles_kept = 0
        self._profile = profile
        self._counter = counter
        self._summary_tokens = summary_tokens
        self._marked = marked
        self._rules = rules_for(profile.name)
        self._cache = PrefixCache(self._rules)
        self._former: Sequence[Segment] = ()
        self._former_tokens = 0
        self._messages: dict[int, tuple[BaseMessage, Segment, str]] = {}
        self._fixed: dict[tuple[Any, ...], tuple[Segment, ...]] = {}
        self._answer: AIMessage | None = None
        self._place = 0
        self._at_seconds = 0.0
        self._needles: tuple[str, ...] = ()
        self._last: Sequence[BaseMessage] = ()

    @property
    def name(self) -> str:
        return self._profile.name

    def now_ms(self) -> int:
        """The recording's time at the next answer, in milliseconds."""
        return round(1000 * self._at_seconds)

    def expect(
        self, answer: AIMessage, *, place: int, at_seconds: float, needles: tuple[str, ...] = ()
    ) -> None:
        """Set the answer to the next turn.

        Args:
            answer: the recorded one.
            place: its place in the recording.
            at_seconds: when it was given.
            needles: the values that the model needed for it.
        """
        self._answer, self._place, self._at_seconds, self._needles = answer, place, at_seconds, needles

    def holds(self, text: str) -> bool:
        """Whether the last turn's request contains ``text`` in its messages."""
        return self._shows(self._last, text)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        yield self.answer(request)

    def answer(self, request: ModelRequest) -> ModelResponse:
        """The answer to one request.

        Raises:
            ModelError: the request does not fit the window (context_overflow), or no answer is recorded for it.
        """
        turn = request.purpose == "turn"
        segments = self._segments(request)
        total = sum(segment.tokens for segment in segments)
        limit = self._profile.max_input_tokens
        if total > limit:
            self.calls.append(
                SimulatedCall(
                    request.purpose, self._place, total, overflow=True, sources=self._sources(request)
                )
            )
            raise ModelError(
                f"This model's maximum context length is {limit} tokens. However, your messages resulted in"
                f" {total} tokens. Please reduce the length of the messages.",
                kind="context_overflow",
                status=400,
                input_tokens=total,
                limit_tokens=limit,
            )
        if not turn:
            message = self._summary(request)
        elif self._answer is None:
            raise ModelError("nothing is recorded for this call", kind="divergence")
        else:
            message = self._answer.model_copy(update={"usage_metadata": None})
            # Each recorded answer is given once; a further call in the same turn diverges from the recording.
            self._answer = None
            self._look_for_needles(request)
        call = self._charge(request, segments, self._counter.message(message))
        self.calls.append(call)
        if turn:
            self._former, self._former_tokens, self._last = segments, total, request.messages
        usage = Usage(call.input_tokens, call.output_tokens, call.read_tokens, call.written_tokens)
        reason = "tool_calls" if getattr(message, "tool_calls", ()) else "stop"
        return ModelResponse(message, usage, reason, self.name, call.cost_usd)

    def _charge(
        self, request: ModelRequest, segments: Sequence[Segment], output_tokens: int
    ) -> SimulatedCall:
        points = request.cache_points
        marks: Sequence[int] | None
        if points is not None:
            # A mark counts leading segments: the tools, the stable prompt, the rest of the prompt, then each message.
            places = [1] * points.tools + [2] * points.system + [index + 4 for index in points.messages]
            marks = [mark for mark in places if mark <= len(segments)]
        else:
            # A caller that marks its turns does not mark a summary: no later request would read that prefix.
            marks = [2, len(segments)] if self._marked and request.purpose == "turn" else ()
        lifetime = points.lifetime if points is not None else "5m"
        marked = self._rules is not None and self._rules.marked
        split = self._cache.send(
            segments,
            at_seconds=self._at_seconds,
            marks=marks,
            lifetime_seconds=LIFETIME_SECONDS[lifetime] if marked and points is not None else None,
        )
        usage = Usage(
            split.input_tokens,
            output_tokens,
            split.read_tokens,
            split.written_tokens,
            cache_write_1h_tokens=split.written_tokens if lifetime == "1h" else 0,
        )
        return SimulatedCall(
            request.purpose,
            self._place,
            split.input_tokens,
            split.read_tokens,
            split.written_tokens,
            output_tokens,
            shared_tokens=shared_tokens(self._former, segments) if request.purpose == "turn" else 0,
            former_tokens=self._former_tokens if request.purpose == "turn" else 0,
            cost_usd=cost_usd(self._profile, usage),
            sources=self._sources(request),
        )

    def _segments(self, request: ModelRequest) -> tuple[Segment, ...]:
        stable = request.stable_system_length
        key = (request.system, stable, tuple(map(id, request.tools)))
        fixed = self._fixed.get(key)
        if fixed is None:
            counter = self._counter
            parts = (request.system[:stable], request.system[stable:])
            tools = counter.fixed("", request.tools)
            whole = counter.fixed(request.system, request.tools)
            first = counter.text(parts[0])
            names = json.dumps([[tool.name, tool.description, tool.parameters] for tool in request.tools])
            sizes = (tools, first, max(0, whole - tools - first))
            fixed = tuple(
                Segment(hash(text), tokens) for text, tokens in zip((names, *parts), sizes, strict=True)
            )
            self._fixed[key] = fixed
        return (*fixed, *(self._known(message)[1] for message in request.messages))

    def _known(self, message: BaseMessage) -> tuple[BaseMessage, Segment, str]:
        known = self._messages.get(id(message))
        if known is None:
            labels = [picture.label for picture in pictures_of(message)]
            wire = json.dumps([to_chat(message, portable=True), labels], ensure_ascii=False)
            # Python's hash of a text differs between processes; these keys never leave this one.
            segment = Segment(hash(wire), self._counter.message(message))
            # The message is kept with its id, so that Python does not give the id to another one.
            known = self._messages[id(message)] = (message, segment, whole_text(message))
        return known

    def _sources(self, request: ModelRequest) -> dict[str, int]:
        sources: dict[str, int] = {}
        tools, stable, volatile, *messages = self._segments(request)
        sources["system"] = stable.tokens + volatile.tokens
        sources["tools"] = tools.tokens
        for message, segment in zip(request.messages, messages, strict=True):
            source = _SOURCES.get(message.type) or f"tool:{message.name or 'tool'}"
            sources[source] = sources.get(source, 0) + segment.tokens
        return sources

    def _look_for_needles(self, request: ModelRequest) -> None:
        self.needles_needed += len(self._needles)
        self.needles_kept += sum(self._shows(request.messages, needle) for needle in self._needles)

    def _shows(self, messages: Sequence[BaseMessage], text: str) -> bool:
        return any(text in self._known(messages[place])[2] for place in range(len(messages) - 1, -1, -1))

    def _summary(self, request: ModelRequest) -> AIMessage:
        from langchain_core.messages import AIMessage

        head = f"Intent: {len(request.messages)} earlier messages. Artifacts: in the archive. Next steps:"
        words = max(0, self._summary_tokens - self._counter.text(head))
        # Two tokens for each repetition.
        return AIMessage(head + " go on" * (words // 2))


_SOURCES: Final = {"human": "user", "ai": "assistant"}


@dataclass(frozen=True)
class SimulatedCost:
    """The cost of one session under one policy.

    Args:
        session, policy: their names.
        steps: turns that were answered.
        sent_tokens, read_tokens, written_tokens, output_tokens: of all calls, including the policies' own.
        cost_usd: in US dollars; None where no price is known.
        summaries: calls that policies made.
        compactions: steps at which an edit was admitted.
        overflows: requests that the provider refused.
        needles_kept, needles_needed: values that a recorded call needed: in its request, and in total.
        reusable_share: the share of the tokens sent outside compaction steps that equals the former request's
            beginning.
        largest_tokens: the largest request of a turn.
        failure: why it ended early; empty if it did not.
    """

    session: str
    policy: str
    steps: int
    sent_tokens: int
    read_tokens: int
    written_tokens: int
    output_tokens: int
    cost_usd: float | None
    summaries: int
    compactions: int
    overflows: int
    needles_kept: int
    needles_needed: int
    reusable_share: float
    largest_tokens: int
    failure: str = ""


def outcome(
    session: str,
    policy: str,
    provider: SimulatedProvider,
    *,
    compacted: frozenset[int],
    needles: tuple[int, int] = (0, 0),
    failure: str = "",
) -> SimulatedCost:
    """Add up the calls of ``provider``.

    Args:
        session, policy: their names.
        provider: after the last call.
        compacted: places of the recorded answers before which an edit was admitted.
        needles: how many of the user's needles are still shown, and how many there are.
        failure: why the session ended early.
    """
    answered = [call for call in provider.calls if not call.overflow]
    turns = [call for call in answered if call.purpose == "turn"]
    quiet = [call for call in turns if call.answer not in compacted and call.former_tokens]
    costs = [call.cost_usd for call in answered]
    return SimulatedCost(
        session=session,
        policy=policy,
        steps=len(turns),
        sent_tokens=sum(call.input_tokens for call in answered),
        read_tokens=sum(call.read_tokens for call in answered),
        written_tokens=sum(call.written_tokens for call in answered),
        output_tokens=sum(call.output_tokens for call in answered),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        summaries=len(answered) - len(turns),
        compactions=len(compacted),
        overflows=len(provider.calls) - len(answered),
        needles_kept=provider.needles_kept + needles[0],
        needles_needed=provider.needles_needed + needles[1],
        reusable_share=_share(sum(c.shared_tokens for c in quiet), sum(c.input_tokens for c in quiet)),
        largest_tokens=max((call.input_tokens for call in turns), default=0),
        failure=failure,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
