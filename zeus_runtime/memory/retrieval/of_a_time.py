"""How much it tells that a memory is of a time that the query names."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

FURTHER: Final = 200
"""Of a query that names a time so many are compared: what happens each month differs in the time alone."""
IN_TIME: Final = 0.5
"""How much it tells that a memory is of the time that the query names, beside its words."""
TIME_ALONE: Final = 0.3
"""The similarity of a memory of that time, if none of that time has the query's words."""
SOON: Final = timedelta(days=35)
"""After a time, in which it is spoken of as "last week" or "last month"."""


def surer(similarity: float) -> float:
    """The similarity of a memory that is of the time, too."""
    return 1 - (1 - min(1.0, similarity)) * (1 - IN_TIME)
