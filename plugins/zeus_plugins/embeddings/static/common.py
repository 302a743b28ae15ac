"""Removes from a vector the direction that all English texts share and that says nothing about their topic.

The sum of a text's pieces leans towards its function words, in questions more than in statements. That part is one
direction, nearly the same in all texts (the common component of Arora et al. 2017). Here it is computed from the
function words themselves instead of from a collection of texts, so no collection is needed or favoured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_plugins.embeddings.static.table import VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FUNCTION_WORDS: Final = tuple(
    "a about an and any are as at be been being but by can could did do does for from had has have he her hers him his "
    "how i if in into is it its may me might mine must my no nor not of on or our ours shall she should so some such "
    "than that the their theirs them then there these they this those to us was we were what when where which while "
    "who whom whose why will with would you your yours".split()
)
"""The closed word classes of English: articles, pronouns, prepositions, conjunctions, auxiliaries, question words."""


def common_direction(table: VectorTable) -> NDArray[np.float32]:
    """Return the direction, of length 1, that the function words of ``table`` share."""
    import numpy as np

    places = [table.vocabulary[word] for word in FUNCTION_WORDS if word in table.vocabulary]
    total = table.scales[places] @ table.rows[places].astype(np.float32)
    direction: NDArray[np.float32] = (total / np.sqrt(total @ total)).astype(np.float32)
    return direction


def without(direction: NDArray[np.float32], vector: NDArray[np.float32]) -> None:
    """Subtract from ``vector``, in place, its component along ``direction``."""
    vector -= (vector @ direction) * direction
