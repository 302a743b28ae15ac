"""What the placeholders of a session stand for, so that a run sees which of them mean another value than before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

KEPT: Final = "placeholders"
"""In place of a digest: the session's text with its salt and the digest of each name's value, as JSON."""
_CHANGED: Final = ""
"""In place of the digest of a name that stood for several values; it stays so for the session."""
_BYTES: Final = 2
"""Of a digest: enough to see a change, and too few to find the value by guesses."""


async def changed_names(log: ThreadLog, thread: Thread, secrets: Redactor) -> Set[str]:
    """The names in placeholders that stood for other values earlier in the session; the present values are noted."""
    values = secrets.named_values()
    if not values:
        return frozenset()
    stored = (await log.texts(thread, [KEPT])).get(KEPT)
    kept: dict[str, Any] = {"salt": token_hex(8), "names": {}} if stored is None else json.loads(stored)
    names = _compared(kept["names"], values, bytes.fromhex(kept["salt"]))
    if names != kept["names"]:
        from zeus_runtime.store.kept_texts import keep_text

        # Before the model is asked: what it reads in this run, it may write in another process.
        await keep_text(log, thread, KEPT, json.dumps(kept | {"names": names}))
    return frozenset(name for name, digest in names.items() if digest == _CHANGED)


def _compared(former: Mapping[str, str], values: Mapping[str, str], salt: bytes) -> Mapping[str, str]:
    digests = {name: _digest(value, salt) for name, value in values.items()}
    return {
        **former,
        **{name: _CHANGED if former.get(name, each) != each else each for name, each in digests.items()},
    }


def _digest(value: str, salt: bytes) -> str:
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=salt).hexdigest()
