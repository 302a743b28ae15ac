"""What a component may know while it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.config import Config
    from zeus_runtime.models import ModelProfile
    from zeus_runtime.tools import Tool, WorkspaceFiles


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
        tools: every tool of the agent by name, for a run's middlewares; empty while they are only planned, and filled
            in when all of them have been created.
    """

    config: Config
    directory: Path
    homes: tuple[Path, ...]
    environ: Mapping[str, str]
    profile: ModelProfile
    workspace: WorkspaceFiles
    tools: Mapping[str, Tool] = field(default_factory=dict)
    session: str = ""
    model: Model | None = field(default=None, repr=False)
    open_model: Callable[[str | Ref], Model] | None = field(default=None, repr=False)
    profile_of: Callable[[str], ModelProfile] | None = field(default=None, repr=False)
    counter: Counter | None = field(default=None, repr=False)
    archive: Archive | None = field(default=None, repr=False)
    tools: Mapping[str, Tool] = field(default_factory=dict, repr=False)
