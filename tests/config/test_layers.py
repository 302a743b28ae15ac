"""Where a config comes from: files, presets, extends, overlays, settings."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.config import ConfigError, check, load
from zeus_runtime.config.layers.plugin_home import PluginHome
from zeus_runtime.config.yaml.tree import show_path

WHOLE = "version: 1\nmodel: m\n"


def failing(*arguments: Any, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        load(*arguments, **{"environ": {}, **options})
    return raised.value


def test_the_config_of_the_working_directory_is_found(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE)
    document = load(directory=tmp_path, environ={})
    assert document.source == "zeus.yaml"
    assert document.path == tmp_path / "zeus.yaml"


def test_without_a_config_the_presets_are_named(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("home/configs/quickstart.yaml", WHOLE)
    write("home/configs/profiles.yaml", "{}")
    error = failing(directory=tmp_path, homes=[tmp_path / "home"])
    assert error.exit_code == 3
    assert "there is no zeus.yaml in the working directory" in str(error)
    assert "zeus init" in str(error)
    assert "quickstart" in str(error)
    assert "profiles" not in str(error)


def test_a_zeus_yml_is_pointed_out(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yml", WHOLE)
    assert "rename zeus.yml to zeus.yaml" in str(failing(directory=tmp_path))


@pytest.mark.parametrize("at", ["agent", "agent/zeus.yaml"])
def test_a_bare_word_means_the_preset_and_a_path_the_file(write, tmp_path, at) -> None:  # type: ignore[no-untyped-def]
    """An agent could write a file that took the place of a preset."""
    write("home/configs/agent.yaml", WHOLE + "name: preset\n")
    homes = [tmp_path / "home"]
    assert not load("agent", directory=tmp_path, environ={}, homes=homes).notices
    write(at, WHOLE + "name: file\n")
    loaded = load("agent", directory=tmp_path, environ={}, homes=homes)
    assert loaded.value["name"] == "preset"
    assert "write ./agent for the file" in str(loaded.notices)
    for path in ("./agent", at if "/" in at else tmp_path / at):
        loaded = load(path, directory=tmp_path, environ={}, homes=homes)
        assert loaded.value["name"] == "file"
        assert not loaded.notices
    assert load("agent", directory=tmp_path, environ={}).value["name"] == "file"


def test_a_preset_of_the_project_that_hides_another_is_told(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write(".zeus/configs/agent.yaml", WHOLE)
    homes = [tmp_path / ".zeus", tmp_path / "home"]
    assert not load("agent", directory=tmp_path, environ={}, homes=homes).notices
    write("home/configs/agent.yaml", WHOLE)
    (notice,) = load("agent", directory=tmp_path, environ={}, homes=homes).notices
    assert "'agent' is this project's .zeus/configs/agent.yaml, not home/configs/agent.yaml" in str(notice)
    assert not load("agent", directory=tmp_path, environ={}, homes=homes[1:]).notices


def test_a_word_that_names_a_file_means_the_preset_of_a_plugin_too(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("plugin/configs/agent.yaml", WHOLE + "name: preset\n")
    write("agent", WHOLE + "name: file\n")
    given = (PluginHome(names=("p",), folder=tmp_path / "plugin"),)
    loaded = load("agent", directory=tmp_path, environ={}, homes=[], plugin_homes=lambda rules: given)
    assert loaded.value["name"] == "preset"


def test_a_folder_stands_for_the_config_in_it(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("project/zeus.yaml", WHOLE)
    assert load("project", directory=tmp_path, environ={}).source == "project/zeus.yaml"


def test_the_nearest_home_has_the_preset(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("near/configs/a.yaml", WHOLE + "name: near\n")
    write("far/configs/a.yaml", WHOLE + "name: far\n")
    write("far/configs/b.yaml", WHOLE + "name: b\n")
    homes = [tmp_path / "near", tmp_path / "far"]
    assert load("a", directory=tmp_path, environ={}, homes=homes).value["name"] == "near"
    assert load("b", directory=tmp_path, environ={}, homes=homes).value["name"] == "b"


@pytest.mark.parametrize("name", ["quickstrat", "../quickstart", "missing.yaml", "no/such/file.yaml"])
def test_a_file_that_is_not_there_is_a_clear_error(name: str, write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("home/configs/quickstart.yaml", WHOLE)
    error = failing(name, directory=tmp_path / "home", homes=[tmp_path / "home"])
    assert error.diagnostics[0].code in ("file-not-found", "unknown-preset")
    assert error.diagnostics[0].hint
    assert name != "quickstrat" or "did you mean 'quickstart'?" in str(error)


def test_standard_input_is_read_for_a_dash(tmp_path: Path) -> None:
    document = load("-", stdin=io.BytesIO(WHOLE.encode()), directory=tmp_path, environ={})
    assert document.source == "<stdin>"
    assert document.path is None
    assert document.value["model"] == "m"
    error = failing("-", stdin=io.BytesIO(b"a: ["), directory=tmp_path)
    assert str(error).startswith("<stdin>:")


def test_standard_input_has_no_overlay(tmp_path: Path) -> None:
    assert "--env needs a file" in str(
        failing("-", env="prod", stdin=io.BytesIO(b"a: 1"), directory=tmp_path)
    )


def test_a_file_is_laid_over_what_it_extends_in_order(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("home/configs/one.yaml", "version: 1\nname: one\ndescription: one\nlimits: {max_steps: 1}\n")
    write("shared/two.yaml", "name: two\nlimits: {timeout_seconds: 2}\n")
    write("zeus.yaml", "extends: [one, shared/two.yaml]\nmodel: m\nlimits: {max_cost_usd: 3}\n")
    document = load(directory=tmp_path, environ={}, homes=[tmp_path / "home"])
    assert document.value == {
        "version": 1,
        "name": "two",
        "description": "one",
        "limits": {"max_steps": 1, "timeout_seconds": 2, "max_cost_usd": 3},
        "model": "m",
    }


def test_paths_in_an_extended_file_start_from_its_own_folder(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("a/b/base.yaml", WHOLE + "extends: ../root.yaml\n")
    write("a/root.yaml", "name: root\n")
    write("zeus.yaml", "extends: a/b/base.yaml\n")
    assert load(directory=tmp_path, environ={}).value["name"] == "root"


def test_one_base_may_be_reached_twice(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("base.yaml", WHOLE)
    write("a.yaml", "extends: ./base.yaml\n")
    write("b.yaml", "extends: ./base.yaml\n")
    write("zeus.yaml", "extends: [./a.yaml, ./b.yaml]\n")
    assert load(directory=tmp_path, environ={}).value["model"] == "m"


def test_a_circle_of_files_names_the_chain(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", "extends: ./zeus.yaml\n")
    assert "zeus.yaml → zeus.yaml" in str(failing(directory=tmp_path))


def test_a_file_may_extend_a_preset_of_a_home_it_names_itself(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("own/configs/base.yaml", WHOLE + "name: own\n")
    write("zeus.yaml", "homes: [./own]\nextends: base\n")
    assert load(directory=tmp_path, environ={}).value["name"] == "own"


def test_an_overlay_is_laid_over_the_file_and_settings_over_both(checked, write) -> None:  # type: ignore[no-untyped-def]
    write("zeus.prod.yaml", "limits: {max_steps: 20}\nname: prod\n")
    text = WHOLE + "limits: {max_steps: 10, timeout_seconds: 5}\n"
    document = checked(text, env="prod", sets=["limits.max_steps=30"])
    assert document.value["limits"] == {"max_steps": 30, "timeout_seconds": 5}
    assert document.explain("limits.max_steps").splitlines()[:4] == [
        "limits.max_steps = 30",
        "  set at --set limits.max_steps=30",
        "  overrides zeus.prod.yaml:1:21",
        "  overrides zeus.yaml:3:21",
    ]


@pytest.mark.parametrize("env", ["../prod", "a/b", "", ".", "prod\n"])
def test_the_name_of_an_overlay_is_a_name(env: str, write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE)
    assert "is not a valid name" in str(failing(directory=tmp_path, env=env))


def test_a_missing_overlay_names_its_path_and_those_there(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE)
    write("zeus.staging.yaml", "name: x\n")
    error = str(failing(directory=tmp_path, env="prod"))
    assert "zeus.prod.yaml" in error
    assert "zeus.staging.yaml" in error


@pytest.mark.parametrize(
    ("setting", "path", "expected"),
    [
        ("name=bob", ("name",), "bob"),
        ("name=", ("name",), None),
        ("name=''", ("name",), ""),
        ("name=a=b", ("name",), "a=b"),
        ("limits.max_steps=5", ("limits", "max_steps"), 5),
        ("tools=[a, {b: {c: 1}}]", ("tools",), ["a", {"b": {"c": 1}}]),
        ("tools.0=first", ("tools",), ["first", {"filesystem": {}}]),
        ("tools.1.filesystem.read_only=true", ("tools", 1), {"filesystem": {"read_only": True}}),
        ("tools.0.todos.x=1", ("tools", 0), {"todos": {"x": 1}}),
        ("tools.2=third", ("tools", 2), "third"),
        (
            'profiles.models."gpt-5.2".max_input_tokens=9',
            ("profiles", "models", "gpt-5.2"),
            {"max_input_tokens": 9},
        ),
        ("model.litellm.temperature=0", ("model",), {"litellm": {"model": "m", "temperature": 0}}),
        ("model.replay.cassette=c", ("model",), {"replay": {"cassette": "c"}}),
        ("model=other", ("model",), "other"),
        ("limits={max_steps: 1}", ("limits",), {"timeout_seconds": 5, "max_steps": 1}),
    ],
)
def test_a_setting_changes_its_place(setting: str, path: Any, expected: Any, loaded) -> None:  # type: ignore[no-untyped-def]
    text = WHOLE + "tools: [todos, filesystem: {}]\nlimits: {timeout_seconds: 5}\n"
    assert loaded(text, sets=[setting]).get(path) == expected


def test_a_setting_changes_nothing_else(loaded) -> None:  # type: ignore[no-untyped-def]
    text = WHOLE + "tools: [todos, filesystem: {}]\nlimits: {timeout_seconds: 5}\n"
    before, after = loaded(text), loaded(text, sets=["tools.1.filesystem.read_only=true"])
    assert after.get(("tools", 0)) == "todos"
    assert after.position(("tools", 0)) == before.position(("tools", 0))
    assert {**after.value, "tools": None} == {**before.value, "tools": None}


def test_settings_hold_in_order(loaded) -> None:  # type: ignore[no-untyped-def]
    assert loaded(WHOLE, sets=["name=a", "name=b"]).value["name"] == "b"


def test_all_settings_that_are_wrong_are_named(loaded) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        loaded(WHOLE, sets=["name", "tools.x=1", "a..b=1", '"a=1', "name=[", "ok=1"])
    assert [problem.code for problem in raised.value.diagnostics] == [
        "bad-set",
        "bad-set",
        "bad-set",
        "yaml-syntax",
    ]


def test_a_setting_with_keys_without_end_is_refused(loaded) -> None:  # type: ignore[no-untyped-def]
    assert loaded(WHOLE, sets=[f"metadata{'.a' * 63}=1"]).value["metadata"]["a"]
    with pytest.raises(ConfigError, match="more than 64 keys") as raised:
        loaded(WHOLE, sets=[f"metadata{'.a' * 64}=1"])
    assert raised.value.diagnostics[0].code == "bad-set"


def test_a_setting_in_a_variable_is_filled_in(loaded) -> None:  # type: ignore[no-untyped-def]
    assert loaded(WHOLE, sets=["name=${A}"], environ={"A": "x"}).value["name"] == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_diagnostic(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE).chmod(0)
    assert "cannot be read" in str(failing(directory=tmp_path))


def test_a_pipe_that_nobody_writes_to_is_an_empty_config_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "zeus.yaml")
    assert failing(directory=tmp_path).diagnostics[0].code == "empty-file"


def test_a_dotenv_that_is_a_pipe_is_a_diagnostic_and_not_opened(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / ".env").symlink_to("fifo")
    found = failing(directory=tmp_path).diagnostics[0]
    assert found.code == "unreadable-file"
    assert found.message == ".env cannot be read: it is a pipe"
    assert "put a file in its place" in (found.hint or "")
    (tmp_path / ".env").unlink()
    for other in ("/dev/null", "nowhere", "."):
        (tmp_path / ".env").symlink_to(other)
        assert load(directory=tmp_path, environ={}).value["version"] == 1
        (tmp_path / ".env").unlink()


@pytest.mark.parametrize("text", ["", "extends: base.yaml\n", None])
def test_a_config_that_a_shell_gives_as_a_pipe_is_named_by_a_dash(tmp_path: Path, text: str | None) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading):
        with os.fdopen(writing, "w") as stream:
            stream.write(text or "")
        source = "/dev/fd/none" if text is None else f"/dev/fd/{reading}"
        assert "name `-`" in str(failing(source, directory=tmp_path))
    assert "name `-`" not in str(failing("/dev/null", directory=tmp_path))


def test_a_pipe_that_somebody_writes_to_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, WHOLE.encode())
    os.close(writing)
    try:
        assert load(f"/dev/fd/{reading}", directory=tmp_path).value["version"] == 1
    finally:
        os.close(reading)


def test_a_folder_named_as_a_config_is_a_diagnostic(write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml/inner", "x")
    error = failing(directory=tmp_path)
    assert error.diagnostics[0].code == "unreadable-file"


def test_an_old_file_is_read_as_the_current_version_with_a_notice(write, tmp_path, schema) -> None:  # type: ignore[no-untyped-def]
    write(
        "zeus.yaml",
        "version: 0\nmodel_name: m\nmiddleware: [history]\nsystem_prompt_files: {core: ./core.md}\n"
        "max_steps: 7\nlimits: {timeout_seconds: 3}\n",
    )
    document = check(load(directory=tmp_path, environ={}), schema)
    config = document.config()
    assert config.model.options == {"model": "m"}
    assert config.middlewares[0].name == "history"
    assert config.prompt.files == {"core": str(tmp_path / "core.md")}
    assert (config.limits.max_steps, config.limits.timeout_seconds) == (7, 3.0)
    assert config.version == 1
    assert [notice.severity for notice in document.notices] == ["notice"] * 4
    assert document.position(("limits", "max_steps")).line == 5


def test_an_old_key_beside_its_new_name_is_left_and_reported(write, tmp_path, schema) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", "version: 0\nmodel_name: m\nmodel: n\nmax_steps: 7\nlimits: {max_steps: 3}\n")
    with pytest.raises(ConfigError) as raised:
        check(load(directory=tmp_path, environ={}), schema)
    assert [problem.path for problem in raised.value.diagnostics] == [("model_name",), ("max_steps",)]


def test_an_old_base_may_be_extended_by_a_new_file(write, tmp_path, schema) -> None:  # type: ignore[no-untyped-def]
    write("base.yaml", "version: 0\nmodel_name: m\n")
    write("zeus.yaml", "version: 1\nextends: ./base.yaml\n")
    assert check(load(directory=tmp_path, environ={}), schema).value == {"version": 1, "model": "m"}


def test_a_path_has_one_line_and_two_paths_never_look_the_same() -> None:
    keys = ["a", "a\nb", "a\\nb", "a.b\nc", "a.b\\nc", '"a\\nb"', "\u202e", "", "a.b", "é", "my server"]
    shown = [show_path(("env", key, 1)) for key in keys]
    assert len({*shown}) == len(keys)
    assert all(each.isprintable() for each in shown)
    assert (*shown[:2], shown[7]) == ("env.a.1", 'env."a\\nb".1', 'env."".1')
    assert shown[-3:] == ['env."a.b".1', "env.é.1", "env.my server.1"]
