"""What a config may not do, whatever is written in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime import Agent, ConfigError, MissingError, ZeusError

PYTHON_NAMES = ["os.system", "os:system", "zeus_plugins.tools.todos.tools:create", "builtins/eval"]


@pytest.mark.parametrize("name", PYTHON_NAMES)
@pytest.mark.parametrize("kind", ["tool", "middleware", "checkpointer", "model"])
def test_no_value_names_a_python_object(tmp_path: Path, kind: str, name: str) -> None:
    ref = f"{{{name!r}: {{}}}}"
    values = {"model": "gpt-4o", "tools": "[]", "middlewares": "[]", "checkpointer": "sqlite"}
    key = {"tool": "tools", "middleware": "middlewares"}.get(kind, kind)
    values[key] = f"[{ref}]" if key.endswith("s") else ref
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\n" + "".join(f"{key}: {value}\n" for key, value in values.items()))
    with pytest.raises(ConfigError) as problem:
        Agent.from_config(config, directory=tmp_path)
    assert [each.code for each in problem.value.diagnostics] == ["unknown-component"]


@pytest.mark.parametrize("name", ["os", "os.path", "zeus_plugins.tools.todos"])
def test_a_plugin_file_is_a_file_and_not_a_module(tmp_path: Path, name: str) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: gpt-4o\nplugins: {{files: [{name}]}}\n")
    with pytest.raises(ZeusError, match="is not there") as problem:
        Agent.from_config(config, directory=tmp_path)
    assert problem.value.exit_code == 4


def test_a_home_that_is_not_there_is_shown_where_it_is_named(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nhomes:\n  - .\n  - nowhere\n")
    with pytest.raises(MissingError, match="a Home that is not a folder") as raised:
        Agent.from_config(config, directory=tmp_path)
    assert raised.value.where == "zeus.yaml:5:5"


def test_what_a_component_needs_is_missing_where_it_is_named(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\ntools:\n  - web: {search: tavily}\n")
    with pytest.raises(MissingError, match="TAVILY_API_KEY is not set") as raised:
        _ = Agent.from_config(config, directory=tmp_path, environ={}).plan
    assert raised.value.where == "zeus.yaml:4:5"


OWN_MODEL = """
from zeus_runtime.plugin import Component, hookimpl

@hookimpl
def register_models():
    return [Component("own", create=lambda options, context: None)]
"""

RIVAL = """
from zeus_runtime.plugin import Component, hookimpl

@hookimpl
def register_tools():
    return [Component("todos", create=lambda options, context: [])]
"""


def test_a_name_of_a_bundled_component_means_that_one_and_a_files_own_is_file_slash_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "rival.py").write_text(RIVAL)
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nplugins: {files: [rival.py]}\ntools: [todos]\n")
    bundled = Agent.from_config(config, directory=tmp_path).plan
    assert [tool.tool.name for tool in bundled.tools] == ["write_todos", "read_todos"]
    (said,) = [str(notice.message) for notice in bundled.notices if notice.code == "component-collision"]
    assert "for the other one write 'rival.py/todos'" in said
    config.write_text("version: 1\nmodel: gpt-4o\nplugins: {files: [rival.py]}\ntools: [rival.py/todos]\n")
    assert Agent.from_config(config, directory=tmp_path).plan.tools == ()


def test_a_name_that_two_files_register_is_refused_with_both_names(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(RIVAL.replace("todos", "jobs"))
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nplugins: {files: [one.py, two.py]}\ntools: [jobs]\n")
    with pytest.raises(MissingError, match="the tool 'jobs' is registered by plugins one") as raised:
        Agent.from_config(config, directory=tmp_path)
    assert raised.value.where == "zeus.yaml:4:9"
    assert raised.value.remedy == "write 'one.py/jobs' or 'two.py/jobs'"
    config.write_text(config.read_text() + "limit: 1\n")
    with pytest.raises(ConfigError, match="unknown-key: 'limit'") as both:
        Agent.from_config(config, directory=tmp_path)
    assert "is registered by plugins one" in str(both.value)
    config.write_text(
        config.read_text().replace("[jobs]", "[one.py/jobs, two.py/jobs]").replace("limit: 1", "")
    )
    Agent.from_config(config, directory=tmp_path)


def test_a_component_whose_plugin_does_not_load_says_so(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nplugins: {disable: [todos]}\ntools: [todos]\n")
    with pytest.raises(
        ConfigError, match=r"note: plugin todos \(zeus-runtime .*\) is blocked: .*plugins.disable"
    ):
        Agent.from_config(config, directory=tmp_path)


def test_a_model_component_without_a_model_name_has_the_limits_that_are_written_for_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(OWN_MODEL)
    config = tmp_path / "zeus.yaml"
    config.write_text(
        "version: 1\nmodel: {own: {}}\nplugins: {files: [own.py]}\nlimits: {max_cost_usd: 1}\n"
        "profiles: {strict: true, models: {own: {max_input_tokens: 20000, vision: true, input_cost_per_token: 1,"
        " output_cost_per_token: 2}}}\n"
    )
    profile = Agent.from_config(config, directory=tmp_path).plan.profile
    assert (profile.name, profile.max_input_tokens, profile.vision) == ("own", 20_000, True)
    assert profile.sources["max_input_tokens"] == "profiles.models: own"
