"""Plugins: the hooks, the discovery and isolation of plugins, the registry of components, and the Homes.

Read ``hookspecs`` first; ``discovery.discover`` is the entry point.
"""

from zeus_runtime.registry.component import KINDS, Component, Kind
from zeus_runtime.registry.discovery import discover, installed_homes
from zeus_runtime.registry.home import (
    Folder,
    accounts_folder,
    bundled_folders,
    bundled_home,
    find,
    find_all,
    search_path,
    user_home,
)
from zeus_runtime.registry.observers import Observers
from zeus_runtime.registry.plugin import Plugin, PluginProblem
from zeus_runtime.registry.reference import load_create, load_options, options_schema, resolve
from zeus_runtime.registry.registry import Registered, Registry
from zeus_runtime.registry.schema import bundled_schema, installed_schema

__all__ = [
    "KINDS",
    "Component",
    "Folder",
    "Kind",
    "Observers",
    "Plugin",
    "PluginProblem",
    "Registered",
    "Registry",
    "bundled_folders",
    "bundled_home",
    "bundled_schema",
    "discover",
    "find",
    "find_all",
    "installed_homes",
    "installed_schema",
    "load_create",
    "load_options",
    "options_schema",
    "accounts_folder",
    "resolve",
    "search_path",
    "user_home",
]
