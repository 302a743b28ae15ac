"""Validated JSON to typed, frozen values: dataclasses, tuples, enums, secrets."""

from __future__ import annotations

import enum
import pathlib
import typing
from collections import abc
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from zeus_runtime.config.schema.forms import (
    Field,
    fields,
    is_pydantic,
    is_record,
    is_ref,
    is_union,
    marker,
    split,
)
from zeus_runtime.config.schema.markers import Maximum, MaxLength, Minimum, MinLength, Pattern, RefTo
from zeus_runtime.config.secrets.masking import HiddenStr, Secret
from zeus_runtime.cutting import cut_text


class BuildError(ValueError):
    """A JSON value does not fit a type.

    Args:
        message: what is wrong, without the value of a secret.
        path: where in the value.
    """

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        place = ".".join(str(step) for step in self.path)
        return f"{place}: {self.message}" if place else self.message


def build(annotation: Any, value: Any) -> Any:
    """The typed value that a JSON value stands for; lists become tuples where the type says so, defaults are filled in.

    It checks as it goes, so it is safe on JSON that no schema has seen; for all problems at once, with positions,
    validate first.

    Args:
        annotation: a type ``schema_of`` knows.
        value: JSON.

    Raises:
        BuildError: the value does not fit.
    """
    return _build(annotation, value, (), ())


def _build(annotation: Any, value: Any, path: tuple[str | int, ...], inherited: tuple[Any, ...]) -> Any:
    tp, own = split(annotation)
    markers = (*own, *inherited)
    origin, args = get_origin(tp), get_args(tp)
    if tp is Any or tp is object:
        return value
    if is_union(origin):
        return _limited(_union(args, value, path, markers), own, path)
    if origin is Literal:
        return _choice(args, value, path)
    if is_ref(tp):
        return _ref(tp, marker(markers, RefTo), value, path)
    if is_pydantic(tp):
        return _pydantic(tp, value, path)
    if is_record(tp):
        return _record(tp, value, path)
    if isinstance(tp, type) and issubclass(tp, enum.Enum):
        return _choice(tuple(tp), value, path)
    kind = origin or tp
    refs = tuple(entry for entry in markers if isinstance(entry, RefTo))
    if kind in _LISTS:
        return _limited(_list(kind, args, value, path, refs), own, path)
    if kind in (dict, abc.Mapping, abc.MutableMapping):
        return _map(args, value, path, refs)
    return _limited(_scalar(tp, value, path), own, path)


_LISTS = (list, tuple, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection, abc.Set)


def _scalar(tp: Any, value: Any, path: tuple[str | int, ...]) -> Any:
    if tp in (None, type(None)) and value is None:
        return None
    if tp is bool and isinstance(value, bool):
        return value
    if tp in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        # JSON Schema counts 5.0 as an integer.
        if tp is int and (isinstance(value, int) or value.is_integer()):
            return int(value)
        if tp is float:
            try:
                return float(value)
            except OverflowError:
                raise BuildError("the number is too large", path) from None
    if tp is str and isinstance(value, str):
        return value
    if tp is Secret and isinstance(value, str | Secret):
        return value if isinstance(value, Secret) else Secret(value)
    if isinstance(tp, type) and issubclass(tp, pathlib.PurePath) and isinstance(value, str):
        return tp(value)
    raise BuildError(f"expected {getattr(tp, '__name__', tp)}, got {_shown(value)}", path)


def _limited(value: Any, markers: tuple[Any, ...], path: tuple[str | int, ...]) -> Any:
    for entry in markers:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(entry, Minimum) and value < entry.value:
                raise BuildError(f"{value} is less than {entry.value:g}", path)
            if isinstance(entry, Maximum) and value > entry.value:
                raise BuildError(f"{value} is more than {entry.value:g}", path)
        if isinstance(value, str | Secret | list | tuple | abc.Set):
            if isinstance(entry, MinLength) and len(value) < entry.value:
                raise BuildError(f"shorter than {entry.value}", path)
            if isinstance(entry, MaxLength) and len(value) > entry.value:
                raise BuildError(f"longer than {entry.value}", path)
        if isinstance(entry, Pattern) and isinstance(value, str):
            import re

            if not re.search(entry.regex, value):
                raise BuildError(f"does not match {entry.regex}", path)
    return value


def _choice(choices: tuple[Any, ...], value: Any, path: tuple[str | int, ...]) -> Any:
    for choice in choices:
        written = choice.value if isinstance(choice, enum.Enum) else choice
        # By the type too, because `True == 1` in Python.
        if type(written) is type(value) and written == value:
            return choice
        if isinstance(written, str) and isinstance(value, str) and written == value:
            return choice
    listed = ", ".join(repr(choice.value if isinstance(choice, enum.Enum) else choice) for choice in choices)
    raise BuildError(f"expected one of {listed}, got {_shown(value)}", path)


