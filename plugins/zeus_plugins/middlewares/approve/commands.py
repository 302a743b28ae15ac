"""The commands of a call, and the patterns that they match. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from zeus_plugins.middlewares.approve.shell_lines import NotClearError, SimpleCommand, Word, commands_in

NOT_CLEAR: Final = SimpleCommand(())
"""Any command."""
# Splits `--to-command='rm a'` into `--to-command=`, `rm` and `a`; a path or a `*` stays whole.
_BETWEEN: Final = re.compile(r"""[\s;&|()<>`$"'{}\\!]+""")
"""What may separate words in a text that some program runs."""


@lru_cache(maxsize=256)
def _commands_in(line: str) -> tuple[SimpleCommand, ...]:
    try:
        return commands_in(line)
    except NotClearError:
        return (NOT_CLEAR,)


def commands_of(given: str | Sequence[str]) -> tuple[SimpleCommand, ...]:
    """Return the commands that a shell runs for a text, or the one whose words run without a shell."""
    return _commands_in(given) if isinstance(given, str) else (SimpleCommand(tuple(map(str, given))),)


def matches(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command certainly is what a pattern means: each word fits, and it does nothing besides.

    The patterns of the words are those of ``fnmatch``. A ``*`` as the last word stands for any further words, alone for
    any command.
    """
    # Nothing computed, no redirection, no variable: an `allow` rule must not let pass what it does not name.
    return bool(command.words) and command.is_plain and _fit(_words_of(pattern), command.words, surely=True)


def is_meant(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command is what a pattern means, whatever else it does; its program may be named by a path."""
    if not command.words:
        return False
    wanted = _words_of(pattern)
    first, *rest = command.words
    named = first if first is None or "/" in wanted[0] else os.path.basename(first)  # noqa: PTH119 - no path of here
    return _fit(wanted, (named, *rest), surely=False)


def may_run(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command may run what a pattern means: what its program gets may name another program.

    Such as `env rm`, `sh -c 'rm a'`, `PAGER='rm a' man`, `tar --to-command='rm a'`, or a here-document for `sh`.
    """
    if not command.words or None in command.texts:
        return True
    # From each word on: `sudo -u me rm a` runs `rm a`, and which options a program has is not known.
    if any(is_meant(pattern, SimpleCommand(command.words[place:])) for place in range(len(command.words))):
        return True
    size = len(_words_of(pattern))
    return any(
        is_meant(pattern, SimpleCommand((first, *inner[at + 1 : at + size])))
        for text in (*command.words[1:], *command.texts)
        for inner in [tuple(filter(None, _BETWEEN.split(text or "")))]
        for at, word in enumerate(inner)
        for first in {word, word.rpartition("=")[2]} - {""}
    )


def is_command_pattern(pattern: str) -> bool:
    """Whether a pattern has words: closed quotes, and at least one word."""
    try:
        return bool(shlex.split(pattern))
    except ValueError:
        return False


@lru_cache(maxsize=1_000)
def _words_of(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return (pattern,)


def _fit(wanted: Sequence[str], words: Sequence[Word], *, surely: bool) -> bool:
    if wanted[-1] == "*":
        # `git *` fits `git` and any number of further words.
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    if not surely and None in words:
        # A computed word may be several words or none.
        at = words.index(None)
        wanted, words = wanted[:at], words[:at]
    return len(wanted) == len(words) and all(
        not surely if word is None else fnmatchcase(word, pattern)
        for pattern, word in zip(wanted, words, strict=True)
    )
