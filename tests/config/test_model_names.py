"""What a pydantic model takes and its schema does not show: further names of fields, and computed defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from zeus_runtime.config.schema.model_names import computed_names, second_names
from zeus_runtime.plugin.tool import tool


class Within(BaseModel):
    model_config = ConfigDict(extra="allow")
    path: str = Field(".", validation_alias=AliasPath("places", 0))
    file: str = Field(".", validation_alias=AliasChoices("file", "name"))


@dataclass
class Record:
    path: Annotated[str, Field(alias="where")] = "."


class Keys(TypedDict, total=False):
    path: Annotated[str, Field(validation_alias="at")]


class Node(BaseModel):
    model_config = ConfigDict(extra="allow")
    within: Within | int | None = None
    more: dict[str, Within] = {}
    record: Record | None = None
    keys: Keys | None = None
    next: Node | None = None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"within": {"file": "a", "any": 1}, "record": {"where": "a"}, "keys": {"at": "a"}, "any": 1}, []),
        ({"within": {"places": ["a"]}}, ["places"]),
        ({"within": {"name": "a"}}, ["name"]),
        ({"more": {"any": {"name": "a"}}}, ["name"]),
        ({"record": {"path": "a"}}, ["path"]),
        ({"keys": {"path": "a"}}, ["path"]),
        ({"next": {"next": {"within": {"name": "a"}}}}, ["name"]),
    ],
)
def test_further_names_are_found_wherever_they_are(value: Any, found: list[str]) -> None:
    assert second_names(Node, value) == found


def test_computed_values_are_found_wherever_they_are() -> None:
    class Plain(BaseModel):
        a: str = "x"
        b: list[str] = Field(default_factory=list)
        c: Keys | None = None

    class Computed(BaseModel):
        plain: Plain
        root: Path = Field(default_factory=Path.cwd)
        deep: list[Plain] = Field(default_factory=lambda: [Plain()])

    assert computed_names(Plain) == frozenset()
    assert computed_names(Computed) == {"root", "deep", "a", "b", "c", "path", "at"}


class Given(BaseModel):
    model_config = ConfigDict(extra="allow")
    path: str = Field(default_factory=lambda: "secrets/key", validation_alias=AliasChoices("path", "file"))


async def test_a_tool_of_a_plugin_knows_them_too() -> None:
    def search(given: list[Given]) -> str:
        """Search."""
        return given[0].path

    made = tool(search)
    assert made.computed == {"path", "file"}
    assert await made.function(given=[{"path": "a"}]) == "a"
    with pytest.raises(ValueError, match="use the names of the schema instead of 'file'"):
        await made.function(given=[{"path": "a", "file": "secrets/key"}])
