"""Errors that a user can act on: each says what went wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ZeusError(Exception):
    """Something the user can repair.

    Args:
        message: what went wrong, one sentence, no trailing period needed.
        remedy: what to do about it.
        where: a position such as ``zeus.yaml:7:3``, when there is one.
    """

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, remedy: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.where = where

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.remedy}" if self.remedy else ""
        return f"{place}{self.message}{hint}"


class RunError(ZeusError):
    """A run failed: the model, a tool's host or the store did not do their part (exit 1)."""

    code = "run_failed"


class UsageError(ZeusError):
    """The command line does not fit (exit 2)."""

    exit_code = 2
    code = "usage"


class MissingError(ZeusError):
    """A credential, dependency, plugin or service is not there (exit 4)."""

    exit_code = 4
    code = "missing"


class UnavailableError(MissingError):
    """What a tool component needs is not there, and a run goes on without its tools; the user is told why."""

    code = "unavailable"


class LimitError(ZeusError):
    """A limit from the YAML was reached: steps, seconds, money or repeated calls (exit 6)."""

    exit_code = 6
    code = "limit"


class CancelledRunError(ZeusError):
    """The user interrupted the run; the thread can go on (exit 130)."""

    exit_code = 130
    code = "cancelled"


class OptionsError(ZeusError):
    """A component's options do not fit together in a way the schema cannot say (exit 3)."""

    exit_code = 3
    code = "options"


def mask_error(error: BaseException, mask: Callable[[str], str]) -> None:
    """Mask, in place, what an error says and what the errors behind it say: their types and traces stay."""
    left, seen = [error], set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.args = tuple(_masked(value, mask) for value in each.args)
        for name, value in vars(each).items():
            vars(each)[name] = _masked(value, mask)
        if isinstance(each, OSError):
            # What these print is no attribute in ``vars``.
            for name in ("strerror", "filename", "filename2"):
                setattr(each, name, _masked(getattr(each, name), mask))
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
        left += [behind for behind in (each.__cause__, each.__context__) if behind is not None]


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(each, mask) for each in value]
    if isinstance(value, tuple):
        made = [_masked(each, mask) for each in value]
        return value._make(made) if hasattr(value, "_make") else tuple(made)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        # A diagnostic: what it says, and the file it says it of.
        from dataclasses import replace

        held = {name: getattr(value, name) for name in value.__dataclass_fields__}
        changes = {name: new for name, old in held.items() if (new := _masked(old, mask)) != old}
        return replace(value, **changes) if changes else value
    return value
