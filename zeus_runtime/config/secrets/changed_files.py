"""The secrets in files that a config was read from, as they are now: a running agent keeps what it read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.config.layers.dotenv import parse_dotenv
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.config.secrets.parts import places_secret, secrets_in
from zeus_runtime.config.secrets.unloaded_configs import file_text, written_in
from zeus_runtime.config.secrets.written_secrets import secrets_of_key_file
from zeus_runtime.disk_paths import expanded, is_file

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document


class _State(NamedTuple):
    inode: int
    size: int
    changed_ns: int


class ChangedFiles:
    """Learns the secrets of the config's files that are other ones than those that the config was read from."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._seen: dict[Path, _State | None] = {}

    def learn(self, redactor: Redactor) -> None:
        """Let ``redactor`` mask the secrets of each file that changed since the last look; the first looks at all."""
        for file in dict.fromkeys(chain(self._document.files.values(), self._document.further)):
            # First its state: a change while it is read is found by the next look.
            state = _state(file)
            if self._seen.get(file) == state:
                continue
            self._seen[file] = state
            if state is not None:
                redactor.learn_all(Redactor().adding(dict(_secrets_of(file, self._document))))


def key_files(document: Document) -> Mapping[Path, str]:
    """The files from which libraries read keys, each with the variable that names it, or empty if the config does."""
    found = {document.directory / each.text: "" for each in document.marked if each.may_name_file}
    for name, value in document.environ.items():
        if places_secret(name):
            found[document.directory / expanded(value)] = name
    return {file: name for file, name in found.items() if is_file(file)}


def _secrets_of(file: Path, document: Document) -> Iterator[tuple[str, str]]:
    name = next((name for name, each in document.files.items() if each == file), None)
    text = file_text(file)
    if text is None or (name is not None and text == document.sources.texts.get(name)):
        return
    if file.name == ".env":
        try:
            variables = parse_dotenv(text, ".env")
        except ConfigError:
            return  # the next process that reads the config tells of it
        yield from ((secret, name) for name, value in variables for secret in secrets_in(name, value))
    elif name is None:
        yield from secrets_of_key_file(
            file, document.environ, variable=key_files(document).get(file, "")
        ).items()
    else:
        yield from ((secret, f"{file.name}/{place}") for secret, place in (written_in(text) or {}).items())


def _state(file: Path) -> _State | None:
    try:
        found = file.stat()
    except OSError:
        return None
    # A pipe would wait for its writer.
    return _State(found.st_ino, found.st_size, found.st_mtime_ns) if S_ISREG(found.st_mode) else None
