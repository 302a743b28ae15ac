"""A reference to a variable within a value is no secret; a value with more than references is one."""

from __future__ import annotations

import re
from base64 import b64encode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.config.secrets.secrets_in_values import secrets_in, secrets_of_text
from zeus_runtime.config.secrets.written_secrets import written_secrets

VALUE = "x7ghs9Kq2LmW4RtZ8vBn"
REFERENCES = [
    "$DB_PASSWORD",
    "$db_password",
    "$dbPassword",
    "${DB_PASSWORD}",
    "${DB_PASSWORD:?must be set}",
    "${DB_PASSWORD:-}",
    "${DB_PASSWORD:-${POSTGRES_PASSWORD}}",
    "$(DB_PASSWORD)",
    "$(cat /run/secrets/db-password)",
    "$(op read 'op://shop/db (prod)/password')",
    "`cat /run/secrets/db-password`",
    "%DB_PASSWORD%",
    "$env:DB_PASSWORD",
    "{{ db_password }}",
    "{{ .Values.db.password | quote }}",
    "${{ secrets.DB_PASSWORD }}",
    "[YOUR-PASSWORD]",
    "[your db password]",
    "prefix-${DB_PASSWORD}",
    "v1.$DB_PASSWORD",
]
PLACES = [
    "op://vault/item/field",
    "op://Our Vault/db (prod)/admin/password",
    "file:///run/secrets/db-password",
    "keyring://shop/db-password",
]
KEPT = [
    "arn:aws:ssm:eu-west-1:123456789012:parameter/shop/mail",
    "projects/acme-shop/secrets/db-password/versions/latest",
    "vault:secret/data/shop#DB_PASSWORD",
]
CODE = [
    "Acme.Password2024!",
    "Acme.Password1",
    "shop.secret",
    "jwt.secret.key",
    "correct.horse.password",
    "Acme[Password1]",
    "Acme->Password2024!",
    "Hello(Secret7)",
    "process.env.API_KEY",
]
"""Words that are joined as in code."""
FORMS = [
    ("DB_PASSWORD", "PART"),
    ("DATABASE_URL", "postgresql://app:PART@db/shop"),
    ("DATABASE_URL", "postgresql://$DB_USER:PART@$DB_HOST:$DB_PORT/$DB_NAME"),
    ("HUB_URL", "https://hub.example.com/v1?api_key=PART"),
    ("CONNECTION", "Server=db;Password=PART;User=app"),
    ("CONNECTION", "host=db user=app password=PART"),
    ("AUTHORIZATION", "Bearer PART"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=PART"),
    ("HUB_ARGS", "--token PART"),
    ("HUB_ARGS", "--token=PART"),
    ("API_KEYS", "PART,PART"),
    ("APP_SECRETS", '{"a": "PART"}'),
]


def found_in(name: str, value: str) -> set[str]:
    """The secrets of a variable, of a line in a file of variables and of a server's ``env``."""
    by_line = (secret for secret, _ in secrets_of_text(f"{name}={value}\n", secrets_in, is_script=True))
    by_entry = written_secrets({"env": {name: value}})
    return set(filter(is_searched, (*secrets_in(name, value), *by_line, *by_entry)))


@given(form=st.sampled_from(FORMS), reference=st.sampled_from(REFERENCES))
def test_a_value_of_references_has_no_secret(form: tuple[str, str], reference: str) -> None:
    name, value = form
    value = value.replace("PART", reference)
    assert found_in(name, value) == set()
    # The whole text is the secret of who keeps it in base64.
    encoded = b64encode(f"{name}={value}\n".encode()).decode()
    assert reference not in {*secrets_in("SHOP_SECRET", encoded)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("name", "value"), [each for each in FORMS if "PART@" not in each[1] and "PART;" not in each[1]]
)
def test_the_place_of_a_secret_in_its_keeper_is_none(name: str, value: str, place: str) -> None:
    assert found_in(name, value.replace("PART", place)) == set()
    # Behind the scheme is what a vault has for a name, and no value.
    assert any(VALUE in each for each in secrets_in(name, value.replace("PART", f"op://vault/{VALUE}/x")))


@pytest.mark.parametrize("place", KEPT)
def test_so_is_a_place_of_many_names(place: str) -> None:
    assert found_in("DB_PASSWORD", place) == set()
    assert found_in("HUB_ARGS", f"--token {place}") == set()
    assert found_in("DB_PASSWORD", f"{place}:password::") == set()
    # With a random name it is a secret, and so are a few words, or many with one sign between them.
    assert found_in("DB_PASSWORD", f"{place}/{VALUE}")
    for password in (
        "ann:red/blue/otter",
        "horse/battery/staple/wagon/secret",
        "secret/horse/battery/staple/wagon",
    ):
        assert found_in("DB_PASSWORD", password)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("DATABASE_URL", "postgresql://db/shop/main?password=blue-otter-42", "blue-otter-42"),
        ("DATABASE_URL", "postgresql://ann:blue-otter-42@db/shop/main", "blue-otter-42"),
        ("JDBC_URL", "jdbc:sqlserver://db/shop/main;password=blue-otter-42", "blue-otter-42"),
        ("DB_PASSWORD", "[blue-otter]", "[blue-otter]"),
        ("DB_PASSWORD", "blue-otter-${X}", "blue-otter-${X}"),
        ("DB_PASSWORD", "Sommer2024-${X}", "Sommer2024-${X}"),
        ("DB_PASSWORD", "prefix-$ecretPass", "prefix-$ecretPass"),
    ],
)
def test_an_address_a_list_and_a_password_with_a_reference_behind_it_keep_their_secret(
    name: str, value: str, secret: str
) -> None:
    assert secret in {*secrets_in(name, value)}


