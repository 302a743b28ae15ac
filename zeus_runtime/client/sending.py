"""Requests as methods of the clients: each is written once, with its arguments and words, and sent by both."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from zeus_runtime.client.calls import ServiceCall

P = ParamSpec("P")
T = TypeVar("T")


class _AsyncSender(Protocol):
    async def send(self, call: ServiceCall[T], /) -> T: ...


class _Sender(Protocol):
    def send(self, call: ServiceCall[T], /) -> T: ...


class AsyncMethod(Generic[P, T]):
    """A method of ``AsyncServiceClient`` that sends the request which a function makes of its arguments."""

    def __init__(self, make: Callable[P, ServiceCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, client: _AsyncSender | None, _: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]:
        make = self._make

        @wraps(make)
        async def method(*args: P.args, **named: P.kwargs) -> T:
            assert client is not None, "it is a method of a client"
            return await client.send(make(*args, **named))

        return method


class SyncMethod(Generic[P, T]):
    """A method of ``ServiceClient`` that sends the request which a function makes of its arguments."""

    def __init__(self, make: Callable[P, ServiceCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, client: _Sender | None, _: type[Any]) -> Callable[P, T]:
        make = self._make

        @wraps(make)
        def method(*args: P.args, **named: P.kwargs) -> T:
            assert client is not None, "it is a method of a client"
            return client.send(make(*args, **named))

        return method
