"""A process that dies at its database: nothing is written after a given number of transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zeus_runtime.plugin.checkpointer import Transactions

WRITES = ("run", "write", "outside")


class Died(BaseException):
    """Nothing after this happened."""


class Power:
    """Counts the database's transactions and lets nothing happen after ``lasts`` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lasts = float("inf")
        self.used = 0
        for name in WRITES:
            monkeypatch.setattr(Transactions, name, self._limited(getattr(Transactions, name)))

    def _limited(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def limited(transactions: Transactions[Any], work: Callable[[Any], Any]) -> Any:
            if self.used >= self.lasts:
                raise Died
            self.used += 1
            return await method(transactions, work)

        return limited

    def restore(self, lasts: float = float("inf")) -> None:
        self.lasts, self.used = lasts, 0
