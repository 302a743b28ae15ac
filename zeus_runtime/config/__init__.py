"""The config: a YAML file read with positions, layered, interpolated, validated and typed.

``load`` reads and merges the layers into a Document; ``check`` validates it against the composed schema (``compose``)
and finishes it; ``Document.config()`` is the typed Config. Each name is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.config.diagnostics import ConfigError as ConfigError
    from zeus_runtime.config.diagnostics import Diagnostic as Diagnostic
    from zeus_runtime.config.diagnostics import render as render
    from zeus_runtime.config.document import Document as Document
    from zeus_runtime.config.loading import load as load
    from zeus_runtime.config.model import Config as Config
    from zeus_runtime.config.model import Ref as Ref
    from zeus_runtime.config.schema import compose as compose
    from zeus_runtime.config.secrets import Redactor as Redactor
    from zeus_runtime.config.secrets import Secret as Secret
    from zeus_runtime.config.validate import check as check

_ROOMS = {
    "Config": "model",
    "ConfigError": "diagnostics",
    "Diagnostic": "diagnostics",
    "Document": "document",
    "Redactor": "secrets",
    "Ref": "ref",
    "Secret": "secrets",
    "check": "validate",
    "compose": "schema",
    "load": "loading",
    "render": "diagnostics",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
