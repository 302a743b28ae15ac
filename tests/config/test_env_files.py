"""Files of variables that set none for a config are closed to tools, and what is in them is masked too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zeus_runtime.cli.process import Process
from zeus_runtime.config.secrets.folder_listings import FolderListings, is_env_name
from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.config.secrets.unloaded_configs import secrets_of_folders
from zeus_runtime.config.secrets.written_secrets import secrets_of_env_file
from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.tools.access import is_key_name
from zeus_runtime.trust.decision import recorded_trust

VALUE = "x7ghs9Kq2LmW4RtZ8vBn"
CONFIG = "version: 1\nmodel: x\ninstructions: '${SHOP_API_KEY:-none}'\n"


def put(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def checked(directory: Path, config: str = "zeus.yaml", further: str = "") -> Checked:
    put(directory, config, CONFIG + further)
    return check(config, directory=directory, environ={}, trust=recorded_trust({}, "all"))


@pytest.mark.parametrize(
    ("config", "further", "name"),
    [
        ("agents/dev.yaml", "", ".env"),
        ("agents/dev.yaml", "", "agents/.env.local"),
        ("../outside/dev.yaml", "", ".env"),
        ("zeus.yaml", "workspace: {root: app}", "app/.env"),
        ("zeus.yaml", "workspace: {root: app}", "app/.envrc"),
        ("zeus.yaml", "extends: base/zeus.yaml", "base/.env"),
        ("zeus.yaml", "workspace: {routes: {/app2/: ../routed}}", "../routed/.env"),
        ("zeus.yaml", "", ".env.local"),
        ("zeus.yaml", "", ".prod.env"),
        ("zeus.yaml", "", "web/.env"),
    ],
)
def test_the_values_of_a_file_of_variables_are_masked_and_set_nothing(
    tmp_path: Path, config: str, further: str, name: str
) -> None:
    project = tmp_path / "project"
    put(project, "base/zeus.yaml", "version: 1\n")
    file = put(project, name, f"SHOP_API_KEY={VALUE}\n")
    found = checked(project, config, further)
    shown = f"<secret:{file.name}/SHOP_API_KEY>"
    assert found.secrets(f"401: {VALUE} was refused") == f"401: {shown} was refused"
    assert found.config.instructions == "none"
    assert "SHOP_API_KEY" not in found.environ


def test_a_value_of_the_configs_own_file_keeps_its_name(tmp_path: Path) -> None:
    put(tmp_path, ".env", f"SHOP_API_KEY={VALUE}\n")
    put(tmp_path, ".env.local", f"SHOP_API_KEY={VALUE}\nSHOP_API_KEY=other-{VALUE}\n")
    names = checked(tmp_path).secrets.names
    assert names == {VALUE: "SHOP_API_KEY", f"other-{VALUE}": ".env.local/SHOP_API_KEY"}


def test_what_the_gate_closes_as_a_file_of_variables_is_one() -> None:
    for name in (".env", ".ENV.local", ".envrc", ".prod.env", "#.env#", "..env.swp", ".env~"):
        assert (is_env_name(name), is_key_name(name)) == (True, True)
    for name in ("env", "my.env", ".devenv", "src.environment.ts"):
        assert (is_env_name(name), is_key_name(name)) == (False, False)


def test_a_file_of_variables_is_read_by_its_lines(tmp_path: Path) -> None:
    file = tmp_path / ".envrc"
    file.write_bytes(
        b"use flake\nexport A_TOKEN='hunter-two' # of ann\nB_TOKEN=caf\xe9 bar baz\n"
        b"C_KEY=$A_TOKEN\nD_KEY=${B_TOKEN:-x}\nE_KEY=$(op read op://vault/key)\nF_KEY=`cat some/file`\n"
        b"G_PASSWORD=pa$$word-of-ann\nNAME=ordinary-name\n"
    )
    assert secrets_of_env_file(file) == {
        "hunter-two": ".envrc/A_TOKEN",
        "café bar baz": ".envrc/B_TOKEN",
        "pa$$word-of-ann": ".envrc/G_PASSWORD",
    }


@pytest.mark.parametrize("name", [".env.example", ".env.Sample", ".example.env", ".env.dist"])
def test_of_an_example_only_what_looks_like_a_key_is_masked(tmp_path: Path, name: str) -> None:
    text = f"A_KEY=change-me-in-production\nDATABASE_URL=postgres://ann:password123@localhost/shop\nB_KEY={VALUE}\n"
    assert secrets_of_env_file(put(tmp_path, name, text)) == {VALUE: f"{name}/B_KEY"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            ".env.ts",
            "const schema = z.object({ server: {\n  API_KEY: z.string().min(1),\n  AUTH_TOKEN: tokenSchema,\n"
            '  B_TOKEN: process.env.B_TOKEN ?? "blue-otter-42",\n  apiKey: process.env.API_KEY!,\n}});\n',
        ),
        (
            ".env.d.ts",
            "interface ProcessEnv {\n  API_KEY: string;\n  DB_PASSWORD: string | undefined;\n"
            "  JWT_SECRET?: string;\n}\n// the token of ann: don't use `blue-otter-42`\n",
        ),
        (
            ".env.py",
            "class Settings(BaseSettings):\n    api_key: SecretStr\n    session_token: str | None = None\n"
            "    secret_key\n    db_password: str = os.environ.get('DB_PASSWORD', 'blue-otter-42')\n",
        ),
        (".env.php", "<?php\n$config['api_key'] = $_ENV['API_KEY'];\n$db_password = 'blue-otter-42';\n"),
    ],
)
def test_of_a_program_only_what_is_in_quotes_is_masked(tmp_path: Path, name: str, text: str) -> None:
    told: list[str] = []
    found = secrets_of_env_file(put(tmp_path, name, f"{text}// {VALUE}: API_KEY={VALUE}\n"), told.append)
    expected = {VALUE} if name == ".env.d.ts" else {VALUE, "blue-otter-42"}
    assert set(filter(is_searched, found)) == expected
    assert told == []


def test_a_file_of_lines_with_the_ending_of_a_program_is_none(tmp_path: Path) -> None:
    file = put(tmp_path, ".env.py", "DB_PASSWORD=blue-otter-42\n")
    assert [*secrets_of_env_file(file)] == ["blue-otter-42"]


def test_the_commands_of_a_script_have_no_secret_in_what_they_refer_to(tmp_path: Path) -> None:
    text = (
        'curl -H "Authorization: Bearer $API_TOKEN" https://hub.example.com\n'
        'echo "$REGISTRY_PASSWORD" | docker login -u ci --password-stdin registry.example.com\n'
    )
    assert secrets_of_env_file(put(tmp_path, ".envrc", text)) == {}


def test_a_folder_a_dangling_link_and_a_pipe_have_no_secrets(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    (tmp_path / ".env.local").symlink_to("missing")
    os.mkfifo(tmp_path / ".env.test")
    put(tmp_path, "target", f"SHOP_API_KEY={VALUE}\n")
    (tmp_path / ".env.prod").symlink_to("target")
    found = checked(tmp_path)
    assert found.secrets.names == {VALUE: ".env.prod/SHOP_API_KEY"}
    assert [*found.secret_files.unread] == [tmp_path / ".env.test"]
    assert secrets_of_folders([tmp_path], {}).names == found.secrets.names


def test_of_many_files_of_variables_the_first_count(tmp_path: Path) -> None:
    for number in range(110):
        put(tmp_path, f".env.{number:03}", "")
        put(tmp_path, f"{number:03}/.env", "")
    found = [*FolderListings().env_files(tmp_path, below=True)]
    assert [str(each.relative_to(tmp_path)) for each in found] == [
        ".env",
        *(f".env.{number:03}" for number in range(100)),
        *(f"{number:03}/.env" for number in range(100)),
    ]
    assert [*FolderListings().env_files(tmp_path / "missing")] == [tmp_path / "missing" / ".env"]


def test_a_command_masks_the_files_of_variables_of_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to a service, and what is shown of sessions, whose configs nobody knows."""
    monkeypatch.chdir(tmp_path)
    for name, value in ((".env", VALUE), (".env.local", f"a{VALUE}"), ("api/.env", f"b{VALUE}")):
        put(tmp_path, name, f"SHOP_API_KEY={value}\n")
    shown = Process().redact(f"{VALUE} a{VALUE} b{VALUE}").split()
    assert shown[:2] == ["<secret:SHOP_API_KEY>", "<secret:.env.local/SHOP_API_KEY>"]
    assert shown[2] == "<secret:.env/SHOP_API_KEY>"
