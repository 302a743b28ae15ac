"""A provider on the loopback with a window and a prompt cache: it counts what comes in, refuses what does not fit in
the words real providers use, and reports what its cache read and wrote.

    with windowed(limit_tokens=8_000, answer=lambda request: Reply("ok")) as served:
        ...  # api_base=served.provider.anthropic (or .openai)
        served.calls[-1].read_tokens

Counting is exact by its own rule: o200k tokens of each tool, system block, message block and call, as they came over
the wire. The cache works on the same pieces: the longest prefix that an earlier request left there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.support.provider import Provider, Received, Reply

WORDINGS: Final[Mapping[str, tuple[int, str]]] = {
    "openai": (
        400,
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {used} tokens."
        " Please reduce the length of the messages.",
    ),
    "gpt-5": (
        400,
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {used} tokens."
        " Please reduce the length of the messages.",
    ),
    "anthropic": (400, "prompt is too long: {used} tokens > {limit} maximum"),
    "gpt-5.2": (
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "moonshot": (
        400,
        "Invalid request: Your request exceeded model token limit: {limit} (requested: {used})",
    ),
    "llama.cpp": (
        400,
        "request ({used} tokens) exceeds the available context size ({limit} tokens), try increasing it",
    ),
    "dashscope": (
        400,
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {limit}]",
    ),
}
"""Provider to status and message of a request that does not fit; some state the numbers, some do not."""

MAX_MARKS: Final = 4
LOOKBACK: Final = 20
BLOCK: Final = 128


@dataclass(frozen=True)
class Piece:
    """A tool, a block of the system prompt or a block of a message as it came: its bytes, its size, whether marked."""

    text: str
    tokens: int
    marked: bool = False


@dataclass(frozen=True)
class Served:
    """One request as the provider accounted for it."""

    input_tokens: int
    read_tokens: int = 0
    written_tokens: int = 0
    marks: int = 0
    refused: bool = False
    pieces: Sequence[Piece] = field(default=(), repr=False)


class Window:
    """What stands behind the loopback server.

    Args:
        limit_tokens: a request of more is refused.
        answer: the reply to one that fits; its usage is filled in.
        wording: how it refuses, by ``WORDINGS``.
        minimum_tokens: a shorter prefix is not cached.
    """

    def __init__(
        self,
        limit_tokens: int,
        answer: Callable[[Received], Reply],
        *,
        wording: str,
        minimum_tokens: int = 1024,
    ) -> None:
        self.calls: list[Served] = []
        self._limit = limit_tokens
        self._answer = answer
        self._wording = wording
        self._minimum = minimum_tokens
        self._kept: set[int] = set()

    def reply(self, request: Received) -> Reply:
        anthropic = request.path.endswith("/messages")
        pieces = list(pieces_of(request.body, anthropic=anthropic))
        total = sum(piece.tokens for piece in pieces)
        marks = sum(piece.marked for piece in pieces)
        if marks > MAX_MARKS:
            text = f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {marks}."
            return Reply(text, status=400)
        if total > self._limit:
            self.calls.append(Served(total, marks=marks, refused=True, pieces=pieces))
            status, text = WORDINGS[self._wording]
            return Reply(text.format(used=total, limit=self._limit), status=status)
        read, written = self._asked(pieces) if anthropic else self._unasked(pieces)
        self.calls.append(Served(total, read, written, marks, pieces=pieces))
        reply = self._answer(request)
        out = count(reply.text) + sum(count(call.arguments) for call in reply.calls)
        fresh = total - read - written if anthropic else total
        return replace(reply, usage={"in": fresh, "out": out, "cached": read, "written": written})

    def _asked(self, pieces: Sequence[Piece]) -> tuple[int, int]:
        """Anthropic's way: kept up to each mark; found at a mark or at most twenty pieces before one."""
        ends = list(_ends(pieces))
        marks = [place for place, piece in enumerate(pieces) if piece.marked]
        found = (
            ends[place][1]
            for mark in reversed(marks)
            for place in range(mark, max(-1, mark - LOOKBACK), -1)
            if ends[place][0] in self._kept
        )
        read = next(found, 0)
        covered = 0
        for mark in marks:
            key, total = ends[mark]
            if total >= self._minimum:
                self._kept.add(key)
                covered = total
        return read, max(0, covered - read)

    def _unasked(self, pieces: Sequence[Piece]) -> tuple[int, int]:
        """OpenAI's way: the longest common prefix, in blocks of 128 tokens; nothing is charged for writing."""
        ends = list(_ends(pieces))
        common = max((total for key, total in ends if key in self._kept), default=0)
        self._kept.update(key for key, _ in ends)
        read = common // BLOCK * BLOCK
        return (read if read >= self._minimum else 0), 0


@contextmanager
def windowed(
    limit_tokens: int,
    answer: Callable[[Received], Reply],
    *,
    wording: str = "openai",
    minimum_tokens: int = 1024,
) -> Iterator[tuple[Provider, Window]]:
    """A running provider and what stands behind it."""
    window = Window(limit_tokens, answer, wording=wording, minimum_tokens=minimum_tokens)
    with Provider(answer=window.reply) as provider:
        yield provider, window


def pieces_of(body: Mapping[str, Any], *, anthropic: bool) -> Iterator[Piece]:
    """The request in the order a cache sees it: tools, system, messages."""
    for tool in body.get("tools") or ():
        yield _piece(tool)
    system = body.get("system") if anthropic else None
    for block in [system] if isinstance(system, str) else system or ():
        yield _piece(block)
    for message in body["messages"]:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content or ""]
        for number, block in enumerate(blocks):
            yield _piece(block, prefix=message["role"] if number == 0 else "")
        for call in message.get("tool_calls") or ():
            yield _piece(call)


def _piece(block: Any, prefix: str = "") -> Piece:
    marked = isinstance(block, dict) and "cache_control" in block
    bare = {key: value for key, value in block.items() if key != "cache_control"} if marked else block
    text = prefix + (bare if isinstance(bare, str) else json.dumps(bare, sort_keys=True, ensure_ascii=False))
    counted = bare["text"] if isinstance(bare, dict) and bare.get("type") == "text" else text
    return Piece(text, count(counted) + 4 * bool(prefix), marked)


def _ends(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """For each prefix: what it is, and its tokens."""
    key, total = 0, 0
    for piece in pieces:
        key, total = hash((key, piece.text)), total + piece.tokens
        yield key, total


def count(text: str) -> int:
    """The o200k tokens of a text."""
    return len(_encoding().encode_ordinary(text))


@lru_cache(maxsize=1)
def _encoding() -> Any:
    import tiktoken

    found = find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return tiktoken.get_encoding("o200k_base")
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
