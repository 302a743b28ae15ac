"""Which plugins may load: the YAML's `plugins` and two environment variables. Every rule can only forbid.

| rule | effect |
|---|---|
| `plugins.disable` | these never load |
| `plugins.only` | of the installed plugins, only these load; files named in `plugins.files` are not affected |
| `ZEUS_DISABLE_PLUGINS=a,b` | these never load |
| `ZEUS_LOAD_PLUGINS=a,b` | only these load, files too; set but empty: none at all |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zeus_runtime.config.model import Plugins
from zeus_runtime.plugins.plugin import Plugin, PluginProblem
from zeus_runtime.plugins.suggestion import did_you_mean

DISABLE_VARIABLE = "ZEUS_DISABLE_PLUGINS"
LOAD_VARIABLE = "ZEUS_LOAD_PLUGINS"


def why_blocked(plugin: Plugin, plugins: Plugins, environ: Mapping[str, str]) -> str:
    """The rule that forbids a plugin, in words; empty when it may load."""
    if plugin.name in plugins.disable:
        return "plugins.disable in the YAML lists it"
    if plugin.name in (_listed(environ, DISABLE_VARIABLE) or ()):
        return f"{DISABLE_VARIABLE} lists it"
    loaded = _listed(environ, LOAD_VARIABLE)
    if loaded is not None and plugin.name not in loaded:
        return f"{LOAD_VARIABLE} does not list it"
    if plugin.distribution is not None and plugins.only is not None and plugin.name not in plugins.only:
        return "plugins.only in the YAML does not list it"
    return ""


def unknown_names(
    known: Collection[str], plugins: Plugins, environ: Mapping[str, str]
) -> list[PluginProblem]:
    """Problems for names in the rules that no plugin has.

    In the YAML such a name stops a run: a misspelt `disable` would load what the user wants blocked. A
    variable is set for many projects, so there it is only said.
    """
    problems = [
        _unknown(f"plugins.{key}", name, known, path=("plugins", key, index))
        for key, names in (("disable", plugins.disable), ("only", plugins.only or ()))
        for index, name in enumerate(names)
        if name not in known
    ]
    problems += [
        _unknown(variable, name, known)
        for variable in (DISABLE_VARIABLE, LOAD_VARIABLE)
        for name in _listed(environ, variable) or ()
        if name not in known
    ]
    return problems


def _unknown(
    where: str, name: str, known: Collection[str], path: tuple[str | int, ...] = ()
) -> PluginProblem:
    return PluginProblem(
        "plugin-unknown",
        f"{where} names the plugin '{name}', which is not installed{did_you_mean(name, known)}",
        f"correct or remove the name, or install the plugin; installed: {', '.join(sorted(known)) or 'none'}",
        path=path,
        required=bool(path),
    )


def _listed(environ: Mapping[str, str], variable: str) -> tuple[str, ...] | None:
    value = environ.get(variable)
    if value is None:
        return None
    return tuple(name for part in value.split(",") if (name := part.strip()))
