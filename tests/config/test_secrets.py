"""Secrets that never print, and the redaction of what would show them."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zeus_runtime.config import ConfigError, Redactor, Secret
from zeus_runtime.config.schema.construct import build
from zeus_runtime.config.secrets.connection_strings import is_misread
from zeus_runtime.config.secrets.key_files import key_files
from zeus_runtime.config.secrets.masking import MASK, HiddenStr, mask_line, secrets_of_environment
from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.config.secrets.secret_names import looks_secret, places_secret
from zeus_runtime.config.secrets.secrets_in_values import secrets_of_text
from zeus_runtime.config.secrets.written_secrets import written_secrets
from zeus_runtime.store.database_url import without_password

KEY = "sk-live-0123456789"
NAMED = "<secret:1>"
"""What stands for a secret without a name."""


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(KEY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret, f"{[secret]}"]  # noqa: UP031
    shown += [json.dumps({"key": secret}, default=str), str(pickle.loads(pickle.dumps(secret)))]
    shown += [str(copy.deepcopy({"a": secret})), pickle.dumps(secret).decode("latin1")]
    assert not [text for text in shown if KEY in text]
    assert secret.reveal() == KEY
    assert secret == Secret(KEY) != Secret("other")
    assert {secret: 1}[Secret(KEY)] == 1
    assert bool(secret)
    assert not Secret("")


def test_a_dataclass_with_a_secret_prints_no_secret() -> None:
    @dataclass(frozen=True)
    class Options:
        key: Secret

    options = Options(Secret(KEY))
    assert KEY not in f"{options!r} {asdict(options)}"
    assert asdict(options)["key"].reveal() == KEY


def test_a_hidden_string_works_as_text_and_hides_in_repr() -> None:
    url = HiddenStr("postgres://u:pw@host")
    assert repr(url) == repr([url])[1:-1] == f"'{MASK}'"
    assert url + "/db" == "postgres://u:pw@host/db"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "dbPassword",
        "client-secret",
        "AWS_CREDENTIALS",
        "KEY",
        "OPENAI_API_KEY2",
        "DB_PASSWORD1",
        "TOKEN1",
        "apiKey12_old",
        "API_KEY2_OLD",
        "apikey3",
        "SECRETKEY",
        "awsAccesskey",
        "PRIVATEKEY",
        *("SSHKey", "JWTKey2", "SASKeyOld", "DBToken"),
    ],
)
def test_names_that_say_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *["MAX_TOKENS", "KEYBOARD", "SSH_KEY_PATH", "TOKENIZER", "MONKEY", "PWD", "NAME", "", "KEYS"],
        *("TURKEY", "PUBLICKEY", "KEYs", "MONKeys", "HOTKeys", "SSHKeyFile", "MAXTokens", "Keyboard"),
        *[
            "MD5",
            "KEY2VALUE",
            "key2value",
            "key2Value",
            "S3_BUCKET2",
            "MAX_TOKENS2",
            "HOTKEY1",
            "TOKEN_FILE2",
            "42",
            "V2",
        ],
    ],
)
def test_names_that_do_not(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKEN_URL", "https://login.acme.example/oauth2/token"),
        ("PASSWORD_RESET_URL", "https://shop.acme.example/reset?step=1"),
        ("tokenEndpoint", "https://login.acme.example:8443/oauth2/v2.0/token"),
        ("AWS_SECRET_NAME", "prod/shop/database"),
        ("SECRET_NAMESPACE2", "shop-staging"),
        ("CSRF_TOKEN_HEADER", "X-CSRF-Token"),
        ("TOKEN_EXPIRY_DATE", "2026-12-31"),
        ("JWT_SECRET_ALGORITHM", "RS256-SHA"),
        ("TOKEN_AUDIENCE", "api://shop-backend"),
        ("X_API_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("kmsKeyId", "72f988bf-86f1-41af-91ab-2d7cd011db47"),
    ],
)
def test_what_a_name_says_about_a_secret_is_none(name: str, value: str) -> None:
    assert not looks_secret(name)
    assert not secrets_of_environment({name: value}).names
    assert not written_secrets({"options": {name: value}})


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("TOKEN_URL", "https://hooks.acme.example/services/T02AB3C4D/Kq7xZ2mVbT4rYp9w", ""),
        ("TOKEN_URL", "https://rpc.acme.example/v3/72f988bf86f141af91ab2d7cd011db47", ""),
        ("TOKEN_URL", "https://acme.example/?sig=Kq7xZ2mVbT4rYp9w", "Kq7xZ2mVbT4rYp9w"),
        ("TOKEN_URL", "https://app:correct-horse@acme.example/token", "correct-horse"),
        ("API_KEY_NAME", "Kq7xZ2mVbT4rYp9w", ""),
        ("AUTH_TOKEN_HEADER", "X-Auth: Kq7xZ2mVbT4rYp9w", "Kq7xZ2mVbT4rYp9w"),
        ("VAULT_SECRET_ID", "84896a0c-1347-aa90-a4f6-aca8b7558780", ""),
        ("SECRET_KEY_BASE", "correct-horse", ""),
        ("API_KEY_PROD", "correct-horse", ""),
        ("URL_TOKEN", "https://login.acme.example/oauth2/token", ""),
    ],
)
def test_a_secret_under_a_name_that_says_something_about_one(name: str, value: str, found: str) -> None:
    assert secrets_of_environment({name: value}).holds(found or value)


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("AWS_SHARED_CREDENTIALS_FILE", True),
        ("ZEUS_TOKEN_FILE", True),
        ("PGPASSFILE", True),
        ("DB_PASS", True),
        ("DB_PASS2", True),
        ("TOKEN_FILE2", True),
        ("sshKeyPath", True),
        ("PGSSLKEY", True),
        ("PGSERVICEFILE", True),
        *((name, True) for name in ("ENV_FILE", "UV_ENV_FILE", "envFile", "env-file", "env-file-if-exists")),
        *((name, True) for name in ("DOTENV_CONFIG_PATH", "dotenv", "dotEnvPath", "POETRY_DOTENV_LOCATION")),
        *(
            (name, False)
            for name in ("ENV", "NODE_ENV", "ENV_PATH", "CONDA_ENV", "ENVIRONMENT_FILE", "MYENV_FILE")
        ),
        ("PGSSLROOTCERT", False),
        ("AWS_CONFIG_FILE", False),
        ("KEYBOARD_FILE", False),
        ("PATH", False),
        ("", False),
    ],
)
def test_names_that_say_that_a_file_holds_a_secret(name: str, places: bool) -> None:
    assert places_secret(name) is places


@pytest.mark.parametrize(
    ("text", "files"),
    [
        # PostgreSQL's parameters whose values are files.
        *(
            (text, ["/run/x y"] if holds else [])
            for parameter, holds in {
                "passfile": True,
                "sslkey": True,
                "servicefile": True,
                "sslcert": False,
                "sslrootcert": False,
                "sslcrl": False,
                "sslcrldir": False,
                "host": False,
            }.items()
            for text in (
                f"postgresql+psycopg://zeus@db/zeus?connect_timeout=3&{parameter}=%2Frun%2Fx%20y",
                f"host=db dbname=zeus {parameter}='/run/x y'",
            )
        ),
        ("mongodb://db/shop?tls=true&tlsCertificateKeyFile=/run/client.pem", ["/run/client.pem"]),
        ("jdbc:mysql://db/shop?ssl-key=k.pem", ["k.pem"]),
        ("Server=db;Token File=/run/token;Database=shop", ["/run/token"]),
        ("redis://db:6379?key=main.py", []),
        ("Read https://example.org/x?passfile=main.py first.", []),
        ("postgresql://db/zeus?passfile=", []),
        ("passfile", []),
    ],
)
def test_the_files_that_an_address_names(text: str, files: list[str]) -> None:
    assert list(dict.fromkeys(file for _, file in key_files("DB_URL", text))) == files


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("  api_key: sk-1 # comment", f"  api_key: {MASK}"),
        ('  - api_key: "sk-1', f"  - api_key: {MASK}"),
        ("a: {model: x, api_key: sk-1, b: 2}", f"a: {{model: x, api_key: {MASK}, b: 2}}"),
        ("a: {token: 'x, y', password: z}", f"a: {{token: {MASK}, password: {MASK}}}"),
        ('{"api_key": "sk-1", "b": 1}', f'{{"api_key": {MASK}, "b": 1}}'),
        ("--set model.litellm.api_key=sk-1", f"--set model.litellm.api_key={MASK}"),
        ("url: postgres://u:secret@host/db", f"url: postgres://u:{MASK}@host/db"),
        ("api_key: ${KEY}", "api_key: ${KEY}"),
        ("api_key: ${KEY:?set it}", "api_key: ${KEY:?set it}"),
        ("api_key: ${KEY:-}", "api_key: ${KEY:-}"),
        ("api_key: ${KEY:-sk-1}", f"api_key: ${{KEY:-{MASK}}}"),
        ("url: postgres://u:${PW}@host/db", "url: postgres://u:${PW}@host/db"),
        ("max_tokens: 500", "max_tokens: 500"),
        ("token: null", "token: null"),
        ("token: 500", "token: 500"),
        ("cost_per_token: 0.00000125 # USD", "cost_per_token: 0.00000125 # USD"),
        ("token: 88392017", f"token: {MASK}"),
        ("key: value", "key: value"),
        ("api_key:", "api_key:"),
    ],
)
def test_a_source_line_is_shown_without_its_secrets(line: str, masked: str) -> None:
    assert mask_line(line) == masked


@pytest.mark.timeout(60)  # the square of the length would take minutes
@pytest.mark.parametrize("word", ["x", "x.", "1", "a-", "- ", "a:", "a://", "a://b:", "'a", " "])
def test_a_long_line_is_masked_in_linear_time(word: str) -> None:
    line = word * (300_000 // len(word))
    mask_line(line)
    Redactor()(f"{line} ://")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "word", ["@h", "@", "@[", "@h?", " a://b:c@", "a=", "@h/", ",a", '"a', "'a://b:c@d "]
)
def test_masking_of_a_long_url_ends(word: str) -> None:
    """What takes quadratic time takes minutes for such a text."""
    for head in ("a://b:", '"a://b:', "a://"):
        text = head + word * (150_000 // len(word))
        mask_line(text)
        Redactor()(text)
        _ = secrets_of_environment({"URL": text})


@pytest.mark.parametrize("head", ["1: ", "x-", "1", ".", "é: ", "a.b.", "--set "])
def test_a_key_is_found_behind_other_characters(head: str) -> None:
    assert KEY not in mask_line(f"{head}api_key: {KEY}")


@pytest.mark.parametrize("head", ["", ".", "_", "1", "x=", "-", "("])
def test_a_password_in_a_url_is_found_behind_other_characters(head: str) -> None:
    assert KEY not in mask_line(f"{head}https://user:{KEY}@host")


@given(st.text(min_size=8), st.text(), st.text())
def test_no_known_secret_survives_redaction(secret: str, before: str, after: str) -> None:
    assume(is_searched(secret) and secret not in NAMED)
    redactor = Redactor().adding([secret])
    shown = redactor(f"{before}{secret}{after}")
    assert secret not in shown.replace(NAMED, "\0")


@given(st.text(min_size=8), st.text())
def test_redacted_json_holds_no_secret_as_value_or_key(secret: str, other: str) -> None:
    assume(is_searched(secret) and secret not in NAMED)
    redactor = Redactor().adding([secret])
    shown = redactor.json({"a": [secret, {f"{other}{secret}": 1, "b": Secret(other)}], "n": 1, "none": None})
    texts = [text.replace(NAMED, "\0") for text in (*shown["a"][1], shown["a"][0])]
    assert not [text for text in texts if secret in text]
    assert shown["a"][1]["b"] == MASK


def test_a_secret_is_found_in_the_forms_it_is_written_in() -> None:
    redactor = Redactor().adding(['p@ss"w\nord/é', "-----BEGIN KEY-----\nMIIEabcdefghij0\n-----END KEY-----"])
    texts = [
        json.dumps({"a": 'p@ss"w\nord/é'}),
        json.dumps({"a": 'p@ss"w\nord/é'}, ensure_ascii=False),
        "https://host/?q=p%40ss%22w%0Aord%2F%C3%A9",
        "a line: MIIEabcdefghij0",
    ]
    assert ["<secret:" in redactor(text) for text in texts] == [True] * 4


@pytest.mark.parametrize("written", ["Kx9{m}}Q2vL", "Kx9{{m}}Q2vL"])
def test_a_secret_is_found_with_its_braces_doubled(written: str) -> None:
    assert "Q2vL" not in Redactor().adding(["Kx9{m}Q2vL"])(f"it has {written} there")


def test_a_short_secret_is_masked_where_it_is_the_whole_value_only() -> None:
    redactor = Redactor().adding(["ab"])
    assert redactor.json({"x": "ab", "y": "about"}) == {"x": NAMED, "y": "about"}


def test_two_keys_that_mask_to_one_text_both_stay() -> None:
    redactor = Redactor().adding({"sk-live-12345678": "KEY"})
    shown = {"<secret:KEY>": 2, "<secret:KEY> (2)": 3, "<secret:KEY> (3)": 1, "n": {"a": 4}}
    value = {"sk-live-12345678": 1, "<secret:KEY>": 2, "<secret:KEY> (2)": 3, "n": {"a": 4}}
    assert redactor.json(value) == shown
    assert redactor.masked(value) == shown
    assert list(redactor.masked(value).values()) == [1, 2, 3, {"a": 4}]


def test_a_password_in_any_url_is_masked() -> None:
    assert Redactor()("see http://u:hunter2@host/x") == f"see http://u:{MASK}@host/x"
    assert (
        Redactor()("at 10:30 mail a@b.c and http://host:80/a@b")
        == "at 10:30 mail a@b.c and http://host:80/a@b"
    )


ODD_LOGINS = [
    "postgresql://app:PASSWORD@db/shop",
    "postgresql+psycopg://app:PASSWORD@db:5432/shop?sslmode=require&mail=me@acme.example",
    "redis://:PASSWORD@[::1]:6379/0",
    "jdbc:postgresql://app:PASSWORD@db",
    "smtps://shop@acme.example:PASSWORD@smtp.acme.example:465",
    "mongodb://app:PASSWORD@one:27017,two:27017/?appName=@app@",
]


@pytest.mark.parametrize("url", ODD_LOGINS)
@pytest.mark.parametrize("odd", ["/", "#", "?", "'", '"', " ", "@", "%2F", "-", "1:"])
def test_a_password_in_a_url_needs_no_encoding(url: str, odd: str) -> None:
    password = f"Kx9{odd}f2Qm4Lt7w"
    url = url.replace("PASSWORD", password)
    known = secrets_of_environment({"DB_URL": url})
    assert password in known.secrets
    assert known.text(f"it is {password}!") == "it is <secret:DB_URL>!"
    assert written_secrets({"args": [f"--url={url}"], "env": [f"DB={url}"]})[password]
    lines = [
        f"  url: {url}",
        f"  url: {url} # shop",
        f"--set storage.url={url}",
        f'{{"url": {json.dumps(url)}, "a": 1}}',
    ]
    lines += [f"{{url: '{url.replace(chr(39), chr(39) * 2)}', a: 1}}"]
    for line in lines:
        assert "f2Qm4" not in mask_line(line), mask_line(line)
        assert mask_line(mask_line(line)) == mask_line(line)
    shown = Redactor()(url)
    assert shown == url.replace(password, MASK)
    assert Redactor()(shown) == shown


@pytest.mark.parametrize(
    ("password", "whole"),
    [
        ("pa1234xy/ss5678zz#wo9abc?rd0def", ["pa1234xy", "ss5678zz", "wo9abc", "rd0def"]),
        ("Qa1-xy/SS?Wo9#rd:X1y2z3", ["Qa1-xy", "X1y2z3"]),
        ("Qa1-xy?SS=X1y2z3&Wo9/d#k", ["Qa1-xy", "X1y2z3"]),
        ("ab?c1#d2#e3f", ["c1#d2#e3f"]),
        ("k1k2k3k4@z9z8z7z6", ["k1k2k3k4", "z9z8z7z6"]),
        ("k1k2k3k4@z9z8z7z6/y9y8y7y6", ["k1k2k3k4", "z9z8z7z6", "y9y8y7y6"]),
    ],
)
def test_what_libraries_quote_of_a_password_that_is_not_encoded_is_masked(
    password: str, whole: list[str]
) -> None:
    from urllib.parse import urlsplit

    import httpx
    from psycopg.conninfo import conninfo_to_dict
    from sqlalchemy import make_url

    url = f"postgresql://app:{password}@db/shop"
    known = secrets_of_environment({"DB_URL": url})
    for read in (lambda: urlsplit(url).port, lambda: httpx.URL(url), lambda: conninfo_to_dict(url)):
        try:
            said = str(read())
        except Exception as error:  # noqa: BLE001 - of whatever type
            said = str(error)
        assert not [each for each in whole if each in known.text(said)], said
    assert not [each for each in whole if each in known.text(str(make_url(url).host))]
    assert not [each for each in whole if each in known.text(f"it is {each}, in {password}")]


def test_an_encoded_password_has_no_parts_and_short_words_are_no_secrets() -> None:
    for url in (
        "https://app:a1b2c3d4-%2Fe5f6:g7h8i9@registry-1.example/@scope/name",
        "postgresql://u:a1b2:c3d4e5@db",
    ):
        known = secrets_of_environment({"A_URL": url})
        assert known.text("registry-1.example g7h8i9 c3d4e5") == "registry-1.example g7h8i9 c3d4e5"
    words = secrets_of_environment({"DB_URL": "postgresql://app:correct/horse/ab1@db/shop"})
    assert words.text("correct horse ab1") == "correct horse ab1"
    parts = secrets_of_environment({"A_URL": "https://app:a1b2c3d4/e5f6g7h8@registry-1.example/@scope/name"})
    assert parts.text("a1b2c3d4 e5f6g7h8 registry-1.example").endswith("> registry-1.example")


@pytest.mark.parametrize(
    ("url", "misread"),
    [
        ("https://ann:pa/ss@host/mcp", True),
        ("https://ann:pa?ss@host/mcp", True),
        ("https://ann:pa#ss@host/mcp", True),
        ("https://ann:pa%2Fss@host/mcp", False),
        ("https://ann:pa@ss@host/mcp", False),
        ("https://ann:pw@host/@scope/mcp?a=b@c", False),
        ("https://host:8080/@scope/mcp", False),
        ("https://host/@scope:x/y@z", False),
    ],
)
def test_a_url_is_misread_if_its_password_has_what_ends_a_host(url: str, misread: bool) -> None:
    assert is_misread(url) is misread


@given(st.text("ab/#?'\" @:&=.-19", min_size=1, max_size=12).map("Kx9{}f2Qm4".format))
def test_the_password_that_sqlalchemy_reads_in_a_url_is_a_secret(password: str) -> None:
    from sqlalchemy import make_url

    url = f"postgresql://app:{password}@db/shop"
    try:
        read = make_url(url).password
    except ValueError:  # a part of the password is the port for it
        read = None
    assume(read is not None and is_searched(read))
    assert read in secrets_of_environment({"DB_URL": url}).secrets
    assert "@" in password or "f2Qm4" not in without_password(url)


@pytest.mark.parametrize(
    "text",
    [
        "http://host:80/a@b",
        "https://x.example:8443/@scope/name@1.2.3",
        "postgresql://app@db:5432/shop?mail=me@acme.example",
        "see http://host:80/a@b",
        "http://x.example: ask me@acme.example",
        "redis://localhost:6379 refused me@acme.example",
        "https://x.example?to=https://y.example/a@b",
        "https://en.example/wiki/Talk:Name@b",
        "amqp://one:5672,amqp://two:5672",
        "url: postgres://u:${PW}@host/db",
    ],
)
def test_a_url_without_a_password_stays_as_it_is(text: str) -> None:
    assert Redactor()(text) == mask_line(text) == text
    assert not secrets_of_environment({"ADDRESS": text}).secrets


def test_a_redactor_is_a_value_that_does_not_print_what_it_knows() -> None:
    one = Redactor().adding([KEY])
    assert one.adding([KEY]) is one
    assert one.adding(["", "  "]) is one
    assert KEY not in repr(one)


def test_secrets_of_the_environment_are_known_without_being_used() -> None:
    redactor = secrets_of_environment({"OPENAI_API_KEY": KEY, "SHORT_KEY": "1", "PATH": "/usr/bin:/bin"})
    assert redactor(f"{KEY} 1 /usr/bin:/bin") == "<secret:OPENAI_API_KEY> 1 /usr/bin:/bin"


TEXT = """version: 1
model:
  litellm:
    model: gpt-5.2
    api_key: typed-literal
    headers: {Authorization: "Bearer ${SERVICE_TOKEN}"}
