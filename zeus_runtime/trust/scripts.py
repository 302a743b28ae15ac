"""Read what a script says of other programs: the words behind ``#!``, and its text."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from zeus_runtime.trust.file_content import mode_and_size

_LONGEST_FIRST: Final = 512
"""Bytes of a script's first line that a system reads at most."""
_LONGEST_SCRIPT: Final = 1 << 18
"""Bytes of a script that is searched for package runners."""


def interpreter(file: Path) -> Sequence[str]:
    """The words behind ``#!`` in a script, in each way that they may be split; empty for any other file."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return ()
        with file.open("rb") as script:
            line = script.readline(_LONGEST_FIRST)
    except OSError:
        return ()
    if not line.startswith(b"#!"):
        return ()
    # A kernel ends the program's name at these bytes only, and what follows is one argument; `env -S` splits at others.
    said = line.removeprefix(b"#!").strip(b" \t\r\n")
    ways = re.split(rb"[ \t\0\n]+", said, maxsplit=1), re.split(rb"[ \t\0\n]+", said), said.split()
    return tuple(dict.fromkeys([*map(os.fsdecode, chain.from_iterable(ways)), *os.fsdecode(said).split()]))


def linked_by_script(file: Path) -> Iterator[Path]:
    """The files that a script of a package manager starts, which pnpm writes instead of a link.

    It says them as ``"$basedir/../@shop/mcp/cli.js"``, where ``basedir`` is the script's folder.
    """
    for text in script_text(file):
        yield from (file.parent / each for each in re.findall(r'"\$basedir/(\.\./[^"\n]+)"', text))


def script_text(file: Path) -> Iterator[str]:
    """The text of a script, which may start what no word of the command names (``exec npx notes-server``)."""
    try:
        mode, size = mode_and_size(file)
        content = file.read_bytes() if stat.S_ISREG(mode) and size <= _LONGEST_SCRIPT else b"\0"
    except OSError:
        return
    if b"\0" not in content:  # no program for a machine
        yield os.fsdecode(content)
