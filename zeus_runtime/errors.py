"""Errors that a user can act on: each says what went wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import MemberDescriptorType
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


@contextmanager
def masking_errors(mask: Callable[[str], str]) -> Iterator[None]:
    """While inside, an error leaves masked, with all that is behind it."""
    try:
        yield
    except Exception as error:
        masked = mask_error(error, mask)
        if masked is error:
            raise
        behind = masked.__context__
        try:
            raise masked
        except Exception:
            # Raising it here put the error itself behind it, which still tells the secret.
            masked.__context__ = behind
            raise


def mask_error(error: BaseException, mask: Callable[[str], str]) -> BaseException:
    """Mask what an error says and what the errors behind it say.

    They are masked in place: their types and traces stay. One whose text cannot be set (an exception group, or a text
    that ``__str__`` makes) is replaced by one with its name, its masked text and its trace.

    Returns:
        the error to raise: ``error`` itself, or what replaces it.
    """
    found = _with_behind(error)
    for each in found:
        _mask_parts(each, mask)
    clean: dict[int, BaseException] = {}
    for each in found:
        _clean(each, mask, clean)
    for each in found:
        made, suppressed = clean[id(each)], each.__suppress_context__
        made.__cause__ = each.__cause__ and clean[id(each.__cause__)]
        made.__context__ = each.__context__ and clean[id(each.__context__)]
        made.__suppress_context__ = suppressed
    return clean[id(error)]


def _with_behind(error: BaseException) -> list[BaseException]:
    """An error, those in its groups and those behind them, each once."""
    left, found = [error], {}
    while left:
        each = left.pop()
        if id(each) in found:
            continue
        found[id(each)] = each
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
        left += [behind for behind in (each.__cause__, each.__context__) if behind is not None]
    return list(found.values())


def _mask_parts(error: BaseException, mask: Callable[[str], str]) -> None:
    error.args = tuple(_masked(value, mask) for value in error.args)
    for name, value in vars(error).items():
        vars(error)[name] = _masked(value, mask)
    for kind in type(error).__mro__:
        for member in vars(kind).values():
            # What OSError, ImportError and SyntaxError print, and ``__slots__``, is no attribute in ``vars``.
            if not isinstance(member, MemberDescriptorType):
                continue
            # One that is empty, or may only be read: what it tells nevertheless is seen in the text.
            with suppress(AttributeError, TypeError):
                held = member.__get__(error)
                if (shown := _masked(held, mask)) != held:
                    member.__set__(error, shown)


def _clean(
    error: BaseException, mask: Callable[[str], str], clean: dict[int, BaseException]
) -> BaseException:
    """``error``, or what replaces it, as ``clean`` keeps it."""
    if id(error) in clean:
        return clean[id(error)]
    made = error
    if isinstance(error, BaseExceptionGroup):
        inner = [_clean(each, mask, clean) for each in error.exceptions]
        if _tells(error, mask) or [*map(id, inner)] != [*map(id, error.exceptions)]:
            group = ExceptionGroup if isinstance(error, ExceptionGroup) else BaseExceptionGroup
            made = _named_as(error, group)(mask(error.message), inner)
    elif _tells(error, mask):
        kinds: tuple[type[BaseException], ...] = (ZeusError, Exception, BaseException)
        base = next(kind for kind in kinds if isinstance(error, kind))
        made = _named_as(error, base)(mask(_said(str, error)))
    if made is not error:
        made.__traceback__ = error.__traceback__
        for note in getattr(error, "__notes__", ()):
            made.add_note(note)
    clean[id(error)] = made
    return made


def _named_as(error: BaseException, base: type[BaseException]) -> Callable[..., BaseException]:
    """A class with the name of the error's and nothing else of it but what a ``ZeusError`` exits with."""
    kind = type(error)
    same = ("__module__", "__qualname__", *(("exit_code", "code") if base is ZeusError else ()))
    return type(kind.__name__, (base,), {name: getattr(kind, name) for name in same})


def _tells(error: BaseException, mask: Callable[[str], str]) -> bool:
    """Whether the text of an error holds something that is masked."""
    return any(mask(said) != said for said in (_said(str, error), _said(repr, error)))


def _said(write: Callable[[object], str], error: BaseException) -> str:
    try:
        return write(error)
    except Exception:  # noqa: BLE001 - whatever ``__str__`` raises
        return ""  # no program can print it either


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, bytes):
        text = value.decode("utf-8", "surrogateescape")
        return value if (shown := mask(text)) == text else shown.encode("utf-8", "surrogateescape")
    if type(value) is dict:
        return {_masked(key, mask): _masked(each, mask) for key, each in value.items()}
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
