"""A plugin, and the problems that it can have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.notice import Notice

Status: TypeAlias = Literal["found", "loaded", "blocked", "untrusted", "failed"]
ProblemCode: TypeAlias = Literal[
    "plugin-unknown",
    "plugin-file",
    "plugin-untrusted",
    "plugin-duplicate",
    "plugin-renamed",
    "plugin-version",
    "plugin-import",
    "plugin-hook",
    "plugin-command",
    "plugin-options",
    "component-collision",
]


OWN_DISTRIBUTION: Final = "zeus-runtime"


@dataclass(frozen=True)
class Plugin:
    """One plugin: an installed distribution's entry point, or a local file that the YAML names.

    Args:
        name: the entry point's name, or the file's stem; `plugins.disable` and `plugins.only` list it. If another
            plugin has that name already, it is ``DISTRIBUTION/NAME``.
        source: ``package.module`` or ``package.module:attribute`` of the entry point, or the file's path.
        distribution: the installed distribution that it comes from; None for a local file.
        version: the distribution's version.
        status: ``found`` before loading; ``blocked`` and ``untrusted`` plugins were never imported; ``failed`` ones
            contribute nothing.
        reason: why it did not load, for lists.
        needs: the versions of Zeus that its distribution requires, such as ``>=0.1``; empty for any.
    """

    name: str
    source: str
    distribution: str | None = None
    version: str | None = None
    status: Status = "found"
    reason: str = ""
    needs: str = ""

    @property
    def owner(self) -> str:
        """The part before the slash in ``OWNER/NAME``: the distribution, or the file's name."""
        return self.distribution or Path(self.source).name

    @property
    def full_name(self) -> str:
        """A name that no other distribution can take."""
        return f"{self.owner}/{self.name}" if "/" not in self.name else self.name

    @property
    def is_bundled(self) -> bool:
        """Whether it comes with Zeus."""
        return self.distribution == OWN_DISTRIBUTION

    def __str__(self) -> str:
        if self.distribution is None:
            return f"{self.name} (file {self.source})"
        return f"{self.name} ({self.distribution} {self.version or 'of unknown version'})"

    @property
    def remedy(self) -> str:
        """What a user can do about a fault in the plugin's code."""
        if self.distribution is None:
            return f"correct {self.source}, or take it out of plugins.files"
        return f"report it to the authors of {self.distribution}, or add '{self.name}' to plugins.disable"


@dataclass(frozen=True)
class PluginProblem:
    """A problem with a plugin, which does not affect other plugins.

    Args:
        code: a stable word for tests and editors.
        message: what went wrong, naming the plugin with distribution and version.
        remedy: what to do about it.
        plugin: the plugin, if it is known.
        path: the YAML key that asks for it (``("plugins", "only", 0)``), for the position in a message.
        required: whether the YAML asks for this plugin by name, so that a run must not start without it.
        is_harmless: whether everything still loads and can be named; `zeus plugins` reports it, and a run does not.
    """

    code: ProblemCode
    message: str
    remedy: str
    plugin: Plugin | None = None
    path: tuple[str | int, ...] = ()
    required: bool = False
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}"

    def notice(self) -> Notice:
        """The problem as an event of a run."""
        from zeus_runtime.notice import Notice

        return Notice(code=self.code, message=str(self))


HookFunction: TypeAlias = "tuple[Plugin, Callable[..., Any]]"
