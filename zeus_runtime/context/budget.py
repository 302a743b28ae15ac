"""The budget: what one model call may hold and holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.context.size import Size


@dataclass(frozen=True)
class Budget:
    """What one model call may hold and holds, in tokens. One budget for all policies, measured anew after each edit.

    Args:
        input_limit_tokens: what one request may hold.
        output_reserve_tokens: what of it the answer needs, where input and output share a window.
        fixed_tokens: the system prompt and the tool schemas.
        used_tokens: the whole request, fixed part and messages, anchored on what the provider reported.
        messages: how many messages the view shows.
        known: whether the input limit is the model's own and not the fallback.
        overflow: the request did not fit, or the user asked to compact: every trigger counts as reached.
    """

    input_limit_tokens: int
    output_reserve_tokens: int = 0
    fixed_tokens: int = 0
    used_tokens: int = 0
    messages: int = 0
    known: bool = True
    overflow: bool = False

    @property
    def usable_tokens(self) -> int:
        """The input limit without the output's share: what triggers and fractions refer to."""
        return max(1, self.input_limit_tokens - self.output_reserve_tokens)

    @property
    def available(self) -> int:
        """Tokens that are still free; negative when the request does not fit."""
        return self.usable_tokens - self.used_tokens

    @property
    def fraction_used(self) -> float:
        """Share of the usable tokens that is used."""
        return self.used_tokens / self.usable_tokens

    def at_least(self, size: Size) -> bool:
        """Whether so much is used: the condition of a trigger. Always true when ``overflow`` is."""
        if self.overflow:
            return True
        if size.messages is not None:
            return self.messages >= size.messages
        return self.used_tokens >= self.tokens_of(size)

    def tokens_of(self, size: Size) -> int:
        """``size`` in tokens of this window.

        Raises:
            ValueError: it is a number of messages.
        """
        tokens = size.in_tokens(self.usable_tokens)
        if tokens is None:
            raise ValueError(f"{size} is no number of tokens")
        return tokens

    def override(self, **changes: Any) -> Budget:
        """A copy with ``changes``."""
        return replace(self, **changes)
