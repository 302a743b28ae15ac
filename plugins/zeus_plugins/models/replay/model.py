"""Replays a recorded run: every request gets the answer recorded for it, or a clear error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_plugins.models.replay.options import Options
from zeus_runtime.plugin.model import (
    Cassette,
    ModelPiece,
    ModelRequest,
    cassette_model,
    read_cassette,
    recorded_answer,
)

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext


def create(options: Options, context: PlanContext) -> ReplayModel:
    """Create the model.

    Raises:
        CassetteError: the file does not exist, or is not a cassette.
    """
    return ReplayModel(context.directory / options.cassette, options)


class ReplayModel:
    """Replays a cassette. It keeps no position: the conversation determines the recorded call.

    Args:
        path: the cassette.
        options: the options from the YAML.
    """

    def __init__(self, path: Path, options: Options) -> None:
        self._path = path
        self._options = options
        self._name = cassette_model(path)

    @property
    def name(self) -> str:
        """The recorded model's name."""
        return self._name

    @cached_property
    def _cassette(self) -> Cassette:
        # At the first call: a plan makes the model too, and only its name is needed there.
        return read_cassette(self._path)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        for piece in recorded_answer(self._cassette, request, self._options.match):
            if self._options.pause_seconds:
                from asyncio import sleep

                await sleep(self._options.pause_seconds)
            yield piece