def test_a_list_in_a_file_of_secrets_is_no_text_to_fill_in() -> None:
    found = {secret for secret, _ in secrets_of_text("passwords: [blue-otter]\nDB_PASSWORD: [my-password]\n")}
    assert "blue-otter" in found
    assert not any("my-password" in each for each in found)


@pytest.mark.parametrize(
    "value", ["$HOME/.ssh/id_ed25519", "${XDG_CONFIG_HOME}/shop/key.pem", "$(pwd)/certs/tls.key"]
)
def test_a_place_below_a_reference_is_no_secret(value: str) -> None:
    assert [*secrets_in("SSH_KEY", value)] == []


PASSWORDS = st.from_regex(r"\A\$?[a-z]{2}[0-9][A-Z][a-z][0-9]{2}[A-Za-z]{3}[0-9]{1,3}!?\Z").filter(
    lambda each: len(set(each)) > 5
)


@given(form=st.sampled_from(FORMS), password=PASSWORDS)
def test_a_value_with_a_random_part_has_a_secret(form: tuple[str, str], password: str) -> None:
    name, value = form
    # A shell fills in what has a `$` in a command, whatever its name.
    part = password.lstrip("$") if name == "HUB_ARGS" else password
    found = {*secrets_in(name, value.replace("PART", part))}
    assert any(part in each for each in found)


@pytest.mark.parametrize(
    "part", ["$ecret-Pass9!", "$ecretPass9", "pa$$WORD-of-ann", "$UMMER!night", "blue${X}otter"]
)
def test_a_password_with_a_dollar_is_a_secret(part: str) -> None:
    assert part in {*secrets_in("DB_PASSWORD", part)}
    assert part in {*secrets_in("DATABASE_URL", f"postgresql://app:{part}@db/shop")}


@pytest.mark.parametrize(
    "value",
    [
        "${OTHER:-VALUE}",
        "${OTHER:-${THIRD:=VALUE}}",
        "postgresql://app:${OTHER:-VALUE}@$DB_HOST/shop",
        "$(curl -H 'X-Api-Key: VALUE' https://hub.example.com)",
        "{{ lookup('url', 'https://ann:VALUE@hub.example.com') }}",
        "${VALUE}",
        "Bearer $VALUE",
        "$HOME/VALUE",
        "os.VALUE.token",
        "`VALUE`",
    ],
)
def test_a_secret_within_a_reference_is_one(value: str) -> None:
    assert any(VALUE in each for each in secrets_in("DB_PASSWORD", value.replace("VALUE", VALUE)))


