"""What a program reads out of a secret is a secret too: a decoded file, the password of a login, joined groups."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets.encoded import text_of_base64
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.secrets.written_secrets import secrets_of_key_file, written_secrets

LINES = ["MIIEvQIBADANBgkqhkiG9w0B", "ZZk39dkslKJDkjd93jdkLLs0", "Q0s4Zm9vYmFy"]
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----", ""])
ACCOUNT = json.dumps({"project_id": "acme", "private_key": PEM}, indent=2)
DOTENV = "DEBUG=false\nexport SHOP_PASSWORD='Zx81 Spectrum'\nQUEUE_TOKEN=s3cret-q\n"
VALUE = "Kx9mPq2vLw7a"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig() -> str:
    return (
        "clusters:\n- server: https://k8s.example\nusers:\n- user:\n    password: s3cret-w\n"
        f"    client-key-data: {encoded(PEM)}\n"
    )


def wrapped(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


def for_urls(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("way", [encoded, wrapped, for_urls], ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("name", "text", "secrets"),
    [
        ("GCP_SA_KEY", ACCOUNT, LINES),
        ("GOOGLE_CREDENTIALS_BASE64", ACCOUNT, LINES),
        ("GCP_ACCOUNT", ACCOUNT, LINES),
        ("GCP_ACCOUNT", f"\ufeff{ACCOUNT}", LINES),
        ("TLS_KEY", PEM, LINES),
        ("KUBE_CONFIG_SECRET", kubeconfig(), ["s3cret-w", *LINES]),
        ("DOTENV_SECRETS", DOTENV, ["Zx81 Spectrum", "s3cret-q"]),
        ("DB_PASSWORD", "größe-hunter>>2?", ["größe-hunter>>2?"]),
        ("REGISTRY_AUTH_TOKEN", f"deploy:{VALUE}", [VALUE]),
        ("DOCKER_CONFIG_SECRET", json.dumps({"auth": encoded(f"ci:{VALUE}"), "token": encoded("s3cret~~word")}),
         ["s3cret~~word"]),
    ],
    ids=lambda given: given if isinstance(given, str) and given.isupper() else "",
)  # fmt: skip
def test_the_text_that_a_secret_in_base64_stands_for_is_a_secret_by_the_same_rules(
    name: str, text: str, secrets: list[str], way
) -> None:  # type: ignore[no-untyped-def]
    for known in (
        secrets_of_environment({name: way(text)}),
        Redactor(written_secrets({"options": {name: way(text)}})),
    ):
        for shown in (known.text(text), known.text(" ".join(secrets))):
            assert not [each for each in secrets if each in shown], shown
        assert "<secret:" in known.text(way(text))
        assert known.text("clusters:\nDEBUG=false acme") == "clusters:\nDEBUG=false acme"


@pytest.mark.parametrize(
    "server",
    [
        {"args": ["--sa-key", encoded(ACCOUNT)]},
        {"args": [f"--sa-key={encoded(ACCOUNT)}"]},
        {"headers": {"X-Account": encoded(ACCOUNT)}},
        {"env": {"ACCOUNT": for_urls(PEM)}},
    ],
)
def test_what_a_flag_a_header_or_a_variable_of_a_server_has_in_base64_is_a_secret(
    server: dict[str, object],
) -> None:
    known = Redactor(written_secrets(server))
    assert not [each for each in LINES if each in known.text(f"{ACCOUNT} {PEM}")]


def test_encodings_within_each_other_end_after_two() -> None:
    once = {
        "token": "s3cret-one",
        "key": encoded(json.dumps({"token": "s3cret-two", "api_key": encoded(PEM)})),
    }
    known = secrets_of_environment({"BUNDLE": encoded(json.dumps({"api_key": encoded(json.dumps(once))}))})
    assert "s3cret-one" in known.secrets
    assert "s3cret-two" not in known.secrets


@pytest.mark.timeout(20)  # each level twice would take hours
def test_many_encodings_within_each_other_take_linear_time() -> None:
    text = "s3cret-word"
    while len(text) < 100_000:
        text = '{\n"api_key": "' + encoded(text) + '"\n}'
    assert len(set(secrets_in("BUNDLE_SECRET", encoded(text)))) < 20
    assert not set(secrets_in("BUNDLE", encoded(json.dumps({"token": "s3cret-word", "pad": "x" * 200_000}))))


@pytest.mark.timeout(20)  # with each split of the blanks, one value would take hours
@pytest.mark.parametrize("blanks", ["{}!", "={}!", "={}={}!", "{}=="])
def test_a_long_value_that_is_nearly_base64_takes_linear_time(blanks: str) -> None:
    value = "QUJDREVGR0hJSktM" + blanks.replace("{}", " " * 50_000)
    assert not text_of_base64(value) or blanks == "{}=="


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("BASIC_AUTH_CREDENTIALS", f"admin:{VALUE}", VALUE),
        ("BASIC_AUTH_CREDENTIALS", f"admin:{VALUE}:x,y", f"{VALUE}:x,y"),
        ("HTPASSWD_SECRET", f"admin:{VALUE}", VALUE),
        (
            "APP_KEY",
            "base64:Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Ng==",
            "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Ng==",
        ),
        ("APP_KEY", "base64:Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Ng==", "foobarbazqux1234567890123456"),
        ("API_TOKEN", f"42|{VALUE}{VALUE}", f"{VALUE}{VALUE}"),
        ("BOT_TOKEN", f"123456789:{VALUE}", VALUE),
        ("GIT_CREDENTIALS", "ghp4711Abcdefgh0815:x-oauth-basic", "ghp4711Abcdefgh0815"),
        ("SIGNING_SECRET", f"v1:2024:{VALUE}", VALUE),
        ("LOGIN_TOKEN", f"key=a token=admin:{VALUE}", VALUE),
        ("SMTP_PASSWORD", "abcd efgh ijkl mnop", "abcdefghijklmnop"),
        ("SMTP_PASSWORD", "abcd\u00a0efgh\u00a0ijkl\u00a0mnop", "abcdefghijklmnop"),
        ("LICENSE_KEY", "AB12 CD34 EF56", "AB12CD34EF56"),
    ],
)
def test_the_part_of_a_secret_that_a_program_sends_is_a_secret(name: str, value: str, secret: str) -> None:
    known = secrets_of_environment({name: value})
    assert secret in known.secrets
    assert "<secret:" in known.text(f"login with {secret}") != f"login with {secret}"
    assert known.text(value) == f"<secret:{name}>"
    assert secret in written_secrets({"options": {name: value}})


HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("BASIC_AUTH_CREDENTIALS", "admin:changeme", ["admin:changeme"]),
        ("BASIC_AUTH_CREDENTIALS", "deploy2024:changeme", ["deploy2024:changeme"]),
        ("KEY_STORE", "C:\\keys\\customer4711", ["C:\\keys\\customer4711"]),
        ("KEY_FOLDERS_KEY", "/opt/keys:/srv/customer4711", ["/opt/keys:/srv/customer4711"]),
        ("URL_TOKEN", "https://customer4711.example:8443/a", ["https://customer4711.example:8443/a"]),
        ("KEY_SERVER", "customer4711-main.example:8443", ["customer4711-main.example:8443"]),
        (
            "SQL_SECRET",
            "Server=tcp:customer4711.example,1433",
            # The host alone is none.
            ["Server=tcp:customer4711.example,1433", "tcp:customer4711.example", "customer4711.example,1433"],
        ),
        ("ROLE_SECRET", "aws:iam::123456789012:role", ["aws:iam::123456789012:role"]),
        ("TIME_TOKEN", "2024-01-01T00:00:00", ["2024-01-01T00:00:00"]),
        ("API_KEY", HEX, [HEX]),
        ("API_KEY", "6f1c1d6e-3b0a-4c55-9c9e-000000000000", ["6f1c1d6e-3b0a-4c55-9c9e-000000000000"]),
        ("API_KEY", "/2nq8m6bZ5o3gP4711aaBB/+AYD/gP8B", ["/2nq8m6bZ5o3gP4711aaBB/+AYD/gP8B"]),
        ("DB_PASSWORD", "correcthorsebatterystaple", ["correcthorsebatterystaple"]),
        ("DB_PASSWORD", encoded("foobarbazqux"), [encoded("foobarbazqux")]),
        ("PASS_PHRASE_SECRET", "correct horse battery", ["correct horse battery"]),
        ("PASS_PHRASE_SECRET", "some more word", ["some more word"]),
        ("REGION_SECRET", "eu-north-1\neu-south-1", ["eu-north-1\neu-south-1"]),
        ("HINT_SECRET", "login: use Kx9mPq2v", ["login: use Kx9mPq2v", "Kx9mPq2v"]),
        ("API_KEY", encoded("\x01bytes and\x02 012345678"), [encoded("\x01bytes and\x02 012345678")]),
        ("HINT_SECRET", "use the admin:changeme login", ["use the admin:changeme login"]),
        ("GIT_COMMIT", HEX, []),
        ("MOTTO", encoded("a sentence that says nothing"), []),
        ("SETTINGS", encoded('{"project": "acme", "region": "eu-central-1"}'), []),
        ("NOTES", encoded("project: acme\nregion: eu-central-1\n"), []),
        ("PATH", "/usr/local/customer4711/bin:/opt/customer4711x", []),
        ("IMAGE", f"registry:5000/customer4711@sha256:{HEX}", []),
        ("FORMAT", "42|customer4711", []),
        ("CODE", "abcd efgh ijkl mnop", []),
    ],
)
def test_an_honest_value_has_no_secret_within(name: str, value: str, found: list[str]) -> None:
    assert list(dict.fromkeys(secrets_in(name, value))) == found
    prose = "admin:changeme 42|customer4711 deploy2024 foobarbazqux somemoreword correcthorsebattery acme"
    if value not in prose:
        assert secrets_of_environment({name: value}).text(prose) == prose


STRIPE, MAPS = "sk_live_9Zq2Wm7Lx4Kp8Rt1", "AIzaSyD9x8K2mP4qR7tV1wZ3bN6cF"
ORDINARY = {
    "kty": "RSA",
    "on": True,
    "number": 12345678,
    "stage": "production",
    "word": "internationalizations",
    "numbered": "value1234",
    "url": "https://accounts.example.com/o/oauth2/auth",
    "host": "db1abcdef2.rds.example.com",
    "place": "/run/secrets/app",
}
SEVERAL = {"stripe": STRIPE, "maps": MAPS, **ORDINARY}


def as_lines(pattern: str) -> str:
    return "\n".join(pattern.format(name, value) for name, value in SEVERAL.items())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("APP_SECRETS", json.dumps(SEVERAL)),
        ("APP_SECRETS", json.dumps(SEVERAL, indent=2)),
        ("APP_SECRETS", encoded(json.dumps(SEVERAL))),
        ("CREDENTIALS", json.dumps({"prod": {"stripe": STRIPE, "all": [MAPS, ORDINARY]}})),
        ("APP_SECRET", json.dumps([{"name": "STRIPE_TOKEN", "value": STRIPE}, f"MAPS={MAPS}", ORDINARY])),
        ("JWT_SIGNING_KEY", json.dumps({"kty": "oct", "k": MAPS, "inner": json.dumps({"d": STRIPE})})),
        ("API_KEYS", json.dumps([STRIPE, MAPS])),
        ("API_KEYS", json.dumps(SEVERAL)),
        ("API_KEYS", f"stripe={STRIPE},maps={MAPS}"),
        ("API_KEYS", f"stripe:{STRIPE};maps:{MAPS}"),
        ("APP_SECRET", as_lines("{}={}")),
        ("APP_SECRET", as_lines("{}: {}")),
        ("APP_SECRET", as_lines('{} = "{}"')),
        ("APP_SECRET", f"[login]\nann:{STRIPE}\nbob:{MAPS}"),
    ],
)
def test_each_of_several_secrets_in_one_value_is_one_and_ordinary_values_are_not(
    name: str, text: str
) -> None:
    places = {
        "env": {"mcpServers": {"x": {"env": {name: text}}}},
        "headers": {"headers": {f"X-{name}": text}},
        "args": {"args": ["--api-token", text]},
    }
    founds = {"alone": secrets_in(name, text)} | {
        place: written_secrets(each) for place, each in places.items()
    }
    for place, found in ((place, set(each)) for place, each in founds.items()):
        assert {STRIPE, MAPS} <= found, place
        # In such an `env`, a long word alone is one under any name.
        assert found & {str(each) for each in ORDINARY.values()} <= (
            {ORDINARY["word"]} if place == "env" else set()
        ), place


OWNERS = (
    "ann",
    "primary",
    "deploy2024",
    "gpt-4o-2024-08-06",
    "ann.miller1984@example.org",
    "enableOAuth2Login",
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("API_KEYS", json.dumps({STRIPE: "ann", MAPS: "bob"})),
        ("API_KEYS", json.dumps({STRIPE: {"user": "ann", "keys": {MAPS: {}}}})),
        ("API_KEY", json.dumps([{STRIPE: "ann"}, {MAPS: "bob"}])),
        ("API_KEYS", f"{STRIPE}:ann,{MAPS}:bob"),
        ("API_KEYS", f"{STRIPE}=ann,{MAPS}=bob"),
        ("API_KEY", f"{STRIPE}:ann,{MAPS}:bob"),
        ("APP_SECRET", f"{STRIPE}=ann\n{MAPS}: bob"),
        ("HUB_TOKEN", f"?sv=2022-11-02&sig={STRIPE}&se=2026-12-31&key={MAPS}&sp=rl"),
    ],
)
def test_a_secret_in_the_place_of_a_name_is_one(name: str, text: str) -> None:
    founds = {
        "alone": set(secrets_in(name, text)),
        "env": set(written_secrets({"mcpServers": {"x": {"env": {name: text}}}})),
        # There, a name that says nothing.
        "map": set(written_secrets({"mcpServers": {"x": {"env": {"OWNERS": text}}}})),
    }
    for place, found in founds.items():
        assert {STRIPE, MAPS} <= found or (place == "map" and "=ann\n" in text), place
        assert not found & {"ann", "bob", "user", "keys", "2022-11-02", "2026-12-31"}, place


@pytest.mark.parametrize("name", ["API_KEYS", "API_KEY", "OWNERS"])
def test_a_name_beside_a_secret_is_none(name: str) -> None:
    texts = [json.dumps(dict.fromkeys(OWNERS, STRIPE))]
    # In one line under a singular, each piece may be a part of the one secret.
    for sign in ("\n",) if name == "API_KEY" else (",", "\n"):
        texts += [sign.join(form.format(each, STRIPE) for each in OWNERS) for form in ("{}={}", "{}: {}")]
    for text in texts:
        found = {*secrets_in(name, text), *written_secrets({"mcpServers": {"x": {"env": {name: text}}}})}
        assert found & {STRIPE, *OWNERS} == {STRIPE}, text
    assert set(written_secrets({"api_keys": {**dict.fromkeys(OWNERS, "on"), STRIPE: "ann"}})) == {STRIPE}
    settings = {"disableTelemetryCollectionEverywhere": True, "base64EncodedConfiguration": "on"}
    assert not {*written_secrets({"env": {name: json.dumps(settings)}})} & {*settings}


@pytest.mark.parametrize("name", ["credentials", "api_keys", "api_key", "secrets"])
@pytest.mark.parametrize("value", [SEVERAL, {"deep": [{"value": STRIPE}, {"value": MAPS}], **ORDINARY}])
def test_below_a_name_that_says_secret_random_values_of_a_map_are_secrets(name: str, value: object) -> None:
    assert set(written_secrets({"extra": {name: value}})) == {STRIPE, MAPS}
    assert written_secrets({"key": value}) == {}


@pytest.mark.parametrize("name", ["JWT_PRIVATE_JWK", "JWK", "OIDC_KEYSET", "SETTINGS"])
def test_the_secret_members_of_a_jwk_are_secrets_under_any_name(name: str) -> None:
    """Their names do not say secret: `d`, `k` and the parts of an RSA key."""
    members = {each: f"{each}-{STRIPE[::-1]}" for each in ("d", "p", "q", "dp", "dq", "qi", "k")}
    public = {"kty": "RSA", "kid": "2024-05-key", "n": MAPS, "e": "AQAB", "x": MAPS[::-1], "use": "sig"}
    text = json.dumps({"set": [{**public, **members}, {"d": "Ab-20240131-1200xY"}]})
    assert set(secrets_in(name, text)) == set(members.values())
    assert set(written_secrets({name: {**public, **members}})) == set(members.values())


@pytest.mark.parametrize("kind", ["RSA", "EC", "OKP", "oct"])
def test_the_public_members_of_a_jwk_are_no_secrets_below_a_name_that_says_secret(
    tmp_path: Path, kind: str
) -> None:
    public = {each: f"{each}{MAPS}" for each in ("n", "x", "y", "kid", "x5t", "x5t#S256")}
    jwk = {"kty": kind, "e": "AQAB", "x5c": [f"x5c{MAPS}"], **public, "ours": STRIPE}
    file = tmp_path / "app.json"
    for tree in ({"keys": [jwk]}, {"api_keys": jwk}):
        text = json.dumps(tree)
        file.write_text(text)
        for found in (
            secrets_in("KEYS", text),
            secrets_in("JWKS", text),
            written_secrets(tree),
            written_secrets({"env": {"SETTINGS": text}}),
            secrets_of_key_file(file, {}, variable="SECRETS_FILE"),
        ):
            assert set(found) == {STRIPE}
    for other in ("other", ["RSA"]):
        assert f"x{MAPS}" in set(written_secrets({"keys": [{**jwk, "kty": other}]}))


def test_in_a_file_that_a_variable_names_each_of_several_secrets_in_json_is_one(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    ordinary = {str(each) for each in ORDINARY.values()}
    for value in (SEVERAL, {"deep": [{"value": STRIPE}, f"maps={MAPS}", ORDINARY], "tls": PEM}):
        for indent in (None, 2):
            file.write_text(json.dumps(value, indent=indent))
            found = secrets_of_key_file(file, {}, variable="SECRETS_FILE")
            assert {STRIPE, MAPS} <= set(found)
            assert not ordinary & set(found)
            assert found[STRIPE] == "SECRETS_FILE"
            assert not {STRIPE, MAPS} & set(secrets_of_key_file(file, {})), (
                "an option's file may be of any kind"
            )
    file.write_text(json.dumps({"api_token": STRIPE}))
    found = secrets_of_key_file(file, {}, variable="SECRETS_FILE")
    assert found == {STRIPE: "app.json/api_token"}, "a name in the file says more"


def test_a_certificate_beside_a_private_key_is_no_secret_of_its_own() -> None:
    certificate = PEM.replace("PRIVATE KEY", "CERTIFICATE").replace("Q0s4", "Q0s5")
    found = set(secrets_in("TLS_SECRETS", json.dumps({"crt": certificate, "own": PEM})))
    assert PEM.strip() in found
    assert certificate.strip() not in found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "APP_SECRETS",
            {"a": "/srv/x9Kq2mZw7Lt4/app", "b": "https://x9kq2mzw7lt4.example/docs page9kq2mzw7l"},
            (),
        ),
        ("APP_SECRETS", {"padded": f"{VALUE}=="}, (f"{VALUE}==",)),
        ("APP_SECRETS", {"both": f"{VALUE}:{STRIPE}"}, (f"{VALUE}:{STRIPE}", STRIPE)),
        ("API_KEYS", ["abcdefghijklmnopqrstuvwx", "word"], ("abcdefghijklmnopqrstuvwx",)),
    ],
)
def test_what_is_an_item_of_a_secret(name: str, text: object, found: tuple[str, ...]) -> None:
    assert set(secrets_in(name, json.dumps(text))) - {json.dumps(text)} == set(found)


def test_the_lines_of_a_private_key_are_no_items() -> None:
    assert not {*LINES} & {*secrets_in("TLS_KEY", PEM)}


LEAVES = st.sampled_from(
    [
        STRIPE,
        MAPS,
        PEM,
        f"a={STRIPE}",
        f"ann:{MAPS}",
        "true",
        7,
        None,
        "https://u:Zx81k@h/x",
        *ORDINARY.values(),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | st.just("token"), inner)
    ),
)


@settings(max_examples=40)
@given(
    value=st.lists(VALUES, min_size=1, max_size=3)
    | st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1)
)
def test_a_name_that_says_more_never_finds_less(value: object) -> None:
    text = json.dumps(value)
    for more in ("APP_SECRETS", "API_KEY", "MY_TOKENS"):
        assert set(secrets_in("APP_CONFIG", text)) <= set(secrets_in(more, text))
        less, found = (
            written_secrets({"servers": {"x": {"env": {name: text}}}}) for name in ("APP_CONFIG", more)
        )
        assert set(less) <= set(found)
