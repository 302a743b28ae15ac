"""Server-sent events from lines of text, and where a stream continues. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from zeus_runtime.client.results import InvalidAnswerError, ServiceEvent, event_of

# 18 digits fit into 63 bits, as the numbers of a database do. It takes `42`, and neither `-1` nor `4.2`.
_NUMBER: Final = re.compile("[0-9]{1,18}")


@dataclass
class EventLines:
    """Reads a stream's lines, over lost connections.

    Attributes:
        last: the number of the last event that was given out; a new connection continues after it.
    """

    last: int = 0
    _number: int = 0
    _data: str = ""

    def begin(self) -> None:
        """Forget the part of an event that a lost connection left."""
        self._number, self._data = 0, ""

    def take(self, line: str) -> ServiceEvent | None:
        """The event that a line completes, if it is new.

        Raises:
            InvalidAnswerError: it is not an event.
        """
        if line.startswith("id:"):
            number_text = line[3:].strip()
            self._number = int(number_text) if _NUMBER.fullmatch(number_text) else 0
        elif line.startswith("data:"):
            # One line of data in each event: the service's JSON has no line break.
            self._data = line[5:].removeprefix(" ")
        elif not line and self._data:
            number, data = self._number, self._data
            self.begin()
            # A new connection may begin with events that were given out already.
            if number > self.last:
                self.last = number
                try:
                    told = json.loads(data)
                except (ValueError, RecursionError):
                    raise InvalidAnswerError("it is not JSON") from None
                return event_of(number, told)
        return None
