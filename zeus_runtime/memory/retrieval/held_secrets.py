"""Stored texts that hold a known secret: a search answers as if they were not there.

Such a text was stored before its secret was known, or by an agent that may show it. It is shown masked, but the index
has its own words: if it were found, a guess at a single word of a pass phrase would be confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.memory.retrieval.analysis import OR, query_tokens


class HeldSecrets:
    """Finds the known secrets that stored texts hold.

    Args:
        secrets: that no reader is shown; none by default.
    """

    def __init__(self, secrets: Redactor | None = None) -> None:
        self._secrets = secrets or Redactor()
        self._words: tuple[int, list[str]] = -1, []

    @property
    def known(self) -> int:
        """Another number once more secrets are known."""
        return self._secrets.learned_count

    def __bool__(self) -> bool:
        return bool(self._secrets.forms)

    def within(self, *texts: str | None) -> bool:
        """Whether one of the texts holds a secret."""
        return any(self._secrets.holds(text) for text in texts if text)

    @property
    def longest(self) -> int:
        """Characters of the longest secret."""
        return max(map(len, self._secrets.secrets), default=0)

    def across(self, before: str, text: str, after: str) -> bool:
        """Whether a text has only a part of a secret, and the text before or after it has the rest."""
        parts = [each for each in (before, text, after) if each]
        whole, mask = "\n".join(parts), self._secrets.text
        return self._secrets.holds(whole) and mask(whole) != "\n".join(map(mask, parts))

    def words(self) -> Sequence[str]:
        """One word of each secret in all its forms: the texts that an index finds by them may hold the secret."""
        known = self.known
        if self._words[0] != known:
            self._words = known, _telling_words(self._secrets.secrets)
        return self._words[1]


def _telling_words(secrets: frozenset[str]) -> list[str]:
    found: dict[str, None] = {}
    for secret in sorted(filter(is_searched, secrets)):
        words = query_tokens(secret)
        if words:
            # The first and the last one may be a part of a longer word, with what stands beside the secret.
            found |= dict.fromkeys(max(words[1:-1] or words, key=len).split(OR))
    return list(found)
