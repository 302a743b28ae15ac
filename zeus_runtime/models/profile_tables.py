"""The tables profiles are read from: litellm's, without importing litellm, and the Homes' ``configs/profiles.yaml``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from zeus_runtime.errors import ZeusError
from zeus_runtime.models.profile_names import TOKENIZERS
from zeus_runtime.proc_files import opened

Row: TypeAlias = Mapping[str, Any]

_LITELLM_FILE: Final = "model_prices_and_context_window_backup.json"
_NO_MODEL: Final = "sample_spec"


class Table(Protocol):
    """A model table: a row by its exact key, and all rows."""

    def get(self, key: str) -> Row | None: ...
    def rows(self) -> Mapping[str, Row]: ...


class JsonTable:
    """litellm's table as text: one row is decoded where it stands, the 3 MB are parsed only for a list.

    Args:
        text: a JSON object of objects.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def get(self, key: str) -> Row | None:
        needle = json.dumps(key) + ":"
        # From the end, because a JSON reader takes the last of two equal keys.
        # A hit within a text, or at a key of an inner object, is not a model (`_decode`), and the search goes on.
        at = len(self._text)
        while key != _NO_MODEL and (at := self._text.rfind(needle, 0, at)) >= 0:
            row = self._decode(at + len(needle))
            if row is not None:
                return row
        return None

    def _decode(self, start: int) -> Row | None:
        while self._text[start : start + 1].isspace():
            start += 1
        if self._text[start : start + 1] != "{":
            return None
        value, _ = json.JSONDecoder().raw_decode(self._text, start)
        return value if _is_model(value) else None

    def rows(self) -> Mapping[str, Row]:
        return self._rows

    @cached_property
    def _rows(self) -> Mapping[str, Row]:
        rows: dict[str, Row] = json.loads(self._text)
        return {key: row for key, row in rows.items() if key != _NO_MODEL and _is_model(row)}


def _is_model(row: object) -> bool:
    """Whether an entry is a model: litellm 1.109 also keeps its rules for unknown names in the table."""
    return isinstance(row, dict) and "litellm_provider" in row


class MappingTable:
    """A table already parsed.

    Args:
        rows: key to row.
    """

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def rows(self) -> Mapping[str, Row]:
        return self._rows


def litellm_table() -> Table:
    """The table of the installed litellm, without importing it; an empty one where litellm is not installed."""
    from importlib.util import find_spec

    spec = find_spec("litellm")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        path = Path(folder) / _LITELLM_FILE
        if path.is_file():
            return JsonTable(path.read_text("utf-8"))
    return MappingTable({})


_INTEGERS: Final = ("max_input_tokens", "max_output_tokens")
_NUMBERS: Final = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_cost_per_token",
    "cache_write_cost_per_token",
    "cache_write_1h_cost_per_token",
)
_TEXTS: Final = ("provider", "tokenizer", "mode")
_FLAGS: Final = ("vision",)


class ProfileFileError(ZeusError):
    """A ``configs/profiles.yaml`` is malformed (exit 3)."""

    exit_code = 3
    code = "profile-file"


def home_tables(homes: Sequence[Path]) -> tuple[tuple[str, Mapping[str, Row]], ...]:
    """(path, rows) of each Home's ``configs/profiles.yaml`` that exists, in the Homes' order.

    Raises:
        ProfileFileError: one is malformed; the error names file, line and column.
    """
    paths = (home / "configs" / "profiles.yaml" for home in homes)
    return tuple((str(path), read_profiles(path)) for path in paths if path.is_file())


def read_profiles(path: Path) -> Mapping[str, Row]:
    """The rows of one profiles.yaml: ``models:`` maps exact names to values.

    Raises:
        ProfileFileError: unreadable, not YAML, an unknown key, one that is there twice, or a value of the wrong type.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with opened(path) as stream:
            root = yaml.compose(stream.read().decode(), Loader=loader)
    except OSError as problem:
        raise ProfileFileError(f"it cannot be read: {problem.strerror}", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ProfileFileError(f"not YAML: {getattr(problem, 'problem', problem)}", where=where) from None
    if root is None:
        return {}
    rows: dict[str, Row] = {}
    for key, value in _pairs(root, path, "profiles.yaml"):
        if key.value != "models":
            raise _fault(path, key, f"unknown key {key.value!r}", ("models",))
        for name, row in _pairs(value, path, "models"):
            rows[name.value] = {
                field.value: _value(field, node, path) for field, node in _pairs(row, path, name.value)
            }
    return rows


def _pairs(node: Any, path: Path, what: str) -> list[tuple[Any, Any]]:
    if node.id != "mapping":
        raise _fault(path, node, f"{what!r} must be a mapping")
    seen: set[str] = set()
    for key, _ in node.value:
        if key.id != "scalar":
            raise _fault(path, key, "a key must be a plain name")
        if key.value in seen:
            raise _fault(path, key, f"{key.value!r} stands here twice")
        seen.add(key.value)
    pairs: list[tuple[Any, Any]] = node.value
    return pairs


def _value(field: Any, node: Any, path: Path) -> int | float | str | None:
    name, text = field.value, node.value
    known = (*_INTEGERS, *_NUMBERS, *_TEXTS, *_FLAGS)
    if name not in known:
        raise _fault(path, field, f"unknown key {name!r}", known)
    if node.id != "scalar":
        raise _fault(path, node, f"{name} must be a single value")
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if name == "tokenizer" and text not in TOKENIZERS:
        raise _fault(path, node, f"unknown tokenizer {text!r}", TOKENIZERS)
    if name in _TEXTS:
        return str(text)
    if name in _FLAGS:
        if text not in ("true", "false"):
            raise _fault(path, node, f"{name} must be true or false, not {text!r}")
        return bool(text == "true")
    try:
        number = int(text) if name in _INTEGERS else float(text)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        kind = "a whole number of tokens" if name in _INTEGERS else "a price in US dollars per token"
        raise _fault(path, node, f"{name} must be {kind}, not {text!r}")
    return number


def _fault(path: Path, node: Any, message: str, allowed: Sequence[str] = ()) -> ProfileFileError:
    where = f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
    return ProfileFileError(message, where=where, remedy=f"known: {', '.join(allowed)}" if allowed else None)
