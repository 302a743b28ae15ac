"""The config's own instructions: the text of ``instructions:``, or of the file that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.prompt.files import UnusableFileError, read_text

if TYPE_CHECKING:
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.config.model import InstructionsFile

_TITLE: Final = "# Your instructions"


def instructions_text(
    written: str | InstructionsFile | None, *, diagnostic: Callable[..., Diagnostic]
) -> str:
    """The instructions as plain text, in which nothing is replaced. Empty without instructions.

    Args:
        written: ``instructions`` of the config, with the absolute path of a file.
        diagnostic: makes an error from (code, message, path, hint) with its position in the YAML.

    Raises:
        ConfigError: the text is blank, or the file cannot be read as text.
    """
    if written is None:
        return ""
    key: tuple[str, ...] = ("instructions",)
    try:
        if isinstance(written, str):
            text = written
        else:
            key = ("instructions", "file")
            text = read_text(Path(written.file), called="instructions file", key="instructions.file")
        if not text.strip():
            raise UnusableFileError(
                "empty-instructions",
                "the instructions are empty",
                "write the agent's task and rules, or remove the key",
            )
    except UnusableFileError as reason:
        from zeus_runtime.config.messages.diagnostics import ConfigError

        raise ConfigError([diagnostic(reason.code, reason.message, key, hint=reason.hint)]) from None
    return text.strip()


def with_instructions(core: str, instructions: str) -> str:
    """Section 1 with the instructions below the text of its file."""
    if not instructions:
        return core
    return "\n\n".join(part for part in (core.strip(), f"{_TITLE}\n\n{instructions}") if part)
