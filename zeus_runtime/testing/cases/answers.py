"""Where the answers of a run come from: models, models that are recorded, or a recording."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from zeus_runtime.models.cassette import (
    Cassette,
    CassetteError,
    cassette_model,
    read_cassette,
    recorded_answer,
)
from zeus_runtime.models.errors import ModelError

if TYPE_CHECKING:
    from zeus_runtime.config import Ref
    from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest
    from zeus_runtime.plan.plan import Plan

Source: TypeAlias = Literal["live", "record", "replay"]

AGAIN = "Record it again with `zeus eval FILE --record`, which asks the models."


class RecordedModel:
    """Answers from a recording. A request that was not recorded is an error; no model is asked.

    Args:
        path: the cassette.
        name: the model that it stands for, whose prices count; None for the recorded one.
        cassette: its content, if it is read already.

    Raises:
        CassetteError: the file is missing, or is not a cassette.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._path = path
        try:
            self._name = name or cassette_model(path)
        except CassetteError as error:
            raise CassetteError(error.message, remedy=AGAIN, where=error.where) from None

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def _cassette(self) -> Cassette:
        return read_cassette(self._path)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        try:
            pieces = [*recorded_answer(self._cassette, request)]
        except ModelError as error:
            error.remedy = AGAIN
            raise
        for piece in pieces:
            yield piece


def replaying(plan: Plan, path: Path) -> Plan:
    """A plan whose middlewares, and those of its sub-agents, get recorded answers from the models that they open."""

    def opened(ref: str | Ref) -> Model:
        named = ref if isinstance(ref, str) else ref.options.get("model")
        return RecordedModel(path, named if isinstance(named, str) else None)

    agents = {name: replace(each, plan=replaying(each.plan, path)) for name, each in plan.agents.items()}
    return replace(plan, open_model=opened, agents=agents)
