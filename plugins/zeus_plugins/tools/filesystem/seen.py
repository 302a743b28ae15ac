"""Whether a file is still as the model knows it: as it read it last, or wrote it itself.

The session's log has a digest of each file that the model read or wrote (``ToolResult.state``), so that this also holds
after a resume. The results of calls of the same answer may not be there yet, so their digests are kept in memory too.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from zeus_runtime.plugin import printable
from zeus_runtime.plugin.files import WorkspaceError, WorkspaceFiles
from zeus_runtime.plugin.tool import ToolRun

_MOST_ANSWERS: Final = 256
_DIGITS: Final = 4


class SeenFiles:
    """The digests of the files that sessions know.

    Args:
        files: the workspace.
        max_bytes: larger files are not compared; the tools cannot change them.
    """

    def __init__(self, files: WorkspaceFiles, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._files = files
        self._lock = Lock()
        # A count for each digest: a call takes back its own note and leaves that of another one with the same content.
        self._written: OrderedDict[tuple[str, int], dict[str, Counter[str]]] = OrderedDict()

    def state(self, path: str, data: bytes) -> dict[str, Any]:
        """What a result stores, so that later calls know the file's content."""
        return {self.name(path): digest_of(data)}

    @contextmanager
    def writing(self, path: str, data: bytes, run: ToolRun) -> Iterator[None]:
        """Note this content as written; inside the block a call writes it. If that fails, the note is taken back."""
        digest, key, name = digest_of(data), (run.session, run.answer), self.name(path)
        with self._lock:
            self._written.setdefault(key, {}).setdefault(name, Counter())[digest] += 1
            self._written.move_to_end(key)
            while len(self._written) > _MOST_ANSWERS:
                self._written.popitem(last=False)
        try:
            yield
        except BaseException:
            with self._lock:
                # The answer's notes may be gone by now: only those of the last answers are kept.
                self._written.get(key, {}).get(name, Counter())[digest] -= 1
            raise

    def refuse_changed(self, path: str, data: bytes, run: ToolRun) -> None:
        """Refuse to change a file that somebody else has changed since the model knew its content.

        Raises:
            WorkspaceError: its content is another one.
        """
        name = self.name(path)
        known = run.state(name)
        if known is None:
            return
        with self._lock:
            # More than one: calls of one answer run at once, and each may have found what any other one wrote.
            written = +self._written.get((run.session, run.answer), {}).get(name, Counter())
        # An earlier Zeus kept more of the same digits.
        if digest_of(data) not in {known[:_DIGITS], *written}:
            raise WorkspaceError(
                f"{printable(self._files.normalize(path))} was changed after you last read or wrote it, by the user or"
                " a program; nothing was changed.",
                remedy="Read it again, then make your change in its present text.",
            )

    def name(self, path: str) -> str:
        """The name of the state of a file."""
        return f"file:{self._files.normalize(path)}"


def digest_of(data: bytes) -> str:
    """16 bits of a digest of a file's bytes: enough to see a change, and too few to find a secret in it by guesses."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()[:_DIGITS]
