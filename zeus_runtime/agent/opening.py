"""The toolsets of an agent, opened once for all its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_runtime.events import Event, Notice

if TYPE_CHECKING:
    from zeus_runtime.agent.plan import Plan
    from zeus_runtime.tools import Toolset


class OpenToolsets:
    """What of an agent's tools is open; nothing is until ``opened`` is asked for.

    Args:
        plan: names them.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._toolsets: dict[str, Toolset] = {}
        self._opening: asyncio.Task[None] | None = None
        self._untold: list[Notice] = []
        self._listeners: list[Callable[[Event], None]] = []

    def serves(self, plan: Plan) -> bool:
        """Whether ``plan`` has the same toolsets, set up in the same way."""

        def needs(each: Plan) -> object:
            config = each.config
            return config.mcp_servers, config.connectors, [(one.name, one.value) for one in each.opens]

        return plan is self._plan or needs(plan) == needs(self._plan)

    async def opened(self) -> Mapping[str, Toolset]:
        """The toolsets by component name, opened at the first call; whoever comes meanwhile waits for the same.

        Later calls let them open what could not be opened before.

        Raises:
            MissingError: a toolset lacks a dependency.
        """
        if not self._plan.opens:
            return {}
        if self._opening is not None and self._opening.done():
            await asyncio.gather(*(each.resume() for each in self._toolsets.values()))
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="open toolsets")
        try:
            await asyncio.shield(self._opening)
        except BaseException:
            if self._opening.done():
                self._opening = None
            raise
        return self._toolsets

    async def _open(self) -> None:
        plan = self._plan
        build = replace(plan.build, counter=plan.token_counter)
        for planned in plan.opens:
            self._toolsets[planned.name] = planned.create(build)
        await asyncio.gather(*(each.open(self._tell) for each in self._toolsets.values()))

    def _tell(self, code: str, message: str) -> None:
        notice = Notice(code, message)
        if not self._listeners:
            self._untold.append(notice)
        for listener in tuple(self._listeners):
            listener(notice)

    @contextmanager
    def telling(self, emit: Callable[[Event], None]) -> Iterator[None]:
        """While inside, what toolsets have to tell goes to ``emit`` too; first what nobody has heard."""
        untold, self._untold = self._untold, []
        for notice in untold:
            emit(notice)
        self._listeners.append(emit)
        try:
            yield
        finally:
            self._listeners.remove(emit)

    async def aclose(self) -> None:
        """Close what is open, and what is still opening."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        toolsets, self._toolsets = self._toolsets, {}
        self._opening = None
        await asyncio.gather(*(each.aclose() for each in toolsets.values()))
