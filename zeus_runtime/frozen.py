"""``@dataclass(frozen=True)`` with methods that all classes share, so that defining a class is cheap.

The standard library compiles six functions for each frozen class: half a millisecond, and 40 % of the CPU time of
`zeus validate`. Here the standard library still reads the fields (``fields``, ``replace``, ``asdict`` and ``match``
work), and six functions for all classes look them up. Making an instance is as fast; comparing and hashing are slower,
so use the standard library's for values that are compared in a loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from inspect import Signature

T = TypeVar("T")


if not TYPE_CHECKING:

    def dataclass(*, frozen: bool, eq: bool = True) -> Callable[[type[T]], type[T]]:
        """A frozen dataclass; its fields are the positional arguments of its constructor.

        Args:
            frozen: True; use ``dataclasses.dataclass`` for objects that can change.
            eq: whether to compare and hash by the fields' values.

        Raises:
            TypeError: it is not frozen, or a field is ``kw_only``, ``init=False`` or an ``InitVar``.
        """
        if not frozen:
            raise TypeError("only frozen=True; take dataclasses.dataclass for what can change")
        return lambda cls: _frozen(cls, eq=eq)


class _Shape(NamedTuple):
    """The fields of a class, for the shared methods.

    Args:
        names: all fields, in the order of their definition.
        required: those without a default.
        template: every field's default, in that order; ``dataclasses.MISSING`` where there is none.
        factories: the functions that make a new default.
        shown, compared, hashed: the fields of ``repr``, ``==`` and ``hash``.
        checks: whether the class has a ``__post_init__``.
    """

    names: tuple[str, ...]
    required: frozenset[str]
    template: dict[str, Any]
    factories: tuple[tuple[str, Callable[[], Any]], ...]
    shown: tuple[str, ...]
    compared: tuple[str, ...]
    hashed: tuple[str, ...]
    checks: bool


_SHAPE: Final = "__frozen_shape__"


def _frozen(cls: Any, *, eq: bool) -> Any:
    documented = cls.__doc__
    cls.__doc__ = (
        documented or cls.__name__
    )  # else the standard library computes a signature for it, which is slow
    above = [getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:]]
    extends = any(params.frozen for params in above if params is not None)
    dataclasses.dataclass(init=False, repr=False, eq=False, frozen=extends)(cls)
    cls.__dataclass_params__.frozen = True
    shape = _shape(cls)
    setattr(cls, _SHAPE, shape)
    if not documented:
        cls.__doc__ = f"{cls.__name__}({', '.join(shape.names)})"
    compares = {"__eq__": _eq, "__hash__": _hash} if eq else {}
    for name, method in {**_METHODS, **compares}.items():
        if cls.__dict__.get(name) is None:
            setattr(cls, name, method)
    return cls


def _shape(cls: Any) -> _Shape:
    listed = dataclasses.fields(cls)
    names = tuple(each.name for each in listed)
    if names != cls.__match_args__:
        raise TypeError(f"{cls.__qualname__}: kw_only, init=False and InitVar need dataclasses.dataclass")
    missing = dataclasses.MISSING
    factories = tuple(
        (each.name, each.default_factory) for each in listed if each.default_factory is not missing
    )
    template = {each.name: each.default for each in listed}
    return _Shape(
        names=names,
        required=frozenset(name for name in names if template[name] is missing) - dict(factories).keys(),
        template=template,
        factories=factories,
        shown=tuple(each.name for each in listed if each.repr),
        compared=tuple(each.name for each in listed if each.compare),
        hashed=tuple(each.name for each in listed if (each.compare if each.hash is None else each.hash)),
        checks=hasattr(cls, "__post_init__"),
    )


def _init(self: Any, /, *args: Any, **named: Any) -> None:
    shape: _Shape = self.__frozen_shape__
    if not named and len(args) == len(shape.names):
        # Every field by position, as events and what a step makes are written: nothing to fill in, nothing to refuse.
        self.__dict__.update(zip(shape.names, args, strict=True))
        if shape.checks:
            self.__post_init__()
        return
    given = {**dict(zip(shape.names, args, strict=False)), **named} if args else named
    values = {**shape.template, **given}
    if (
        len(given) != len(args) + len(named)
        or len(values) != len(shape.template)
        or not given.keys() >= shape.required
    ):
        _refuse(type(self), args, named)
    for name, make in shape.factories:
        if name not in given:
            values[name] = make()
    self.__dict__.update(values)
    if shape.checks:
        self.__post_init__()


def copied(value: T, /, **changes: Any) -> T:
    """A copy of an instance of such a class with ``changes``, as ``dataclasses.replace`` makes it, in less time.

    Raises:
        TypeError: a change names no field.
    """
    former: Any = value
    shape: _Shape = former.__frozen_shape__
    if not changes.keys() <= shape.template.keys():
        _refuse(type(former), (), {**{name: getattr(former, name) for name in shape.names}, **changes})
    made: Any = object.__new__(type(former))
    fields = former.__dict__
    # Only fields: what a method remembers about the instance may not hold for the copy.
    made.__dict__.update({name: fields[name] for name in shape.names})
    made.__dict__.update(changes)
    if shape.checks:
        made.__post_init__()
    return cast("T", made)


def _refuse(cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise the same error for a constructor's arguments as Python raises for those of a function."""
    try:
        _signature(cls).bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{cls.__qualname__}: {error}") from None


def _signature(cls: Any) -> Signature:
    from inspect import Parameter, Signature

    shape: _Shape = cls.__frozen_shape__
    defaults = {**shape.template, **dict(shape.factories)}
    return Signature(
        [
            Parameter(
                each.name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if each.name in shape.required else defaults[each.name],
                annotation=each.type,
            )
            for each in dataclasses.fields(cls)
        ],
        return_annotation=None,
    )


class _ShownSignature:
    """The result of ``inspect.signature`` for a class, whose ``__init__`` accepts any arguments."""

    def __get__(self, instance: object, owner: type) -> Signature:
        if owner.__init__ is not _init:  # type: ignore[misc]
            raise AttributeError("__signature__")
        return _signature(owner)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__frozen_shape__.shown)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared: tuple[str, ...] = getattr(self, _SHAPE).compared
    return tuple(getattr(self, name) for name in compared) == tuple(getattr(other, name) for name in compared)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self.__frozen_shape__.hashed))


def _setattr(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """A subclass that is not a dataclass may have further mutable attributes, as in the standard library."""
    return _SHAPE in vars(type(self)) or name in self.__frozen_shape__.names


_METHODS: Final[dict[str, Any]] = {
    "__init__": _init,
    "__repr__": _repr,
    "__signature__": _ShownSignature(),
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
