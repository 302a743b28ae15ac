"""Which middlewares ask the user before tools run, and whether what they ask about is what runs.

A middleware's options say so by methods: ``asks_user() -> bool``, and ``ask_modes() -> AskModes`` where its user may
choose how often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.agent.components import PlannedComponent
    from zeus_runtime.agent.middleware import Middleware
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.tools.approval import AskModes


def asks_user(middlewares: Sequence[PlannedComponent]) -> bool:
    """Whether one of them asks the user before tools run."""
    return any(map(_asks, middlewares))


def ask_modes(middlewares: Sequence[PlannedComponent]) -> AskModes | None:
    """How often the first of them that leaves it to the user asks; None where none does."""
    for each in middlewares:
        modes = getattr(each.value, "ask_modes", None)
        if modes is not None:
            found: AskModes = modes()
            return found
    return None


def changed_after_asking(
    checked: Checked, middlewares: Sequence[tuple[PlannedComponent, Middleware]]
) -> Iterator[Diagnostic]:
    """A problem for each that could change a call after the user approved it: one that stands below who asks."""
    if not asks_user([planned for planned, _ in middlewares]):
        return
    from zeus_runtime.agent.chain import overrides

    asking: str | None = None
    for planned, made in middlewares:
        if asking is not None and not _asks(planned) and overrides(made, "wrap_tool_call"):
            yield checked.diagnostic(
                "changed-after-asking",
                f"{planned.name} stands below {asking}, so it could change a call after the user approved it",
                planned.path,
                hint=f"list {asking} below it",
            )
        if _asks(planned):
            asking = planned.name


def _asks(planned: PlannedComponent) -> bool:
    asks = getattr(planned.value, "asks_user", None)
    return asks is not None and bool(asks())
