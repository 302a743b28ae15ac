from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest

from zeus_runtime.config import Document, check, load
from zeus_runtime.config.schema.annotations import schema_of
from zeus_runtime.config.schema.composed import compose, core_schema
from zeus_runtime.plugin import Doc, FileRelative, Maximum, Minimum, MinLength, Pattern, Ref, RefTo, Secret

MODEL = RefTo("model", plain=("litellm", "model"))


class Tokens(TypedDict):
    tokens: Annotated[int, Minimum(1)]


class Messages(TypedDict):
    messages: Annotated[int, Minimum(1)]


class Fraction(TypedDict):
    fraction: Annotated[float, Minimum(0), Maximum(1)]


@dataclass(frozen=True)
class Litellm:
    model: Annotated[str, MinLength(1), Doc("The model's name.")]
    api_key: Secret | None = None
    temperature: Annotated[float | None, Minimum(0), Maximum(2)] = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Replay:
    cassette: Annotated[str, FileRelative(), Doc("The recorded run.")]
    match: Literal["messages", "strict", "order"] = "messages"


@dataclass(frozen=True)
class Guarded:
    badge: Secret | None = None


@dataclass(frozen=True)
class Files:
    read_only: bool = False
    max_lines: Annotated[int, Minimum(1)] = 2000
    ignore: tuple[str, ...] = (".git",)
    prefix: Annotated[str, Pattern("^/")] = "/"


@dataclass(frozen=True)
class Summary:
    trigger: Tokens | Messages | Fraction
    model: Annotated[Ref | None, MODEL] = None


class FakeComponent(NamedTuple):
    kind: str
    name: str
    summary: str = ""
    options: Any = None
    aliases: tuple[str, ...] = ()

    @property
    def options_schema(self) -> dict[str, Any] | None:
        return None if self.options is None else schema_of(self.options)


COMPONENTS = (
    FakeComponent("model", "litellm", "Any provider.", Litellm),
    FakeComponent("model", "replay", "A recorded run.", Replay),
    FakeComponent("tool", "filesystem", "Files.", Files),
    FakeComponent("tool", "todos", "A todo list."),
    FakeComponent("middleware", "history", "The last messages."),
    FakeComponent("middleware", "summary", "A summary of what is old.", Summary),
    FakeComponent("checkpointer", "sqlite", "One file."),
    FakeComponent("checkpointer", "guarded", "Behind a badge.", Guarded),
)


@pytest.fixture(scope="session")
def schema() -> dict[str, Any]:
    return compose(core_schema(), COMPONENTS)


Write = Callable[..., Path]
Read = Callable[..., Document]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the test's folder; its path."""

    def write_file(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


@pytest.fixture
def loaded(write: Write, tmp_path: Path) -> Read:
    """Load ``zeus.yaml`` with a text, in an environment that holds only what the test says."""

    def load_text(text: str, **options: Any) -> Document:
        write("zeus.yaml", text)
        return load(**{"directory": tmp_path, "environ": {}, **options})

    return load_text


@pytest.fixture
def checked(loaded: Read, schema: dict[str, Any]) -> Read:
    """As ``loaded``, then checked."""

    def check_text(text: str, *, known_model: Any = None, **options: Any) -> Document:
        return check(loaded(text, **options), schema, known_model=known_model)

    return check_text
