"""The config: a YAML file read with positions, layered, interpolated, validated and typed.

``load`` reads and merges the layers into a Document; ``check`` validates it against the composed schema (``compose``)
and finishes it; ``Document.config()`` is the typed Config. Each name is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document as Document
    from zeus_runtime.config.layers.loading import load as load
    from zeus_runtime.config.messages.diagnostics import ConfigError as ConfigError
    from zeus_runtime.config.messages.diagnostics import Diagnostic as Diagnostic
    from zeus_runtime.config.messages.diagnostics import render as render
    from zeus_runtime.config.model import Config as Config
    from zeus_runtime.config.model import Ref as Ref
    from zeus_runtime.config.schema.composed import compose as compose
    from zeus_runtime.config.schema.validate import check as check
    from zeus_runtime.config.secrets.masking import Redactor as Redactor
    from zeus_runtime.config.secrets.masking import Secret as Secret

_ROOMS = {
    "Config": "model",
    "ConfigError": "messages.diagnostics",
    "Diagnostic": "messages.diagnostics",
    "Document": "document",
    "Redactor": "secrets.masking",
    "Ref": "ref",
    "Secret": "secrets.masking",
    "check": "schema.validate",
    "compose": "schema.composed",
    "load": "layers.loading",
    "render": "messages.diagnostics",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
