"""Requests a summary in the conversation itself, so that the provider reads its cache. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, HumanMessage

    from zeus_runtime.plugin.context import Item
    from zeus_runtime.plugin.model import ModelProfile

_MINIMUM_TOKENS: Final = 1024
"""No provider caches a shorter prefix."""


def question(prompt: str, staying: int, limit: int) -> HumanMessage:
    """Return the message that requests the summary at the end of the conversation.

    Args:
        prompt: the instructions for the summary.
        staying: how many of the last messages stay as they are.
        limit: maximum tokens of the summary.
    """
    from langchain_core.messages import HumanMessage

    return HumanMessage(
        "[This is not from the user. The conversation is about to be shortened.]\n\n"
        f"{prompt}\n\nWrite the record of the conversation above in at most {limit * 6 // 10} words. Its last {staying}"
        " messages stay as they are; record what comes before them, an earlier summary included. Answer with the record"
        " alone and call no tool."
    )


def shared_messages(sent: Sequence[BaseMessage], now: Sequence[Item]) -> int:
    """Return how many messages at the beginning of ``now`` equal those of ``sent``."""
    count = 0
    for before, item in zip(sent, now, strict=False):
        # By identity: the view gives the same object for a message that was not edited.
        if before is not item.message:
            break
        count += 1
    return count


def cheaper(profile: ModelProfile, *, cached_tokens: int, new_tokens: int, transcript_tokens: int) -> bool:
    """Whether reading the cached prefix and ``new_tokens`` costs less than a transcript sent fresh."""
    price, read = profile.input_cost_per_token, profile.cache_read_cost_per_token
    if not price or read is None or cached_tokens < _MINIMUM_TOKENS:
        return False
    return cached_tokens * read + new_tokens * price < transcript_tokens * price
