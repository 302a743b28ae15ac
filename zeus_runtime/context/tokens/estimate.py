"""An estimate of a text's tokens for models whose tokenizer is not public, from its UTF-8 bytes."""

from __future__ import annotations


def estimate(text: str) -> int:
    """About how many tokens ``text`` has; never negative, 0 for no text only."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
