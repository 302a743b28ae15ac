"""Configs that try to break the reader: each gives positions and remedies and exit code 3, never a traceback."""

from __future__ import annotations

import errno
import os
import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.acceptance.test_bad_input import assert_told
from tests.cli.conftest import Project, Zeus
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate
from zeus_runtime.config.yaml.scalars import NotJsonError, resolve

LONG = "a" * 6000
HEAD = "version: 1\nmodel: gpt-5.2\n"
HOSTILE = {
    "an integer of 20,000 digits": ("limits: {max_steps: " + "9" * 20_000 + "}", "3:21: not-json"),
    "an integer of 300 digits": ("limits: {timeout_seconds: " + "9" * 300 + "}", "3:27: not-json"),
    "a hexadecimal integer of 9,000 digits": ("limits: {max_steps: 0x" + "f" * 9000 + "}", "3:21: not-json"),
    "an octal integer of 9,000 digits": ("metadata: {x: 0o" + "7" * 9000 + "}", "3:15: not-json"),
    "one more than a 64-bit integer": ("limits: {max_steps: 9223372036854775808}", "3:21: not-json"),
    "5,000 nested defaults": ("name: '" + "${A:-" * 5000 + "}" * 5000 + "'", "3:7: bad-interpolation"),
    "a prompt file with a long name": (f"prompt: {{files: {{core: {LONG}}}}}", "3:24: unreadable-file"),
    "a file to extend with a long name": (f"extends: {LONG}.yaml", "3:10: file-not-found"),
    "a preset with a long name": (f"extends: {LONG}", "3:10: unknown-preset"),
    "a workspace with a long name": (f"workspace: {{root: {LONG}}}", "3:19: unreadable-file"),
    "a route with a long name": (f"workspace: {{routes: {{/x/: {LONG}}}}}", "3:27: unreadable-file"),
    "a plugin file with a long name": (f"plugins: {{files: [{LONG}.py]}}", "3:19: unreadable-file"),
    "a Home with a long name": (f"homes: [{LONG}]", "3:9: unreadable-file"),
    "a prompt file with a NUL": ('prompt: {files: {core: "a\\0b"}}', "3:24: unreadable-file"),
    "a workspace with a NUL": ('workspace: {root: "a\\0b"}', "3:19: unreadable-file"),
    "a sandbox's folder with a NUL": (
        'tools: [{sandbox: {backend: {docker: {folder: "a\\0b"}}}}]',
        "3:47: unreadable-file",
    ),
    "a plugin file with a NUL": ('plugins: {files: ["a\\0b.py"]}', "3:19: unreadable-file"),
    "a key with a NUL": ('"na\\0me": x', "3:1: unknown-key"),
    "a value that writes from right to left": ('mode: "a\\u202eb\\e[31m"', "3:7: wrong-value"),
    "a long line": (f"limits: {{max_step: 1}} # {LONG}", "3:10: unknown-key"),
}


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_value_is_refused_with_its_place(
    zeus: Zeus, project: Project, verb: str, hostile: str
) -> None:
    line, said = HOSTILE[hostile]
    project.write("hostile.yaml", HEAD + line + "\n")
    result = zeus(verb, "hostile.yaml", *(["hi"] if verb == "run" else []))
    assert_told(result, 3, f"hostile.yaml:{said}")
    shown = result.out + result.err
    assert max(map(len, shown.splitlines())) < 700
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\t"]


