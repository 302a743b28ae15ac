"""Commands of ``zeus`` that a user may copy into a shell."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from zeus_runtime.cutting import mask_known
from zeus_runtime.escaping import shell_line, shell_word

HIDDEN_VALUE: Final = "…"
"""Stands for the value of a ``--set`` that a command does not show; a person writes it in its place."""

_NOTE: Final = f"with your value for {HIDDEN_VALUE}"
_CONFIG: Final[ContextVar[tuple[str | None, Sequence[str]]]] = ContextVar("config", default=(None, ()))


def name_config(config: str | None, laid_over: Sequence[str]) -> None:
    """Set what names the config of this process's command line, until the present context ends.

    Args:
        config: a file or a preset's name; None for ``zeus.yaml``.
        laid_over: the options ``--env`` and ``--set`` with their values.
    """
    _CONFIG.set((config, tuple(laid_over)))


def zeus_command(*words: str, is_argument: bool = False) -> str:
    """A command of ``zeus`` for a shell, with the words that name the config of this process's command line.

    Args:
        words: those behind ``zeus``, of a command that has the options ``--env`` and ``--set``.
        is_argument: whether the command takes the config as an argument, the last one; else as the option ``--config``.
    """
    return command_for(*_CONFIG.get(), *words, is_argument=is_argument)


def command_for(config: str | None, laid_over: Sequence[str], *words: str, is_argument: bool = False) -> str:
    """``zeus_command`` with these words for the config, as in ``name_config``."""
    laid_over = [_shown(word) for word in laid_over]
    if not is_argument:
        return shell_line("zeus", *words, *([] if config is None else ["--config", config]), *laid_over)
    # Before the options, as a person writes it.
    place = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    named = [] if config is None else [config]
    return shell_line("zeus", *words[:place], *named, *laid_over, *words[place:])


def completing(words: Sequence[str]) -> str:
    """What a message says behind a command with these words: how a person completes it; empty if it is complete."""
    return f", {_NOTE}" if any(map(_is_open, words)) else ""


def completed(message: str) -> str:
    """A message that says how to complete the commands of ``zeus_command`` in it."""
    words = [_shown(word) for word in _CONFIG.get()[1]]
    is_open = any(_is_open(word) and shell_word(word) in message for word in words)
    return f"{message}\n  {_NOTE}" if is_open and _NOTE not in message else message


def _shown(word: str) -> str:
    """The word of a command, without a value that is a secret.

    Some are known to be one only once the config is read, which comes after ``name_config``.
    """
    name, sign, _ = word.partition("=")
    return f"{name}={HIDDEN_VALUE}" if sign and mask_known(word) != word else word


def _is_open(word: str) -> bool:
    return word.endswith(f"={HIDDEN_VALUE}")
