"""A key within a longer text is a secret, by the name before it; ordinary words of prose are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any, Final

import pytest

from tests.support.agents import PositionModel, write_agent
from zeus_runtime import Agent
from zeus_runtime.config import ConfigError, render
from zeus_runtime.config.layers.mcp_files import servers_in_file
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.running_text import shell_words
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.secrets.written_secrets import secrets_of_file, written_secrets
from zeus_runtime.errors import OptionsError
from zeus_runtime.plan.validated import check

KEY: Final = "sk-live-Abc11Def22Ghi33Jkl44"
WORD: Final = "s3cret-word"
"""No key by its form, so only a command's flag, header or assignment says that it is a secret."""


@pytest.mark.parametrize(
    "server",
    [
        {"args": "-y pkg --api-key {}"},
        {"args": "-y pkg --api-key='{}'"},
        {"command": "sh", "args": ["-c", 'exec npx remote https://h/ --header "Authorization: Bearer {}"']},
        {"command": "sh", "args": ["-c", "exec npx remote https://h/ --header 'x-api-key: {}'"]},
        {"command": "sh", "args": ["-c", "export DB_TOKEN={}; exec node server.js"]},
        {"command": "sh", "args": ["-c", "cd /srv&&DB_TOKEN={}&&node server.js|tee log"]},
        {"command": "sh", "args": ["-c", "node server.js \\\n  --token \\\n  {}\n"]},
        {"command": "sh", "args": ["-c", "# that's open\nnode server.js --token '{}'"]},
        {"command": "sh", "args": ["-c", "DB=postgres://ann:{}@db/x exec node server.js"]},
        {"command": "sh -c 'docker run -e TOKEN={} image'"},
        {"command": "ssh host \"sh -c 'node server.js --token {}'\""},
        {"command": "java -Djavax.net.ssl.keyStorePassword={} -jar x.jar"},
        {"command": ["sh", "-c", "curl -H 'X-Api-Key: {}' https://h/"]},
        {"args": ["--set", "auth.token={}"]},
        {"env": {"OPTIONS": "--verbose --token {}"}},
    ],
)
@pytest.mark.parametrize("secret", [KEY, WORD])
def test_the_text_of_a_command_has_the_secrets_of_a_list_of_its_words(server: Any, secret: str) -> None:
    value = json.loads(json.dumps(server).replace("{}", secret))
    assert secret in written_secrets({"mcpServers": {"x": value}})


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "Authorization: ApiKey {}",
        "curl -H 'Authorization: Bearer {}' https://h/",
        "The gateway wants Bearer {} now.",
        "--api-key={}",
        "run --token \\\n  {}",
        "run --token {} --verbose",
        "run --token: {}",
        "run /token:{}",
        'run --config={{"token": "{}"}}',
        "export DB_TOKEN='{}'; run",
        "docker run -e TOKEN={} image",
        "curl -u ann:{} https://h/",
        "curl --proxy-user 'ann:{}' https://h/",
        'sh -c "sh -c \'curl -H \\"X-Api-Key: {}\\"\'"',
        "Don't forget the key (my-token: {}).",
        "My İnput: token={}",
    ],
)
def test_a_key_in_running_text_is_a_secret_under_any_name(text: str) -> None:
    value = text.replace("{{", "{").replace("}}", "}").replace("{}", KEY)
    assert secrets_of_environment({"SOME_TEXT": value}).text(f"it is {KEY}!") == "it is <secret:SOME_TEXT>!"
    assert KEY in written_secrets({"a": {"text": f"# first line\n{value}"}})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export DB_TOKEN='a,b;Abc11Def22Ghi33'; run", "a,b;Abc11Def22Ghi33"),
        ("Authorization: Bearer abcdefgh12", "abcdefgh12"),
    ],
)
def test_quotes_hold_all_of_a_key_and_a_header_needs_no_long_one(text: str, secret: str) -> None:
    assert secrets_of_environment({"SOME_TEXT": text}).secrets == {secret}


def test_a_login_of_a_basic_header_is_found_within_a_text() -> None:
    known = secrets_of_environment({"TEXT": "curl -H 'Authorization: Basic YW5uOmh1bnRlci0yLXdvcmQ=' h"})
    assert "hunter-2-word" in known.secrets


@pytest.mark.parametrize("arguments", [["-u", "ann:hunter22"], ["--user=ann:hunter22"], ["-uann:hunter22"]])
def test_a_login_behind_its_flag_is_a_secret(arguments: list[str]) -> None:
    assert set(written_secrets({"args": arguments})) == {"hunter22"}
    assert not written_secrets({"args": ["-u", "1000:1000", "-v", "data:abc12345def6", "ann:hunter22"]})


