"""For plugin authors: the hook, the component, its options.

A plugin is a module with one function, found by an entry point in the group ``zeus.plugins``::

    from zeus_runtime.plugin import Component, hookimpl

    @hookimpl
    def register_tools():
        return [Component("greet", create="acme.greet:create", options="acme.greet:Options")]

``Options`` is a ``dataclass`` (this package's) or a pydantic model; its annotations are the YAML's schema: ``Doc``,
``Minimum``, ``AlsoCalled`` and the other markers below add to it. Each kind of component has a module in this package.

``create(options, context)`` gets the agent's ``PlanContext``, which exists without a run. A middleware belongs to a
run: its ``create`` is its class, which each run calls with a ``RunContext``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.command_lines import zeus_command as zeus_command
    from zeus_runtime.config.messages.diagnostics import ConfigError as ConfigError
    from zeus_runtime.config.messages.diagnostics import Diagnostic as Diagnostic
    from zeus_runtime.config.model import Config as Config
    from zeus_runtime.config.model import SubAgent as SubAgent
    from zeus_runtime.config.ref import Ref as Ref
    from zeus_runtime.config.schema.annotations import Alias as Alias
    from zeus_runtime.config.schema.annotations import AlsoCalled as AlsoCalled
    from zeus_runtime.config.schema.annotations import Doc as Doc
    from zeus_runtime.config.schema.annotations import Maximum as Maximum
    from zeus_runtime.config.schema.annotations import MaxLength as MaxLength
    from zeus_runtime.config.schema.annotations import Minimum as Minimum
    from zeus_runtime.config.schema.annotations import MinLength as MinLength
    from zeus_runtime.config.schema.annotations import Pattern as Pattern
    from zeus_runtime.config.schema.annotations import RefTo as RefTo
    from zeus_runtime.config.schema.markers import Destination as Destination
    from zeus_runtime.config.schema.markers import Executes as Executes
    from zeus_runtime.config.schema.markers import FileRelative as FileRelative
    from zeus_runtime.config.schema.markers import Tunable as Tunable
    from zeus_runtime.config.schema.markers import WorkRelative as WorkRelative
    from zeus_runtime.config.secrets.masking import Redactor as Redactor
    from zeus_runtime.config.secrets.masking import Secret as Secret
    from zeus_runtime.config.secrets.placeholders import cut_place as cut_place
    from zeus_runtime.cutting import cut_address as cut_address
    from zeus_runtime.cutting import cut_text as cut_text
    from zeus_runtime.cutting import first_line as first_line
    from zeus_runtime.cutting import last_words as last_words
    from zeus_runtime.cutting import spare as spare
    from zeus_runtime.cutting import unwrapped as unwrapped
    from zeus_runtime.errors import LimitError as LimitError
    from zeus_runtime.errors import MissingError as MissingError
    from zeus_runtime.errors import OptionsError as OptionsError
    from zeus_runtime.errors import RunError as RunError
    from zeus_runtime.errors import UnavailableError as UnavailableError
    from zeus_runtime.errors import ZeusError as ZeusError
    from zeus_runtime.escaping import printable as printable
    from zeus_runtime.frozen import dataclass as dataclass
    from zeus_runtime.middleware.contexts import PlanContext as PlanContext
    from zeus_runtime.middleware.contexts import RunContext as RunContext
    from zeus_runtime.plan.checks.misfits import Misfit as Misfit
    from zeus_runtime.plan.checks.misfits import Surroundings as Surroundings
    from zeus_runtime.registry.component import Component as Component
    from zeus_runtime.registry.home import accounts_folder as accounts_folder
    from zeus_runtime.registry.hookspecs import hookimpl as hookimpl
    from zeus_runtime.trust.compiled import compiled_apart as compiled_apart
    from zeus_runtime.trust.decision import UntrustedError as UntrustedError
    from zeus_runtime.trust.parts import Command as Command
    from zeus_runtime.trust.parts import Remote as Remote

API_VERSION = 1
"""Increased when a name below this package is removed or changes its meaning."""

_ROOMS = {
    "Alias": "config.schema.annotations",
    "AlsoCalled": "config.schema.annotations",
    "Command": "trust.parts",
    "Component": "registry.component",
    "Config": "config.model",
    "ConfigError": "config.messages.diagnostics",
    "Destination": "config.schema.markers",
    "Diagnostic": "config.messages.diagnostics",
    "Doc": "config.schema.annotations",
    "Executes": "config.schema.markers",
    "FileRelative": "config.schema.markers",
    "LimitError": "errors",
    "MaxLength": "config.schema.annotations",
    "Maximum": "config.schema.annotations",
    "MinLength": "config.schema.annotations",
    "Minimum": "config.schema.annotations",
    "Misfit": "plan.checks.misfits",
    "MissingError": "errors",
    "OptionsError": "errors",
    "PlanContext": "middleware.contexts",
    "Pattern": "config.schema.annotations",
    "Redactor": "config.secrets.masking",
    "Ref": "config.ref",
    "RefTo": "config.schema.annotations",
    "Remote": "trust.parts",
    "RunContext": "middleware.contexts",
    "RunError": "errors",
    "Secret": "config.secrets.masking",
    "SubAgent": "config.model",
    "Surroundings": "plan.checks.misfits",
    "Tunable": "config.schema.markers",
    "UnavailableError": "errors",
    "UntrustedError": "trust.decision",
    "WorkRelative": "config.schema.markers",
    "ZeusError": "errors",
    "accounts_folder": "registry.home",
    "compiled_apart": "trust.compiled",
    "cut_address": "cutting",
    "cut_place": "config.secrets.placeholders",
    "cut_text": "cutting",
    "dataclass": "frozen",
    "first_line": "cutting",
    "hookimpl": "registry.hookspecs",
    "last_words": "cutting",
    "printable": "escaping",
    "spare": "cutting",
    "unwrapped": "cutting",
    "zeus_command": "command_lines",
}

__all__ = ["API_VERSION", *sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
