"""Secrets that are written out are known by where they stand, in the YAML and in the files that it names."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from zeus_runtime.config import ConfigError, Redactor, render
from zeus_runtime.config.layers.mcp_files import servers_in_file
from zeus_runtime.config.secrets.folder_listings import FolderListings
from zeus_runtime.config.secrets.key_files import SOURCED
from zeus_runtime.config.secrets.written_secrets import (
    repositories_of,
    secrets_of_file,
    secrets_of_key_file,
    secrets_of_repository,
    written_secrets,
)
from zeus_runtime.errors import OptionsError
from zeus_runtime.plan.validated import check


def under_key(value: str) -> dict[str, Any]:
    """A value in each place where its name is only ``key``."""
    return {
        "flag": {"args": ["exa", "--key", value]},
        "flag with a sign": {"args": ["exa", f"--key={value}"]},
        "variable of a container": {"args": ["run", "-e", f"KEY={value}", "image"]},
        "command": {"args": ["-c", f"exec npx exa --key {value}"]},
        "address": {"url": f"https://mcp.example/v1?q=1&key={value}"},
        "connection string": {"env": {"STORE": f"Endpoint=https://h.example/;Key={value}"}},
        "JSON": {"env": {"ACCOUNT": json.dumps({"key": value, "url": "x"})}},
        "YAML": {"key": value},
        "text with a flag": {"instructions": f"It does `exa run --key {value}` then"},
        "text with a setting": {"instructions": f"It does `exa key={value}` then"},
        "a file's line": {"FILE_SECRET": f"user: ann\nkey: {value}\n"},
    }


@pytest.mark.parametrize(
    "value", ["7c0f4d2e-91ab-4f3c-8d55-0be6a1c2d3f4", "4f1b2c3d5e6f708192a3b4c5d6e7f801", "Gh7Kp2Qw9Zx4Lm6N"]
)
def test_under_a_lone_key_a_value_that_looks_like_a_key_is_a_secret(value: str) -> None:
    assert [place for place, text in under_key(value).items() if value not in written_secrets(text)] == []


@pytest.mark.parametrize(
    "value",
    [
        "customer_id",
        "value1234",
        "us-east-1",
        "build-2024-11-30",
        "x/0/price",
        "1234567890123",
        "/srv/9f86d081884c/x",
    ],
)
def test_under_a_lone_key_an_ordinary_value_is_none(value: str) -> None:
    assert [place for place, text in under_key(value).items() if value in written_secrets(text)] == []


def test_under_a_lone_key_a_private_key_is_a_secret_and_a_sentence_is_none() -> None:
    private = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
    assert private in written_secrets({"tls": {"key": private}})
    assert not written_secrets({"key": "of the order 3f2c9ab41c"})


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        ({"env": {"GITHUB_TOKEN": "ghp_0123456789"}}, {"ghp_0123456789"}),
        ({"env": {"NODE_ENV": "production", "MAX_TOKENS": "12345678"}}, set()),
        ({"env": {"DB_PASS2": "Kr4ft-werk9", "API_KEY3": "0123456789"}}, {"Kr4ft-werk9", "0123456789"}),
        ({"args": ["--api-key2=0123456789", "-e", "DB_PASSWORD1=9876543210"]}, {"0123456789", "9876543210"}),
        ({"sort": {"key1": "customer_id", "key2": "order-number"}, "args": ["Key 1: 3f2c9ab41c"]}, set()),
        ({"tls": {"key1": "Kr4ft9werk7xTq"}}, {"Kr4ft9werk7xTq"}),
        ({"headers": {"Authorization": "Bearer abcdefgh12"}}, {"Bearer abcdefgh12", "abcdefgh12"}),
        ({"headers": {"Authorization": "ApiKey abcdefgh12"}}, {"ApiKey abcdefgh12", "abcdefgh12"}),
        (
            {"headers": {"Authorization": 'Token token="abcdefgh12", v="1"'}},
            {'Token token="abcdefgh12", v="1"', "abcdefgh12"},
        ),
        (
            {"headers": {"X-Up": 'OAuth oauth_token="abcdefgh12"'}},
            {'OAuth oauth_token="abcdefgh12"', "abcdefgh12"},
        ),
        ({"args": ["--header", "Authorization: SSWS abcdefgh12"]}, {"SSWS abcdefgh12", "abcdefgh12"}),
        ({"args": ["-y", "Authorization: SSWS abcdefgh12"]}, {"SSWS abcdefgh12", "abcdefgh12"}),
        ({"env": {"SERVICE_AUTHORIZATION": "Key abcdefgh12"}}, {"Key abcdefgh12", "abcdefgh12"}),
        ({"headers": {"X-Api-Key": "0123456789"}}, {"0123456789"}),
        ({"secrets": ["0123456789", "short"]}, {"0123456789"}),
        ({"args": ["--api-key", "0123456789", "--verbose"]}, {"0123456789"}),
        ({"args": ["--api-key", "--verbose", "0123456789"]}, set()),
        ({"args": ["--token=0123456789", "-y"]}, {"0123456789"}),
        ({"args": ["-e", "DB_PASSWORD=0123456789"]}, {"0123456789"}),
        ({"args": ["--header", "Authorization: Bearer abcdefgh12"]}, {"Bearer abcdefgh12", "abcdefgh12"}),
        ({"command": ["check", "--token", "0123456789"]}, {"0123456789"}),
        ({"command": ["check", "--api-key=0123456789"]}, {"0123456789"}),
        ({"words": ["-H", "Authorization: Bearer abcdefgh12"]}, {"Bearer abcdefgh12", "abcdefgh12"}),
        ({"words": ["--header=Authorization: Bearer abcdefgh12"]}, {"Bearer abcdefgh12", "abcdefgh12"}),
        (
            {"words": ["-HX-Api-Key: 0123456789", "--env=DB_PASSWORD=9876543210"]},
            {"0123456789", "9876543210"},
        ),
        ({"rules": ["Password: never ask for one", "a token: is prose", "--token", "--key"]}, set()),
        ({"args": ["postgres://ann:hunter2@db/x"]}, {"hunter2"}),
        ({"env": {"DB_PASSWORD": 8839201744, "PORT": 8839201745}}, {"8839201744"}),
        ({"env": {"DB_PASSWORD": 12345, "USE_TOKEN": True}}, set()),
        ({"headers": {"X-Api-Key": 8839201744}}, {"8839201744"}),
        ({"extra": {"access_token": 8839201744.5}}, {"8839201744.5"}),
        ({"args": ["--password", 8839201744, "--port", 8839201745]}, {"8839201744"}),
        ({"input_cost_per_token": 0.00000125, "pin_token": 8839201.5, "key_token": float("nan")}, set()),
        ({"args": ["--cost-per-token", 0.00000125, "some-model-4711"]}, set()),
        ({"args": ["--password", -88392017.5]}, {"-88392017.5"}),
        (
            {"rules": ["Password: three words, in base64url", "Token: such as Kr4ft9werk7xTq, if any"]},
            {"Kr4ft9werk7xTq"},
        ),
        ({"rules": ["Authorization: Bearer correct-horse"]}, {"Bearer correct-horse", "correct-horse"}),
        (
            {"rules": ['Authorization: Digest user="a b", nonce="abcdefgh12"']},
            {'Digest user="a b", nonce="abcdefgh12"', "abcdefgh12"},
        ),
        ({"prompt": "token: every word of this is prose"}, set()),
    ],
)
def test_a_literal_is_a_secret_by_its_key_its_flag_or_its_header(value: Any, secrets: set[str]) -> None:
    assert set(written_secrets({"mcpServers": {"x": value}})) == secrets


def test_a_files_variables_are_filled_in_first_and_a_broken_file_is_its_readers_affair(
    tmp_path: Path,
) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"x": {"env": {"A_TOKEN": "${WHO}-${THE_KEY}", "B": "${NONE}"}}}})
    )
    environ = {"WHO": "a", "THE_KEY": "k3y"}
    assert secrets_of_file(file, environ) == {"k3y": "THE_KEY"}, (
        "too short to be told from a word, but for the variable's name"
    )
    assert secrets_of_file(file, {"WHO": "annabel", "THE_KEY": "k3y"}) == {
        "annabel-k3y": ".mcp.json/mcpServers.x.env.A_TOKEN",
        "k3y": "THE_KEY",
    }
    file.write_text("{")
    assert secrets_of_file(file, environ) == {}
    assert secrets_of_file(tmp_path / "none.json", environ) == {}


@pytest.mark.parametrize("levels", [101, 900, 100_000])
@pytest.mark.parametrize("opened", ["[", '{"a": '])
def test_a_file_of_servers_that_is_nested_too_deeply_is_an_error(
    tmp_path: Path, levels: int, opened: str
) -> None:
    closed = "]" if opened == "[" else "}"
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"a": ' + opened * levels + "1" + closed * levels + "}}")
    assert secrets_of_file(file, {}) == {}
    with pytest.raises(OptionsError, match="nested too deeply"):
        servers_in_file(file, {})


def test_what_a_file_that_the_config_names_holds_is_masked_like_its_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".mcp.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "far": {"url": "https://x.example", "headers": {"Authorization": "Bearer s3cr3t-0123"}}
                }
            }
        )
    )
    config = tmp_path / "sub" / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\ntools:\n  - mcp: {files: [.mcp.json]}\n")
    redactor = check(config, directory=tmp_path, environ={}).document.redactor
    assert (
        redactor("it said s3cr3t-0123.")
        == "it said <secret:.mcp.json/mcpServers.far.headers.Authorization-1d59>."
    )
    assert "s3cr3t" not in redactor('{"Authorization": "Bearer s3cr3t-0123"}')


KEY_LINE: Final = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM: Final = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"
CERTIFICATE: Final = (
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG\n-----END CERTIFICATE-----\n"
)
VERTEX: Final = (
    "model: {litellm: {model: vertex_ai/x, extra: {vertex_credentials: sa.json, notes: notes.md}}}\n"
)


SERVERS: Final = "mcpServers: {far: {command: x, "


@pytest.mark.parametrize(
    ("yaml", "environ"),
    [
        (VERTEX, {}),
        ("model: gpt-4o\n", {"GOOGLE_APPLICATION_CREDENTIALS": "sa.json"}),
        ("model: gpt-4o\n", {"TLS_KEY_FILE": "tls.pem"}),
        ("model: gpt-4o\n", {"TOKEN_FILE": "token"}),
        ("model: gpt-4o\n", {"PGSSLKEY": "tls.pem"}),
        (
            "model: gpt-4o\nstorage: {url: 'postgresql://zeus@db/zeus?sslmode=require&passfile=.%2Ftoken'}\n",
            {},
        ),
        (
            "model: gpt-4o\nstorage: {url: '${DB_URL}'}\n",
            {"DB_URL": "postgresql://zeus@db/zeus?sslkey=tls.pem"},
        ),
        ("model: gpt-4o\n", {"DSN": "host=db user=zeus passfile='token'"}),
        (f"{SERVERS}env: {{GOOGLE_APPLICATION_CREDENTIALS: sa.json}}}}}}\n", {}),
        (f"{SERVERS}env: {{TOKEN_FILE: '${{AT}}/token'}}}}}}\n", {"AT": "."}),
        (f"{SERVERS}env: {{KEY: tls.pem}}}}}}\n", {}),
        (f"{SERVERS}args: [--token-file, token]}}}}\n", {}),
        (f"{SERVERS}args: [--private-key-file=tls.pem]}}}}\n", {}),
        (f"{SERVERS}args: [-e, TOKEN_FILE=token]}}}}\n", {}),
        (f"{SERVERS}args: [--env=TOKEN_FILE=token]}}}}\n", {}),
        (f"{SERVERS}args: [-c, 'exec x --token-file token']}}}}\n", {}),
        (f"{SERVERS}args: [-c, 'exec env TOKEN_FILE=token x']}}}}\n", {}),
        (f"{SERVERS}args: [--token-file, ../token], cwd: sub}}}}\n", {}),
        (f"{SERVERS}args: [--directory, own/hub, run, x.py, --token-file, token]}}}}\n", {}),
        (f"{SERVERS}args: ['--directory=${{AT}}/own/hub', --token-file, token]}}}}\n", {"AT": "."}),
        (f"{SERVERS}args: [--directory, own/hub, run], env: {{TOKEN_FILE: token}}}}}}\n", {}),
        (f"{SERVERS}args: [--directory, hub, --token-file, token], cwd: own}}}}\n", {}),
        (f"{SERVERS}args: [-c, 'cd own && cd hub && exec x --token-file token']}}}}\n", {}),
        (f"{SERVERS}args: [-C, own/hub, x, --token-file, ./token]}}}}\n", {}),
        ("tools: [{mcp: {files: [beside.json]}}]\n", {}),
        (
            "middlewares: [{hooks: {before_tool_call: [{command: [x, -C, own/hub, --token-file, token]}]}}]\n",
            {},
        ),
        ("metadata: {run: [x, -C, own/hub, --token-file, token]}\n", {}),
        ("metadata: {command: cd own/hub && x --token-file token}\n", {}),
        ("tools: [{mcp: {files: [servers.json]}}]\n", {}),
        ("middlewares: [{hooks: {before_tool_call: [{command: [x, --token-file, token]}]}}]\n", {}),
        ("metadata: {command: x --token-file token}\n", {}),
        ("metadata: {credentials_file: sa.json}\n", {}),
        ("tools: [{sandbox: {backend: {ssh: {host: h, key: tls.pem}}}}]\n", {}),
        (
            "agents: {a: {description: x, overrides: {tools: [{sandbox: {backend: {ssh: {host: h, key: tls.pem}}}}]}}}",
            {},
        ),
    ],
)
def test_what_a_file_holds_from_which_a_library_reads_keys_is_a_secret(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, yaml: str, environ: dict[str, str]
) -> None:
    (tmp_path / "sa.json").write_text(json.dumps({"private_key": PEM, "client_email": "agent@example.org"}))
    (tmp_path / "tls.pem").write_text(CERTIFICATE + PEM)
    (tmp_path / "sub").mkdir()
    (tmp_path / "own/hub").mkdir(parents=True)
    # A file of the same name in another folder is none that the command names.
    (tmp_path / ("own/hub/token" if "hub" in yaml or "beside" in yaml else "token")).write_text(
        KEY_LINE + "\n"
    )
    (tmp_path / "notes.md").write_text("One line of notes.")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "token").write_text(KEY_LINE)
    beside = {"command": "x", "args": ["--directory", str(outside), "--token-file", "token"]}
    (tmp_path / "beside.json").write_text(json.dumps({"mcpServers": {"far": beside}}))
    server = {"command": "x", "env": {"TOKEN_FILE": "${AT:-.}/token"}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"far": server}}))
    head = "" if yaml.startswith("model:") else "model: gpt-4o\n"
    (tmp_path / "zeus.yaml").write_text(f"version: 1\n{head}{yaml}")
    checked = check("zeus.yaml", directory=tmp_path, environ=environ)
    told = checked.secrets.text(f"{KEY_LINE} agent@example.org {CERTIFICATE} One line of notes.")
    assert KEY_LINE not in told
    assert told.endswith(f"agent@example.org {CERTIFICATE} One line of notes.")
    # A service reads the config again when the file changes.
    assert {each.name for each in checked.document.further} & {
        "sa.json",
        "tls.pem",
        "token",
        "id_rsa",
        "private.asc",
    }


def test_a_key_that_servers_name_is_known_also_while_their_file_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [servers.json]}}]\n"
    )
    servers = tmp_path / "servers.json"
    servers.write_text('{"mcpServers": {}}')
    (tmp_path / "key").write_text(PEM)
    (tmp_path / "tok").write_text("zt-own-7Kq19mWz4Rt8LpQ2\n")
    files = check("zeus.yaml", directory=tmp_path, environ={}).secret_files
    files.changed()
    args = '"args": ["--cert", "./key", "--token-file", "./tok",]'
    env = '"env": {"A_TOKEN": "Qm7Yb2Lk9Vd4xR8p"}'
    text = f'{{"mcpServers": {{"x": {{"command": "x", {env}, {args}}}}}}}'
    servers.write_text(f"// Ours.\n{text}")
    found = "\n".join(files.changed())
    for each in ("zt-own-7Kq19mWz4Rt8LpQ2", "Qm7Yb2Lk9Vd4xR8p"):
        assert each in found
    (tmp_path / "tok").write_text("zt-own-8Lr20nXz5Su9MqR3\n")
    servers.write_text(f"<<<<<<< HEAD\n{text}")
    found = "\n".join(files.changed())
    assert KEY_LINE in found
    assert "zt-own-8Lr20nXz5Su9MqR3" in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zeus-serve.yaml", "tls: {certificate: chain.pem, key: keys/tls.pem}\n"),
        ("zeus-serve.yaml", "tls: {certificate: keys/tls.pem}\n"),
        ("zeus-serve.yaml", "tsl: {key: keys/tls.pem}\n"),
        ("zeus-serve.yaml", "tls: {key: keys/tls.pem}\n<<<<<<< HEAD\n=======\n>>>>>>> main\n"),
        ("zeus.prod.yaml", "tools: [{sandbox: {backend: {ssh: {host: h, keys: keys/tls.pem}}}}]\n"),
        ("zeus.prod.yaml", "tools: [{sandbox: {backend: {ssh: {host: h, key: keys/tls.pem}}}}]\nx: [\n"),
        ("zeus.prod.yaml", "tools: [{sandbox: {backend: {ssh: {host: h, key: keys/tls.pem}}}}]\n"),
        (
            "zeus.prod.yaml",
            "agents: {a: {description: x, overrides: {checkpointer: {sqlite: {path: keys/c.db}},"
            " tools: [{sandbox: {backend: {ssh: {host: h, key: keys/tls.pem}}}}]}}}\n",
        ),
    ],
)
def test_a_key_that_other_settings_name_is_known_as_it_is_closed(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\n")
    (tmp_path / name).write_text(text)
    (tmp_path / "keys/tls.pem").write_text(CERTIFICATE + PEM)
    (tmp_path / "keys/c.db").write_text(PEM.replace(KEY_LINE, "Kx02LmPq81ZtKx02LmPq81Zt"))
    checked = check("zeus.yaml", directory=tmp_path, environ={})
    assert KEY_LINE not in checked.secrets.text(KEY_LINE)
    # A new key is known before the next run; a database is no file with keys.
    (tmp_path / "keys/tls.pem").write_text(PEM.replace(KEY_LINE, "Ev7Kx02LmPq81ZtEv7Kx02LmPq81Zt"))
    assert "Ev7Kx02LmPq81ZtEv7Kx02LmPq81Zt" in "".join(checked.secret_files.changed())
    assert checked.secrets.text("Kx02LmPq81ZtKx02LmPq81Zt") == "Kx02LmPq81ZtKx02LmPq81Zt"


def test_a_file_that_two_configs_name_is_read_by_the_name_that_says_secret(tmp_path: Path) -> None:
    sandbox = "tools: [{sandbox: {backend: {ssh: {host: h, key: keys}}}}]\n"
    for name, text in (("a", sandbox), ("b", "metadata: {token_file: keys}\n"), ("c", sandbox)):
        (tmp_path / f"zeus.{name}.yaml").write_text(text)
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [list.json]}}]\n")
    (tmp_path / "list.json").write_text("[]")  # its reader says what is wrong with it
    (tmp_path / "keys").write_text(f"{KEY_LINE}\n")
    assert check("zeus.yaml", directory=tmp_path, environ={}).secrets.text(KEY_LINE) == "<secret:token_file>"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (
            "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = three-words-x\n"
            "region = eu-central-1\nrole_arn = arn:aws:iam::123456789012:role/deploy\n",
            {"AKIAIOSFODNN7EXAMPLE", "three-words-x"},
        ),
        ("# since 2024-01-31\nexport API_KEY=hunter-two-x\nMODE=production\n", {"hunter-two-x"}),
        ("# The token of the shop\nDv7hT2pLq9Vw/Z3nB8mCs\n", {"Dv7hT2pLq9Vw/Z3nB8mCs"}),
        (
            "db.example.org:5432:shop:ann:Kx9mPq2vLw7a\n",
            {
                "db.example.org:5432:shop:ann:Kx9mPq2vLw7a",
                "5432:shop:ann:Kx9mPq2vLw7a",
                "Kx9mPq2vLw7a",
            },
        ),
        ("Bearer correct-horse\n", {"Bearer correct-horse", "correct-horse"}),
        ("API_KEY=hunter-two-x", {"API_KEY=hunter-two-x", "hunter-two-x"}),
        ("postgres://ann:hunter-two@db/x", {"postgres://ann:hunter-two@db/x", "hunter-two"}),
        ("Kx9mPq2vLw7a\n" * 2_000, set()),
        (CERTIFICATE.replace("+", "4711"), set()),
    ],
)
def test_in_a_file_that_a_variable_with_a_secret_name_names_each_secret_is_found(
    tmp_path: Path, text: str, secrets: set[str]
) -> None:
    (tmp_path / "keys").write_text(text)
    assert set(secrets_of_key_file(tmp_path / "keys", {}, variable="AWS_SHARED_CREDENTIALS_FILE")) == secrets
    assert not secrets_of_key_file(tmp_path / "keys", {})


@pytest.mark.parametrize(
    ("variable", "name"),
    [("passfile", "passwords"), ("PGPASSFILE", "passwords"), ("DB_PASSWORD_FILE", ".pgpass")],
)
def test_the_passwords_in_a_password_file_of_postgres_need_not_look_random(
    tmp_path: Path, variable: str, name: str
) -> None:
    (tmp_path / name).write_text(
        "# database:5432:zeus:old:retired-one\n"
        "database:5432:zeus:owner:NquCUHZML/fCeBlDuegl/YpfV1jjeSoH\n"
        r"[\:\:1]:*:a\\:app:correct\:horse\\battery"
        "\n"
        "db:*:*:zeus:open-sesame:further\n"
        "db:*:*:ends:with-signs\\\n"
        "too:few:fields:plain-words\n"
    )
    found = secrets_of_key_file(tmp_path / name, {}, variable=variable)
    assert list(found) == [
        "NquCUHZML/fCeBlDuegl/YpfV1jjeSoH",
        "correct:horse\\battery",
        "open-sesame",
        "with-signs\\",
    ]
    assert set(found.values()) == {variable}
    (tmp_path / "other").write_text((tmp_path / name).read_text())
    assert not secrets_of_key_file(tmp_path / "other", {}, variable="API_KEY_FILE")


@pytest.mark.parametrize(
    ("yaml", "environ"),
    [
        (f"{SERVERS}args: [--env-file, conf/app.env]}}}}\n", {}),
        (f"{SERVERS}args: [--env-file=conf/app.env]}}}}\n", {}),
        (f"{SERVERS}args: [-c, 'exec docker run -i --env-file conf/app.env image']}}}}\n", {}),
        (f"{SERVERS}args: [--env-file-if-exists, app.env], cwd: conf}}}}\n", {}),
        (f"{SERVERS}env: {{DOTENV_CONFIG_PATH: conf/app.env}}}}}}\n", {}),
        ("metadata: {command: docker run --env-file conf/app.env x}\n", {}),
        (f"{SERVERS}args: [--directory, conf, run, --env-file, app.env]}}}}\n", {}),
        (f"{SERVERS}args: [-c, '. conf/app.env && exec x']}}}}\n", {}),
        (f"{SERVERS}args: [-c, 'cd conf; set -a; source ./app.env']}}}}\n", {}),
        (f"""{SERVERS}args: [-c, 'if true; then bash -c ". conf/app.env"; fi']}}}}\n""", {}),
        ("metadata: {command: . 'conf/app.env'}\n", {}),
        ("model: gpt-4o\n", {"ENV_FILE": "conf/app.env"}),
    ],
)
def test_a_file_of_variables_that_a_name_of_a_config_names_is_read_as_a_dotenv(
    tmp_path: Path, yaml: str, environ: dict[str, str]
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/app.env").write_text("HUB_TOKEN=x7ghs9KqLm2Pv4Tz\n")
    head = "" if yaml.startswith("model:") else "model: gpt-4o\n"
    (tmp_path / "zeus.yaml").write_text(f"version: 1\n{head}{yaml}")
    checked = check("zeus.yaml", directory=tmp_path, environ=environ)
    assert "x7ghs9KqLm2Pv4Tz" not in checked.secrets.text("401 for x7ghs9KqLm2Pv4Tz")
    assert "app.env" in {each.name for each in checked.document.further}


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("DEBUG=true", {}),
        ("HOST=db\nDB_PASSWORD='hunter-two x' # of dev\n", {"hunter-two x": "DB_PASSWORD"}),
        ("export HUB=x7ghs9KqLm2Pv4Tz\n", {"x7ghs9KqLm2Pv4Tz": "HUB"}),
        ("DB=postgres://ann:hunter-two@db/x", {"hunter-two": "DB"}),
        # Docker takes a name alone from its own environment, and quotes and blanks as they are.
        ('HOME\n A_TOKEN = "hunter" two \nB_TOKEN="hunter-two"\n',
         {'"hunter" two': "A_TOKEN", "hunter-two": "B_TOKEN"}),
        ("A_TOKEN = hunter two # x\n", {"hunter two": "A_TOKEN"}),
        (f"TLS=\"{PEM}\"\n", {PEM.strip(): "TLS"}),
    ],
)  # fmt: skip
def test_of_a_file_of_variables_each_value_counts_as_in_the_env_of_a_server(
    tmp_path: Path, text: str, secrets: dict[str, str]
) -> None:
    (tmp_path / "app.env").write_text(text)
    found = secrets_of_key_file(tmp_path / "app.env", {}, variable="env-file")
    assert found.items() >= secrets.items()
    assert secrets or not found


def test_a_script_that_a_shell_reads_is_secret_only_where_it_sets_a_variable_to_a_text(
    tmp_path: Path,
) -> None:
    script = "export A_TOKEN='hunter-two'\nif true; then B_TOKEN=hunter-six; fi\nC_TOKEN=\"$HOME/token\"\n"
    (tmp_path / "run.sh").write_text(script)
    found = secrets_of_key_file(tmp_path / "run.sh", {}, variable=SOURCED)
    assert found == {"hunter-two": "A_TOKEN", "hunter-six; fi": "B_TOKEN", "hunter-six": "B_TOKEN"}
    (tmp_path / "app.env").write_text("C_TOKEN=pa$$word-six\n")
    assert secrets_of_key_file(tmp_path / "app.env", {}, variable=SOURCED) == {"pa$$word-six": "C_TOKEN"}


def test_a_file_that_a_name_of_a_config_does_not_say_to_hold_secrets_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(KEY_LINE)
    (tmp_path / "app.env").write_text("A_TOKEN=hunter-two")
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: gpt-4o\n"
        f"{SERVERS}env: {{NOTES: notes}}, args: [--key, notes, --notes=notes, -x, '--max-tokens 9 notes',"
        " 'ls . app.env']}}\n"
        "metadata: {key: notes, notes: Use --token-file notes, token: ''}\n"
    )
    checked = check("zeus.yaml", directory=tmp_path, environ={})
    assert not checked.secrets.secrets
    assert tmp_path not in checked.document.further


def test_what_looks_like_a_token_in_the_env_of_a_server_is_a_secret_whatever_its_name() -> None:
    env = {"GH": "ghx0123456789abcdef", "MODE": "production-4711", "DATA": "/srv/customer4711/data4711"}
    found = written_secrets({"mcpServers": {"far": {"command": "x", "env": env}}, "db_pass": "s3cret-word"})
    assert found == {"ghx0123456789abcdef": "mcpServers.far.env.GH", "s3cret-word": "db_pass"}


@pytest.mark.parametrize(
    "written",
    [
        "command: x\n    env: {DB_PASSWORD: 8839201744}",
        "command: x\n    env: {N: {DB_PASSWORD: 8839201744}}",
        "command: x\n    env: {DB_PASSWORD: 88392017448839201744}",
        "command: x\n    args: [--password, 8839201744]",
        "url: https://x.example/\n    headers:\n      X-Api-Key: 8839201744",
        "url: https://x.example/\n    headers:\n      X-Tenant: 8839201744",
    ],
)
def test_an_error_about_a_secret_that_is_written_as_a_number_does_not_show_it(
    tmp_path: Path, written: str
) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: gpt-4o\nmcpServers:\n  far:\n    {written}\n")
    with pytest.raises(ConfigError) as failed:
        check(config, directory=tmp_path, environ={})
    told = render(failed.value.diagnostics)
    assert "zeus.yaml:" in told
    assert "8839201744" not in told, told


def test_a_secret_that_is_written_as_a_number_is_masked_in_text_and_as_a_number(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    (tmp_path / "zeus.prod.yaml").write_text("model: {litellm: {api_key: 77392017441}}\n")
    config.write_text(
        "version: 1\nmodel: {litellm: {model: gpt-4o, api_key: x, extra: {access_token: 88392017441}}}\n"
    )
    redactor = check(config, directory=tmp_path, environ={}).document.redactor
    own, other = "<secret:model.litellm.extra.access_token>", "<secret:zeus.prod.yaml/model.litellm.api_key>"
    assert redactor("88392017441 or 77392017441") == f"{own} or {other}"
    value = {"n": [88392017441, 188392017441, 77392017441, 5, 0.5, True, None]}
    assert redactor.json(value) == redactor.masked(value)
    assert redactor.adding(["True"]).json([True]) == [True], "a word, but no number"
    assert redactor.masked(value) == {"n": [own, f"1{own}", other, 5, 0.5, True, None]}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config", '[remote "o"]\n\turl = https://ann:TOKEN@example.com/x\n'),
        ("config", '[url "https://ann:TOKEN@example.com/"]\n\tinsteadOf = https://example.com/\n'),
        ("config", '[url "https://TOKEN@example.com/"]\n\tinsteadOf = https://example.com/\n'),
        ("config", '[http "https://ann:TOKEN@proxy/"]\n\tsslVerify = false\n'),
        ("config", '[http "https://example.com/?a=b"]\n\textraheader = "AUTHORIZATION: basic TOKEN"\n'),
        ("config", "[x]\n\t# url = https://ann:TOKEN@example.com/x\n"),
        ("config.worktree", '[remote "o"]\n\turl = https://ann:TOKEN@example.com/x\n'),
        ("modules/libs/sub/config", '[remote "o"]\n\turl = https://ann:TOKEN@example.com/x\n'),
        ("modules/logs/config", '[remote "o"]\n\turl = https://ann:TOKEN@example.com/x\n'),
        ("modules/a/modules/b/config", '[remote "o"]\n\turl = https://ann:TOKEN@example.com/x\n'),
        ("FETCH_HEAD", "abc\t\tbranch 'main' of https://ann:TOKEN@example.com/x\n"),
    ],
)
def test_a_secret_in_an_address_that_git_keeps_is_known(tmp_path: Path, file: str, text: str) -> None:
    token = "ghpQ7x9Zk2mB4vN8sL1t"
    kept = tmp_path / ".git" / file
    kept.parent.mkdir(parents=True)
    kept.write_text(text.replace("TOKEN", token))
    found = secrets_of_repository(tmp_path / ".git", {})
    assert found.pop(token) == f".git/{file}"
    assert all(token in each for each in found), "and nothing else but what is around it"


def test_a_repository_without_secrets_or_with_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    assert secrets_of_repository(tmp_path / ".git", {}) == {}
    (tmp_path / ".git" / "config").mkdir(parents=True)
    (tmp_path / ".git" / "FETCH_HEAD").write_bytes(b"\xff = \x00\n[core]\n\tbare = false\n")
    os.mkfifo(tmp_path / ".git" / "config.worktree")
    assert secrets_of_repository(tmp_path / ".git", {}) == {}


def _git(folder: Path, *words: str) -> None:
    person = ("-c", "user.name=ann", "-c", "user.email=ann@localhost", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True)


def test_a_repository_is_found_from_its_folders_worktrees_and_submodules(tmp_path: Path) -> None:
    main, other, tree = tmp_path / "main", tmp_path / "other", tmp_path / "tree"
    for folder in (main, other):
        folder.mkdir()
        _git(folder, "init", "-q")
        _git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    _git(main, "submodule", "add", "-q", str(other), "libs/sub")
    _git(main, "worktree", "add", str(tree))
    (main / "src" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(main / "src")
    assert [*repositories_of(main)] == [*repositories_of(main / "src" / "deep")] == [main / ".git"]
    assert [*repositories_of(tmp_path / "link" / "deep")] == [main / ".git"]
    assert [*repositories_of(tree)] == [main / ".git"]
    assert [*repositories_of(main / "libs" / "sub")] == [main / ".git/modules/libs/sub", main / ".git"]
    assert [*repositories_of(tmp_path)] == [*repositories_of(tmp_path / "missing")] == []


@pytest.mark.parametrize("text", ["", "gitdir: ", "gitdir: /missing", "gitdir: a\0b", "other: .", "\xff"])
def test_a_file_that_names_no_repository_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text, encoding="latin-1")
    assert [*repositories_of(tmp_path)] == []


def test_the_objects_of_a_repository_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / ".git" / "config").write_text("[core]\n")
    (tmp_path / ".git" / "objects" / "config").write_text("url = https://ann:ghpQ7x9Zk2mB@example.com/\n")
    assert secrets_of_repository(tmp_path / ".git", {}) == {}


@pytest.mark.timeout(60)  # the square of the length would take minutes
@pytest.mark.parametrize("word", ["= ", " ", "a ", "a=", "://", "a://b", "x", '"', "-", "?a="])
def test_a_repositorys_file_with_a_long_line_is_read_in_linear_time(tmp_path: Path, word: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f"a ={word * (300_000 // len(word))}x =")
    assert secrets_of_repository(tmp_path / ".git", {}) == {}


@pytest.mark.parametrize(
    ("frame", "head"),
    [
        (
            "RSA PRIVATE KEY",
            "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C3D4E5F60718293A4B5C6D7E8F9\n\n",
        ),
        ("PGP PRIVATE KEY BLOCK", "Version: GnuPG -- v2\n\n"),
    ],
)
def test_a_private_key_in_a_file_may_have_headers(tmp_path: Path, frame: str, head: str) -> None:
    key = f"-----BEGIN {frame}-----\n{head}{KEY_LINE}\n-----END {frame}-----"
    (tmp_path / "tls.pem").write_text(f"{CERTIFICATE}{key}\n{CERTIFICATE}{PEM}")
    found = secrets_of_key_file(tmp_path / "tls.pem", {})
    assert found == {key: "tls.pem", PEM.strip(): "tls.pem"}
    assert KEY_LINE not in Redactor().adding(found).text(f"it is {KEY_LINE}!")


def test_the_repositories_in_a_folder_are_found_without_listing_it_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a", "a/deep", "bare"):
        (tmp_path / name).mkdir()
    for name in ("b", "a", "a/deep"):
        (tmp_path / name / ".git").mkdir()
    (tmp_path / "a" / "tree").mkdir()
    (tmp_path / "file").write_text("")
    below = FolderListings()
    assert [*below.repositories(tmp_path)] == [tmp_path / "a/.git", tmp_path / "b/.git"]
    listed: list[object] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(path), real(path))[1])
    # Also in a folder that was there; a submodule names its own elsewhere.
    (tmp_path / "bare" / ".git").write_text("gitdir: ../b/.git\n")
    assert [*below.repositories(tmp_path)] == [tmp_path / "a/.git", tmp_path / "b/.git", tmp_path / "b/.git"]
    assert [*below.copy().repositories(tmp_path)] == [*below.repositories(tmp_path)]
    assert listed == []
    (tmp_path / "c" / ".git").mkdir(parents=True)
    assert tmp_path / "c/.git" in [*below.repositories(tmp_path)]
    assert listed == [tmp_path]
    assert [*below.repositories(tmp_path / "missing")] == []


def test_of_many_repositories_in_a_folder_the_first_count(tmp_path: Path) -> None:
    for number in range(110):
        (tmp_path / f"{number:03}" / ".git").mkdir(parents=True)
    assert len([*FolderListings().repositories(tmp_path)]) == 100
