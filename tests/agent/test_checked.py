"""What a config may not do, whatever is written in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime import Agent, ConfigError, ZeusError

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
