"""Plugin files of a YAML: each is read once, so that the bytes that are trusted are the bytes that run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.proc_files import opened
from zeus_runtime.registry.plugin import Plugin, PluginProblem

if TYPE_CHECKING:
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part


class PluginFiles(NamedTuple):
    """The plugin files as read.

    Args:
        codes: the code of each trusted plugin, by its source.
        parts: every file, trusted or not.
        problems: the files that cannot be read or are not trusted.
    """

    codes: Mapping[str, bytes]
    parts: tuple[Part, ...]
    problems: tuple[PluginProblem, ...]

    @property
    def withheld(self) -> tuple[Plugin, ...]:
        """The plugins that are not imported."""
        return tuple(problem.plugin for problem in self.problems if problem.plugin is not None)


def read_files(plugins: Iterable[Plugin], trust: Trust | None) -> PluginFiles:
    """Read the local files among ``plugins`` and decide which of them may be imported.

    Args:
        trust: decides; None allows none.
    """
    codes: dict[str, bytes] = {}
    parts: list[Part] = []
    problems: list[PluginProblem] = []
    for plugin in plugins:
        if plugin.distribution is not None:
            continue
        from zeus_runtime.trust.parts import plugin_part

        file = Path(plugin.source)
        try:
            # Read once: `import_file` executes these bytes, whatever the file has by then.
            with opened(file) as stream:
                code = stream.read()
        except OSError as error:
            problems.append(_unreadable(plugin, error))
            continue
        part = plugin_part(file, code, own=trust is not None and trust.is_own(file))
        parts.append(part)
        if trust is not None and trust.allows(part):
            codes[plugin.source] = code
        else:
            problems.append(_untrusted(plugin, trust))
    return PluginFiles(codes, tuple(parts), tuple(problems))


def _unreadable(plugin: Plugin, error: OSError) -> PluginProblem:
    message = f"plugin {plugin} cannot be read: {error.strerror or error}"
    failed = replace(plugin, status="failed", reason=message)
    return PluginProblem("plugin-file", message, "make the file readable", failed, required=True)


def _untrusted(plugin: Plugin, trust: Trust | None) -> PluginProblem:
    message = f"plugin file {plugin.source} is not trusted, so its components were not checked"
    withheld = replace(plugin, status="untrusted", reason="run `zeus trust`")
    remedy = "run `zeus trust`" if trust is None else trust.remedy
    return PluginProblem("plugin-untrusted", message, remedy, withheld)
