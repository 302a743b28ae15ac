"""Models: the interface, profiles, messages, errors, retry, cassettes. Each name is loaded at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.models.error_classification import model_error as model_error
    from zeus_runtime.models.errors import ModelError as ModelError
    from zeus_runtime.models.interface import Model as Model
    from zeus_runtime.models.interface import ModelPiece as ModelPiece
    from zeus_runtime.models.interface import ModelRequest as ModelRequest
    from zeus_runtime.models.interface import ModelResponse as ModelResponse
    from zeus_runtime.models.interface import Usage as Usage
    from zeus_runtime.models.profiles import ModelProfile as ModelProfile
    from zeus_runtime.models.profiles import lookup as lookup
    from zeus_runtime.models.recorder import Recorder as Recorder
    from zeus_runtime.models.retry import with_retry as with_retry

_ROOMS = {
    "Model": "interface",
    "ModelError": "errors",
    "ModelPiece": "interface",
    "ModelProfile": "profiles",
    "ModelRequest": "interface",
    "ModelResponse": "interface",
    "Recorder": "recorder",
    "Usage": "interface",
    "lookup": "profiles",
    "model_error": "error_classification",
    "with_retry": "retry",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
