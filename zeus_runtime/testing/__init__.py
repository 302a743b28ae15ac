"""For tests of agents and of plugins: a scripted model and conformance classes. Each name is loaded at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.testing.model_conformance import ModelConformance as ModelConformance
    from zeus_runtime.testing.scripted_model import ScriptedModel as ScriptedModel
    from zeus_runtime.testing.scripted_model import calling as calling

_ROOMS = {
    "ModelConformance": "model_conformance",
    "ScriptedModel": "scripted_model",
    "calling": "scripted_model",
}

__all__ = [*sorted(_ROOMS)]


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