def test_what_a_reference_has_for_a_default_is_a_secret_by_itself() -> None:
    assert "blue-otter-42" in {*secrets_in("SMTP_URL", "smtp://$SMTP_USER:${SMTP_PASS:-blue-otter-42}@mail")}
    found = {
        *secrets_of_text(
            "docker run -e PW=${DB_PASSWORD:-blue-otter-42} shop\n# ${DB_PASSWORD:-red-otter-42}\n"
        )
    }
    assert "blue-otter-42" in {secret for secret, _ in found}
    assert not any("red" in secret for secret, _ in found)


@pytest.mark.parametrize(
    "line", ["$db_password = 'VALUE';", '$env:DB_PASSWORD = "VALUE"', "$DB_PASSWORD := `VALUE`"]
)
def test_a_variable_that_a_line_sets_is_the_name_of_a_secret(line: str) -> None:
    assert VALUE in {secret for secret, _ in secrets_of_text(line.replace("VALUE", VALUE))}


def test_a_word_to_fill_in_is_no_secret() -> None:
    assert [*secrets_in("SHOP_API_KEY", "<your-api-key>")] == []


@pytest.mark.parametrize("password", CODE)
@pytest.mark.parametrize(
    ("name", "value"), [each for each in FORMS if each[0] not in ("API_KEYS", "APP_SECRETS", "HUB_ARGS")]
)
def test_words_that_are_joined_as_in_code_are_a_secret(name: str, value: str, password: str) -> None:
    found = found_in(name, value.replace("PART", password))
    # Of a variable of headers, a bracket at the end may be that of a list.
    assert any(password.rstrip("]") in each for each in found)
    assert password in written_secrets({"headers": {"X-Api-Key": password}, "args": ["--password", password]})
    assert password in {*secrets_in("SHOP", f'{{"db_password": "{password}"}}')}


WORDS = "Acme Password Secret7 2024 shop token key API_KEY process env environ getenv config self".split()
SIGNS = [".", "->", "[", "]", "(", ")", "'", '"', "::", "!", "-", "+", ",", "/", "#", "@", "&", "="]
OF_REFERENCE = r"\[[A-Za-z]+[_-]|(?:[:/#].*){4}"
"""``[your-key]``, and the place of a secret in its keeper."""


@given(
    name=st.sampled_from(["DB_PASSWORD", "SHOP_API_KEY", "JWT_SECRET", "GITHUB_TOKEN"]),
    value=st.lists(st.sampled_from([*WORDS, *SIGNS]), min_size=2, max_size=8)
    .map("".join)
    .filter(lambda each: is_searched(each) and not re.search(OF_REFERENCE, each)),
    quote=st.sampled_from(["'", '"', ""]),
)
def test_each_value_under_a_secret_name_is_one_if_it_is_no_reference(
    name: str, value: str, quote: str
) -> None:
    # Programs make a token, so a path of words is none.
    assume(name != "GITHUB_TOKEN" or "/" not in value)
    assert value in {*secrets_in(name, value)}
    # Without quotes, a value of a `.env` begins with another sign.
    if quote not in value or (not quote and value[0] not in "'\""):
        line = f"{name}={quote}{value}{quote}\n"
        assert value in {secret for secret, _ in secrets_of_text(line, secrets_in, is_script=True)}


@pytest.mark.parametrize(
    ("value", "no_secrets"),
    [
        ('os.environ["DB_PASSWORD"]', ["os.environ", "os.environ["]),
        ("get_secret('shop-database')", ["get_secret", "get_secret("]),
        ("$(vault read -field=token < /etc/vault)", ["$(vault read -field=token < /etc/vault"]),
    ],
)
def test_of_code_in_a_file_of_secrets_only_the_texts_in_it_are_values(
    value: str, no_secrets: list[str]
) -> None:
    found = {secret for secret, _ in secrets_of_text(f"DB_PASSWORD = {value}\nDB_TOKEN={value}\n")}
    assert found.isdisjoint(no_secrets)


def test_a_name_in_braces_is_plain() -> None:
    assert [*secrets_in("DB_PASSWORD", "${Pas5wo}")] == ["${Pas5wo}"]