storage: {url: "postgres://zeus:${DB_PASSWORD}@host/db"}
metadata: {webhook: "https://u:inurl@host/", service_password: literal-under-a-name}
description: "${PUBLIC}"
"""
ENVIRON = {"SERVICE_TOKEN": "tok-12345678", "DB_PASSWORD": "pw1", "PUBLIC": "shown", "OTHER_API_KEY": KEY}
SECRETS = ["typed-literal", "tok-12345678", "pw1", "inurl", "literal-under-a-name", KEY]


def shown_by(document: Any) -> list[str]:
    return [
        repr(document),
        repr(document.root),
        repr(document.value),
        repr(document.config()),
        repr(document.sources),
        repr(document.environ),
        repr(document.redactor),
        json.dumps(document.redactor.json({"value": document.value, "leak": KEY})),
        document.explain("storage.url"),
        document.explain("model"),
        document.explain("metadata"),
    ]


def test_nothing_of_a_config_prints_a_secret(checked) -> None:  # type: ignore[no-untyped-def]
    document = checked(TEXT, environ=ENVIRON)
    texts = shown_by(document)
    assert not [(secret, text) for secret in SECRETS for text in texts if secret in text]
    assert any("shown" in text for text in texts)
    assert document.value["storage"]["url"] == "postgres://zeus:pw1@host/db"


def test_a_secret_field_is_a_secret_in_the_options(checked) -> None:  # type: ignore[no-untyped-def]
    from dataclasses import make_dataclass

    options = make_dataclass(
        "Options", [("model", str), ("api_key", Secret | None), ("headers", dict[str, str])], frozen=True
    )
    built: Any = build(options, checked(TEXT, environ=ENVIRON).config().model.options)
    assert built.api_key.reveal() == "typed-literal"
    assert built.headers == {"Authorization": "Bearer tok-12345678"}
    assert not [secret for secret in SECRETS if secret in repr(built)]


def test_a_traceback_through_the_config_shows_no_secret(checked) -> None:  # type: ignore[no-untyped-def]
    text = TEXT.replace("url: ", "uri: ").replace("gpt-5.2", "[a]")
    with pytest.raises(ConfigError) as raised:
        checked(text, environ=ENVIRON)
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=False).format())
    assert "wrong-type" in shown
    assert not [secret for secret in SECRETS if secret in shown]


def test_a_setting_that_holds_a_secret_does_not_show_it(checked) -> None:  # type: ignore[no-untyped-def]
    sets = ["model.litellm.api_key=sk-from-the-shell", "limits.max_steps=x"]
    with pytest.raises(ConfigError) as raised:
        checked("version: 1\nmodel: m\n", sets=sets)
    assert "sk-from-the-shell" not in str(raised.value)
    document = checked("version: 1\nmodel: m\n", sets=sets[:1])
    assert "sk-from-the-shell" not in document.explain("model.litellm.api_key")
    assert Path(document.source).name == "zeus.yaml"


def test_the_placeholders_of_known_secrets_are_listed_once_each_and_no_others() -> None:
    redactor = Redactor().adding({"hunter2-hunter2": "PASSWORD", "swordfish-x9": "TOKEN"})
    password, token = redactor.text("hunter2-hunter2"), redactor.text("swordfish-x9")
    unknown = password.replace("PASSWORD", "UNKNOWN")
    assert unknown != password
    assert redactor.placeholders_in(f"{token} {password} {unknown} {token}") == [token, password]
    assert Redactor().placeholders_in(password) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567890, "<secret:PIN>"),
        (1234567890.0, "<secret:PIN>.0"),
        (-1234567890, "-<secret:PIN>"),
        (12345678905, "<secret:PIN>5"),
        (123456789, 123456789),
    ],
)
def test_a_secret_of_digits_is_masked_in_numbers(value: float, shown: float | str) -> None:
    redactor = Redactor().adding({"1234567890": "PIN"})
    assert redactor.masked({"a": [value]}) == redactor.json({"a": [value]}) == {"a": [shown]}
    assert redactor.masked({value: 1}) == redactor.json({value: 1}) == {shown: 1}


def test_keys_of_other_types_stay_and_two_keys_never_become_one() -> None:
    redactor = Redactor().adding({"1234567890": "PIN"})
    given = {1234567890: 1, "1234567890": 2, True: 3, None: 4, (1, 2): 5}
    shown = {"<secret:PIN>": 1, "<secret:PIN> (2)": 2, True: 3, None: 4, (1, 2): 5}
    assert redactor.masked(given) == redactor.json(given) == shown


def test_secrets_of_a_set_are_numbered_in_the_same_order_in_every_process() -> None:
    values = [f"secret-{number}-{number * 7919}" for number in range(40)]
    numbered = Redactor().adding(set(values)).names
    assert numbered == Redactor().adding(sorted(values)).names
    assert numbered != Redactor().adding(values[::-1]).names


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("DB_PASS", "correct-horse-battery", "correct-horse-battery"),
        ("MYSQL_PWD", "hunter2hunter2", "hunter2hunter2"),
        *[
            (name, value, value)
            for name in ("DB_PASS", "APP_PWD", "GH_PAT")
            for value in (
                "Kx9*mPq2vLw7",
                "aB3*xY9*kL2m",
                "~Kx9mPq2vLw7",
                ".Kx9mPq2vLw7",
                "/Kx9mPq2vLw7+a",
                "K:\\x9mPq2",
                "aBcDeF*gHiJk",
                "ab*cd#efgh",
                "ab*cd!efgh",
            )
        ],
        ("GITHUB_PAT", "github_pat_11AAAA", "github_pat_11AAAA"),
        ("DATABASE_URL", "postgres://app:s3cret-word@db/shop", "s3cret-word"),
        ("SENTRY_DSN", "https://0123456789abcdef0123@o1.ingest.example/7", "0123456789abcdef0123"),
        ("PGCONN", "host=db user=app password=s3cret-word", "s3cret-word"),
        ("STORE", "Server=db;Uid=app;Pwd=s3cret-word;", "s3cret-word"),
        ("STORE", "AccountName=a;AccountKey=Zm9vYmFyYmF6cXV4;EndpointSuffix=x", "Zm9vYmFyYmF6cXV4"),
        ("STORE", "jdbc:sqlserver://db;user=app;password=s3cret-word", "s3cret-word"),
        ("PGCONN", "host=db password='s3cret word 7'", "s3cret word 7"),
        ("CACHE", "cache.example:6380,password=s3cret-word=,ssl=True,abortConnect=False", "s3cret-word="),
        ("STORE", "Driver={x};Server=db;UID=a;PWD={s3;cret-}", "s3;cret-"),
        ("SHOP", "app:s3cret-word@tcp(db:3306)/shop?parseTime=true", "s3cret-word"),
        ("SHOP", "app:s3cret/word@unix(/run/mysqld/mysqld.sock)/shop", "s3cret/word"),
        ("SHOP", "app:s3cret@word@/shop", "s3cret@word"),
        ("SHOP", "app/s3cret-word@//db.example/shop", "s3cret-word"),
        ("SHOP", "app/s3cret-word@db.example:1521/shop", "s3cret-word"),
        ("PROXY", "ann:s3cret-word@proxy.example:3128", "s3cret-word"),
        ("NODES", "app:s3cret-word@mq1:5672,mq2", "s3cret-word"),
        ("PROXIES", "cache:3128 ann:s3cret-word@proxy.example:3128", "s3cret-word"),
        ("PGPASSWORD", "pgSecret-word", "pgSecret-word"),
        ("SMALL_PASSWORD", "k9x2q7", "k9x2q7"),
        ("POINT_PASSWORD", "0.0145926535", "0.0145926535"),
        ("POINT_TOKEN", "12.5e-06", "12.5e-06"),
        ("CR_TOKEN", " crTok-11aa22bb33\r\n", "crTok-11aa22bb33"),
        ("PAY", "https://sk_live_ABCDEF123456789:@api.example", "sk_live_ABCDEF123456789"),
        ("PAY", "https://sk_live_ABCDEF123456789:x-oauth@api.example", "sk_live_ABCDEF123456789"),
        (
            "REPO",
            "see https://ghp_16C7e42F292c6912E7710c838347@git.example/a",
            "ghp_16C7e42F292c6912E7710c838347",
        ),
        ("SEARCH", "https://x.example/mcp/?v=1&tavilyApiKey=tvly-dev-word", "tvly-dev-word"),
        ("SEARCH", "https://x.example/?sv=1&sig=Ab3dEf6hIj9kLmNoPq%2B1", "Ab3dEf6hIj9kLmNoPq%2B1"),
        ("FIREBASE", '{"projectId": "shop-4711", "apiKey": "AIza-0815-word"}', "AIza-0815-word"),
        ("AUTH", "Bearer abcdefgh12", "abcdefgh12"),
        ("OPENAI_API_KEYS", "sk-multi-1111aaaa", "sk-multi-1111aaaa"),
    ],
)
def test_a_variable_is_a_secret_by_its_ending_or_its_shape(name: str, value: str, secret: str) -> None:
    known = secrets_of_environment({name: value})
    assert known.secrets == {secret}
    assert known.text(f"it is {secret}!") == f"it is <secret:{name}>!"


@pytest.mark.parametrize("sign", [",", ", ", ";", "|", " ", "\n"])
@pytest.mark.parametrize(
    "login",
    [
        "app:{}@mq1.example:5672",
        "app:{}@tcp(db1:3306)/shop",
        "app/{}@//db1:1521/SHOP",
        "node=app/{}@db1.example:1521/SHOP",
        "tls://app:{}@mq1.example",
    ],
)
def test_each_login_of_a_list_has_a_password(login: str, sign: str) -> None:
    addresses = [login.format("s3cret-one"), "mq3:5672", "app:s3cret-two@mq2:5672"]
    known = secrets_of_environment({"ADDRESSES": sign.join(addresses)})
    assert {"s3cret-one", "s3cret-two"} <= known.secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/srv/customer-4711"),
        ("PWD", "relative-folder-1"),
        ("OLDPWD", "/srv/customer-4711"),
        ("INIT_PWD", "/srv/customer-4711"),
        ("START_PWD", "C:\\work\\customer-4711"),
        ("FILE_PAT", "src/**/*.py"),
        ("FILE_PAT", "!README*-2024.md"),
        ("FILE_PAT", "myFile*.PY3"),
        ("ASK_PASS", "/tmp/Kx9mPq2vLw7/x"),
        ("ASK_PASS", "C:\\Users\\Kx9mPq2vLw7"),
        ("ASK_PASS", "~/.ssh/id_ed25519"),
        ("ASK_PASS", "../ask/Kx9mPq2vLw7#1"),
        ("FIRST_PASS", "look at every file once"),
        ("BOARDING_PASSENGER", "somebody-4711"),
        ("BYPASS", "localhost-4711"),
        ("DATABASE_URL", "postgres://postgres:postgres@localhost/db"),
        ("HOMEPAGE", "https://example.com/a@b"),
        ("GIT_REMOTE", "ssh://a-long-user-name@host/x"),
        ("GIT_COMMIT", "0123456789abcdef0123456789abcdef01234567"),
        ("SETTINGS", "key=value-4711 tokens=12345678"),
        ("SORT_KEYS", "created_at,customer-4711"),
        ("SSH_KEYS", "/home/ann/.ssh/id_ed25519"),
        ("MAX_TOKENS", "100000,200000"),
        ("SECRETARY", "somebody-4711"),
        ("INPUT_COST_PER_TOKEN", "0.00000125"),
        ("INPUT_COST_PER_TOKEN", "1.25e-06"),
        ("HELP", "write api_key=YOUR_API_KEY there, or see https://x.example/?token=YOUR_TOKEN_HERE"),
        ("COMMIT_URL", "https://git.example/?commit=0123456789abcdef0123456789abcdef01234567"),
        ("REMOTE", "https://ann:@git.example/shop.git"),
        ("REMOTE", "git@git.example:2222/ann/customer-4711.git"),
        ("IMAGE", "registry:5000/customer-4711@sha256:9f86d081884c7d65"),
        ("IMAGE", "python:3.14-customer-4711@sha256:0123456789012345"),
        ("PACKAGE", "npm:customer-4711@1.0.0"),
        ("SCOPE", "npm:@customers/customer-4711@1.0.0"),
        ("MAIL", "mailto:customer-4711@example.com"),
        ("MAILS", "Ann:customer-4711@example.com, Bob <bob@example.org>"),
        ("MAILS", "ann:customer-4711@example.com,bob:customer-4712@example.org"),
        ("NOTE", "Ask ann:customer-4711@desk:12, or bob:customer-4712@desk:13."),
        ("IMAGES", "python:customer-4711@sha256:0123456789012345,node:customer-4712@sha256:0123456789012345"),
        ("BROKEN", '{"apiKey": "AIza-0815-word"'),
        ("DEEP", "[" * 100_000),
    ],
)
def test_an_ordinary_variable_is_none(name: str, value: str) -> None:
    assert not secrets_of_environment({name: value}).secrets


ORDINARY = [
    ("OAUTH_CLIENT_SECRET", "client_secret"),
    ("API_KEY", "apiKey"),
    ("APP_CSRF_TOKEN", "csrf-token"),
    ("dbPassword", "DB_PASSWORD"),
    ("S3_KEY_PREFIX", "uploads/images"),
    ("S3_KEY_PREFIX", "/uploads/2024/images/"),
    ("CACHE_KEY_PREFIX", "shop_prod"),
    ("TLS_KEY", "certs/server.key"),
    ("PASSWORD_RESET_TEMPLATE", "emails/password_reset.html"),
    ("JWT_TOKEN_COOKIE", "access_token"),
    ("AUTH_TOKEN_CLASS", "rest_framework.authtoken.models.Token"),
    ("PARTITION_KEY", "tenant_id"),
]
PHRASE: Final = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.mark.parametrize(("name", "value"), ORDINARY)
def test_a_value_that_is_a_name_or_a_path_is_no_secret(name: str, value: str) -> None:
    assert not secrets_of_environment({name: value}).secrets
    assert not dict(secrets_of_text(f"{name}={value}\n# {name}={value}\n"))
    assert not written_secrets({"env": {name: value}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "hunter2"),
        ("DB_PASSWORD", "acme_shop"),
        ("DB_PASSWORD", "winter/summer"),
        ("DB_PASSWORD_OLD", "winter_summer"),
        ("API_KEY", "local_dev_key"),
        ("API_KEY_OLD", "local_dev_key"),
        ("CLIENT_SECRET", "client_secret1"),
        ("CLIENT_SECRET", "client_secret!"),
        ("CLIENT_SECRET", "other_client_secret"),
        ("ENCRYPTION_KEY", "winter_is_coming"),
        ("ACCESS_TOKEN", "winter_is_coming"),
        ("DB_PASSWORD", "password"),
        ("CLIENT_SECRET", "client_secret_1"),
        ("CLIENT_SECRET", "client_secret_v2"),
        ("DB_PASS_2", "winter-summer"),
        ("CLIENT_SECRET_REF", "https://acme.example/hooks/Kq7xZ2mVbT4rYp9w"),
        ("KEY_PREFIX", "Kr4ft9werk"),
        ("KEY_PREFIX", "xKqLmWvBnT"),
        ("KEY_PREFIX", "uploads/xKqLmWvBnT"),
        ("WALLET_KEY_PHRASE", PHRASE),
        ("RECOVERY_KEY_WORDS", PHRASE.title()),
    ],
)
def test_a_value_that_a_person_or_a_program_may_have_made_up_is_a_secret(name: str, value: str) -> None:
    assert value in secrets_of_environment({name: value}).secrets


def test_of_many_words_a_sign_makes_a_secret_in_linear_time() -> None:
    value = "ab-" * 10_000 + "!"
    assert value in secrets_of_environment({"TOKEN_STORAGE": value}).secrets


_SIGNS = "!#$%&*+?@^~"
_WORDS = st.lists(st.sampled_from(["api", "Key", "uploads", "hunter"]), min_size=1)


@given(
    st.one_of(
        st.tuples(
            st.sampled_from(["DB_PASSWORD", "SHOP_SECRET", "API_KEY", "DB_PASSWORD_PROD"]),
            st.sampled_from([f"shop{sign}" for sign in f"0123456789{_SIGNS}"]),
        ),
        # A program has names with a number in them too.
        st.tuples(
            st.sampled_from(["KEY_PREFIX", "TOKEN_STORAGE", "SSH_KEY_USER_2"]),
            st.sampled_from(
                ["hunter2", "admin1234", "aB3dE5g", "a1_b2", "4711_0815", *(f"shop{sign}" for sign in _SIGNS)]
            ),
        ),
    ),
    _WORDS,
    st.data(),
)
def test_a_value_with_digits_or_a_sign_beside_its_words_is_a_secret(
    named: tuple[str, str], words: list[str], data: st.DataObject
) -> None:
    name, part = named
    at = data.draw(st.integers(0, len(words)))
    value = data.draw(st.sampled_from("_-")).join([*words[:at], part, *words[at:]])
    assert value in secrets_of_environment({name: value}).secrets


ORDINARY_SETTINGS = """\
GITHUB_TOKEN_SCOPES=read:org
GITHUB_TOKEN_PERMISSIONS=contents:read
GH_TOKEN_SCOPE=repo,workflow
OAUTH_TOKEN_SCOPES=openid profile email
GRAPH_TOKEN_SCOPES=openid profile email address phone offline_access groups roles user mail files sites User.Read
TOKEN_STORAGE=localStorage
AUTH_TOKEN_STORE=sessionStorage
SSH_KEY_USER=ec2-user
SSH_KEY_ALGO=ed25519
EC2_KEY_PAIR=shop-deploy
AWS_KEY_PAIR=bastion-eu-west-1
KMS_KEY_ALIAS=alias/shop-prod
KMS_KEY_RING=shop-keyring
KMS_KEY_SPEC=SYMMETRIC_DEFAULT
KMS_KEY_USAGE=ENCRYPT_DECRYPT
KMS_KEY_LOCATION=europe-west3
AZURE_KEY_VAULT=acme-prod-kv
KEY_VAULT_URL=https://acme-prod-kv.vault.azure.net/
PASSWORD_MIN_LENGTH=12
PASSWORD_RESET_TIMEOUT=259200
PASSWORD_RESET_TEMPLATE=emails/reset.html
PASSWORD_RESET_ROUTE=/account/password/reset
AUTH_PASSWORD_BROKER=users
PASSWORD_HASH_ALGORITHM=pbkdf2_sha256
PASSWORD_ENCODER=bcrypt
PASSWORD_LOGIN_ENABLED=disabled
TOKEN_EXPIRY=3600s
ACCESS_TOKEN_EXPIRES_IN=900000
JWT_REFRESH_TOKEN_LIFETIME=31536000
TOKEN_LIFETIME=30 days
TOKEN_ROTATION=on-login
TOKEN_PREFIX=shop_live_
TOKEN_COOKIE=access_token
TOKEN_COOKIE_DOMAIN=.shop.example
TOKEN_ISSUER=https://login.acme.example
TOKEN_ENDPOINT_AUTH_METHOD=client_secret_post
TOKEN_CACHE=in-memory
TOKEN_BUDGET=20000000
TOKEN_USER=svc-deploy
TOKEN_SOURCE=github-actions
VAULT_TOKEN_ROLE=shop-reader
VAULT_TOKEN_POLICIES=shop-read,shop-write
KUBE_TOKEN_AUDIENCES=https://kubernetes.default.svc
CSRF_TOKEN_META=csrf-token
DRF_TOKEN_MODEL=rest_framework.authtoken.models.Token
ID_TOKEN_CLAIMS=preferred_username
TOKENIZERS_PARALLELISM=false
API_KEY_HEADER=x-api-key
API_KEY_PARAM=api_key
CACHE_KEY_PREFIX=shop-cache:
REDIS_KEY_PREFIX=shop:prod:
REDIS_KEY_SEPARATOR=:
S3_KEY_PREFIX=uploads/images
S3_KEY_PATTERN=year/month/day
FOREIGN_KEY_CHECKS=0
PRIMARY_KEY_FORMAT=uuid-v7
ANDROID_KEY_ALIAS=upload-key
IOS_KEY_TEAM=AcmeMobile
GPG_KEY_SERVER=keys.openpgp.org
GPG_KEY_OWNER=release-team
KEY_ROTATION_SCHEDULE=every-monday
KEY_ROTATION_SECONDS=31536000
KEY_CIPHER=aes-256-gcm
SECRETS_MOUNT=secret/shop
SECRETS_PROVIDER=aws-ssm
VAULT_SECRET_ENGINE=kv-v2
AWS_SECRET_ARN=arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/db
AWS_SECRET_NAME=prod/shop/database
AWS_SECRET_STAGE=AWSCURRENT
SECRET_KEY_BASE_DUMMY=1
GOOGLE_CREDENTIALS_TYPE=authorized_user
STRIPE_KEY_MODE=test-mode
PARTITION_KEY=tenant_id
AUTHORIZATION_ENDPOINT=https://login.acme.example/oauth2/authorize
PASSWORD_RESET_LINK=https://shop.acme.example/reset
VAULT_TOKEN_HELPER=someHelper
TOKEN_DIGEST=sha256
TOKEN_MAX_AGE=604800s"""
"""Of usual ``.env`` files, with no secret in them."""
OVER_MASKED_SETTINGS = """
SSH_KEY_COMMENT=deploy@shop-ci
PASSWORD_RESET_TOKEN_TABLE=password_reset_tokens
PASSWORD_HASHERS=django.contrib.auth.hashers.Argon2PasswordHasher
PASSWORD_ENCRYPTION=scram-sha-256
PASSWORD_POLICY=strong-only
PASSWORD_FIELD=user_password
PASSWORD_MAX_AGE=31536000
CSRF_TOKEN_FIELD=csrfmiddlewaretoken
API_KEY_LOCATION=query-string
API_KEY_OWNER=platform-team
KEY_ENCODING=base64url
K8S_SECRET=shop-api-secrets
TLS_SECRET=shop-tls
IMAGE_PULL_SECRET=registry-pull-secret
SECRET_STORE=aws-secretsmanager
SECRET_STORE_KIND=ClusterSecretStore
SECRET_BACKEND=hashicorp-vault
SECRET_MANAGER_PROJECT=acme-prod
AIRFLOW__SECRETS__BACKEND=airflow.providers.hashicorp.secrets.vault.VaultBackend
CREDENTIALS_PROVIDER=web-identity
AWS_CREDENTIALS_PROFILE=shop-prod
SORT_KEY=created_at
ROUTING_KEY=orders.created
STORAGE_KEY=auth-state
CACHE_KEY=user-profile
AUTHORIZATION_MODEL=role-based"""
"""With no secret either, but masked: a limit that config.md states."""
SECRET_SETTINGS = """\
DB_PASSWORD=hunter2
DB_PASSWORD_PROD=hunter2
DB_PASSWORD_PROD=Winter2024!
DB_PASSWORD_STAGING=correct-horse
DB_PASSWORD_TEST=shop_test_pw
DB_PASSWORD_ACME=winter_is_coming
PASSWORD_OLD=winter_is_coming
PASSWORD_ADMIN=change_me_now
PASSWORD_2=letmein2024
POSTGRES_PASSWORD=your-super-secret-and-long-postgres-password
POSTGRES_PASSWORD_REPLICATION=repl-Pass1
MYSQL_ROOT_PASSWORD=mysql_root
MYSQL_PASSWORD_RO=readonly#42
REDIS_PASSWORD=shop/redis
SMTP_PASSWORD_ORDERS=abcd efgh ijkl mnop
KEYCLOAK_ADMIN_PASSWORD=Pa55w0rd
PGPASSWORD=s3cr3t-pg
MAIL_PASSWORD_BACKUP=x!Yz9#kL
SECRET_KEY_BASE=b5c1f0e3a4d2978866aa0b1cbd7e8f90
SECRET_KEY_BASE_OLD=b5c1f0e3a4d2978866aa0b1cbd7e8f90
RAILS_MASTER_KEY=8d1f0cba3e6c9a4be9d2b4a5f6c7d8e9
SECRET_KEY=django-insecure-1n$x8@m!q3
SECRET_KEY_FALLBACK=django-insecure-q7z(3k&0v
DJANGO_SECRET_KEY_PROD=local-dev-key
APP_KEY=base64:Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIzNDU=
APP_KEY_PREVIOUS=base64:Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIzNDU=
JWT_SECRET=super-secret-jwt-token-with-at-least-32-characters-long
JWT_SECRET_OLD=keyboard-cat
JWT_SECRET_REFRESH=refresh_secret_dev
JWT_SIGNING_KEY=winter_is_coming
SESSION_SECRET_PROD=keyboard-cat-42
SIGNING_KEY_NEW=Zx81Spectrum48k
SIGNING_KEY_2=winter_is_coming
SIGNING_KEY_OLD=hunter22
SIGNING_KEY_OLD=hunter2
ADMIN_TOKEN_QA=admin1234
ADMIN_TOKEN_QA=aB3dE5g
ENCRYPTION_KEY_V2=0f1e2d3c4b5a69788796a5b4c3d2e1f0
ENCRYPTION_KEY_PRIMARY=Xk3+9aQ/22bLmNw7Zc1vTg==
ACTIVE_RECORD_ENCRYPTION_KEY_DERIVATION_SALT=Qm3v8LkZt1NxW6yB0cRp5sHd
API_TOKEN_2=7f3b9c1d-aa41-4e02-9d0f-0c55e1b2a9d4
API_TOKEN_2=winter_is_coming
GITHUB_TOKEN_BOT=ghp_16C7e42F292c6912
GITLAB_TOKEN_READ=glpat-x9Yk3zQ1vB7n
SLACK_TOKEN_BOT=xoxb-4711-abcdef0815
NPM_TOKEN_PUBLISH=npm_aB3dE5gH7jK9mN1p
TELEGRAM_TOKEN_ALERTS=471108150:AAHdqTcvCH1v
DISCORD_TOKEN_STAGING=MTk4NjIy.Cl2FMQ.ZnCjm1XVW7vR
VAULT_TOKEN_ROOT=hvs.CAESIJ1qK8vP
SENTRY_AUTH_TOKEN_EU=sntrys_eyJpYXQiOjE2
SUPABASE_ACCESS_TOKEN_CI=sbp_0102030405060708
STRIPE_SECRET_KEY_LIVE=sk_live_51H8aBcDeF
STRIPE_API_KEY_TEST=sk_test_4eC39HqLyj
OPENAI_API_KEY_PROD=sk-proj-Ab12Cd34Ef56Gh78
OPENAI_API_KEY2=sk-proj-Ab12Cd34Ef56Gh78
ANTHROPIC_API_KEY_EU=sk-ant-api03-Qw12Er34
API_KEY_OLD=local_dev_key
MAPS_API_KEY_IOS=AIzaSyD-9tSrke72Pou
AWS_SECRET_ACCESS_KEY_PROD=wJalr/K7MDENG/bPxRfi
MINIO_SECRET_KEY=minio-secret
MINIO_ACCESS_KEY_BACKUP=minio_backup
TWILIO_AUTH_TOKEN_SANDBOX=5f2c1a9be07d4c3388aa71d0e9b4f6c2
OAUTH_CLIENT_SECRET_GOOGLE=GOCSPX-Zk3vQ9Lm2TyR
CLIENT_SECRET_STAGING=shop-staging
VPN_PASSPHRASE_HQ=correct horse battery staple
SSH_KEY_PASSPHRASE=open-sesame
BACKUP_ENCRYPTION_PASSPHRASE_OFFSITE=tuesday-morning-rain
NEXTAUTH_SECRET=not_so_secret_dev
AUTH_SECRET_1=4f0e2b8a7c6d5e3f1a9b8c7d6e5f4a3b
PASSWORD_SALT=salt4711pepper
PASSWORD_PEPPER=a-pinch-of-cayenne
WIFI_PASSWORD_GUEST=welcome-guest
HASURA_GRAPHQL_ADMIN_SECRET=my-admin-secret
LICENSE_KEY_PRO=AB12-CD34-EF56-GH78
LICENSE_KEY_ACME=QXKT-7781-MWVB-0042
WEBHOOK_SECRET_ORDERS=whsec_5WbX5kEWLlfz
DEPLOY_KEY_B64=TFMwdExTMUNSVWRKVGlC
WEBHOOK_TOKEN_SHOP=x7Kq!9mWz4Rt
COOKIE_KEY_A=xKqLmWvBnTzR
ENCRYPTION_KEY_V2=correct-horse-battery"""
"""Of usual ``.env`` files, with a secret that a person or a program made up."""
MISSED_SETTINGS = """
SIGNING_KEY_OLD=winter_is_coming
ENCRYPTION_KEY_OLD=correct-horse-battery
API_TOKEN_B=local-dev-token
API_TOKEN_DEV=local-dev-token
ADMIN_TOKEN_PROD=letmein-2024"""
"""With a secret too, but shown: a limit that config.md states."""


@pytest.mark.parametrize("setting", (ORDINARY_SETTINGS + MISSED_SETTINGS).split("\n"))
def test_an_ordinary_value_is_shown_though_its_name_has_a_word_that_says_secret(setting: str) -> None:
    name, _, value = setting.partition("=")
    for known in (secrets_of_environment({name: value}), Redactor(written_secrets({"env": {name: value}}))):
        assert known.text(f"as {value} says") == f"as {value} says"


@pytest.mark.parametrize("setting", (SECRET_SETTINGS + OVER_MASKED_SETTINGS).split("\n"))
def test_each_other_value_is_masked_where_its_name_has_a_word_that_says_secret(setting: str) -> None:
    name, _, value = setting.partition("=")
    known = secrets_of_environment({name: value})
    assert known.text(f"as {value} says") == f"as <secret:{name}> says"
    # `.env` files that no config loads are read by the same rule, also in other forms.
    assert value in dict(secrets_of_text(f"export {name}='{value}'\n"))


WHOLE_FILES = {
    "KUBECONFIG_SECRET": "clusters:\n- server: https://k8s.example\nusers:\n- user:\n    password: s3cret-w # a\n",
    "AWS_CREDENTIALS": "[default]\nregion=eu-central-1\naws_secret_access_key = wJalr/bPxRfi+YEXA\n[production]\n",
    "DOTENV_SECRETS": "DEBUG=false\nexport SHOP_PASSWORD='Zx81 Spectrum' # b\nStrictHostKeyChecking=no\nkey: clusters",
    "JSON_SECRET": '{\n"password": "s3cret-jn", "list": [\n"internationalizations"]}',
}


def test_of_a_secret_that_is_a_whole_file_its_own_secrets_are_found_and_ordinary_lines_are_not() -> None:
    known = secrets_of_environment(WHOLE_FILES)
    own = {"s3cret-w", "wJalr/bPxRfi+YEXA", "Zx81 Spectrum", "s3cret-jn"}
    assert known.secrets == {*(each.strip() for each in WHOLE_FILES.values()), *own}
    ordinary = "clusters:\nDEBUG=false\n  StrictHostKeyChecking=no\nregion=eu-central-1 [default] internationalizations"
    assert known.text(ordinary) == ordinary
    for file in WHOLE_FILES.values():
        assert known.text(f"a {file} b").count("secret:") == file.count("\n") + (not file.endswith("\n"))


def test_a_line_of_a_secret_that_looks_random_is_found_without_the_others() -> None:
    known = secrets_of_environment(
        {
            "RECOVERY_SECRET": "use once\nabcd1234-efgh\nZm9vYmFyYmF6cXV4Cg==\nabcd1234efgh:word\nZm9vYg==\nstay-safe"
        }
    )
    assert known.text("abcd1234-efgh Zm9vYmFyYmF6cXV4Cg== abcd1234efgh:word") == (
        "<secret:RECOVERY_SECRET:line2> <secret:RECOVERY_SECRET:line3> <secret:RECOVERY_SECRET:line4>"
    )
    assert known.text("stay-safe, Zm9vYg==, use once") == "stay-safe, Zm9vYg==, use once"


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"])
def test_a_header_in_a_variable_of_headers_is_a_secret_as_written_and_decoded(name: str) -> None:
    written = "api-key=ot9Q8w7E6r5T, Authorization=Basic%20ab%2Fcd%2Fef-1234,x-team=the%20blue%20team,x-n=1"
    known = secrets_of_environment({name: written})
    assert known.secrets == {
        *("ot9Q8w7E6r5T", "Basic%20ab%2Fcd%2Fef-1234", "Basic ab/cd/ef-1234", "ab/cd/ef-1234")
    }
    assert "ot9Q" not in known.text("curl -H 'api-key: ot9Q8w7E6r5T'")


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


@pytest.mark.parametrize(
    "login", ["ann:Hx7p:Qw9zLm2v", "ghp4711Abcdefgh0815:x-oauth-basic", "ann:hunter2!-äö"]
)
@pytest.mark.parametrize(
    "known",
    [
        lambda value: secrets_of_environment({"SHOP_AUTHORIZATION": value}),
        lambda value: secrets_of_environment({"SHOP": value.replace("Basic", "basic").rstrip("=")}),
        lambda value: secrets_of_environment({"CUSTOM_HEADERS": f"X-Team: a\nX-Login: {value}"}),
        lambda value: Redactor(written_secrets({"headers": {"Proxy-Authorization": value}})),
        lambda value: Redactor(written_secrets({"args": ["-H", f"Authorization: {value}"]})),
    ],
)
def test_the_password_or_token_in_a_basic_header_is_a_secret_by_itself_and_with_any_user(
    known: Callable[[str], Redactor], login: str
) -> None:
    redactor = known(basic(login))
    secret = login.partition(":")[2] if login.startswith("ann") else login.partition(":")[0]
    for text in (
        login,
        f"curl -u {login}",
        basic(login),
        basic(f"other:{secret}:x"),
        basic(login).rstrip("="),
    ):
        shown = redactor.text(text)
        assert secret[:4] not in shown
        assert secret[-4:] not in shown
        assert basic(secret)[10:-6] not in shown
        assert "<secret:" in shown


def test_of_a_basic_header_an_ordinary_user_and_what_is_no_login_are_no_secrets() -> None:
    known = secrets_of_environment({"SHOP": basic("a-long-user-name@host:postgres")})
    assert "a-long-user-name@host" not in known.secrets
    assert "postgres" not in known.secrets
    garbage = "Basic gP4711aaBB/+AYD/gP8B"
    assert secrets_of_environment({"SHOP": garbage}).secrets == {"gP4711aaBB/+AYD/gP8B"}


def test_headers_may_be_in_lines_and_a_list_of_their_names_has_no_secret() -> None:
    lines = "X-Api-Key: 0123456789ab\nX-Login: blue4711team"
    assert secrets_of_environment({"CUSTOM_HEADERS": lines}).secrets == {"0123456789ab", "blue4711team"}
    assert not secrets_of_environment({"EXPOSE_HEADERS": "x-customer-4711, x-team"}).secrets


def test_every_item_of_a_list_of_keys_is_a_secret_and_what_follows_bearer_is_one_too() -> None:
    known = secrets_of_environment(
        {"API_KEYS": "sk-multi-1111aaaa, sk-multi-2222bbbb;sk-multi-3333cccc", "B_TOKEN": "Bearer bTok-word"}
    )
    keys = {f"sk-multi-{digit * 4}{letter * 4}" for digit, letter in zip("123", "abc", strict=True)}
    assert known.secrets == {*keys, "Bearer bTok-word", "bTok-word"}
    assert secrets_of_environment({"APIKEYs": ", ".join(keys)}).secrets == keys


def test_the_key_in_the_json_of_a_service_account_is_found_in_its_own_file() -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0B", "ZZk39dkslKJDkjd93jdkLLs0", "Q0s="]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    account = {"project_id": "acme", "private_key": key}
    known = secrets_of_environment({"GOOGLE": json.dumps(account)})
    numbered = "\n".join(
        f"{at}\t{line}" for at, line in enumerate(json.dumps(account, indent=2).splitlines(), 1)
    )
    for shown in (known.text(numbered), known.text(key)):
        assert not [line for line in lines if line in shown]
    assert '2\t  "project_id": "acme",' in known.text(numbered)


@pytest.mark.parametrize(
    "written",
    [
        '"sk-abc${hunter2-rest"',
        '"sk-abc${hunter2 rest}d"',
        '"sk-abc${%hunter2}"',
        f'"{"${a:-" * 30}hunter2{"}" * 30}"',
        "!!int hunter2",
        "!!bool hunter2",
        "!!null hunter2",
        "!!float hunter2",
    ],
)
def test_a_password_that_looks_like_a_variable_or_a_tag_is_in_no_error(checked, written) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        checked(f"version: 1\nmodel:\n  litellm:\n    model: gpt-5.2\n    api_key: {written}\n")
    (found,) = raised.value.diagnostics
    assert found.code in ("bad-interpolation", "wrong-type")
    assert found.position is not None
    assert found.position.line == 5
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "secrets"),
    [
        (r"host=db password='s3\'cret word'", {"s3'cret word", r"s3\'cret word"}),
        ('Server=db;User=app;Password="s3;""cret"', {'s3;"cret', 's3;""cret'}),
        ("Server=db;Pwd='s3cret-word;Uid=app's", {"s3cret-word"}),
        ("Server=db;Pwd='s3cret-word;Uid=app'", {"s3cret-word"}),
        ("Server=db;Pwd=otter bramble kite", {"otter bramble kite"}),
        ("host=db password=s3;cret\\\\word", {"s3;cret\\\\word", "s3;cret\\word"}),
        ("password=s3,cret;-word; host=db", {"s3,cret;-word;"}),
        ("host=db password='s3;cret-word", {"s3;cret-word", "'s3;cret-word"}),
    ],
)
def test_the_value_of_a_setting_is_a_secret_as_written_and_as_meant(settings: str, secrets: set[str]) -> None:
    assert secrets <= secrets_of_environment({"STORE": settings}).secrets
