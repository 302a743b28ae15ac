"""The registry: every component that can be named in YAML, with the plugin it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.errors import MissingError
from zeus_runtime.frozen import dataclass
from zeus_runtime.plugins.component import Component, Kind
from zeus_runtime.plugins.home import Position
from zeus_runtime.plugins.plugin import HookFunction, Plugin, PluginProblem
from zeus_runtime.plugins.suggestion import did_you_mean

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Part


class Registered(NamedTuple):
    """A component and the plugin that registered it."""

    kind: Kind
    component: Component
    plugin: Plugin

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def summary(self) -> str:
        return self.component.summary


@dataclass(frozen=True)
class Registry:
    """What discovery found; a value, made once per command.

    Args:
        plugins: every plugin there is, with its status, sorted by name; local files last.
        components: by kind and name; more than one where plugins collide.
        homes: the plugins' Home folders, in the order of the plugins' names.
        observers: the ``on_event`` functions.
        commands: the ``register_commands`` functions, not yet called.
        problems: what is wrong with plugins, in the order in which it was found.
        executes: the plugin files that the YAML names, trusted or not.
    """

    plugins: tuple[Plugin, ...] = ()
    components: Mapping[tuple[Kind, str], tuple[Registered, ...]] = field(default_factory=dict)
    homes: tuple[Path, ...] = ()
    observers: tuple[HookFunction, ...] = ()
    commands: tuple[HookFunction, ...] = ()
    problems: tuple[PluginProblem, ...] = ()
    executes: tuple[Part, ...] = ()

    def all(self) -> tuple[Registered, ...]:
        """The components that can be used, sorted by kind and name; colliding ones are not among them."""
        return tuple(found[0] for _, found in sorted(self.components.items()) if len(found) == 1)

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The usable names of one kind, sorted."""
        return tuple(registered.name for registered in self.all() if registered.kind == kind)

    def get(self, kind: Kind, name: str) -> Registered:
        """The component a YAML names.

        Raises:
            MissingError: no plugin registers it (with the closest name, and the blocked and failed plugins
                that may have), or two do.
        """
        found = self.components.get((kind, name), ())
        if len(found) == 1:
            return found[0]
        raise _collision(found) if found else self._absent(kind, name)

    def require_plugins(self, position: Position = lambda path: None) -> None:
        """Refuse to go on when the YAML asks by name for a plugin that is not there or does not load.

        Args:
            position: where a path of keys is written (``Document.position``).

        Raises:
            MissingError: with every such problem, each with its place and remedy.
        """
        errors = [
            MissingError(problem.message, remedy=problem.remedy, where=_shown(position(problem.path)))
            for problem in self.problems
            if problem.required
        ]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise MissingError("\n".join(map(str, errors)))

    def collisions(self, name: str) -> tuple[PluginProblem, ...]:
        """What to say of the components of this name that are not used because several plugins register them."""
        return tuple(
            collision_problem(found)
            for (_, each), found in sorted(self.components.items())
            if each == name and len(found) > 1
        )

    def suspects(self, name: str) -> tuple[Plugin, ...]:
        """The plugins that did not load and may have registered a component of this name."""
        suspects = sorted(
            (plugin for plugin in self.plugins if plugin.status in ("blocked", "untrusted", "failed")),
            key=lambda plugin: plugin.name != name,
        )
        # A plugin that bears the component's name is almost certainly the one; otherwise any may have been.
        return tuple(plugin for plugin in suspects if plugin.name == name) or tuple(suspects)

    def _absent(self, kind: Kind, name: str) -> MissingError:
        label = kind.replace("_", " ")
        remedy = [f"plugin {plugin} is {plugin.status}: {plugin.reason}" for plugin in self.suspects(name)]
        known = self.names(kind)
        remedy.append(f"known: {', '.join(known)}" if known else f"no plugin registers a {label}")
        return MissingError(
            f"no plugin registers the {label} '{name}'{did_you_mean(name, known)}", remedy="\n  ".join(remedy)
        )


def _shown(place: object) -> str | None:
    return None if place is None else str(place)


def _collision(found: tuple[Registered, ...]) -> MissingError:
    problem = collision_problem(found)
    return MissingError(problem.message, remedy=problem.remedy)


def collision_problem(found: tuple[Registered, ...]) -> PluginProblem:
    """What to say of components that share kind and name."""
    first = found[0]
    plugins = " and ".join(str(registered.plugin) for registered in found)
    names = " or ".join(f"'{registered.plugin.name}'" for registered in found)
    return PluginProblem(
        "component-collision",
        f"the {first.kind.replace('_', ' ')} '{first.name}' is registered by plugins {plugins}; neither is used",
        f"add {names} to plugins.disable in the YAML, or to ZEUS_DISABLE_PLUGINS",
    )
