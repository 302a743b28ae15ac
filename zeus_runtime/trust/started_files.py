"""Find the files that a command starts, as far as its words show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from zeus_runtime.disk_paths import real_path
from zeus_runtime.trust.command_words import MODULE_FLAG
from zeus_runtime.trust.file_content import Named
from zeus_runtime.trust.name_search import MODULE_SUFFIXES

_ENTRIES: Final = ("__main__.*", "main.go", "index.*", "package.json")
"""What Python, Go and JavaScript's runtimes start in a folder that they are given."""


def files_started(found: Sequence[Named], words: Sequence[str], programs: Sequence[Named]) -> list[Path]:
    """The files that a command starts, as far as its words show: the program, and the first file among the arguments.

    A module is the files that Python starts for it, and a folder those that a runtime starts in it. The value of an
    option that is written with ``=`` is not examined.

    Args:
        programs: those that other words and first lines of scripts name.
    """
    program = [*(each for each in found if each.word == 0), *programs]
    named = _arguments(found, words)
    arguments = [each for each in named if not each.path.is_dir()]
    packages = chain.from_iterable(_of_package(each, words) for each in named if each.path.is_dir())
    # The packages around a module are started before it: `tools/__init__.py`, then `tools/server.py`.
    within = [each for each in arguments if each.word == arguments[0].word]
    first = next((each for each in within if each.path.name.partition(".")[0] != "__init__"), None)
    names = {each.name for each in (*within[:1], first) if each is not None}
    started = [
        *(each.path for each in program),
        *(each.path for each in within if each.name in names),
        *packages,
        *chain.from_iterable(_entry_files(each, words) for each in first_argument(found, words)),
    ]
    return [path for each in started for path in (each, Path(real_path(each)))]


def first_argument(found: Sequence[Named], words: Sequence[str]) -> list[Named]:
    """The files and folders that the first argument names that names any: a command may start each of them."""
    named = _arguments(found, words)
    return [each for each in named if each.word == named[0].word]


def _arguments(found: Sequence[Named], words: Sequence[str]) -> list[Named]:
    return [
        each for each in found if 0 < each.word < len(words) and not re.match("-[^=]*=", words[each.word])
    ]


def _entry_files(folder: Named, words: Sequence[str]) -> Iterator[Path]:
    """The files that a runtime starts if it is given the folder: ``python3 tools``, ``node tools``.

    Other programs work in a folder that has ``index.js``, too (``npx server-filesystem site``), so such a name counts
    only where no word before the folder can name another program.
    """
    is_first = all(each.startswith("-") for each in words[1 : folder.word])
    for pattern in _ENTRIES if is_first else _ENTRIES[:2]:
        yield from (each for each in folder.path.glob(pattern) if each.is_file())


def _of_package(folder: Named, words: Sequence[str]) -> Iterator[Path]:
    """The files that Python starts in a folder that a word names as a module: ``tools:app``, ``-m tools``."""
    word, before = words[folder.word], words[folder.word - 1]
    is_module = word.startswith(f"{folder.name}:") or re.fullmatch(MODULE_FLAG, before)
    for stem in ("__init__", "__main__") if is_module else ():
        for suffix in MODULE_SUFFIXES:
            yield folder.path / f"{stem}{suffix}"
