"""Piped text, and its form in a prompt."""

from __future__ import annotations

import os
import re
import select
import stat
import sys
from contextlib import suppress
from typing import Final

from zeus_runtime.errors import UsageError

PATIENCE_SECONDS: Final = 3.0
"""How long to wait for a silent pipe that may have no writer: of a service, a CI job or ``ssh`` without a terminal."""

# Takes the `<` of `</stdin>`, `</ STDIN >` and `</stdin x`, which a model could read as the block's end.
_END: Final = re.compile(r"<(?=/\s*stdin\b)", re.IGNORECASE)


def read_piped() -> str:
    """All of standard input as text, without the blanks around it.

    Raises:
        UsageError: it is too long, or no text.
    """
    from zeus_runtime.cli.prompt_input import MAX_INPUT

    # One byte more than the limit shows that the input is too long.
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    remedy = "Attach the file (--attach FILE), or name it in the prompt as @path."
    if len(data) > MAX_INPUT:
        raise UsageError(
            f"standard input has more than {MAX_INPUT:,} bytes, which is too long for a prompt", remedy=remedy
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})", remedy=remedy) from None
    if "\0" in text:
        raise UsageError("standard input is binary data: it has NUL characters", remedy=remedy)
    return text.strip()


def is_silent() -> bool:
    """Whether standard input is a pipe on which nothing comes for a while, not even its end."""
    with suppress(OSError, ValueError):
        descriptor = sys.stdin.fileno()
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            ready, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
            return not ready
    return False


def with_piped(prompt: str, piped: str) -> str:
    """The prompt, and behind it what was piped in, in a block that nothing in it can end."""
    return f"{prompt}\n\n<stdin>\n{_END.sub('&lt;', piped)}\n</stdin>" if piped else prompt
