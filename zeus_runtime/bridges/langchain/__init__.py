"""LangChain tools and ``AgentMiddleware`` as Zeus tools and middlewares.

A plugin calls ``from_langchain_tool`` in a component's ``create``; ``from_langchain_middleware`` makes a ``create``.
Features that Zeus does not support are refused before anything runs. docs/how-to/langchain.md lists the supported ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.bridges.langchain.fitness import UnsupportedError as UnsupportedError
    from zeus_runtime.bridges.langchain.middleware import (
        from_langchain_middleware as from_langchain_middleware,
    )
    from zeus_runtime.bridges.langchain.tools import from_langchain_tool as from_langchain_tool

_ROOMS = {
    "UnsupportedError": "fitness",
    "from_langchain_middleware": "middleware",
    "from_langchain_tool": "tools",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
