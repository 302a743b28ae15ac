"""The registry: every component that can be named in YAML, with its plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.config.messages.diagnostics import suggestion
from zeus_runtime.errors import MissingError
from zeus_runtime.frozen import dataclass
from zeus_runtime.registry.choice import ambiguous, named_plugins
from zeus_runtime.registry.component import Component, Kind
from zeus_runtime.registry.home import Position
from zeus_runtime.registry.plugin import HookFunction, Plugin, PluginProblem

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Part


class Registered(NamedTuple):
    """A component and the plugin that registered it.

    Args:
        is_meant: whether the component's bare name means this one; otherwise only ``full_name`` does.
    """

    kind: Kind
    component: Component
    plugin: Plugin
    is_meant: bool = True

    @property
    def name(self) -> str:
        """The shortest name by which a YAML can choose it."""
        return self.component.name if self.is_meant else self.full_name

    @property
    def full_name(self) -> str:
        """``DISTRIBUTION/NAME``, or ``FILE/NAME``: means this component, whatever else is installed."""
        return f"{self.plugin.owner}/{self.component.name}"

    @property
    def summary(self) -> str:
        """One line for lists and the schema."""
        return self.component.summary


@dataclass(frozen=True)
class Registry:
    """The result of discovery; a value, made once per command.

    Args:
        plugins: every existing plugin, with its status, sorted by name; local files last.
        components: by kind and bare name; if plugins share a name, the component that it means comes first.
        homes: the plugins' Home folders, in the order of the plugins' names; a config uses those that it names.
        observers: the ``on_event`` functions.
        commands: the ``register_commands`` functions, not yet called.
        problems: the problems with plugins, in the order in which they were found.
        executes: the plugin files that the YAML names, trusted or not.
    """

    plugins: tuple[Plugin, ...] = ()
    components: Mapping[tuple[Kind, str], tuple[Registered, ...]] = field(default_factory=dict)
    homes: tuple[tuple[Plugin, Path], ...] = ()
    observers: tuple[HookFunction, ...] = ()
    commands: tuple[HookFunction, ...] = ()
    problems: tuple[PluginProblem, ...] = ()
    executes: tuple[Part, ...] = ()

    def all(self) -> tuple[Registered, ...]:
        """The components that a YAML can name, sorted by kind and name."""
        every = [each for found in self.components.values() for each in found]
        count = Counter((each.kind, each.name) for each in every)
        usable = (each for each in every if count[each.kind, each.name] == 1)
        return tuple(sorted(usable, key=lambda each: (each.kind, each.name)))

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The usable names of one kind, sorted."""
        return tuple(registered.name for registered in self.all() if registered.kind == kind)

    def get(self, kind: Kind, name: str) -> Registered:
        """The component that a YAML names, by its bare name or as ``DISTRIBUTION/NAME``.

        Raises:
            MissingError: no plugin registers it (with the closest name, and the blocked and failed plugins
                that may have it), or the bare name means none of several.
        """
        owner, _, bare = name.rpartition("/")
        found = self.components.get((kind, bare), ())
        matching = [each for each in found if (each.full_name == name if owner else each.is_meant)]
        if len(matching) == 1:
            return matching[0]
        raise _collision(found) if found and not owner else self._absent(kind, name)

    def homes_of(self, name: str, place: object = None) -> tuple[Path, ...]:
        """The Homes that ``plugin:NAME`` means.

        Args:
            name: the plugin's name, bare or as ``DISTRIBUTION/NAME``.
            place: the position in the config.

        Raises:
            MissingError: no plugin has the name, several share it, or the plugin does not load or has no Home.
        """
        found = named_plugins(name, self.plugins)
        if len(found) == 1 and found[0].status == "untrusted":
            # It tells its Homes only once it runs; whoever needs them asks for the plugin's permission before.
            return ()
        message, remedy = self._why_no_home(name)
        if message:
            raise MissingError(f"'homes' names {message}", remedy=remedy, where=_shown(place))
        return tuple(home for plugin, home in self.homes if name in (plugin.name, plugin.full_name))

    def _why_no_home(self, name: str) -> tuple[str, str]:
        with_homes = list(dict.fromkeys(plugin.name for plugin, _ in self.homes))
        known = f"plugins with a Home: {', '.join(with_homes) or 'none'}"
        found = named_plugins(name, self.plugins)
        if not found:
            every = [plugin.name for plugin in self.plugins]
            close = suggestion(name, with_homes) or suggestion(name, every)
            return f"the plugin '{name}', which is not installed{close}", f"correct the name; {known}"
        if len(found) > 1:
            return ambiguous(name, found)
        (plugin,) = found
        if plugin.status != "loaded":
            said = f"the plugin '{name}', which is {plugin.status}: {plugin.reason}"
            return said, f"let the plugin load, or take it out of homes; {known}"
        if not any(each == plugin for each, _ in self.homes):
            return f"the plugin '{name}', which brings no Home", f"take it out of homes; {known}"
        return "", ""

    def require_plugins(self, position: Position = lambda path: None) -> None:
        """Raise if the YAML asks by name for a plugin that is missing or does not load.

        Args:
            position: returns the position of a path of keys (``Document.position``).

        Raises:
            MissingError: with every such problem, each with its position and remedy.
        """
        errors = [
            MissingError(problem.message, remedy=problem.remedy, where=_shown(position(problem.path)))
            for problem in self.problems
            if problem.required
        ]
        # One error alone keeps its `where` and `remedy` as fields, for programs.
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise MissingError("\n".join(map(str, errors)))

    def collisions(self, name: str) -> tuple[PluginProblem, ...]:
        """The problems of a bare name that means no component because several plugins register it."""
        return tuple(
            collision_problem(found)
            for (_, each), found in sorted(self.components.items())
            if each == name and not found[0].is_meant
        )

    def suspects(self, name: str) -> tuple[Plugin, ...]:
        """The plugins that did not load and may have registered a component of this name."""
        suspects = sorted(
            (plugin for plugin in self.plugins if plugin.status in ("blocked", "untrusted", "failed")),
            key=lambda plugin: plugin.name != name,
        )
        # A plugin with the component's name is almost certainly the right one; otherwise it may be any of them.
        return tuple(plugin for plugin in suspects if plugin.name == name) or tuple(suspects)

    def _absent(self, kind: Kind, name: str) -> MissingError:
        label = kind.replace("_", " ")
        remedy = [f"plugin {plugin} is {plugin.status}: {plugin.reason}" for plugin in self.suspects(name)]
        known = self.names(kind)
        remedy.append(f"known: {', '.join(known)}" if known else f"no plugin registers a {label}")
        return MissingError(
            f"no plugin registers the {label} '{name}'{suggestion(name, known)}", remedy="\n  ".join(remedy)
        )


def _shown(place: object) -> str | None:
    return None if place is None else str(place)


def _collision(found: tuple[Registered, ...]) -> MissingError:
    problem = collision_problem(found)
    return MissingError(problem.message, remedy=problem.remedy)


def collision_problem(found: tuple[Registered, ...]) -> PluginProblem:
    """The problem of components that share kind and name."""
    first = found[0]
    kind, name = first.kind.replace("_", " "), first.component.name
    plugins = " and ".join(str(registered.plugin) for registered in found)
    message = f"the {kind} '{name}' is registered by plugins {plugins}"
    others = " or ".join(f"'{each.full_name}'" for each in found if not each.is_meant)
    if first.is_meant:
        meaning = f"'{name}' means that of plugin {first.plugin.name}"
        return PluginProblem(
            "component-collision",
            f"{message}; {meaning}",
            f"for the other one write {others}",
            # A file that the config names was meant to be used; the user may not even know of an installed plugin.
            is_harmless=all(each.plugin.distribution is not None for each in found if not each.is_meant),
        )
    return PluginProblem(
        "component-collision", f"{message}; '{name}' alone means neither", f"write {others}", is_harmless=True
    )
