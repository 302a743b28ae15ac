"""Values about which no name says anything: in the ``env`` of an MCP server, and headers in a variable."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

import pytest

from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.written_secrets import written_secrets

VALUE: Final = "Dv7hT2pLq9VwZ3nB8mCs"
OTHER: Final = "Zp4kW8nQ2rT6yB1vX9cM"
LINE: Final = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


def of_server(value: Any) -> set[str]:
    return set(written_secrets({"mcpServers": {"x": {"env": {"IDENT": value}}}}))


@pytest.mark.parametrize(
    "value",
    [
        VALUE,
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY4zQ8",
        "/9jalrXUtnFEMI4K7MDENG/bPxRfiCY4zQ8",
        "q8Zt+4Kd/9xVb2nM7pLw3sRy6QhC1eJf0uAg==",
        "Kx9mPq2v!Lw7#Rt4&Zz8",
        "Kx9mPq2v(Lw7{Rt4<Zz8>",
        "Kx9mPq2v,Lw7#Rt4;Zz8",
        "$Dv7hT2pLq9$VwZ3nB8mCs",
        "~Dv7hT2pLq9@VwZ3nB8mCs",
        "bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
        "Kx9mPq2vLw7a",
        "kx9mpq2vlw7az4b",
        "3f2c9ab41c0d",
        "sha-3f2c9ab41c0d",
        "correct-horse-battery4711",
        "abcdefghijklmnopqrstuvwx",
        "20240131893041762845",
    ],
)
def test_a_value_in_the_env_of_a_server_that_looks_random_is_a_secret_with_any_signs(value: str) -> None:
    assert value in of_server(value)


@pytest.mark.parametrize(
    "written",
    [
        f"{VALUE},{OTHER}",
        f"{VALUE}; {OTHER}",
        json.dumps({"ident": VALUE, "more": [OTHER]}),
        json.dumps([VALUE, json.dumps({"a": OTHER})]),
        f"{{ident: {VALUE}, more: {OTHER}}}",
        f"42|{VALUE}:{OTHER}",
        f"ident={VALUE} more='{OTHER}'",
        f"the first is {VALUE}\nthe second is {OTHER}.",
        f"https://x.example/a,{VALUE},{OTHER}",
        f"-Dident={VALUE} -Dmore=ann:{OTHER}",
    ],
)
def test_in_a_value_of_several_words_each_that_looks_random_is_a_secret(written: str) -> None:
    assert {VALUE, OTHER} <= of_server(written)


def test_a_long_run_is_random_though_it_is_one_word_with_a_number() -> None:
    assert "AKIAIOSFODNN7EXAMPLE" in of_server("eu-central-1 AKIAIOSFODNN7EXAMPLE")


def test_a_private_key_under_a_name_that_says_nothing_is_a_secret_and_a_certificate_is_none() -> None:
    private = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n-----END PRIVATE KEY-----"
    assert private in of_server(private)
    assert not of_server(private.replace("PRIVATE KEY", "CERTIFICATE"))


PRIVATE: Final = f"-----BEGIN RSA PRIVATE KEY-----\n{LINE}\n{VALUE}==\n-----END RSA PRIVATE KEY-----"
CERTIFICATE: Final = PRIVATE.replace("RSA PRIVATE KEY", "CERTIFICATE").replace(LINE, LINE[::-1])


@pytest.mark.parametrize(
    "value",
    [
        f"{PRIVATE}\n",
        PRIVATE.replace("\n", "\r\n"),
        PRIVATE.replace("\n", "\\n"),
        PRIVATE.replace("\n", " "),
        PRIVATE.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        f"{CERTIFICATE}\nBag Attributes\n    friendlyName: shop\n{PRIVATE}\n{CERTIFICATE}",
        json.dumps({"app": 12, "pem": [PRIVATE]}),
        b64encode(PRIVATE.encode()).decode(),
    ],
)
def test_a_private_key_in_a_variable_is_known_by_its_form(value: str) -> None:
    known = secrets_of_environment({"CERT_DATA": value})
    one = value if value.startswith("-----BEGIN PGP") else PRIVATE
    for text in (value, one, f"it is {one!r}", f"{LINE}\n{VALUE}==", LINE, b64encode(one.encode()).decode()):
        assert "<secret:CERT_DATA" in (masked := known.text(text))
        assert LINE not in masked
        assert VALUE not in masked
    assert known.text(CERTIFICATE).startswith(f"-----BEGIN CERTIFICATE-----\n{LINE[::-1]}\n")


def test_words_about_a_private_key_are_none() -> None:
    text = "Put it between -----BEGIN PRIVATE KEY----- and then -----END PRIVATE KEY-----, in lines."
    assert not secrets_of_environment({"HELP": text}).names
    assert not secrets_of_environment({"HELP": CERTIFICATE}).names


@pytest.mark.parametrize(
    "value",
    [
        *(
            "/srv/customer4711/data4711",
            "/home/ann/3f2c9ab41c/x",
            "~/a/3f2c9ab41c.db",
            "./build/Kr4ft9werk7xTq",
        ),
        *("C:\\Users\\ann\\3f2c9ab41c", "data/project2024/db.sqlite", "builds/3f2c9ab41c/out", "src/**/*.py"),
        *(
            "/usr/bin:/home/ann/.nvm/v20.1.0/bin:/opt/app20240131/bin",
            "%APPDATA%\\npm",
            "$HOME/project2024/x",
        ),
        *("localhost:8080", "db-3f2c9ab41c.eu-central-1.rds.example.com", "3f2c9ab41c.example.org:5432"),
        *(
            "https://x.example/3f2c9ab41c/y?id=a1b2c3d4e5f6",
            "https://a.example/1,https://b.example/2",
            "10.0.0.12",
        ),
        *(
            "ann2024xyz1@mail.example.org",
            "agent@proj-3f2c9ab41c.iam.example.com",
            "2001:db8:85a3::8a2e:370:7334",
        ),
        *("us-east-1", "eu-central-1a", "europe-west4", "Europe/Berlin", "en_US.UTF-8", "x86_64-linux-gnu"),
        *(
            "true",
            "production",
            "production-4711",
            "deploy2024",
            "report20240131",
            "base64url",
            "utf8mb4",
            "12345678",
        ),
        *(
            "1.2.3",
            "v20.11.1-rc.3",
            "2024-01-31",
            "2024-01-31T12:00:00Z",
            "20240131",
            "python3.12",
            "3600000ms",
        ),
        *(
            "postgres:16-alpine",
            "ghcr.io/org/app:1.2.3",
            "registry.example.com:5000/team2024/app:sha-3f2c9ab41c",
        ),
        f"python:3.12@sha256:{'3f2c9ab41c0d8e7f' * 4}",
        *(
            "gpt-4o-2024-08-06",
            "claude-sonnet-4-20250514",
            "anthropic.claude-3-5-sonnet-20241022-v2:0",
            "mistral7b",
        ),
        *(
            "meta-llama/Llama-3.1-405B-Instruct",
            "TheBloke/Mistral-7B-Instruct-v0.2-GGUF",
            "text-embedding-3-small",
        ),
        *("arn:aws:iam::123456789012:role/deploy", "my-project-123456", "-Xmx512m -Xss4m"),
        *("--max-old-space-size=4096", "--require /opt/app/3f2c9ab41c/x.js", "info,zeus=debug", "a,b;c d"),
        "T024BE7LD",
        "C05KQ1E1F2,C06XYZ12A45",
        "C05KQ1E1F2, C06XYZ12A45",
        '["C05KQ1E1F2"]',
        "Answer in German, use base64url and no internationalization, see chapter2024.",
        *(
            '{"level": "info", "file": "/srv/a/3f2c9ab41c"}',
            '["eu-central-1", "us-east-1"]',
            "{{name}}",
            "${A:-b}",
        ),
    ],
)
def test_an_ordinary_value_in_the_env_of_a_server_stays_readable(value: str) -> None:
    assert of_server(value) == set()


def in_forms(name: str, value: str) -> dict[str, str]:
    return {
        "pairs": f"x-team=blue,{name}={value}",
        "semicolons": f"x-team=blue; {name}={value}",
        "bars": f"X-Team: blue|{name}: {value}|X-Next: a",
        "lines": f"X-Team: blue\r\n{name}: {value}\n",
        "written lines": f"X-Team: blue\\n{name}: {value}",
        "mapping": json.dumps({"X-Team": "blue", name: value}),
        "mapping within": json.dumps({"default": {name: value}}),
        "list": json.dumps([{"name": name, "value": value}, {"key": "X-Team", "value": "blue"}]),
        "lists of values": json.dumps({name: [value, "blue"]}),
        "list of lines": json.dumps([f"{name}: {value}"]),
        "YAML": f"{{X-Team: blue, {name}: {value}}}",
        "Python": f"{{'X-Team': 'blue', '{name}': '{value}'}}",
        "quoted": f"'{name}: {value}'",
        "words": f"-H 'X-Team: blue' -H \"{name}: {value}\"",
        "one word": f"--header='{name}: {value}'",
    }


@pytest.mark.parametrize("form", in_forms("", ""))
@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Gw", VALUE), ("x-api-key", "hunter-two-x"), ("X-Id", "a/b+Kx9mPq2vLw7a"), ("X-Login", "deploy2024")],
)
def test_a_header_in_a_variable_is_a_secret_by_its_name_or_if_it_looks_random(
    form: str, name: str, value: str
) -> None:
    known = secrets_of_environment({"OPENAPI_MCP_HEADERS": in_forms(name, value)[form]})
    assert value in known.secrets
    assert value not in known.text(f"refused: {value}.")


def test_a_header_may_have_an_escape_in_json_and_what_looks_random_is_found_in_any_form() -> None:
    lines = json.dumps(['X-Api-Key: hunter-"two"-x'])
    assert 'hunter-"two"-x' in secrets_of_environment({"API_HEADERS": lines}).secrets
    assert secrets_of_environment({"API_HEADERS": f"X-Gw {VALUE} X-Team blue"}).secrets == {VALUE}


def test_opentelemetry_ends_a_header_at_a_comma_and_others_do_not() -> None:
    known = secrets_of_environment({"API_HEADERS": "x-api-key=hunter-two,three;x-more=a"}).secrets
    assert {"hunter-two", "hunter-two,three"} <= known


@pytest.mark.parametrize("form", in_forms("", ""))
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-honeycomb-dataset", "checkout-service"),
        ("Content-Type", "application/json"),
        ("X-Team", "platform-team-4711"),
        ("Strict-Transport-Security", "max-age=31536000"),
    ],
)
def test_an_ordinary_header_in_a_variable_stays_readable_as_in_a_config(
    form: str, name: str, value: str
) -> None:
    assert not secrets_of_environment({"API_HEADERS": in_forms(name, value)[form]}).secrets
    assert not written_secrets({"headers": {name: value}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOTION_DATABASE_ID", "d9824bdc84454327be8b5b47500af6ce"),
        ("spreadsheetId", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"),
        ("AZURE_TENANT_ID", "72f988bf-86f1-41af-91ab-2d7cd011db47"),
        ("AIRTABLE_BASE_IDS", "appk3yAbC9dEf2Gh,appQ7yAbC9dEf2Gh"),
    ],
)
def test_a_name_that_says_id_has_no_random_secret(name: str, value: str) -> None:
    """A model passes it on as an argument."""
    assert not written_secrets({"mcpServers": {"x": {"env": {name: value}}}})
    for other in (name.rstrip("IDSds").rstrip("_"), "SESSION_ID", "VAULT_SECRET_ID", "PAID"):
        assert written_secrets({"mcpServers": {"x": {"env": {other: value}}}})


def test_an_id_with_a_login_or_a_named_key_in_it_has_a_secret() -> None:
    for value in (f"https://app:{VALUE}@x.example/a", f"--api-key {VALUE}"):
        assert VALUE in written_secrets({"mcpServers": {"x": {"env": {"APP_ID": value}}}})
