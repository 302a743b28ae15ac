"""One plugin's contribution: its hooks are called, and their results checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_runtime.config.messages.diagnostics import suggestion
from zeus_runtime.cutting import cut_text, unwrapped
from zeus_runtime.registry.component import Component, Kind
from zeus_runtime.registry.importing import FAILURES, brief
from zeus_runtime.registry.plugin import HookFunction, Plugin
from zeus_runtime.registry.registry import Registered

if TYPE_CHECKING:
    from pluggy import HookCaller, HookImpl, PluginManager

COMPONENT_HOOKS: Mapping[str, Kind] = {
    "register_models": "model",
    "register_counters": "counter",
    "register_tools": "tool",
    "register_middlewares": "middleware",
    "register_embeddings": "embedding",
    "register_vector_stores": "vector_store",
    "register_memories": "memory",
    "register_sandboxes": "sandbox",
    "register_searches": "search",
    "register_checkpointers": "checkpointer",
    "register_protocols": "protocol",
}


class HookError(Exception):
    """A plugin's hooks do not follow the hookspecs; the text names the hook and the fault."""


class Contribution(NamedTuple):
    """Everything that one plugin registers."""

    components: tuple[Registered, ...] = ()
    homes: tuple[tuple[Plugin, Path], ...] = ()
    observers: tuple[HookFunction, ...] = ()
    commands: tuple[HookFunction, ...] = ()


def contribution(manager: PluginManager, plugin: Plugin, module: object) -> Contribution:
    """Register a plugin's module or object with pluggy, call its hooks and check their results.

    Raises:
        HookError: a hook is unknown, has the wrong signature, asks for a place among plugins, raises, or returns
            something else.
    """
    hooks = _hooks(manager, plugin, module)
    components: list[Registered] = []
    for name, kind in COMPONENT_HOOKS.items():
        for component in _returned(hooks, name, Component):
            _check_component(name, component, [c.component for c in components if c.kind == kind])
            components.append(Registered(kind, component, plugin))
    homes = _returned(hooks, "register_homes", Path)
    for home in homes:
        if not home.is_absolute() or not home.is_dir():
            raise HookError(
                f"register_homes returned {str(home)!r}, which is not an existing folder's absolute path"
            )
    observers = _functions(hooks, "on_event")
    if any(_is_async(function) for function in observers):
        raise HookError("on_event is async; write a plain function and hand slow work to a thread")
    return Contribution(
        components=tuple(components),
        homes=tuple((plugin, home) for home in homes),
        observers=tuple((plugin, function) for function in observers),
        commands=tuple((plugin, function) for function in _functions(hooks, "register_commands")),
    )


def checked_iterable(hook: str, returned: object, item: type) -> list[Any]:
    """The items that a hook returned.

    Raises:
        HookError: the result is not an iterable of ``item``.
    """
    if _is_awaitable(returned):
        raise HookError(f"{hook} is async; write a plain function")
    # They are iterable too, and their characters or keys would be blamed instead of the list that is missing.
    if isinstance(returned, (str, bytes, Mapping)) or not isinstance(returned, Iterable):
        raise HookError(f"{hook} returned {_described(returned)}; return a list of {item.__name__}")
    items = list(returned)
    for index, value in enumerate(items):
        if not isinstance(value, item):
            raise HookError(f"{hook} returned {_described(value)} at index {index}; expected {item.__name__}")
    return items


def is_model(value: object) -> bool:
    """Whether a value is a pydantic model; pydantic itself is not imported for the question."""
    return isinstance(value, type) and hasattr(value, "model_json_schema")