def _union(args: tuple[Any, ...], value: Any, path: tuple[str | int, ...], markers: tuple[Any, ...]) -> Any:
    errors = []
    refs = tuple(entry for entry in markers if isinstance(entry, RefTo))
    for arm in sorted(args, key=lambda arm: not _exact(arm, value)):
        try:
            return _build(arm, value, path, refs)
        except BuildError as error:
            errors.append(error)
    # The arm that got deepest into the value is the one that was meant.
    raise max(errors, key=lambda error: len(error.path))


def _exact(arm: Any, value: Any) -> bool:
    """Whether an arm is the value's very type: keeps 5 an int and 5.0 a float in ``int | float``."""
    tp, _ = split(arm)
    return tp is type(value) or (tp is str and isinstance(value, str))


def _ref(tp: Any, to: RefTo | None, value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, str):
        if to is not None and to.plain is not None:
            component, option = to.plain
            return tp(component, {option: value})
        return tp(value)
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, options),) = value.items()
        if options is None or isinstance(options, Mapping):
            return tp(name, dict(options or {}))
    raise BuildError(f"expected `name` or `{{name: {{options}}}}`, got {_shown(value)}", path)


def _record(tp: Any, value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, tp if not typing.is_typeddict(tp) else ()):
        return value
    if not isinstance(value, Mapping):
        raise BuildError(f"expected a mapping, got {_shown(value)}", path)
    known = {field.key: field for field in fields(tp)}
    for key in value:
        if key not in known:
            raise BuildError(f"unknown key {key!r}; the keys are {', '.join(known)}", path)
    given = {
        field.name if not typing.is_typeddict(tp) else field.key: _build(
            field.annotation, value[key], (*path, key), ()
        )
        for key, field in known.items()
        if _given(field, value, path)
    }
    try:
        return tp(**given)
    except ValueError as error:
        raise BuildError(str(error), path) from None


def _given(field: Field, value: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
    if field.key in value:
        return True
    if field.required:
        raise BuildError(f"the key {field.key!r} is missing", path)
    return False


def _pydantic(tp: Any, value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, tp):
        return value
    properties = tp.model_json_schema().get("properties", {})
    if isinstance(value, Mapping) and getattr(tp, "model_config", {}).get("extra") != "allow":
        for key in value:
            if key not in properties:
                raise BuildError(f"unknown key {key!r}; the keys are {', '.join(properties)}", path)
    from zeus_runtime.config.schema.model_names import second_names

    if second := second_names(tp, value):
        raise BuildError(f"use the names of the schema instead of {', '.join(map(repr, second))}", path)
    try:
        return tp.model_validate(_revealed(value))
    except ValueError as error:
        raise BuildError(_pydantic_message(error), path) from None


def _pydantic_message(error: ValueError) -> str:
    """Its own errors without the input values, which may be secret."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    return "; ".join(
        f"{'.'.join(str(step) for step in entry['loc'])}: {entry['msg']}".removeprefix(": ")
        for entry in listed(include_input=False, include_url=False)
    )


def _revealed(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, HiddenStr):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {key: _revealed(item) for key, item in value.items()}
    return [_revealed(item) for item in value] if isinstance(value, list | tuple) else value


def _list(
    kind: Any, args: tuple[Any, ...], value: Any, path: tuple[str | int, ...], refs: tuple[Any, ...]
) -> Any:
    if isinstance(value, str) or not isinstance(value, abc.Sequence | abc.Set):
        raise BuildError(f"expected a list, got {_shown(value)}", path)
    made_of = (
        list
        if kind in (list, abc.Iterable)
        else frozenset
        if kind in (frozenset, abc.Set)
        else set
        if kind is set
        else tuple
    )
    types = [arg for arg in args if arg is not Ellipsis]
    if kind is tuple and types and Ellipsis not in args:
        if len(value) != len(types):
            raise BuildError(f"expected {len(types)} entries, got {len(value)}", path)
        return tuple(
            _build(arg, item, (*path, i), refs)
            for i, (arg, item) in enumerate(zip(types, value, strict=True))
        )
    item_type = types[0] if types else Any
    return made_of(_build(item_type, item, (*path, index), refs) for index, item in enumerate(value))


def _map(
    args: tuple[Any, ...], value: Any, path: tuple[str | int, ...], refs: tuple[Any, ...]
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BuildError(f"expected a mapping, got {_shown(value)}", path)
    if not args:
        return dict(value)
    return {
        _build(args[0], key, path, ()): _build(args[1], item, (*path, key), refs)
        for key, item in value.items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return cut_text(repr(value), 60)
