"""A model whose finished calls are written to a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeus_runtime.errors import RunError
from zeus_runtime.models.cassette import (
    CassetteError,
    call_line,
    cassette_model,
    header,
    normalised,
    read_cassette,
)
from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest, ModelResponse, Retrying
from zeus_runtime.models.masking import masked_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from zeus_runtime.config.secrets.masking import Redactor


class Tape:
    """A cassette that is recorded, for all models that write to it.

    An existing cassette is continued, so a resumed run completes its recording.

    Args:
        path: the cassette; its folder is made.
        secrets: the secrets that are masked.
    """

    def __init__(self, path: Path, secrets: Redactor) -> None:
        self._path = path
        self._secrets = secrets
        # Of the last line, whichever model wrote it: a line counts the messages that it shares with the one before.
        self._previous: Sequence[Any] = ()
        self._has_begun = False

    def begin(self, model: str) -> None:
        """Write the header with the name of the recorded model, if this was not done before.

        Raises:
            CassetteError: the file cannot be written, or exists and is not a cassette: it is not overwritten.
        """
        if self._has_begun:
            return
        try:
            self._begin(model)
        except OSError as error:
            raise CassetteError(
                f"the cassette {self._path} cannot be written: {error.strerror}",
                remedy="Name another file to record to.",
            ) from error
        self._has_begun = True

    def _begin(self, model: str) -> None:
        if self._path.exists() and self._path.stat().st_size:
            cassette_model(self._path)
            # A line that is appended to half a line would be lost with it.
            self._end_last_line()
            read_cassette(self._path)
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(header(self._secrets.text(model)), "utf-8")

    def _end_last_line(self) -> None:
        """Cut off a line that a killed recording left unfinished."""
        with self._path.open("rb+") as file:
            data = file.read()
            file.truncate(data.rfind(b"\n") + 1)

    def append(self, request: ModelRequest, pieces: Sequence[ModelPiece], response: ModelResponse) -> None:
        """Write one finished call.

        Raises:
            RunError: the file cannot be written.
        """
        asked = normalised(request)
        pieces = masked_pieces(pieces, self._secrets)
        line = call_line(asked, self._previous, pieces, response, self._secrets.json)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise RunError(
                f"the cassette {self._path} cannot be written: {error.strerror}",
                remedy="Make room, or resume with --continue and without --record.",
            ) from error
        # After the line is written: `same` counts against the line before it in the file.
        self._previous = asked["messages"]


class Recorder:
    """``model``, each of its finished calls appended to a tape before its response is handed on.

    Failed and cancelled calls are not recorded; of a retried call, the pieces before the failure are not recorded
    either.

    Args:
        model: any model.
        tape: the recording.

    Raises:
        CassetteError: as ``Tape.begin``.
    """

    def __init__(self, model: Model, tape: Tape) -> None:
        self._model = model
        self._tape = tape
        tape.begin(model.name)

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        pieces: list[ModelPiece] = []
        stream: AsyncGenerator[ModelPiece, None] = self._model.stream(request)  # type: ignore[assignment]
        async with aclosing(stream) as source:
            async for piece in source:
                if isinstance(piece, ModelResponse):
                    # Before the response is passed on, after which the caller may close this generator.
                    self._tape.append(request, pieces, piece)
                elif isinstance(piece, Retrying):
                    pieces.clear()
                else:
                    pieces.append(piece)
                yield piece
