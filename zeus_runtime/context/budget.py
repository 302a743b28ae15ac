"""The budget of one model call: how many tokens it may use, and how many it uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.context.size import Size


@dataclass(frozen=True)
class Budget:
    """The tokens that one model call may use and uses. All policies share it, and it is measured again after each edit.

    Args:
        input_limit_tokens: the most that one request may hold.
        output_reserve_tokens: the part of it reserved for the answer, where input and output share a window.
        fixed_tokens: the system prompt and the tool schemas.
        used_tokens: the whole request, fixed part and messages, anchored to the provider's last count.
        messages: the number of messages in the view.
        known: whether the input limit is the model's own and not the fallback.
        overflow: whether the request did not fit, or the user asked to compact: every trigger counts as reached.
        cache_expired: whether the provider's cache has dropped the session's last request, so that what was sent
            before is paid as if it were new.
        room_before: a compaction is due that would remove the messages before this ``seq``. The planner asks for all
            edits that shorten one of them, whatever a policy's own trigger says, and takes them only if they are
            cheaper. 0 if none is due.
    """

    input_limit_tokens: int
    output_reserve_tokens: int = 0
    fixed_tokens: int = 0
    used_tokens: int = 0
    messages: int = 0
    known: bool = True
    overflow: bool = False
    cache_expired: bool = False
    room_before: int = 0

    @property
    def usable_tokens(self) -> int:
        """The input limit without the output's share; triggers and fractions refer to it."""
        return max(1, self.input_limit_tokens - self.output_reserve_tokens)

    @property
    def available(self) -> int:
        """Tokens that are still free; negative if the request does not fit."""
        return self.usable_tokens - self.used_tokens

    @property
    def fraction_used(self) -> float:
        """The used share of the usable tokens."""
        return self.used_tokens / self.usable_tokens

    def at_least(self, size: Size) -> bool:
        """Whether at least ``size`` is used: the condition of a trigger. Always true if ``overflow`` is."""
        if self.overflow:
            return True
        if size.messages is not None:
            return self.messages >= size.messages
        return self.used_tokens >= self.tokens_of(size)

    def tokens_of(self, size: Size) -> int:
        """``size`` in tokens of this window.

        Raises:
            ValueError: ``size`` is a number of messages.
        """
        tokens = size.in_tokens(self.usable_tokens)
        if tokens is None:
            raise ValueError(f"{size} is not a number of tokens")
        return tokens

    def override(self, **changes: Any) -> Budget:
        """A copy with ``changes``."""
        return replace(self, **changes)
