"""The onion: middlewares around a model call, a tool call or a run; the first one is outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from zeus_runtime.errors import RunError, ZeusError, ends_process
from zeus_runtime.middleware.protocol import Middleware
from zeus_runtime.tools.calling_tool import calling

Q = TypeVar("Q")
A = TypeVar("A")


class MiddlewareError(RunError):
    """A middleware's own code failed; the message names the middleware."""

    code = "middleware_failed"


def chain(
    middlewares: Sequence[tuple[str, Middleware]],
    method: str,
    core: Callable[[Q], Awaitable[A]],
    gives: type[A] | None = None,
    passed: Callable[[str, Q, Q], None] = lambda _name, _given, _changed: None,
) -> Callable[[Q], Awaitable[A]]:
    """``core`` wrapped by ``method`` of each (name, middleware) that overrides it.

    Args:
        middlewares: in YAML order; the first is outermost.
        method: one of ``wrap_run``, ``wrap_model_call``, ``wrap_tool_call``.
        core: the function that the innermost ``call_next`` calls.
        gives: the type that each must return; None if the result is not used.
        passed: called with a middleware's name, the request that it got, and the one that it passes on.
    """
    call = core
    # From the innermost outwards: each wraps what was built so far, so the first line is outermost.
    for name, middleware in reversed(middlewares):
        if overrides(type(middleware), method):
            call = _wrapped(name, getattr(middleware, method), call, gives, passed)
    return call


def overrides(middleware: type[Middleware], method: str) -> bool:
    """Whether ``middleware`` overrides the instance method ``method``."""
    return getattr(middleware, method) is not getattr(Middleware, method)


def _wrapped(
    name: str,
    method: Callable[[Q, Callable[[Q], Awaitable[A]]], Awaitable[A]],
    call_next: Callable[[Q], Awaitable[A]],
    gives: type[A] | None,
    passed: Callable[[str, Q, Q], None],
) -> Callable[[Q], Awaitable[A]]:
    async def call(request: Q) -> A:
        # Errors from further inside pass through: they are not this middleware's fault.
        inner: list[BaseException] = []

        async def next_call(changed: Q) -> A:
            if not isinstance(changed, type(request)):
                raise TypeError(f"call_next takes a {type(request).__name__}, not {type(changed).__name__}")
            passed(name, request, changed)
            try:
                return await call_next(changed)
            except (Exception, SystemExit) as error:
                inner.append(error)
                raise

        try:
            # A middleware opens files on its own behalf, not for the tool call that it wraps.
            with calling(None, of_session=True):
                given = await method(request, next_call)
            if gives is not None and not isinstance(given, gives):
                raise TypeError(f"{method.__name__} returned {type(given).__name__}, not a {gives.__name__}")
            return given
        except ZeusError:
            raise
        except (Exception, SystemExit) as error:
            # The exception of an inner one, which was blamed or is the core's; a middleware that raises another has
            # failed itself.
            if error in inner or ends_process(error):
                raise
            raise blamed(name, error) from error

    return call


class Blaming:
    """Name the middleware whose code fails inside; a class, because a step enters it some 10 times."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ZeusError) or ends_process(error):
            return
        if isinstance(error, Exception | SystemExit):
            raise blamed(self._name, error) from error


def blamed(name: str, error: BaseException) -> MiddlewareError:
    """``error`` as the fault of the middleware ``name``."""
    return MiddlewareError(
        f"the middleware {name!r} failed: {type(error).__name__}: {error}",
        remedy="Take it out of `middlewares:` or repair its plugin; then resume the run with --continue.",
    )
