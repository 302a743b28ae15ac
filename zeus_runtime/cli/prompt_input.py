"""Prompts from the user: with editing and history where readline is at a terminal, plain where they are piped in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final, Self

from zeus_runtime.cli.streams import complain, is_terminal
from zeus_runtime.cli.typed_lines import typed_line
from zeus_runtime.disk_paths import state_folder
from zeus_runtime.errors import UsageError

MOST_REMEMBERED: Final = 1000

MAX_INPUT: Final = 50_000_000
"""Bytes of piped input, or characters of one line of it: input that never ends would take all the memory."""


class PromptInput:
    """Reads prompts; use it as a context manager, so that the history is kept.

    Args:
        environ: ``XDG_STATE_HOME`` or ``HOME`` say where the history file is.
        hides: whether a line holds a secret, so that the file does not keep it.
    """

    def __init__(self, environ: Mapping[str, str], hides: Callable[[str], bool]) -> None:
        self._hides = hides
        self.interactive = is_terminal(sys.stdin)
        self._edited = self.interactive and is_terminal(sys.stdout)
        self._file = history_file(environ)
        self._readline: ModuleType | None = None

    def __enter__(self) -> Self:
        if self._edited:
            with suppress(ImportError):
                import readline

                self._readline = readline
                # Python turns it off: pasted lines would be sent one by one.
                readline.parse_and_bind("set enable-bracketed-paste on")
        if self._readline is not None and self._file is not None:
            self._readline.set_history_length(MOST_REMEMBERED)
            with suppress(OSError):
                self._readline.read_history_file(self._file)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._readline is None or self._file is None:
            return
        # A history that cannot be kept is no reason to end a conversation with an error.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=0o600)
            self._forget_secrets(self._readline)
            self._readline.write_history_file(self._file)

    def _forget_secrets(self, readline: ModuleType) -> None:
        # Lines count from 1 here, and from 0 there.
        for place in range(readline.get_current_history_length(), 0, -1):
            if self._hides(readline.get_history_item(place) or ""):
                readline.remove_history_item(place - 1)

    def read(self, prompt: str) -> str | None:
        """The next prompt, lines that end with a backslash joined; None at the end of input.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        parts: list[str] = []
        while (line := self._line("... " if parts else prompt)) is not None:
            if not line.endswith("\\"):
                return "\n".join([*parts, line]).strip()
            parts.append(line[:-1])
        return "\n".join(parts).strip() if parts else None

    def _line(self, prompt: str) -> str | None:
        if self._readline is not None:
            try:
                return input(prompt)
            except EOFError:
                complain("")
                return None
        if self.interactive:
            return typed_line(prompt, forget=False)
        line = sys.stdin.readline(MAX_INPUT + 1)
        if len(line) > MAX_INPUT:
            raise UsageError(
                f"a line has more than {MAX_INPUT:,} characters, which is too long for a prompt",
                remedy="Attach the file (--attach), or name it in the prompt as @path.",
            )
        return line.rstrip("\n") if line else None


def history_file(environ: Mapping[str, str]) -> Path | None:
    """Where prompts are remembered: the XDG state folder; None where the user has no home."""
    state = state_folder(environ)
    return None if state is None else state / "chat_history"
