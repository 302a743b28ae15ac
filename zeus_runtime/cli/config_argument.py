"""Which word of a command line is the config, and which is the prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path


def config_and_prompt(
    config: str | None, prompt: str | None, directory: Path, presets: Callable[[], Collection[str]]
) -> tuple[str | None, str | None]:
    """The config and the prompt of ``[CONFIG] [PROMPT]``.

    Two words are both. One word is the config if it is ``-``, an existing file or folder, or a preset's name. It is
    also the config if it looks like a file: no spaces, and it ends in ``.yaml`` or ``.yml`` or has a ``/``. Otherwise
    it is the prompt if it has spaces or the folder has a ``zeus.yaml``.

    Args:
        directory: the working directory.
        presets: gives the names of the presets.
    """
    if config is None or prompt is not None or config == "-" or not config.strip():
        return config, prompt
    if _exists(directory, config):
        return config, None
    has_spaces = any(char.isspace() for char in config)
    if not has_spaces and (config.endswith((".yaml", ".yml")) or "/" in config or "\\" in config):
        return config, None
    if config in presets():
        return config, None
    return (None, config) if has_spaces or (directory / "zeus.yaml").exists() else (config, None)


def _exists(directory: Path, name: str) -> bool:
    try:
        return (directory / name).exists()
    except (OSError, ValueError):
        return False
