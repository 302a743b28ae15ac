"""What a component finds wrong with its options while it is created is said with the place in the YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime import Agent, ConfigError, OptionsError

PARTICULAR = """
from dataclasses import dataclass, field
from typing import Annotated

from zeus_runtime import OptionsError
from zeus_runtime.plugin import Component, Ref, RefTo, hookimpl


@dataclass(frozen=True)
class Options:
    color: str = "red"
    backend: Annotated[Ref, RefTo("sandbox")] = field(default=Ref("box"))


@dataclass(frozen=True)
class BoxOptions:
    size: int = 1


def create(options, context):
    if options.color == "blue":
        raise OptionsError("not blue", remedy="take red", where="color")
    if options.color == "other":
        raise OptionsError("the file is broken", where="colors.json")
    if options.color == "none":
        raise OptionsError("nothing fits")
    context.sandboxes.open(options.backend)
    return []


def create_box(options, context):
    if options.size > 9:
        raise OptionsError("too large", remedy="make it smaller", where="size")


@hookimpl
def register_sandboxes():
    return [Component("box", create=create_box, options=BoxOptions)]


@hookimpl
def register_tools():
    return [Component("particular", create=create, options=Options)]
"""


def written(folder: Path, tools: str) -> Path:
    (folder / "particular.py").write_text(PARTICULAR)
    config = folder / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: gpt-4o\nplugins: {{files: [particular.py]}}\ntools: {tools}\n")
    return config


def problem(tmp_path: Path, *lines: str) -> tuple[str, tuple[int, int], str | None, str]:
    """Message, line and column, hint, and source line of what is wrong."""
    text = "\n".join(f"      {line}" for line in lines)
    config = written(tmp_path, f"\n  - particular:\n{text}")
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    (found,) = raised.value.diagnostics
    assert found.position is not None
    line = config.read_text().splitlines()[found.position.line - 1]
    return found.message, (found.position.line, found.position.column), found.hint, line.strip()


def test_an_option_that_does_not_fit_is_shown_where_it_stands(tmp_path: Path) -> None:
    message, _, hint, line = problem(tmp_path, "color: blue")
    assert (message, hint, line) == ("not blue", "take red", "color: blue")


def test_an_option_of_a_component_that_an_option_names_is_shown_where_it_stands(tmp_path: Path) -> None:
    message, _, hint, line = problem(tmp_path, "color: red", "backend:", "  box:", "    size: 10")
    assert (message, hint, line) == ("too large", "make it smaller", "size: 10")


def test_without_an_option_the_component_is_shown(tmp_path: Path) -> None:
    message, _, _, line = problem(tmp_path, "color: none")
    assert message == "nothing fits"
    assert line in ("- particular:", "color: none")


def test_a_place_outside_of_the_yaml_is_said_in_the_message(tmp_path: Path) -> None:
    assert problem(tmp_path, "color: other")[0] == "colors.json: the file is broken"


def test_the_error_that_the_component_raised_is_its_cause(tmp_path: Path) -> None:
    config = written(tmp_path, "[particular: {color: blue}]")
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    assert isinstance(raised.value.__cause__, OptionsError)
    assert raised.value.exit_code == 3
