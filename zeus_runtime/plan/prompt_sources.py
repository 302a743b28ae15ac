"""Which file each prompt section comes from, and whose file it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.prompt import Section
    from zeus_runtime.registry import Plugin


class PromptSource(NamedTuple):
    """A section's file.

    Args:
        path: the file.
        home: the Home it was found in; None for a file that `prompt.files` names.
        plugin: the plugin whose Home that is.
        written: where `prompt.files` names it.
    """

    path: str
    home: str | None
    plugin: Plugin | None = None
    written: str | None = None

    @property
    def shown(self) -> str:
        """The file, with what chose it where that is not its Home alone."""
        if self.written is not None:
            return f"{self.path}  (prompt.files, {self.written})"
        return self.path if self.plugin is None else f"{self.path}  (plugin {self.plugin})"

    def as_json(self) -> dict[str, str | None]:
        """The same for programs."""
        plugin = None if self.plugin is None else self.plugin.name
        return {"path": self.path, "home": self.home, "plugin": plugin, "written": self.written}


def prompt_sources(checked: Checked, plan: Plan) -> Mapping[Section, PromptSource]:
    """The files of sections 1 to 6, each with its Home or the place in the config that names it."""
    from zeus_runtime.prompt.files import prompt_files

    overrides = {str(name): path for name, path in plan.config.prompt.files.items()}
    files = prompt_files(plan.mode, homes=checked.homes, overrides=overrides)
    return {
        section: PromptSource(
            str(file.path), None, written=str(checked.document.position(("prompt", "files", str(section))))
        )
        if section in overrides
        else _from_home(checked, file.path)
        for section, file in files.items()
    }


def _from_home(checked: Checked, path: Path) -> PromptSource:
    home = next(each for each in checked.homes if path.parent == each / "prompts")
    plugin = next((plugin for plugin, folder in checked.registry.homes if folder == home), None)
    return PromptSource(str(path), str(home), plugin)
