"""Python's compiled files of programs that Zeus starts: in a folder of the user, and none beside the sources is used.

Only a time and a size bind a compiled file to its source, so whoever writes files can forge one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from zeus_runtime.disk_paths import is_private
from zeus_runtime.trust.decision import records_folder

_PREFIX: Final = "PYTHONPYCACHEPREFIX"
"""Python looks for compiled files below this folder only, unless ``-E`` or ``-I`` hides its variables from it."""


def compiled_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder for compiled files, beside the user's permissions; None for a process without a home.

    Args:
        environ: the environment of the process itself.
    """
    records = records_folder(environ)
    return None if records is None or not records.is_absolute() else records.with_name("pycache")


def compiled_apart(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a program uses no compiled files beside sources; the folder is made if missing.

    Args:
        environ: the environment of the process itself.
    """
    folder = compiled_folder(environ)
    # Below a file there is no compiled file, and none can be made.
    return {_PREFIX: os.devnull if folder is None or not _is_private(folder) else str(folder)}


def are_compiled_apart(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the words of a command start a Python that uses no compiled files beside sources.

    Args:
        words: the program and its arguments.
        env: the variables that the config gives it.
    """
    program, *arguments = words
    is_python = re.fullmatch(r"python[\d.]*", os.path.basename(program)) is not None  # noqa: PTH119
    is_told = _PREFIX in env or any(
        re.match("-[A-Za-z]*[EI]", each) or "pycache_prefix" in each for each in arguments
    )
    return is_python and not is_told


def _is_private(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return is_private(folder)
    except OSError:
        return False
