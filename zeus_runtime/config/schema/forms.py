"""Annotations taken apart: markers, the bare type, and the fields of a dataclass or TypedDict."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

from zeus_runtime.config.ref import Ref
from zeus_runtime.config.schema.markers import Alias, Doc

M = TypeVar("M")


class Field(NamedTuple):
    """One field of a dataclass or TypedDict.

    Args:
        name: the attribute's name.
        key: its key in YAML and JSON.
        annotation: its type with the markers.
        default: a callable that makes its default; None if it is required.
        may_be_absent: an absent field gets no value at all (a TypedDict's NotRequired key).
    """

    name: str
    key: str
    annotation: Any
    default: Callable[[], Any] | None
    may_be_absent: bool = False

    @property
    def required(self) -> bool:
        return self.default is None and not self.may_be_absent


def split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The bare type and its markers, outermost first: ``Annotated``, aliases and qualifiers removed."""
    markers: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            markers = (*markers, *more)
        elif get_origin(annotation) in _QUALIFIERS:
            (annotation,) = get_args(annotation)
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        # By its name: in Python 3.11 only `typing_extensions` has the class.
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, markers


def marker(markers: tuple[Any, ...], kind: type[M]) -> M | None:
    """The first marker of a kind."""
    return next((entry for entry in markers if isinstance(entry, kind)), None)


def doc(markers: tuple[Any, ...]) -> str | None:
    """The description: ``Doc``, or anything with a text ``documentation`` (PEP 727's Doc)."""
    for entry in markers:
        text = entry.text if isinstance(entry, Doc) else getattr(entry, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def is_pydantic(tp: Any) -> bool:
    """Whether a type speaks pydantic's two methods."""
    return isinstance(tp, type) and hasattr(tp, "model_json_schema") and hasattr(tp, "model_validate")


def is_union(origin: Any) -> bool:
    return origin is typing.Union or origin is types.UnionType


def is_optional(annotation: Any) -> bool:
    """Whether None is one of its values."""
    bare, _ = split(annotation)
    if is_union(get_origin(bare)):
        return any(is_optional(arm) for arm in get_args(bare))
    if get_origin(bare) is Literal:
        return None in get_args(bare)
    return bare in (None, type(None), Any)


def is_ref(tp: Any) -> bool:
    return tp is Ref


def is_record(tp: Any) -> bool:
    """Whether a type has fields: a dataclass or a TypedDict."""
    return isinstance(tp, type) and (dataclasses.is_dataclass(tp) or typing.is_typeddict(tp))


def fields(tp: Any) -> tuple[Field, ...]:
    """The fields of a dataclass (those its constructor takes) or TypedDict.

    Raises:
        TypeError: an annotation names something that cannot be found.
    """
    return _fields(tp)


@lru_cache(maxsize=256)
def _fields(tp: Any) -> tuple[Field, ...]:
    hints = hints_of(tp)
    if typing.is_typeddict(tp):
        return tuple(
            Field(name, _key(name, hint), hint, None, may_be_absent=not _is_required(tp, name, hint))
            for name, hint in hints.items()
        )
    return tuple(
        Field(field.name, _key(field.name, hints[field.name]), hints[field.name], _default(field))
        for field in dataclasses.fields(tp)
        if field.init
    )


def hints_of(thing: Any) -> Mapping[str, Any]:
    """Resolved annotations with their markers.

    Raises:
        TypeError: an annotation names something that cannot be found.
    """
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        name = getattr(thing, "__qualname__", thing)
        raise TypeError(
            f"{name}: an annotation names {error.name!r}, which its module does not import at run time"
        ) from error


def _is_required(tp: Any, name: str, annotation: Any) -> bool:
    """By its qualifier, else by the class: ``__required_keys__`` does not see a qualifier in a postponed annotation."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (typing.Required, typing.NotRequired):
        return get_origin(annotation) is typing.Required
    return name in tp.__required_keys__


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is not dataclasses.MISSING:
        value = field.default
        return lambda: value
    return None


def _key(name: str, annotation: Any) -> str:
    _, markers = split(annotation)
    alias = marker(markers, Alias)
    return alias.key if alias else name


_QUALIFIERS: Final = tuple(
    getattr(typing, name)
    for name in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
    if hasattr(typing, name)
)
