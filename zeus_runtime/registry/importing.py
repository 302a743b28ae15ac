"""Import the objects that a plugin names, and give a remedy when that fails."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from zeus_runtime.cutting import unwrapped
from zeus_runtime.errors import MissingError
from zeus_runtime.registry.plugin import Plugin

# Exceptions from a plugin's code that must not end the command: `sys.exit()` at import is a plugin's mistake too.
FAILURES = (Exception, SystemExit)


def import_reference(reference: str, plugin: Plugin) -> Any:
    """Import the object that ``package.module`` or ``package.module:attribute`` names.

    Raises:
        MissingError: the import fails or the attribute does not exist; the error names the plugin, the cause and, for
            an optional dependency, the extra to install.
    """
    module_name, _, attributes = reference.partition(":")
    try:
        found: Any = import_module(module_name)
    except FAILURES as error:
        raise import_error(reference, plugin, error) from error
    for attribute in attributes.split(".") if attributes else ():
        try:
            found = getattr(found, attribute)
        except FAILURES as error:
            raise MissingError(
                f"plugin {plugin} names {reference}, but {module_name} has no '{attributes}' ({brief(error)})",
                remedy=plugin.remedy,
            ) from error
    return found


def import_file(plugin: Plugin, code: bytes) -> Any:
    """A local plugin file as a module under a private name; ``sys.path`` is neither used nor changed.

    Args:
        code: the content that was checked; neither the file nor its compiled copy is read again.

    Raises:
        MissingError: as for ``import_reference``.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    path = Path(plugin.source)
    name = module_of_file(path)
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise MissingError(f"plugin {plugin} is not a Python file", remedy="plugins.files takes .py files")
    module = module_from_spec(spec)
    # Dataclasses and pickling look a class's module up by name.
    sys.modules[name] = module
    try:
        exec(compile(code, plugin.source, "exec", dont_inherit=True), vars(module))
    except FAILURES as error:
        # A half-executed module must not be found by the next one that asks for this name.
        del sys.modules[name]
        raise import_error(plugin.source, plugin, error) from error
    return module


def module_of_file(path: Path) -> str:
    """The private name under which a plugin file's module is in ``sys.modules``."""
    from zlib import crc32

    # By the real path: two files of one name in two folders are two modules.
    return f"_zeus_plugin_file_{path.stem}_{crc32(str(path.resolve()).encode()):08x}"


def import_error(reference: str, plugin: Plugin, error: BaseException) -> MissingError:
    """The error for an import that failed."""
    what = (
        f"plugin {plugin} cannot be imported"
        if reference == plugin.source
        else f"plugin {plugin} needs {reference}"
    )
    return MissingError(f"{what}: {brief(error)}", remedy=_remedy(reference, plugin, error))


def brief(error: BaseException) -> str:
    """An exception in one line: its type, its message and the line of code that raised it."""
    place = ""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    # The last frame of an ImportError belongs to the import system.
    if frame is not None and not isinstance(error, (ImportError, SyntaxError)):
        place = f" ({Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno})"
    text = unwrapped(str(error))
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def _remedy(reference: str, plugin: Plugin, error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return plugin.remedy
    missing = error.name.partition(".")[0]
    if missing == reference.partition(":")[0].partition(".")[0]:
        return f"reinstall {plugin.distribution or plugin.name}: its own module {error.name} is not there"
    requirement = _requirement(plugin, missing)
    if requirement is not None:
        return requirement
    return f"install the distribution that brings the module '{missing}' into this environment"


def _requirement(plugin: Plugin, module: str) -> str | None:
    """The pip command for a module that the plugin's distribution declares under the same name."""
    if plugin.distribution is None:
        return None
    import re
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires(plugin.distribution) or []
    except PackageNotFoundError:
        return None
    for line in declared:
        head = re.match(r"[A-Za-z0-9._-]+", line)
        if head and re.sub(r"[-_.]+", "_", head[0]).lower() == module.lower():
            extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", line)
            return f"pip install '{plugin.distribution}[{extra[1]}]'" if extra else f"pip install '{head[0]}'"
    return None
