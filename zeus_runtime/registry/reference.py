"""The objects that a component's ``create`` and ``options`` name, imported at first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zeus_runtime.errors import MissingError
from zeus_runtime.registry.importing import brief, import_reference
from zeus_runtime.registry.registry import Registered


def resolve(registered: Registered, reference: str) -> Any:
    """The object that ``"package.module:attribute"`` of a component names.

    Raises:
        MissingError: it cannot be imported; the error names the plugin and, for an optional dependency, the extra to
            install.
    """
    return import_reference(reference, registered.plugin)


def load_create(registered: Registered) -> Callable[..., Any]:
    """The component's ``create(options, context)``.

    Raises:
        MissingError: it cannot be imported, or is not callable.
    """
    create = registered.component.create
    found = resolve(registered, create) if isinstance(create, str) else create
    if not callable(found):
        raise _wrong(registered, f"{create} is not a function")
    return found


def load_options(registered: Registered) -> type | None:
    """The component's ``Options`` class; None if it takes no option.

    Raises:
        MissingError: it cannot be imported, or is not a class.
    """
    options = registered.component.options
    found = resolve(registered, options) if isinstance(options, str) else options
    if found is not None and not isinstance(found, type):
        raise _wrong(registered, f"{options} is not a class")
    return found


def options_schema(registered: Registered) -> dict[str, Any] | None:
    """The JSON Schema of the component's options; None if it takes no option.

    Raises:
        MissingError: the Options cannot be imported, or have a field that a schema cannot describe.
    """
    options = load_options(registered)
    if options is None:
        return None
    from zeus_runtime.config.schema.annotations import schema_of

    try:
        return schema_of(options)
    # An author's annotations are evaluated here, and may name what is not there.
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise _wrong(registered, f"its Options have no schema: {brief(error)}") from error


def _wrong(registered: Registered, what: str) -> MissingError:
    kind = registered.kind.replace("_", " ")
    return MissingError(
        f"the {kind} '{registered.name}' of plugin {registered.plugin}: {what}",
        remedy=registered.plugin.remedy,
    )
