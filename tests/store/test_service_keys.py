"""Keys of a service that two processes change at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.errors import UsageError
from zeus_runtime.store import service_keys
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.store.service_keys import ServiceKey, add_key, keys, new_secret, rotate_key


def met(look: Callable[..., Any]) -> Callable[..., Any]:
    """A look at the keys after which each of two waits for the other, unless a lock keeps one from looking."""
    both = threading.Barrier(2)

    def looked(*args: Any) -> Any:
        try:
            return look(*args)
        finally:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.3)

    return looked


async def added(database: Database) -> None:
    number, secret = new_secret()
    await add_key(
        database, ServiceKey(number, "ann", "ann", None, None, ("run",), None, created_ms=1), secret
    )


async def test_a_name_has_one_valid_key_though_two_processes_make_and_rotate_it_at_once(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (Database(database_url, directory=tmp_path) for _ in range(2))
    try:
        await ready(ours)
        with monkeypatch.context() as raced:
            raced.setattr(service_keys, "_refuse_name", met(service_keys._refuse_name))
            made = await asyncio.gather(added(ours), added(theirs), return_exceptions=True)
        assert sorted(map(type, made), key=str) == [type(None), UsageError]
        with monkeypatch.context() as raced:
            raced.setattr(service_keys, "_named", met(service_keys._named))
            rotations = (
                rotate_key(each, "ann", now_ms, overlap_ms=0, expires_ms=None)
                for each, now_ms in ((ours, 2), (theirs, 3))
            )
            await asyncio.gather(*rotations)
        assert [each.state(3) for each in await keys(ours)].count("valid") == 1
    finally:
        await ours.close()
        await theirs.close()