def test_a_home_of_a_user_that_is_not_there_is_a_folder_of_that_name(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", HEAD + "homes: [~nobody-here/x]\n")
    assert_told(zeus("validate"), 4, "zeus.yaml:3:9", "~nobody-here/x")


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        (
            "extends: ~nobody-here/base.yaml",
            3,
            "3:10: file-not-found: there is no file ~nobody-here/base.yaml",
        ),
        ("extends: ~-", 3, "3:10: file-not-found: there is no file ~- to extend"),
        ("extends: base\nhomes: [~nobody-here]", 3, "3:10: unknown-preset"),
        ("plugins: {files: [~nobody-here/x.py]}", 4, "3:19"),
        ("prompt: {files: {core: ~nobody-here/x.md}}", 3, "3:24: file-not-found"),
    ],
)
def test_a_path_below_an_unknown_users_home_is_a_missing_file(
    zeus: Zeus, project: Project, line: str, exit_code: int, said: str
) -> None:
    project.write("zeus.yaml", f"{HEAD}{line}\n")
    assert_told(zeus("validate"), exit_code, f"zeus.yaml:{said}")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("storage: {url: 'sqlite:///CLOSED/x.db'}", "3:16"),
        ("workspace: {root: CLOSED/x}", "3:19"),
        ("workspace: {routes: {/a/: CLOSED/x}}", "3:27"),
        ("homes: [CLOSED/x]", "3:9"),
        ("instructions: {file: CLOSED/x}", "3:22"),
        ("plugins: {files: [CLOSED/x.py]}", "3:19"),
    ],
)
@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_a_path_behind_a_link_that_this_user_may_not_read_is_refused_at_its_place(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, verb: str, line: str, place: str
) -> None:
    closed = project.folder / "closed"
    closed.symlink_to(project.folder)
    project.write("zeus.yaml", f"{HEAD}{line.replace('CLOSED', str(closed))}\n")
    readlink, stat = os.readlink, os.stat

    # As Linux does for the link /proc/1/cwd; root may read every link, so that no real one can be used.
    def no_link(path: Any, **more: Any) -> str:
        if os.fspath(path) == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(closed))
        return readlink(path, **more)

    def no_stat(path: Any, **more: Any) -> os.stat_result:
        behind = not isinstance(path, int) and os.fspath(path).startswith(f"{closed}/")
        if behind or (path == str(closed) and more.get("follow_symlinks", True)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "readlink", no_link)
    monkeypatch.setattr(os, "stat", no_stat)
    said = "this user may not read the link"
    assert_told(zeus(verb), 3, f"zeus.yaml:{place}: unreadable-file", said, str(closed))


def test_a_config_below_an_unknown_users_home_is_a_missing_file(zeus: Zeus, project: Project) -> None:
    for verb in ("validate", "plan", "trust"):
        assert_told(zeus(verb, "~nobody-here/zeus.yaml"), 3, "~nobody-here/zeus.yaml")


def test_a_raw_control_character_is_shown_as_an_escape(zeus: Zeus, project: Project) -> None:
    (project.folder / "raw.yaml").write_bytes(b"version: 1\nmodel: gpt\x1b[31m-5\x00\n")
    result = zeus("validate", "raw.yaml")
    assert_told(result, 3, "raw.yaml:2:11: yaml-syntax", "\\x1b")
    assert "\x1b" not in result.out + result.err


def test_a_remedy_repeats_no_unseen_character(zeus: Zeus, project: Project) -> None:
    project.write("unseen.yaml", 'version: 1\nmodel: {temperature: 0.5, api_base: "a\\ufeffb"}\n')
    for form in ("text", "github"):
        result = zeus("validate", "unseen.yaml", "--format", form)
        assert_told(result, 3, "ref-shape", "api_base: a\\ufeffb")
        assert "\ufeff" not in result.out


def test_a_wrong_version_hides_no_other_error(zeus: Zeus, project: Project) -> None:
    project.write("old.yaml", "version: 7\nmodel: gpt-5.2\nlimits: {max_step: 3}\nmode: chef\n")
    for _ in range(2):
        result = zeus("validate", "old.yaml", "--format", "json")
        (file,) = result.json["files"]
        places = [(each["line"], each["code"]) for each in file["diagnostics"]]
        assert places == [(1, "unsupported-version"), (3, "unknown-key"), (4, "wrong-value")]
    assert result.exit_code == 3


@given(st.integers())
def test_every_integer_is_read_as_itself_or_refused(number: int) -> None:
    spellings = [str(number)] if number < 0 else [str(number), hex(number), oct(number)]
    for text in spellings:
        if abs(number) < 2**63:
            assert resolve(text) == number
        else:
            with pytest.raises(NotJsonError):
                resolve(text)


@given(st.integers(0, 60))
@settings(suppress_health_check=[HealthCheck.differing_executors])
def test_defaults_nest_to_a_limit_and_no_further(depth: int) -> None:
    text = "${A:-" * depth + "x" + "}" * depth
    if depth <= 21:
        assert interpolate(text, {}).text == "x"
    else:
        with pytest.raises(InterpolationError, match="nested deeper than 20"):
            interpolate(text, {})
