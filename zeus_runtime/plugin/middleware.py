"""Middlewares: six methods, each optional, called in the order of the YAML's lines.

``tools`` and ``sections`` add to the prompt; ``edits`` proposes removals from the view; ``wrap_run``,
``wrap_model_call`` and ``wrap_tool_call`` surround one run, one request, one call.

A component's ``create`` is the class. Each run calls it with the options and its ``RunContext``; planning creates no
instance and calls only the class method ``tools``::

    from zeus_runtime.plugin import Component, hookimpl
    from zeus_runtime.plugin.middleware import Middleware

    class Patience(Middleware):
        def __init__(self, options, context):
            self.counter = context.counter

    @hookimpl
    def register_middlewares():
        return [Component("patience", create=Patience)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.middleware.contexts import Notes as Notes
    from zeus_runtime.middleware.protocol import CallModel as CallModel
    from zeus_runtime.middleware.protocol import CallRun as CallRun
    from zeus_runtime.middleware.protocol import CallTool as CallTool
    from zeus_runtime.middleware.protocol import Middleware as Middleware
    from zeus_runtime.middleware.protocol import Turn as Turn
    from zeus_runtime.prompt.sections import Section as Section
    from zeus_runtime.prompt.sections import SourcedText as SourcedText

_ROOMS = {
    "CallModel": "middleware.protocol",
    "CallRun": "middleware.protocol",
    "CallTool": "middleware.protocol",
    "Middleware": "middleware.protocol",
    "Notes": "middleware.contexts",
    "Section": "prompt.sections",
    "SourcedText": "prompt.sections",
    "Turn": "middleware.protocol",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
