"""Components as a config names them, with typed options, ready to be created."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config import ConfigError
from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import MissingError, OptionsError, ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.calling_tool import calling

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.yaml.tree import Path
    from zeus_runtime.middleware.contexts import PlanContext, RunContext
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.registry import Kind, Plugin, Registered
    from zeus_runtime.tools import Tool


@dataclass(frozen=True)
class PlannedComponent:
    """One component as it will be created.

    Args:
        kind: its kind.
        name: its name in YAML.
        path: its path in the config.
        options: its options as JSON, with defaults; secrets are masked.
        plugin: the plugin that provides it.
        registered: the registered component.
        value: the typed options.
        diagnostic: makes a problem with its position in the YAML; None for a component that is not in the YAML.
    """

    kind: Kind
    name: str
    path: Path
    options: Mapping[str, Any]
    plugin: Plugin
    registered: Registered = field(repr=False)
    value: Any = field(repr=False, default=None)
    diagnostic: Callable[..., Diagnostic] | None = field(repr=False, compare=False, default=None)

    def create(self, context: PlanContext) -> Any:
        """Call the component's ``create``.

        Raises:
            ConfigError: its options do not fit, with the position of the option, or of the Ref if no option is named.
            OptionsError: the same, for a component that is not in the YAML.
            MissingError: its code fails, or returns something else than its kind.
        """
        from zeus_runtime.registry import load_create

        create = load_create(self.registered)
        with self._placed("create"):
            return self._as_kind(create(self.value, context))

    @contextmanager
    def _placed(self, what: str) -> Iterator[None]:
        """``blamed``, and the position in the YAML of an ``OptionsError``."""
        try:
            with self.blamed(what):
                yield
        except MissingError as error:
            # The innermost place stays: it names the component whose code failed.
            error.where = error.where or self._where()
            raise
        except OptionsError as error:
            if self.diagnostic is None:
                raise
            inner, said = self._place(error)
            place = (*self.path, self.name, *inner)
            raise ConfigError([self.diagnostic(error.code, said, place, hint=error.remedy)]) from error

    @contextmanager
    def blamed(self, what: str) -> Iterator[None]:
        """Report an exception from the component's own code as its plugin's fault, with the position in the YAML.

        Args:
            what: the function that is called, for the message.

        Raises:
            MissingError: the code raised; Zeus's own errors (``ZeusError``) and the system's pass through unchanged.
        """
        from zeus_runtime.registry.importing import FAILURES, brief

        try:
            yield
        except (ZeusError, OSError):
            raise
        except FAILURES as error:
            said = str(error) if isinstance(error, _OtherKindError) else f"raised {brief(error)}"
            raise MissingError(
                f"the {self.kind.replace('_', ' ')} {self.name!r} of plugin {self.plugin}: {what} {said}",
                remedy=self.plugin.remedy,
                where=self._where(),
            ) from error

    def _where(self) -> str | None:
        place = None if self.diagnostic is None else self.diagnostic("plugin", "", self.path).position
        return None if place is None else str(place)

    def _as_kind(self, made: Any) -> Any:
        """The result of ``create``, if it is of the component's kind."""
        if self.kind == "tool":
            from zeus_runtime.tools import Toolset

            return made if isinstance(made, Toolset) else self._own(tools_of(made))
        return made

    @cached_property
    def setting(self) -> str:
        """The part of ``Tool.setting`` that all its tools have: the component, its plugin and its options."""
        return json.dumps(as_json([self.name, self.plugin.name, self.options]), sort_keys=True)

    def _own(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        setting = self.setting
        return tuple(each.within(setting) for each in tools)

    def _place(self, error: OptionsError) -> tuple[Path, str]:
        """The error's path in the options, and its message with any path that is not in them."""
        inner: list[str | int] = []
        options: Mapping[str, Any] = self.options
        if isinstance(error, InnerOptionsError):
            key = next((key for key, value in vars(self.value).items() if value == error.ref), None)
            if key is None:
                return (), error.message
            inner, options = [key, error.ref.name], error.ref.options
        if error.where is None:
            return tuple(inner), error.message
        if error.where.partition(".")[0] in options:
            steps = (int(step) if step.isdigit() else step for step in error.where.split("."))
            return (*inner, *steps), error.message
        return tuple(inner), f"{error.where}: {error.message}"


class PlannedMiddleware(PlannedComponent):
    """A middleware as each run will create it. Planning reads its class and creates none."""

    def create(self, context: RunContext) -> Middleware:  # type: ignore[override]  # it belongs to a run
        """Create the instance of one run.

        Raises:
            ConfigError: its options do not fit, as in ``PlannedComponent.create``.
            MissingError: its code fails.
        """
        made = self.loaded
        with self._placed("create"):
            return made(self.value, context)

    def tools(self, context: PlanContext) -> Sequence[Tool]:
        """The tools that it adds.

        Raises:
            ConfigError: its options do not fit, as in ``PlannedComponent.create``.
            MissingError: its code fails, or returns something else than tools.
        """
        made = self.loaded
        # For no tool's call: while planning, files are opened for the middleware itself.
        with self._placed("tools"), calling(None):
            given = tools_of(made.tools(self.value, context))
        return self._own(given)

    @cached_property
    def loaded(self) -> type[Middleware]:
        """Its class.

        Raises:
            MissingError: it cannot be imported, is not a subclass of Middleware, or has a method that nothing calls.
        """
        from zeus_runtime.middleware.protocol import METHODS, Middleware, misnamed
        from zeus_runtime.registry import load_create

        found = load_create(self.registered)
        with self._placed("create"):
            if not isinstance(found, type) or not issubclass(found, Middleware):
                given = "another class" if isinstance(found, type) else f"a {type(found).__name__}"
                raise _OtherKindError(f"is {given}, not a subclass of Middleware")
            if name := misnamed(found):
                raise _OtherKindError(
                    f"is a Middleware whose method {name} nothing calls; it may have {', '.join(METHODS)}"
                )
        return found


def tools_of(given: Any) -> tuple[Tool, ...]:
    """The tools that a component returned.

    Raises:
        TypeError: it returned something else.
    """
    from zeus_runtime.tools import Tool

    if not isinstance(given, Iterable):
        if isinstance(given, Coroutine):
            given.close()  # otherwise Python complains about it whenever it is collected
        raise _OtherKindError(f"gave {type(given).__name__}, not a list of Tool")
    found = tuple(given)
    for each in found:
        if not isinstance(each, Tool):
            raise _OtherKindError(f"gave {type(each).__name__} among its tools, not a Tool")
    return found


class _OtherKindError(TypeError):
    """A component is or returned something else than its kind; the message begins with a verb and names both."""


class InnerOptionsError(OptionsError):
    """The options of a component that another component's option names do not fit.

    Args:
        error: the problem.
        ref: the Ref in that option.
    """

    def __init__(self, error: OptionsError, ref: Ref) -> None:
        super().__init__(error.message, remedy=error.remedy, where=error.where)
        self.code = error.code
        self.ref = ref


def inner_component(checked: Checked, kind: Kind, ref: Ref, context: PlanContext) -> Any:
    """Create the component that ``ref``, an option of another component, names.

    Raises:
        InnerOptionsError: its options do not fit; the caller that has the option knows its position.
        MissingError: no plugin registers it.
    """
    planned = planned_component(checked, kind, ref, ("tools",))
    try:
        return replace(planned, diagnostic=None).create(context)
    except OptionsError as error:
        raise InnerOptionsError(error, ref) from error


def planned_component(checked: Checked, kind: Kind, ref: Ref, path: Path) -> PlannedComponent:
    """The component that ``ref`` at ``path`` names, with its options typed and defaults filled in."""
    from zeus_runtime.config.schema.construct import BuildError, build
    from zeus_runtime.registry import load_options

    # No YAML names a default, so the error cannot point at a line.
    if (kind, ref.name) not in checked.registry.components and checked.document.get(path) is None:
        raise _default_missing(checked, kind, ref.name, path)
    registered = checked.registry.get(kind, ref.name)
    options_type = load_options(registered)
    if options_type is None:
        return PlannedComponent(
            kind, ref.name, path, {}, registered.plugin, registered, diagnostic=checked.diagnostic
        )
    try:
        value = build(options_type, dict(ref.options))
    except BuildError as error:
        where = (*path, ref.name, *error.path)
        raise ConfigError([checked.diagnostic("wrong-value", error.message, where)]) from None
    # These are shown and hashed; only `value` has the secrets.
    shown = checked.document.redactor.json(as_json(value))
    return PlannedComponent(
        kind, ref.name, path, shown, registered.plugin, registered, value, checked.diagnostic
    )


def _default_missing(checked: Checked, kind: Kind, name: str, path: Path) -> MissingError:
    """The error for a component that a config needs by default, and whose plugin did not load."""
    label, key = kind.replace("_", " "), ".".join(map(str, path))
    message = f"the default {label} {name!r} is not available"
    bundled = [each for each in checked.registry.plugins if each.is_bundled]
    plugin = next((each for each in bundled if each.source.endswith(f":{kind}s.{name}")), None)
    if plugin is None or plugin.status != "blocked":
        return MissingError(message, remedy=f"install Zeus again, or set `{key}`")
    rule = plugin.reason.partition(" ")[0]
    change = f"add '{plugin.name}' to" if "not list" in plugin.reason else f"remove '{plugin.name}' from"
    position = checked.document.position(tuple(rule.split("."))) if rule.startswith("plugins.") else None
    return MissingError(
        f"{message}: {plugin.reason}",
        remedy=f"{change} {rule}, or set `{key}`",
        where=None if position is None else str(position),
    )


_SCALARS: Final = (str, int, float)


def as_json(value: Any) -> Any:
    """Typed values as JSON: components as the YAML names them, and values of any other type as their text."""
    # Most values are one of these, and the questions below are slow.
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, Ref):
        return {value.name: as_json(value.options)} if value.options else value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value)


def planned_toolsets(checked: Checked) -> tuple[PlannedComponent, ...]:
    """The components under ``tools:``, in its order."""
    refs = enumerate(checked.config.tools)
    return tuple(planned_component(checked, "tool", ref, ("tools", index)) for index, ref in refs)


def planned_middlewares(checked: Checked) -> tuple[PlannedMiddleware, ...]:
    """The components under ``middlewares:``, in its order."""
    refs = enumerate(checked.config.middlewares)
    planned = [planned_component(checked, "middleware", ref, ("middlewares", index)) for index, ref in refs]
    # Right after they were made: later, a cached property such as `setting` would be among the `vars`.
    return tuple(PlannedMiddleware(**vars(each)) for each in planned)
