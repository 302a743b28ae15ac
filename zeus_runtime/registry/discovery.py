"""Discovery: from installed distributions and the YAML's plugin files to a Registry; broken plugins are isolated."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.layers.plugin_home import PluginHome
from zeus_runtime.config.model import Plugins
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.registry.choice import rule_problems, why_blocked
from zeus_runtime.registry.component import Kind
from zeus_runtime.registry.contribution import Contribution, HookError, contribution
from zeus_runtime.registry.files import read_files
from zeus_runtime.registry.home import find
from zeus_runtime.registry.importing import import_file, import_reference
from zeus_runtime.registry.installed import installed_plugins
from zeus_runtime.registry.plugin import Plugin, PluginProblem, ProblemCode
from zeus_runtime.registry.registry import Registered, Registry, collision_problem
from zeus_runtime.version import __version__

if TYPE_CHECKING:
    from pluggy import HookimplOpts, PluginManager

    from zeus_runtime.trust.decision import Trust


def discover(
    plugins: Plugins | None = None,
    *,
    environ: Mapping[str, str],
    directory: Path = Path(),
    homes: Sequence[Path] = (),
    installed: Iterable[Plugin] | None = None,
    trust: Trust | None = None,
) -> Registry:
    """Every plugin and its components; a broken plugin is in ``problems`` and does not affect the others.

    Neither a blocked plugin's module nor an untrusted plugin file is imported.

    Args:
        plugins: the YAML's `plugins`; None for a command without a YAML.
        environ: read for ``ZEUS_LOAD_PLUGINS`` and ``ZEUS_DISABLE_PLUGINS``.
        directory: the YAML file's folder, where relative `plugins.files` start.
        homes: Homes whose ``plugins/`` are searched for a missing file, nearest first.
        installed: the installed plugins; None to search for them.
        trust: decides which plugin files may be executed; None for none of them.
    """
    chosen = plugins or Plugins()
    declared = tuple(dict.fromkeys(installed_plugins() if installed is None else installed))
    places, problems = _files(chosen, directory, homes)
    files = tuple(places)
    named, renamed = _told_apart(declared + files)
    problems += [*renamed, *rule_problems(named, chosen, environ)]
    blocked, candidates = _split(named, chosen, environ)
    clashing, candidates = _without_duplicates(candidates)
    problems += clashing
    failed = [problem.plugin for problem in clashing if problem.plugin is not None]
    local = read_files(candidates, trust)
    problems += local.problems
    # A file that is not trusted has no code, so it cannot reach an import.
    candidates = [each for each in candidates if each.distribution is not None or each.source in local.codes]

    manager = _manager()
    loaded: list[Plugin] = []
    contributions: list[Contribution] = []
    # Before the load: the components keep the plugin, and must not call it merely found.
    for plugin in (replace(candidate, status="loaded") for candidate in candidates):
        try:
            contributions.append(_load(manager, plugin, local.codes))
        except _LoadError as error:
            failed.append(replace(plugin, status="failed", reason=error.problem.message))
            problems.append(error.problem)
        else:
            loaded.append(plugin)

    components = _by_name(contributions)
    problems += [collision_problem(found) for found in components.values() if len(found) > 1]
    return Registry(
        plugins=tuple(sorted([*loaded, *blocked, *local.withheld, *failed], key=_order)),
        components=MappingProxyType(components),
        homes=tuple(home for part in contributions for home in part.homes),
        observers=tuple(observer for part in contributions for observer in part.observers),
        commands=tuple(command for part in contributions for command in part.commands),
        problems=tuple(_placed(problem, places) for problem in problems),
        executes=local.parts,
    )


def installed_homes(rules: object, environ: Mapping[str, str]) -> tuple[PluginHome, ...]:
    """The Homes of the installed plugins, for finding presets before the whole config is read.

    Args:
        rules: the config's `plugins` as read so far, not yet validated.
        environ: the values of variables, and the two variables that forbid plugins.
    """
    said = rules if isinstance(rules, Mapping) else {}
    only = said.get("only")
    chosen = Plugins(
        disable=_texts(said.get("disable"), environ), only=None if only is None else _texts(only, environ)
    )
    registry = discover(chosen, environ=environ)
    return tuple(PluginHome((plugin.name, plugin.full_name), home) for plugin, home in registry.homes)


def _texts(listed: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate

    # `--set plugins.disable.0=NAME` is alone here, as a mapping by index.
    values = listed.values() if isinstance(listed, Mapping) else listed if isinstance(listed, list) else ()
    found: list[str] = []
    for value in values:
        try:
            found.append(interpolate(str(value), environ)[0])
        except InterpolationError:
            found.append(str(value))
    return tuple(found)


_OUTPUT: Final = RLock()
"""Held while ``sys.stdout`` is another file, which is so for all threads: two that planned at once would restore it in
the wrong order. Reentrant, because a plugin may itself discover plugins while it loads."""


class _LoadError(Exception):
    def __init__(self, problem: PluginProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _manager() -> PluginManager:
    from pluggy import PluginManager

    from zeus_runtime.registry import hookspecs

    class Manager(PluginManager):
        """Skips ``__name__`` and the like, which are two thirds of the names that pluggy asks about."""

        def parse_hookimpl_opts(self, plugin: object, name: str) -> HookimplOpts | None:
            return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)

    manager = Manager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _load(manager: PluginManager, plugin: Plugin, codes: Mapping[str, bytes]) -> Contribution:
    by_import = plugin.distribution is not None
    if "/" in plugin.name.removeprefix(f"{plugin.owner}/"):
        message = f"plugin {plugin}: the name of its entry point has a '/', which is how other distributions are named"
        raise _LoadError(_failure("plugin-hook", plugin, message, plugin.remedy))
    if plugin.needs and not _is_within(__version__, plugin.needs):
        message = f"plugin {plugin} needs zeus-runtime{plugin.needs}, and this is {__version__}"
        remedy = f"install a version of {plugin.distribution} for Zeus {__version__}, or a Zeus that it takes"
        raise _LoadError(_failure("plugin-version", plugin, message, remedy))
    try:
        # Standard output is the command's answer, which must not contain the text that a plugin prints while it loads.
        with _OUTPUT, redirect_stdout(sys.stderr):
            module = (
                import_reference(plugin.source, plugin)
                if by_import
                else import_file(plugin, codes[plugin.source])
            )
            return contribution(manager, plugin, module)
    except MissingError as error:
        raise _LoadError(_failure("plugin-import", plugin, error.message, error.remedy or "")) from error
    except HookError as error:
        message = f"plugin {plugin}: {error}"
        raise _LoadError(_failure("plugin-hook", plugin, message, plugin.remedy)) from error


def _is_within(version: str, needs: str) -> bool:
    """Whether a version fits a specifier; ``>=1.2`` is decided without importing ``packaging`` (15 ms)."""
    least = re.fullmatch(r">=(\d+(?:\.\d+)*)", needs)
    if least and re.fullmatch(r"\d+(?:\.\d+)*", version):
        own, other = ([int(part) for part in text.split(".")] for text in (version, least[1]))
        length = max(len(own), len(other))
        return own + [0] * (length - len(own)) >= other + [0] * (length - len(other))
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        # A development version of Zeus must not refuse every plugin.
        return SpecifierSet(needs).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True


def _failure(code: ProblemCode, plugin: Plugin, message: str, remedy: str) -> PluginProblem:
    """A problem that stops a run only for a local file, which the YAML asks for; an installed plugin may be unused."""
    return PluginProblem(code, message, remedy, plugin, required=plugin.distribution is None)


def _placed(problem: PluginProblem, places: Mapping[Plugin, tuple[str | int, ...]]) -> PluginProblem:
    """The problem with the YAML key that names its plugin file."""
    if problem.plugin is None or problem.plugin.distribution is not None:
        return problem
    by_source = {plugin.source: path for plugin, path in places.items()}
    return replace(problem, path=by_source.get(problem.plugin.source, problem.path))


def _files(
    chosen: Plugins,
    directory: Path,
    homes: Sequence[Path],
) -> tuple[dict[Plugin, tuple[str | int, ...]], list[PluginProblem]]:
    """The existing plugin files, each with the YAML key that names it."""
    found: dict[Plugin, tuple[str | int, ...]] = {}
    problems: list[PluginProblem] = []
    for index, name in enumerate(chosen.files):
        key = ("plugins", "files", index)
        path = _file(name, directory, homes)
        if path is not None and path.suffix == ".py":
            found.setdefault(Plugin(path.stem, str(path)), key)
            continue
        why, remedy = (
            ("is not a .py file", "name a Python file in plugins.files")
            if path
            else (
                "is not there",
                f"looked in {directory} and the Homes' plugins/; correct plugins.files",
            )
        )
        problems.append(
            PluginProblem("plugin-file", f"the plugin file '{name}' {why}", remedy, path=key, required=True)
        )
    return found, problems


def _file(name: str, directory: Path, homes: Sequence[Path]) -> Path | None:
    path = directory / name
    if path.is_file():
        return path
    try:
        # A checked config has absolute paths; the part below the YAML's folder is the written one.
        found = find(homes, "plugins", path.relative_to(directory).as_posix())
    except (ValueError, UsageError):
        return None
    return found if found is not None and found.is_file() else None


def _told_apart(plugins: Sequence[Plugin]) -> tuple[tuple[Plugin, ...], list[PluginProblem]]:
    """The plugins with unique names: one without a right to a shared name is called ``DISTRIBUTION/NAME``."""
    by_name: defaultdict[str, list[Plugin]] = defaultdict(list)
    for plugin in plugins:
        by_name[plugin.name].append(plugin)
    named: list[Plugin] = []
    problems: list[PluginProblem] = []
    for plugin in plugins:
        if len(by_name[plugin.name]) == 1:
            named.append(plugin)
            continue
        best, *others = sorted(by_name[plugin.name], key=_precedence)
        rivals = [other for other in others if _precedence(other) == _precedence(best)]
        keeps = plugin == best and not rivals
        # Neither two files nor two plugins of one distribution can be told apart.
        if keeps or (plugin.distribution is None and rivals):
            named.append(plugin)
            continue
        renamed = replace(plugin, name=plugin.full_name)
        named.append(renamed)
        same = " and ".join(str(other) for other in by_name[plugin.name] if other != plugin)
        message = f"plugin {plugin} has the same name as {same}; it is called '{renamed.name}'"
        remedy = f"write '{renamed.name}' in plugins and homes"
        problems.append(PluginProblem("plugin-renamed", message, remedy, renamed, is_harmless=True))
    return tuple(named), problems


def _split(
    plugins: Sequence[Plugin], chosen: Plugins, environ: Mapping[str, str]
) -> tuple[list[Plugin], list[Plugin]]:
    blocked: list[Plugin] = []
    free: list[Plugin] = []
    for plugin in plugins:
        reason = why_blocked(plugin, plugins, chosen, environ)
        if reason:
            blocked.append(replace(plugin, status="blocked", reason=reason))
        else:
            free.append(plugin)
    return blocked, free


def _without_duplicates(plugins: Iterable[Plugin]) -> tuple[list[PluginProblem], list[Plugin]]:
    """Load no plugin whose name another plugin has too: a name must be unambiguous."""
    plugins = tuple(plugins)
    count = Counter(plugin.name for plugin in plugins)
    problems: list[PluginProblem] = []
    for plugin in plugins:
        if count[plugin.name] > 1:
            others = " and ".join(
                str(other) for other in plugins if other.name == plugin.name and other != plugin
            )
            message = f"plugin {plugin} has the same name as {others}; neither is loaded"
            remedy = (
                f"rename {plugin.source}"
                if plugin.distribution is None
                else f"uninstall {plugin.distribution}"
            )
            failed = replace(plugin, status="failed", reason=message)
            problems.append(_failure("plugin-duplicate", failed, message, remedy))
    return problems, [plugin for plugin in plugins if count[plugin.name] == 1]


def _by_name(contributions: Iterable[Contribution]) -> dict[tuple[Kind, str], tuple[Registered, ...]]:
    found: defaultdict[tuple[Kind, str], list[Registered]] = defaultdict(list)
    for part in contributions:
        for registered in part.components:
            found[registered.kind, registered.name].append(registered)
    return {key: tuple(_with_meant(items)) for key, items in found.items()}


def _with_meant(items: list[Registered]) -> list[Registered]:
    """Components of one name; if the bare name means one of them, that one is first."""
    if len(items) == 1:
        return items
    items = sorted(items, key=lambda each: _precedence(each.plugin))
    meant = _precedence(items[0].plugin) < _precedence(items[1].plugin)
    return [each._replace(is_meant=meant and place == 0) for place, each in enumerate(items)]


def _precedence(plugin: Plugin) -> int:
    """The right to a bare name: the bundled plugin, else a file that the YAML names, else an installed plugin."""
    return 0 if plugin.is_bundled else 1 if plugin.distribution is None else 2


def _order(plugin: Plugin) -> tuple[bool, str, str]:
    return plugin.distribution is None, plugin.name, plugin.source
