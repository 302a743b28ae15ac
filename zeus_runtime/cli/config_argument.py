"""Which word of a command line is the config, and which is the prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.cli.completion import presets
from zeus_runtime.cli.streams import complain, is_terminal
from zeus_runtime.command_lines import name_config
from zeus_runtime.escaping import shell_line

if TYPE_CHECKING:
    from zeus_runtime.cli.options import ConfigArgs

_DEFAULT: Final = "zeus.yaml"


def config_and_prompt(
    which: ConfigArgs, prompt: str | None, directory: Path, *, quiet: bool
) -> tuple[ConfigArgs, str | None]:
    """The config and the prompt of ``[CONFIG] [PROMPT]``.

    A note tells a person at a terminal that a config has the name of the prompt.

    Args:
        which: with the first word as the config.
        prompt: the second word.
        directory: the working directory.
        quiet: without the note.
    """
    if which.config is None or prompt is not None or is_config(which.config, directory, presets):
        return which, prompt
    word = which.config
    is_twin = (
        (directory / _DEFAULT).exists() and _is_there(directory, word) and _is_written_as_file(f"./{word}")
    )
    if is_twin and not quiet and is_terminal(sys.stderr):
        complain(
            f"note: this is the prompt; the config of this name is `{shell_line(f'./{word}')}`", "yellow"
        )
    name_config(None, which.laid_over)
    return replace(which, config=None), word


def is_config(word: str, directory: Path, presets: Callable[[], Collection[str]]) -> bool:
    """Whether a single word is the config, and not the prompt.

    It is the config if it is ``-``, is written as a file, or is a preset's name. Other words are the prompt if the
    folder has a ``zeus.yaml``, whatever else is in it: an agent may make a file with the name of the next prompt.
    Without a ``zeus.yaml``, they are the config if they have no spaces, or are a file or a folder with a config.

    Args:
        directory: the working directory.
        presets: gives the names of the presets.
    """
    if word == "-" or not word.strip() or _is_written_as_file(word) or word in presets():
        return True
    return not (directory / _DEFAULT).exists() and (not _has_spaces(word) or _is_there(directory, word))


def _is_written_as_file(word: str) -> bool:
    has_ending = word.endswith((".yaml", ".yml"))
    if _has_spaces(word):
        return has_ending and word.startswith(("./", "../", "/"))
    return has_ending or "/" in word or "\\" in word


def _has_spaces(word: str) -> bool:
    return any(char.isspace() for char in word)


def _is_there(directory: Path, name: str) -> bool:
    try:
        return (directory / name).is_file() or (directory / name / _DEFAULT).exists()
    except (OSError, ValueError):
        return False
