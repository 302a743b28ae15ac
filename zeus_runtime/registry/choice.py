"""Which plugins may load: the YAML's `plugins` and two environment variables. Every rule can only forbid.

| rule | effect |
|---|---|
| `plugins.disable` | these never load |
| `plugins.only` | of the installed plugins, only these load; files named in `plugins.files` are not affected |
| `ZEUS_DISABLE_PLUGINS=a,b` | these never load |
| `ZEUS_LOAD_PLUGINS=a,b` | only these load, files too; set but empty: none at all |

A rule names a plugin by its name or as ``DISTRIBUTION/NAME``. If two distributions share a name, a forbidding rule with
that name applies to both, and an allowing rule to neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zeus_runtime.config.messages.diagnostics import suggestion
from zeus_runtime.config.model import Plugins
from zeus_runtime.registry.plugin import Plugin, PluginProblem

DISABLE_VARIABLE = "ZEUS_DISABLE_PLUGINS"
LOAD_VARIABLE = "ZEUS_LOAD_PLUGINS"


def why_blocked(plugin: Plugin, among: Sequence[Plugin], plugins: Plugins, environ: Mapping[str, str]) -> str:
    """The rule that forbids a plugin, in words; empty if the plugin may load.

    Args:
        plugin: the plugin in question.
        among: every existing plugin.
        plugins: the YAML's rules.
        environ: has the rules of the variables.
    """
    if _forbids(plugins.disable, plugin, among):
        return "plugins.disable in the YAML lists it"
    if _forbids(_listed(environ, DISABLE_VARIABLE) or (), plugin, among):
        return f"{DISABLE_VARIABLE} lists it"
    loaded = _listed(environ, LOAD_VARIABLE)
    if loaded is not None and not _allows(loaded, plugin):
        return f"{LOAD_VARIABLE} does not list it"
    if plugin.distribution is not None and plugins.only is not None and not _allows(plugins.only, plugin):
        return "plugins.only in the YAML does not list it"
    return ""


def rule_problems(
    among: Sequence[Plugin], plugins: Plugins, environ: Mapping[str, str]
) -> list[PluginProblem]:
    """Problems for names in the rules that no plugin has, or that allow none because two plugins have them.

    In the YAML such a name stops a run: a misspelt `disable` would load a plugin that the user wants blocked. A
    variable is set for many projects, so there the problem is only reported.
    """
    forbidding: list[tuple[str, Iterable[str], tuple[str, ...]]] = [
        ("plugins.disable", plugins.disable, ("plugins", "disable")),
        (DISABLE_VARIABLE, _listed(environ, DISABLE_VARIABLE) or (), ()),
    ]
    allowing: list[tuple[str, Iterable[str], tuple[str, ...]]] = [
        ("plugins.only", plugins.only or (), ("plugins", "only")),
        (LOAD_VARIABLE, _listed(environ, LOAD_VARIABLE) or (), ()),
    ]
    return [
        problem
        for rules, must_be_one in ((forbidding, False), (allowing, True))
        for where, names, path in rules
        for index, name in enumerate(names)
        if (problem := _name_problem(where, name, among, (*path, index) if path else (), must_be_one))
    ]


def named_plugins(name: str, among: Iterable[Plugin]) -> list[Plugin]:
    """The plugins that a name may mean: one, none, or all that share the name if it belongs to none of them."""
    exact = [plugin for plugin in among if name in (plugin.name, plugin.full_name)]
    return exact or [plugin for plugin in among if plugin.name == f"{plugin.owner}/{name}"]


def ambiguous(name: str, found: Iterable[Plugin]) -> tuple[str, str]:
    """Message and remedy for a name that several plugins share."""
    names = " or ".join(f"'{plugin.name}'" for plugin in found)
    return f"the plugin '{name}', a name that several distributions have", f"write {names}"


def _forbids(names: Iterable[str], plugin: Plugin, among: Sequence[Plugin]) -> bool:
    return any(plugin in named_plugins(name, among) for name in names)


def _allows(names: Iterable[str], plugin: Plugin) -> bool:
    # Not `named_plugins`: a name that several distributions have allows none of them.
    return plugin.name in names or plugin.full_name in names


def _name_problem(
    where: str, name: str, among: Sequence[Plugin], path: tuple[str | int, ...], must_be_one: bool
) -> PluginProblem | None:
    found = named_plugins(name, among)
    if not found:
        known = sorted(plugin.name for plugin in among)
        message = f"{where} names the plugin '{name}', which is not installed{suggestion(name, known)}"
        remedy = f"correct or remove the name, or install the plugin; installed: {', '.join(known) or 'none'}"
    elif len(found) == 1 or not must_be_one:
        return None
    else:
        what, remedy = ambiguous(name, found)
        message = f"{where} names {what}"
    return PluginProblem("plugin-unknown", message, remedy, path=path, required=bool(path))


def _listed(environ: Mapping[str, str], variable: str) -> tuple[str, ...] | None:
    value = environ.get(variable)
    if value is None:
        return None
    return tuple(name for part in value.split(",") if (name := part.strip()))