PROSE: Final = (
    "Use the token: foo. Bearer tokens are sent with each request; a bearer token base64url-encoded is longer.",
    "--token is the flag, --password the other one; never print --api-key VALUE or --api-key=YOUR_API_KEY_HERE.",
    "Password: ask the user. Token: base64url. Secret: sha256sum. The primary key: customer_number_2024.",
    "Send `Authorization: Bearer $ACCESS_TOKEN`, `Authorization: Bearer <token>` or `X-Api-Key: ${API_KEY}`.",
    "In code: token = tokenizer.encode(text1a2b3c4d). Or a password=getpass2(a1b2c3d4) of `base64urlencode`.",
    "The access_token: CancellationTokenSource, the client_secret: Base64TokenProvider, token: x509certificate",
    "Basic information about OAuth2 and basic authentication; Token bucket2024 limits; a basic kubernetes1 setup",
    "Keep the token in /run/secrets/a1b2c3d4e5/token and pass --token /run/secrets/a1b2c3d4e5/token.",
    "Commit 0123456789abcdef0123456789abcdef01234567 has the key; order 2024-A1B2C3D4E5 has none.",
    "Run `docker run --user 1000:1000 -v data:/srv image:1a2b3c4d5e` and `chown -u ann:staff file1a2b3c4d`.",
    "Of access_token a1b2c3d4e5f6 is a hash. Token: 1234567890123. --path a1b2c3d4e5f6, key: a1b2c3d4e5f6.",
    "Key 1: a1b2c3d4e5f6, key2: a1b2c3d4e5f6.",
    "The API key of https://h.example/a1b2c3d4e5f6?x=1 is in API_KEY=$(op read op://a1b2c3d4e5/f6).",
)


@pytest.mark.parametrize("text", PROSE)
def test_honest_prose_holds_no_secret(text: str) -> None:
    assert not secrets_of_environment({"PROMPT": text}).secrets
    assert not written_secrets({"instructions": text, "a": {"description": f"{text}\n{text}"}})


async def test_the_prompts_of_a_config_arrive_as_they_are_and_the_key_of_a_command_does_not(
    tmp_path: Path,
) -> None:
    prompt = "\n".join(PROSE).replace("${", "$")
    command = json.dumps(f"run --token {KEY} -H 'X-Api-Key: $TOKEN'")
    server = f'{{x: {{disabled: true, command: sh, args: ["-c", {command}]}}}}'
    write_agent(tmp_path, f"instructions: {json.dumps(prompt)}\nmcpServers: {server}\n")
    model = PositionModel(lambda _request: "Done.")
    async with Agent.from_config(
        "zeus.yaml", directory=tmp_path, environ={}, trust="all", model=model
    ) as agent:
        await agent.run(f"{prompt}\nIt is {KEY}.")
    told = [str(each.content) for each in model.requests[-1].messages]
    assert prompt in told[0]
    assert told[-1] == f"{prompt}\nIt is <secret:mcpServers.x.args.1>."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c';d&&e", ["a", "b c", ";", "d", "&&", "e"]),
        ("a \\\n b", ["a", "b"]),
        ("a 'b; it is c", ["a", "b", "it", "is", "c"]),
        ("a#b # c", ["a#b", "#", "c"]),
        (
            '--token $TOKEN -H "X: $T" T=${U} P=\'a$b\' "$(c d)"',
            ["--token", "", "-H", "X: ", "T=", "P=a$b", ""],
        ),
    ],
)
def test_the_words_that_a_shell_makes(text: str, words: list[str]) -> None:
    assert shell_words(text) == words


SLIP: Final[Mapping[str, Any]] = {"mcpServers": {"db": {"command": "npx", "args": f"-y pkg --api-key {KEY}"}}}


def test_a_slip_in_the_arguments_of_a_server_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(
        f"version: 1\nmodel: gpt-4o\nmcpServers:\n  db:\n    args: {SLIP['mcpServers']['db']['args']}\n"
    )
    with pytest.raises(ConfigError) as failed:
        check("zeus.yaml", directory=tmp_path, environ={})
    told = render(failed.value.diagnostics)
    assert "args: -y pkg --api-key <secret:mcpServers.db.args>" in told
    assert KEY not in told


def test_a_slip_in_a_file_of_servers_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps(SLIP))
    with pytest.raises(OptionsError) as failed:
        servers_in_file(tmp_path / ".mcp.json", {})
    assert KEY in str(failed.value), "the error's reader masks it"
    known = secrets_of_file(tmp_path / ".mcp.json", {})
    assert KEY not in secrets_of_environment({}).adding(known)(str(failed.value))


@pytest.mark.parametrize("part", ["key", "/-u", "--user-", "token:1a2", "token:  ", "token 1b2c", "a", "'\""])
def test_a_long_text_takes_linear_time(part: str) -> None:
    before = process_time()
    for name, length in (("TEXT", 60_000), ("ARGS", 10_000)):
        list(secrets_in(name, f"-x token='{part * (length // len(part))}1a2b3c4d5e"))
    assert process_time() - before < 1
