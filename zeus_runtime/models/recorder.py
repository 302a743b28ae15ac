"""A model whose finished calls are written to a cassette."""

from __future__ import annotations

import os
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
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
from zeus_runtime.tools.own_folders import own_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

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
        self._model = ""
        # Open from the first call to the last: a command of the agent may replace the file, or a folder above it, by a
        # link to a file that the agent may not write.
        self._descriptor: int | None = None
        self._close: Callable[[], object] = _nothing

    def begin(self, model: str) -> None:
        """Write the header with the name of the recorded model, if this was not done before.

        Raises:
            CassetteError: the file is a link or cannot be written, or it is no cassette and is not overwritten.
            LinkedFolderError: ``.zeus`` or what follows it in the path is a link.
        """
        self._model = model
        if self._descriptor is not None:
            return
        try:
            self._begin(model)
        except OSError as error:
            self.close()
            why = "it is a link" if self._path.is_symlink() else error.strerror
            raise CassetteError(
                f"the cassette {self._path} cannot be written: {why}",
                remedy="Name another file to record to.",
            ) from error
        except (CassetteError, RunError):
            self.close()
            raise

    def close(self) -> None:
        """Close the file; a call that is recorded later continues it."""
        self._close()
        self._descriptor, self._close, self._previous = None, _nothing, ()

    def _begin(self, model: str) -> None:
        own_path(self._path.absolute()).parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        # A repository can bring a link to any file of the user.
        flags |= getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = descriptor = os.open(self._path, flags, 0o666)
        # Also without `close`, which the caller of a plugin's recorder may not know.
        self._close = weakref.finalize(self, os.close, descriptor)
        if os.fstat(descriptor).st_size:
            cassette_model(self._path)
            # A line that is appended to half a line would be lost with it.
            data = self._path.read_bytes()
            read_cassette(self._path)
            self._require_place(descriptor)
            os.ftruncate(descriptor, data.rfind(b"\n") + 1)
        else:
            _write(descriptor, header(self._secrets.text(model)))

    def _require_place(self, descriptor: int) -> None:
        """Raise unless the path still leads to the open file: otherwise nobody would find the recording."""
        with suppress(OSError):
            if os.path.samestat(self._path.stat(), os.fstat(descriptor)):
                return
        raise RunError(
            f"the cassette {self._path} is another file now: a program replaced or removed it",
            remedy="Record to a file outside of the workspace, or close it to the agent with workspace.access.",
        )

    def append(self, request: ModelRequest, pieces: Sequence[ModelPiece], response: ModelResponse) -> None:
        """Write one finished call.

        Raises:
            RunError: the file cannot be written, or another one has taken its place.
        """
        self.begin(self._model or response.model)
        assert self._descriptor is not None, "`begin` opens it"
        asked = normalised(request)
        pieces = masked_pieces(pieces, self._secrets)
        line = call_line(asked, self._previous, pieces, response, self._secrets.json)
        self._require_place(self._descriptor)
        try:
            _write(self._descriptor, line)
        except OSError as error:
            raise RunError(
                f"the cassette {self._path} cannot be written: {error.strerror}",
                remedy="Make room, or resume with --continue and without --record.",
            ) from error
        # After the line is written: `same` counts against the line before it in the file.
        self._previous = asked["messages"]


def _write(descriptor: int, text: str) -> None:
    with open(descriptor, "ab", closefd=False) as file:
        file.write(text.encode())


def _nothing() -> None:
    """Close no file."""


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
