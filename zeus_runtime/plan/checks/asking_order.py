"""Find the middlewares that ask the user before tools run, and check that the approved call is the one that runs.

A middleware's options declare this by methods: ``asks_user() -> bool``. If the user may choose how often to be asked,
``ask_modes() -> AskModes`` lists the choices, and ``with_mode(AskMode)`` returns the same options with the config's
``approvals``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.plan.components import PlannedComponent, PlannedMiddleware
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.approval import AskMode, AskModes


def asks_user(middlewares: Sequence[PlannedComponent]) -> bool:
    """Whether one of them asks the user before tools run."""
    return any(map(_asks, middlewares))


def ask_modes(middlewares: Sequence[PlannedComponent]) -> AskModes | None:
    """The choices of the first middleware that lets the user choose how often to be asked; None if there is none."""
    for each in middlewares:
        modes = getattr(each.value, "ask_modes", None)
        if modes is not None:
            found: AskModes = modes()
            return found
    return None


def with_approvals(
    checked: Checked, middlewares: Sequence[PlannedMiddleware]
) -> tuple[PlannedMiddleware, ...]:
    """The middlewares with the mode of the config's ``approvals``, if it has one."""
    if checked.config.approvals is None:
        return tuple(middlewares)
    return tuple(_with_mode(checked, each, checked.config.approvals) for each in middlewares)


def approvals_unused(checked: Checked, middlewares: Sequence[PlannedComponent]) -> Iterator[Diagnostic]:
    """A problem if ``approvals`` is set and no middleware uses it."""
    if checked.config.approvals is not None and not any(
        hasattr(each.value, "with_mode") for each in middlewares
    ):
        yield checked.diagnostic(
            "approvals-unused",
            "no middleware asks the user, so this key changes nothing",
            ("approvals",),
            hint="add `- approve` as the last line of middlewares, or remove this key",
        )


def changed_after_asking(checked: Checked, middlewares: Sequence[PlannedMiddleware]) -> Iterator[Diagnostic]:
    """A problem for each middleware below an asking one that could change a call after the user approved it."""
    if not asks_user(middlewares):
        return
    from zeus_runtime.middleware.chain import overrides

    asking: str | None = None
    for planned in middlewares:
        if asking is not None and not _asks(planned) and overrides(planned.loaded, "wrap_tool_call"):
            yield checked.diagnostic(
                "changed-after-asking",
                f"{planned.name} stands below {asking}, so it could change a call after the user approved it",
                planned.path,
                hint=f"list {asking} below it",
            )
        if _asks(planned):
            asking = planned.name


def _with_mode(checked: Checked, planned: PlannedMiddleware, mode: AskMode) -> PlannedMiddleware:
    from dataclasses import replace

    from zeus_runtime.plan.components import as_json

    changed = getattr(planned.value, "with_mode", None)
    if changed is None:
        return planned
    value = changed(mode)
    return replace(planned, value=value, options=checked.document.redactor.json(as_json(value)))


def _asks(planned: PlannedComponent) -> bool:
    asks = getattr(planned.value, "asks_user", None)
    return asks is not None and bool(asks())
