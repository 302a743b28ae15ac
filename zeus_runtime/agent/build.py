"""What a component may know while it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.config import Config
    from zeus_runtime.models import ModelProfile
    from zeus_runtime.tools import WorkspaceFiles


@dataclass(frozen=True)
class Build:
    """Handed to every component's ``create(options, build)``.

    Args:
        config: the whole typed Config.
        directory: the working directory; relative workspace and database paths start here.
        homes: the Home folders, nearest first.
        environ: the process environment with ``.env`` beneath it.
        profile: the model's limits and prices.
        workspace: the agent's files.
    """

    config: Config
    directory: Path
    homes: tuple[Path, ...]
    environ: Mapping[str, str]
    profile: ModelProfile
    workspace: WorkspaceFiles