def _hooks(manager: PluginManager, plugin: Plugin, module: object) -> dict[str, list[HookImpl]]:
    """The plugin's implementations by hook name, in the order of their names in the module."""
    from pluggy import PluginValidationError

    try:
        registered = manager.register(module, name=plugin.name)
    except PluginValidationError as error:
        raise HookError(unwrapped(str(error))) from error
    # Names are unique here, so pluggy was given one object twice.
    except ValueError as error:
        raise HookError(f"{plugin.source} is already loaded as another plugin") from error
    # pluggy asks an object for its attributes and compares it, and its own methods for that may raise anything.
    except FAILURES as error:
        raise HookError(f"{plugin.source} raised {brief(error)}") from error
    callers = (manager.get_hookcallers(module) or []) if registered else []
    # An entry point may be any object, also one with `__slots__` and no `__dict__`.
    own = getattr(module, "__dict__", {})
    own_models = (each for each in own.values() if is_model(each) and each.__module__ == own.get("__name__"))
    if not callers and plugin.distribution is None and any(own_models):
        return {}  # `output.schema` may name the model
    if not callers:
        raise HookError(f"{plugin.source} has no hook; mark its register functions with @hookimpl")
    known = [name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None)]
    hooks: dict[str, list[HookImpl]] = {}
    for caller in callers:
        # The manager is one for all plugins, so a caller has the others' functions too.
        own = [impl for impl in caller.get_hookimpls() if impl.plugin is module]
        if caller.has_spec():
            hooks[caller.name] = own
        elif not all(impl.optionalhook for impl in own):
            raise HookError(f"'{caller.name}' is not a hook of Zeus{suggestion(caller.name, known)}")
        # pluggy passes such a parameter its default for ever, silently.
        defaulted = [name for impl in own for name in impl.kwargnames if name in _given(caller)]
        if defaulted:
            raise HookError(
                f"{caller.name} would never be given '{defaulted[0]}': pluggy passes no parameter that has a default"
            )
        if any(impl.tryfirst or impl.trylast or impl.wrapper or impl.hookwrapper for impl in own):
            raise HookError(
                f"{caller.name} asks for a place among plugins; hooks have no order, middlewares do"
            )
    return hooks


def _given(caller: HookCaller) -> tuple[str, ...]:
    return tuple(caller.spec.argnames) if caller.spec is not None else ()


def _functions(hooks: Mapping[str, list[HookImpl]], name: str) -> list[Callable[..., Any]]:
    """The implementations of a hook as functions that take the hook's arguments by keyword."""
    return [_taking_only(impl) for impl in hooks.get(name, ())]


def _taking_only(impl: HookImpl) -> Callable[..., Any]:
    def function(**given: object) -> Any:
        # By position, as pluggy calls it: a plugin may take fewer parameters than the hook has.
        return impl.function(*[given[name] for name in impl.argnames])

    function.__wrapped__ = impl.function  # type: ignore[attr-defined]
    return function


def _returned(hooks: Mapping[str, list[HookImpl]], name: str, item: type) -> list[Any]:
    items: list[Any] = []
    for function in _functions(hooks, name):
        try:
            items += checked_iterable(name, function(), item)
        except HookError:
            raise
        except FAILURES as error:
            raise HookError(f"{name} raised {brief(error)}") from error
    return items


def _check_component(hook: str, component: Component, earlier: list[Component]) -> None:
    name: object = component.name
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise HookError(f"{hook} returned the component name {name!r}; write lower_snake_case")
    if any(component.name == other.name for other in earlier):
        raise HookError(f"{hook} returned two components named '{component.name}'")
    if not _is_reference(component.create) and not callable(component.create):
        raise HookError(
            f"{hook}: 'create' of '{component.name}' is neither a function nor 'package.module:attribute'"
        )
    options = component.options
    if options is not None and not _is_reference(options) and not isinstance(options, type):
        raise HookError(
            f"{hook}: 'options' of '{component.name}' is neither a class nor 'package.module:Class'"
        )


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", value) is not None


def _is_async(function: Callable[..., Any]) -> bool:
    from inspect import iscoroutinefunction, unwrap

    return iscoroutinefunction(unwrap(function))


def _is_awaitable(value: object) -> bool:
    if not hasattr(value, "__await__"):
        return False
    # A coroutine that is never awaited warns when it is collected.
    close = getattr(value, "close", None)
    if callable(close):
        close()
    return True


def _described(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {cut_text(str(value), 60)!r}"
