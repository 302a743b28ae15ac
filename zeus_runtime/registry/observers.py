"""Pass a run's events to the plugins that observe, so that none of them can break the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.registry.importing import FAILURES, brief
from zeus_runtime.registry.plugin import HookFunction

if TYPE_CHECKING:
    from zeus_runtime.events import Event
    from zeus_runtime.notice import Notice


class Observers:
    """The observers of one run; it remembers failed ones, so that each failure is reported once.

    Args:
        functions: ``Registry.observers``.
    """

    def __init__(self, functions: Sequence[HookFunction]) -> None:
        self._functions = tuple(functions)
        self._failed: set[str] = set()

    def notify(self, event: Event) -> tuple[Notice, ...]:
        """Pass the event to every observer; the returned notices are for the run's stream.

        An observer that failed gets the next events too, because the fault may concern one event only.
        """
        from zeus_runtime.notice import Notice

        notices: list[Notice] = []
        for plugin, function in self._functions:
            try:
                function(event=event)
            except FAILURES as error:
                if plugin.name not in self._failed:
                    self._failed.add(plugin.name)
                    notices.append(
                        Notice(
                            "observer-failed",
                            f"on_event of plugin {plugin} raised {brief(error)}; the run continues",
                        )
                    )
        return tuple(notices)
