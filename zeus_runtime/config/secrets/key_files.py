"""Find the files with secrets that a named value, an address or a command names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from zeus_runtime.config.secrets.connection_strings import QUERY, URL_START, settings_in
from zeus_runtime.config.secrets.running_text import FLAG, is_lone_key, shell_words
from zeus_runtime.config.secrets.secret_names import is_command, names_command, places_secret

SOURCED: Final = "SOURCED_ENV_FILE"
"""The name of a file from which a command has its shell read variables."""
_SOURCING: Final = (
    r"""(?:\A|[;&|({\n"'!]|\b(?:if|then|elif|else|while|until|do)\s)\s*(?:\.|source)\s+"""
    r"""(?:"([^"]+)"|'([^']+)'|([^\s;&|<>()"']+))"""
)
"""Where a shell begins a command, or a further shell's text does; elsewhere a `.` is a folder."""


def key_files(name: str, value: str) -> Iterator[tuple[str, str]]:
    """The files with secrets that a named value names, there or not, each behind the name that says so.

    It is the whole value (``PGPASSFILE``), or in an address or a connection string the value of a parameter:
    ``postgresql://db/shop?passfile=/run/pgpass``.
    """
    from urllib.parse import unquote

    if places_secret(name):
        yield name, value
    text = value.strip()
    if "=" not in text:
        return
    is_address = re.fullmatch(rf"{URL_START}\S+", text)
    parameters = re.findall(QUERY, text) if is_address else ()
    for key, file in (*((key, unquote(each)) for key, each in parameters), *settings_in(text)):
        if places_secret(key) and not is_lone_key(key):
            yield key, file


def key_files_of_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files with secrets that the flags in a list of words name: ``--token-file FILE``, ``--token-file=FILE``; in a
    word that is a command (``sh -c '…'``) also a word alone, such as ``TOKEN_FILE=FILE``, and ``. FILE``."""
    for flag, word in pairwise(["", *words]):
        before = re.fullmatch(FLAG, flag)
        joined = re.fullmatch(f"{FLAG}=(.+)", word)
        named = joined.groups() if joined else (before[1], word) if before else None
        if named is not None:
            name, value = named
            yield from key_files("" if is_lone_key(name) else name, value)
        yield from ((SOURCED, "".join(groups)) for groups in re.findall(_SOURCING, word))
        if is_command("args", word):
            # Each is shorter, so this ends.
            inner = [each for each in shell_words(word) if each != word]
            yield from (found for each in inner for found in key_files("", each))
            yield from key_files_of_words(inner)


def key_files_of_entry(name: str, value: str, *, is_variable: bool) -> Iterator[tuple[str, str]]:
    """The files with secrets that an entry of a config names; its name counts as that of a variable, unless it is a
    lone ``key`` of something else."""
    yield from key_files("" if is_lone_key(name) and not is_variable else name, value)
    if names_command(name):
        yield from key_files_of_words([value])
