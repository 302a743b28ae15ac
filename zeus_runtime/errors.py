"""Errors that a user can act on: each says what went wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import wraps
from types import FunctionType, MemberDescriptorType
from typing import Any, Final

# Those of `inspect`, which is slow to import.
_COROUTINE: Final = 0x80
_ASYNC_GENERATOR: Final = 0x200


class ZeusError(Exception):
    """Something the user can repair.

    Args:
        message: what went wrong, one sentence, no trailing period needed.
        remedy: what to do about it.
        where: a position such as ``zeus.yaml:7:3``, if there is one.
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
    """A run failed because the model, a tool's host or the store failed (exit 1)."""

    code = "run_failed"


class UsageError(ZeusError):
    """The command line is not valid (exit 2)."""

    exit_code = 2
    code = "usage"


class NotFoundError(UsageError):
    """Something that the user named does not exist, or is another user's."""

    code = "not_found"


class BusyError(UsageError):
    """The session is running."""

    code = "busy"


class ChangedError(UsageError):
    """What is to be edited was changed since it was read."""

    code = "changed"


class MissingError(ZeusError):
    """A credential, dependency, plugin or service is missing (exit 4)."""

    exit_code = 4
    code = "missing"


class UnavailableError(MissingError):
    """A requirement of a tool component is missing; the run continues without its tools, and the user gets a notice."""

    code = "unavailable"


class LimitError(ZeusError):
    """A limit from the YAML was reached: steps, seconds, cost or repeated calls (exit 6)."""

    exit_code = 6
    code = "limit"


class CancelledRunError(ZeusError):
    """The user interrupted the run; the session can be continued (exit 130)."""

    exit_code = 130
    code = "cancelled"


class OptionsError(ZeusError):
    """A component's options do not fit together in a way that the schema cannot express (exit 3)."""

    exit_code = 3
    code = "options"


def ends_process(error: BaseException | None) -> bool:
    """Whether an error is ``sys.exit()`` or ``sys.exit(3)``.

    ``sys.exit("text")`` is a failure of the code that calls it: Python would end the process and print the text
    unmasked.
    """
    return isinstance(error, SystemExit) and isinstance(error.code, int | None)


@contextmanager
def masking_errors(mask: Callable[[str], str]) -> Iterator[None]:
    """Inside the block, an error leaves masked, together with its causes and contexts."""
    try:
        yield
    except BaseException as error:
        masked = mask_error(error, mask)
        if masked is error:
            raise
        behind = masked.__context__
        try:
            raise masked
        except BaseException:
            # Raising it here made the original error its context, which still contains the secret.
            masked.__context__ = behind
            raise


class ErrorsMasked:
    """A class whose public coroutines and asynchronous generators let errors out masked: their arguments may contain a
    secret, and errors may quote them.

    This holds for each such method of a subclass, so that none can be forgotten.
    """

    def _error_mask(self) -> Callable[[str], str]:
        """What masks the secrets that are known now."""
        raise NotImplementedError

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, member in tuple(vars(cls).items()):
            if name.startswith("_") or not isinstance(member, FunctionType):
                continue
            if member.__code__.co_flags & _COROUTINE:
                setattr(cls, name, _masked_coroutine(member))
            elif member.__code__.co_flags & _ASYNC_GENERATOR:
                setattr(cls, name, _masked_generator(member))


def _masked_coroutine(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(method)
    async def masked(self: ErrorsMasked, /, *args: Any, **named: Any) -> Any:
        with masking_errors(self._error_mask()):
            return await method(self, *args, **named)

    return masked


def _masked_generator(method: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, None]]:
    @wraps(method)
    async def masked(self: ErrorsMasked, /, *args: Any, **named: Any) -> AsyncGenerator[Any, None]:
        with masking_errors(self._error_mask()):
            async with aclosing(method(self, *args, **named)) as source:
                async for each in source:
                    yield each

    return masked


def mask_error(error: BaseException, mask: Callable[[str], str]) -> BaseException:
    """Mask the texts of an error, its causes and its contexts.

    They are masked in place, so types and traces stay. An error whose text cannot be set (an exception group, or a text
    that ``__str__`` makes) is replaced by one with its name, its masked text and its trace.

    Returns:
        the error to raise: ``error`` itself, or its replacement.
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
    """An error, those in its groups, their causes and their contexts, each once."""
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
            # The texts of OSError, ImportError and SyntaxError, and ``__slots__``, are not in ``vars``.
            if not isinstance(member, MemberDescriptorType):
                continue
            # A member that is empty or read-only: if it contains a secret, the check of the error's text finds it.
            with suppress(AttributeError, TypeError):
                held = member.__get__(error)
                if (shown := _masked(held, mask)) != held:
                    member.__set__(error, shown)


def _clean(
    error: BaseException, mask: Callable[[str], str], clean: dict[int, BaseException]
) -> BaseException:
    """``error`` or its replacement, as recorded in ``clean``."""
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
    """A class with the name of the error's class, and only the exit code and the code of a ``ZeusError``."""
    kind = type(error)
    same = ("__module__", "__qualname__", *(("exit_code", "code") if base is ZeusError else ()))
    return type(kind.__name__, (base,), {name: getattr(kind, name) for name in same})


def _tells(error: BaseException, mask: Callable[[str], str]) -> bool:
    """Whether the text of an error contains something to mask."""
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
