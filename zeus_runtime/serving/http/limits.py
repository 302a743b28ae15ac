"""How much callers may ask for: requests in a minute, requests at once, wrong tokens."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import LimitError

if TYPE_CHECKING:
    from zeus_runtime.serving.http.principals import Principal
    from zeus_runtime.serving.http.settings import ServiceLimits

MOST_BUCKETS: Final = 50_000
"""About 15 MB. With more callers at a time, those who asked least recently are forgotten, and may ask anew."""
_ROUNDING: Final = 1e-7
"""Of a difference of seconds: without it, a caller who waited as long as it was told waits again. What is taken too
early is missing afterwards, so it does not add up."""


class TooManyRequestsError(LimitError):
    """The caller has to wait.

    Attributes:
        retry_after_seconds: how long, at least.
    """

    code = "too_many_requests"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(message, remedy=f"Try again in {retry_after_seconds} s.")
        self.retry_after_seconds = retry_after_seconds


@dataclass
class Buckets:
    """Token buckets by name: so many at once after a pause, and then at a steady rate.

    Args:
        per_minute: the rate.
        burst: the most at once.
        now: monotonic seconds.
    """

    per_minute: float
    burst: int
    now: Callable[[], float] = time.monotonic
    # Not a dict: to find its first entry takes longer, the more before it were deleted.
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_seconds(self, name: str, *, take: bool = True) -> int:
        """0 if one more is allowed now, and takes it; otherwise the whole seconds until it is."""
        now = self.now()
        left, at = self._left.get(name, (self.burst, now))
        left = min(float(self.burst), left + (now - at) * self.per_minute / 60)
        wait = 0 if left >= 1 - _ROUNDING else max(1, ceil((1 - left) * 60 / self.per_minute))
        if take:
            if not wait:
                self._left[name] = left - 1, now
            # Also of one who has to wait: a caller who goes on asking is not forgotten.
            self._left.move_to_end(name)
            if len(self._left) > MOST_BUCKETS:
                self._left.popitem(last=False)
        return wait


class CallerLimits:
    """The limits of all callers of a service. The user who started it, known by the local token, has none."""

    def __init__(self, limits: ServiceLimits, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        rate = limits.requests_per_minute
        self._requests = None if rate is None else Buckets(rate, limits.burst, now)
        wrong = limits.failed_logins_per_minute
        self._failed = Buckets(wrong, wrong, now)
        self._open: Counter[str] = Counter()

    def admit(self, caller: Principal) -> str | None:
        """Count a request that begins.

        Returns:
            the name under which it is open, for ``release``; None if it is not counted.

        Raises:
            TooManyRequestsError: the key or its user has to wait.
        """
        # Not by `owner`, which is None for a key without a user too.
        if caller.id == "local":
            return None
        owner = caller.owner
        user = caller.id if owner is None else f"user:{owner.user}\0{owner.project or ''}"
        for name in dict.fromkeys((f"{caller.id}\0{caller.name}", user)):
            if self._requests is not None and (seconds := self._requests.wait_seconds(name)):
                raise TooManyRequestsError("too many requests in a minute", seconds)
        if self._open[user] >= self._limits.open_requests:
            raise TooManyRequestsError(
                f"{self._limits.open_requests} requests of this user are open already", 1
            )
        self._open[user] += 1
        return user

    def release(self, name: str | None) -> None:
        """Count a request that ends."""
        if name is not None:
            self._open[name] -= 1
            # Otherwise the counter would grow with every user.
            if self._open[name] <= 0:
                del self._open[name]

    def check_address(self, address: str) -> None:
        """Check that an address has not sent too many wrong tokens.

        Raises:
            TooManyRequestsError: it has.
        """
        if seconds := self._failed.wait_seconds(address, take=False):
            raise TooManyRequestsError("this address sent too many wrong tokens", seconds)

    def note_failure(self, address: str) -> None:
        """Count a wrong token of an address."""
        self._failed.wait_seconds(address)
