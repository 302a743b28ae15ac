"""``.env`` files: ``NAME=value`` lines for what the process environment does not set.

Comments, ``export``, single quotes (as they are), double quotes (``\\n``, ``\\t``, ``\\"``, ``\\\\``, ``\\$``; may span
lines) and ``# comment`` after an unquoted value. Variables are not interpolated: a ``$`` is a ``$``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zeus_runtime.config.layers.dotenv_lines import entry_at
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.yaml.reader import decode
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Mark
from zeus_runtime.disk_paths import is_file
from zeus_runtime.proc_files import opened


def is_dotenv(path: Path) -> bool:
    """Whether there is a file, or a pipe, which ``read_dotenv`` refuses; a folder or a device is passed over."""
    return is_file(path) or _is_pipe(path)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except (OSError, ValueError):
        return False


def read_dotenv(path: Path, name: str) -> Sequence[tuple[str, str]]:
    """The names and values in a ``.env``; none if there is no such file.

    Args:
        name: of the file in an error.

    Raises:
        ConfigError: it is a pipe, it cannot be read, or it is not sound.
    """
    if not is_dotenv(path):
        return ()
    if _is_pipe(path):
        # What one reader takes of it is lost for the others, and before each run Zeus would read it again.
        hint = "put a file in its place, or move it away and pass its variables in the environment"
        raise _unreadable(name, "it is a pipe", hint)
    try:
        with opened(path) as stream:
            data = stream.read()
    except OSError as error:
        raise _unreadable(name, error.strerror, "make it readable, or remove it") from None
    return parse_dotenv(decode(data, name), name)


def _unreadable(name: str, reason: str | None, hint: str) -> ConfigError:
    message = f"{name} cannot be read: {reason}"
    return ConfigError([Sources().diagnostic("unreadable-file", message, None, hint=hint)])


def parse_dotenv(text: str, source: str) -> list[tuple[str, str]]:
    """The names and values of a ``.env`` text, as they are written; of a name written twice the last one counts.

    Raises:
        ConfigError: a line has none of these forms. The error gives its number only, because it may hold a secret.
    """
    variables: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        if (entry := entry_at(text, position)) is None:
            line = text.count("\n", 0, position) + 1
            message = "the line is not NAME=value"
            hint = "write NAME=value, and put a value that holds quotes or spaces and `#` in quotes"
            raise ConfigError([Sources().diagnostic("bad-dotenv", message, Mark(source, line, 1), hint=hint)])
        name, value, position = entry
        if name:
            variables.append((name, value))
    return variables
