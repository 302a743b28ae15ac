"""The times that the texts of a place's memories name, by slot, so that a question about a time parses no text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.memory.retrieval.time_words import Period, periods

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_column(text: str, said_at: datetime) -> str:
    """The periods that ``text`` names, as the column ``times`` has them: ``FIRST/END`` in days since 1970, by spaces.

    Args:
        said_at: when it was said, UTC.
    """
    return " ".join(f"{_day(each.start)}/{_day(each.end)}" for each in periods(text, said_at))


def _day(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(days=1)


class NamedTimes:
    """The periods that are named, each with the slot of its item."""

    def __init__(self) -> None:
        self._taken = 0
        self._named: list[tuple[int, int, int]] = []
        self._columns: NDArray[np.int64] = np.zeros((0, 3), np.int64)

    def add(self, columns: Sequence[str | None]) -> None:
        """Those of the next slots."""
        for slot, column in enumerate(columns, self._taken):
            for each in column.split(" ") if column else ():
                first, _, end = each.partition("/")
                self._named.append((slot, int(first), int(end)))
        self._taken += len(columns)

    def meeting(
        self,
        times: Sequence[Period],
        said_ms: NDArray[np.int64],
        valid: Sequence[NDArray[np.int64]],
        always: int,
    ) -> NDArray[np.bool_]:
        """Whether ``time_words.times_of`` an item meets one of ``times``, by slot.

        Args:
            said_ms: when each was said.
            valid: from when on each is valid, and until when.
            always: ``valid`` without a beginning is minus this, without an end this.
        """
        if len(self._columns) < len(self._named):
            self._columns = np.concatenate(
                [self._columns, np.array(self._named[len(self._columns) :], np.int64)]
            )
        slots, first, end = self._columns.T
        since, until = valid
        dated = (since != -always) | (until != always)
        silent = ~dated
        # An item that names no time and has no dates is of the day on which it was said, as in `times_of`.
        silent[slots] = False
        day = said_ms // DAY_MS * DAY_MS
        found = np.zeros(self._taken, np.bool_)
        for time in times:
            start_ms, end_ms = (_day(each) * DAY_MS for each in time)
            found[slots[(first * DAY_MS < end_ms) & (start_ms < end * DAY_MS)]] = True
            found |= dated & (since < end_ms) & (start_ms < until)
            found |= silent & (day < end_ms) & (start_ms < day + DAY_MS)
        return found
