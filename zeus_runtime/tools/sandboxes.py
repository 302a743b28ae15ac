"""The sandbox backends of one plan's components; each is opened once and shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from zeus_runtime.config import Ref
    from zeus_runtime.tools.sandbox import SandboxBackend


class Sandboxes:
    """The open backends, by their Refs.

    Args:
        create: makes a backend from a Ref.
    """

    def __init__(self, create: Callable[[Ref], SandboxBackend]) -> None:
        self._create = create
        self._opened: dict[str, SandboxBackend] = {}

    def open(self, ref: Ref) -> SandboxBackend:
        """The backend that ``ref`` names, the same one each time.

        Raises:
            ConfigError: its options are wrong.
            MissingError: no plugin registers it.
        """
        key = json.dumps([ref.name, ref.options], sort_keys=True, default=str)
        if key not in self._opened:
            self._opened[key] = self._create(ref)
        return self._opened[key]

    @property
    def opened(self) -> Sequence[SandboxBackend]:
        """The open backends, in the order in which they were opened."""
        return tuple(self._opened.values())

    async def remove(self, session: str) -> None:
        """Remove the files and containers of a deleted session from every backend."""
        await all_tried(*(partial(backend.remove, session) for backend in self.opened))

    async def aclose(self) -> None:
        """Close every backend."""
        await all_tried(*(backend.aclose for backend in self.opened))
