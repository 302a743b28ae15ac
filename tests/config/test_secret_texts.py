"""A text that is known to hold secrets is read in each form that programs write; what is ordinary in it is none."""

from __future__ import annotations

import codecs
from base64 import b64encode
from hashlib import shake_256
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets import secrets_in_values
from zeus_runtime.config.secrets.encoded import text_of_base64
from zeus_runtime.config.secrets.secrets_in_values import secrets_in, secrets_in_file, secrets_of_text
from zeus_runtime.config.secrets.written_secrets import secrets_of_env_file, secrets_of_key_file

VALUE: Final = "grey-heron-42"
SWAPPED: Final = f"DB_PASSWORD={VALUE}\0B_TOKEN;x\0".encode()
LINE: Final = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM: Final = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n-----END PRIVATE KEY-----"


def of_env(folder: Path, text: str | bytes, name: str = ".envrc") -> tuple[dict[str, str], list[str]]:
    """The secrets of a file of variables, and what is told of it."""
    told: list[str] = []
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return secrets_of_env_file(folder / name, told.append), told


def of_keys(folder: Path, text: str) -> tuple[dict[str, str], list[str]]:
    """The secrets of a file that a variable names, and what is told of it."""
    told: list[str] = []
    (folder / "keys").write_text(text)
    return secrets_of_key_file(folder / "keys", {}, variable="APP_SECRETS_FILE", unread=told.append), told


def shows(found: dict[str, str], value: str = VALUE) -> bool:
    return value in Redactor().adding(found).text(f"login with {value} refused")


def test_a_name_that_ends_in_another_word_says_secret_in_each_form(tmp_path: Path) -> None:
    found, _ = of_env(
        tmp_path, "set -gx GITHUB_TOKEN_BOT hunter47-heron11; mysql --token-bot hunter47-heron12\n"
    )
    assert not shows(found, "hunter47-heron11")
    assert not shows(found, "hunter47-heron12")


@pytest.mark.parametrize(
    "text",
    [
        "layout python\nexport DB_PASSWORD='VALUE';",
        'export DB_PASSWORD="VALUE"; export X="y"',
        "export DB_PASSWORD=VALUE;",
        "export DB_PASSWORD=VALUE&& true",
        "A_PASSWORD=x B_PASSWORD='VALUE'",
        ': "${DB_PASSWORD:=VALUE}"',
        "export DB_PASSWORD=${OTHER:-VALUE}",
        'x; export DB_PASSWORD="${OTHER:-VALUE}"; y',
        'export DB_PASSWORD="${DB_PASSWORD-VALUE}"',
        "[ -n \"$CI\" ] || export DB_PASSWORD='VALUE'",
        "if true; then export DB_PASSWORD=VALUE; fi",
        'f() { local DB_PASSWORD="VALUE"; }',
        "declare -x DB_PASSWORD=$'VALUE'",
        "export \\\n  X=y \\\n  DB_PASSWORD=VALUE \\\n  Z=z",
        "set -gx DB_PASSWORD VALUE",
        "setenv DB_PASSWORD 'VALUE' # of ann",
        "ENV DB_PASSWORD VALUE",
        'set "DB_PASSWORD=VALUE"\r\n',
        "mysql --password VALUE",
        '$env:DB_PASSWORD = "VALUE"',
        '(setenv "DB_PASSWORD" "VALUE")',
        "read -r DB_PASSWORD <<< 'VALUE'",
        "curl -H 'Authorization: Bearer VALUE' x-1",
        "DB_PASSWORD=\"grey-\"'heron-42'; x",
        'DB_PASSWORD="grey-""heron-42"; x',
        "let dbPassword: string = 'VALUE'",
        "<?php\nreturn array (\n  'DB_PASSWORD' => 'VALUE',\n);",
        "define('DB_PASSWORD', 'VALUE');",
        "'password' => env('DB', 'VALUE'),",
        "password = os.getenv('DB_PASSWORD', 'VALUE')",
        "module.exports = {DB_PASSWORD: 'VALUE'}",
        "module.exports = {\n  DB_PASSWORD:\n    'VALUE',\n};",
        "export const dbPassword = `VALUE`;",
        "password: process.env.DB_PASSWORD || 'VALUE',",
        'os.environ["DB_PASSWORD"] = "VALUE"',
        "DB_PASSWORD: VALUE",
        "export A=b DB_PASSWORD=VALUE X: z",
        "env: {DB_PASSWORD: VALUE}",
        "- name: DB_PASSWORD\n  value: VALUE",
        '{"dev": {"DB_PASSWORD": "VALUE"}}',
        '[env]\nDB_PASSWORD = """VALUE"""',
    ],
)
def test_a_value_in_a_file_of_variables_is_found_in_each_form(tmp_path: Path, text: str) -> None:
    found, told = of_env(tmp_path, text.replace("VALUE", VALUE))
    assert not shows(found)
    assert not told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("db: {host: db, password: VALUE}", VALUE),
        ('db: {password: "cold, moose 7"}', "cold, moose 7"),
        ("password: 'it''s-a-secret'", "it's-a-secret"),
        (r'password: "say \"hi\" gr\u00fcn"', 'say "hi" grün'),
        ("password: >-\n  dark\n  viper 7", "dark viper 7"),
        ("x: [\npassword: |\n  dark viper 7\n", "dark viper 7"),
        ("password:\n  VALUE", VALUE),
        ("password: !vault VALUE", VALUE),
        ("x: &p VALUE\npassword: *p", VALUE),
        ("x: !one 1\nx: 2\n---\npassword: &p VALUE", VALUE),
        ("passwords:\n  - VALUE", VALUE),
        ("passwords:\n  ann: VALUE", VALUE),
        ("password: {value: VALUE}", VALUE),
        ('[{"name": "DB_PASSWORD", "value": "VALUE"}]', VALUE),
        ('{"passwords": {"ann": "VALUE"}}', VALUE),
        ("pass: VALUE", VALUE),
        ("data:\n  config: |\n    db.password=VALUE", VALUE),
        ("data:\n  config: ZGIucGFzc3dvcmQ9Z3JleS1oZXJvbi00Mgp4PXkK", VALUE),
        ('main = { password = "VALUE" }', VALUE),
        ('[db]\npassword = "soft\\\\koala\\"7"', 'soft\\koala"7'),
        ("password = '''hard panda 7'''", "hard panda 7"),
        ("password = bold skunk 7 ; of ann", "bold skunk 7"),
        ("db.password VALUE", VALUE),
        ("db.password=grey-\\\n   heron-42", VALUE),
        ("machine h login a password VALUE machine i login b password other", VALUE),
        ("machine h\n  login a\n  password VALUE", VALUE),
        ("<a><id>x</id><password>VALUE</password></a>", VALUE),
        ('<add key="DbPassword" value="VALUE"/>', VALUE),
        ("<key>Password</key>\n<string>VALUE</string>", VALUE),
        ("{\n  // of ann\n  password: 'VALUE',\n}", VALUE),
        ("passwords = [\n  'other-1',\n  'VALUE',\n]", VALUE),
        ("x y\npasswords = ['other-1', \"it's-a-secret\"]", "it's-a-secret"),
        ("x y\npassword my-secret-token7", "my-secret-token7"),
        ("x y\npassword: {br4ce}s", "{br4ce}s"),
        ("x y\npassword='it's-7'; x", "it's-7"),
    ],
)
def test_a_value_in_a_file_with_secrets_is_found_in_each_form(tmp_path: Path, text: str, value: str) -> None:
    text = text.replace("VALUE", VALUE)
    found, told = of_keys(tmp_path, f"{text}\n# end\n" if text[0] not in "{[<" else text)
    assert not shows(found, value)
    assert not told
    assert (
        not shows(dict.fromkeys(secrets_in("APP_SECRET", f"{text}\nlast-line: x\n"), "x"), value)
        or "<" in text
    )


@pytest.mark.parametrize("before", ["", "layout python\n", "A='x';\n", "# don't\n"])
@pytest.mark.parametrize(
    "form", ['export TLS_KEY="{}"', "TLS_KEY='{}'; x", "TLS_KEY=$(cat <<END\n{}\nEND\n)", "{}"]
)
def test_a_private_key_over_several_lines_is_found_beside_lines_of_any_form(
    tmp_path: Path, before: str, form: str
) -> None:
    found, told = of_env(tmp_path, f"{before}{form.format(PEM)}\nexport DB_PASSWORD='{VALUE}';\n")
    assert not shows(found, LINE)
    assert not shows(found)
    assert not told


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
)
def test_a_byte_order_mark_says_how_a_file_is_written(tmp_path: Path, mark: bytes, encoding: str) -> None:
    found, told = of_env(tmp_path, mark + f"X=ü\r\nDB_PASSWORD={VALUE}\r\n".encode(encoding))
    assert found == {VALUE: ".envrc/DB_PASSWORD"}
    assert not told


@pytest.mark.parametrize(
    "data",
    [
        f"X=é\nDB_PASSWORD={VALUE}\n".encode("latin-1"),
        f"DB_PASSWORD={VALUE}\n".encode("utf-16-le"),
        f"X=пароль\nDB_PASSWORD={VALUE}\n".encode("cp1251"),
        f"X=clé 密码\nDB_PASSWORD={VALUE}\n".encode("utf-16-be"),
        f"DB_PASSWORD={VALUE}\n".encode("utf-32-le"),
        codecs.BOM_UTF16_LE + f"DB_PASSWORD={VALUE}\n".encode("utf-16-le") + b"\0\xd8\0",
    ],
)
def test_of_a_file_that_is_no_sure_text_what_can_be_read_is_known_and_the_rest_is_told(
    tmp_path: Path, data: bytes
) -> None:
    found, told = of_env(tmp_path, data)
    assert not shows(found)
    assert told == ["it is no text in UTF-8 or UTF-16, so Zeus does not know all secrets in it"]


@pytest.mark.parametrize(
    ("data", "is_in_it"),
    [
        # A swap file of Vim's: pages with lines that end in zeros.
        (
            b"b0VIM 9.1".ljust(4096, b"\0") + b"da\x10".ljust(4000, b"\0") + SWAPPED,
            True,
        ),
        # What is encrypted looks like this.
        (shake_256(b"x").digest(300), False),
        # As UTF-16, this one has no control characters, but private ones.
        (shake_256(b"\x01").digest(64), False),
    ],
    ids=["swap", "encrypted", "short"],
)
def test_of_a_binary_file_nothing_is_told_since_nobody_can_make_it_a_text(
    tmp_path: Path, data: bytes, is_in_it: bool
) -> None:
    found, told = of_env(tmp_path, data)
    assert (VALUE in found) == is_in_it
    assert not told
    (tmp_path / "keys").write_bytes(data)
    found = secrets_of_key_file(tmp_path / "keys", {}, variable="APP_SECRETS_FILE", unread=told.append)
    assert (VALUE in found) == is_in_it
    assert not told


@pytest.mark.parametrize(
    "text",
    [
        "x\nDB_PASSWORD;VALUE\n",
        "x\nDB_PASSWORD,VALUE\n",
        "x\nread DB_PASSWORD <<END\nVALUE\nEND\n",
        "x\nexport DB_PASSWORD=$(cat <<'END'\nVALUE\nEND\n)\n",
        "x\nDB_PASSWORD = {\n",
        "x=y\ndb_password = <<EOT\nVALUE\nEOT\n",
        "x=y\ndb_password = <<-EOT\n  VALUE\n  EOT\n",
    ],
)
def test_a_line_whose_value_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    told = ["Zeus cannot read the value in line 2, so it is not masked"]
    assert of_env(tmp_path, text)[1] == told
    assert of_keys(tmp_path, text)[1] == told


@pytest.mark.parametrize("value", ["blue<<otter-42", "'<<Otter-2024'"])
def test_a_password_with_such_signs_is_read(tmp_path: Path, value: str) -> None:
    found, told = of_env(tmp_path, f"DB_PASSWORD={value}\n")
    assert [*found] == [value.strip("'")]
    assert not told


@pytest.mark.parametrize("secret", ["winter-horse-42!x", VALUE])
@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Secret\ndata:\n  db-password: BASE64\n",
        'data:\n  db-password: "BASE64"\n',
        "db-password: BASE64\n",
        "[db]\npassword = BASE64\n",
        '{"kind": "Secret", "data": {"db-password": "BASE64"}}',
    ],
)
def test_a_value_in_base64_is_read_under_its_own_name_in_each_file(
    tmp_path: Path, text: str, secret: str
) -> None:
    text = text.replace("BASE64", b64encode(secret.encode()).decode())
    assert secret in of_env(tmp_path, text, ".env.yaml")[0]
    assert secret in of_keys(tmp_path, text)[0]
    assert secret in {*secrets_in_file(text)}
    assert secret in {*secrets_in("SHOP_SECRET", text)}
    assert secret in {each for each, _ in secrets_of_text(text)}


def test_base64_within_base64_is_not_decoded_again_by_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(value: str) -> str:
        nonlocal count
        count += 1
        return text_of_base64(value)

    monkeypatch.setattr(secrets_in_values, "text_of_base64", counted)
    counts = []
    for levels in (3, 6):
        text = f"password: {VALUE}\nb: c\n"
        for _ in range(levels):
            text = f"password: {b64encode(text.encode()).decode()}\nb: c\n"
        count = 0
        assert VALUE in {*secrets_in_file(text)}
        counts.append(count)
    assert counts[1] < 4 * counts[0]


PROGRAMS: Final = {
    "settings.py": """import os
DB_PASSWORD = os.environ["DB_PASSWORD"]
API_KEY = config.api_key
JWT_SECRET = get_secret(name)
SMTP_PASSWORD = 'VALUE'
client = Client(password=settings.DB_PASSWORD, token=self.token)
""",
    "settings.js": """const apiKey = process.env.API_KEY;
module.exports = { apiKey: config.apiKey, secret: keys[secretName], token: hash(password), password: "VALUE" };
""",
    "settings.php": """<?php
$db_password = $_ENV['DB_PASSWORD'];
$token = getenv('API_TOKEN') ?: 'VALUE';
return ['secret' => $config->dbPassword];
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_a_program_with_secrets_no_code_is_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PROGRAMS[name].replace("VALUE", "Acme.Password2024!"))
    found = secrets_of_key_file(tmp_path / name, {}, variable="APP_SECRETS_FILE")
    assert [*found] == ["Acme.Password2024!"]


@pytest.mark.parametrize("text", [f"TLS_KEY = <<END\n{PEM}\nEND\nx\n", "SMTP_TOKEN = 1234567890\nx\n"])
def test_a_private_key_and_a_number_need_no_quotes_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.rb").write_text(text)
    assert [*secrets_of_key_file(tmp_path / "keys.rb", {}, variable="APP_SECRETS_FILE")] in (
        [PEM],
        ["1234567890"],
    )


def test_a_file_of_one_line_is_a_secret_whatever_its_ending(tmp_path: Path) -> None:
    (tmp_path / "password.go").write_text("Acme.Password2024!\n")
    assert "Acme.Password2024!" in secrets_of_key_file(
        tmp_path / "password.go", {}, variable="DB_PASSWORD_FILE"
    )


@pytest.mark.parametrize(
    "text",
    [
        "machine x login ann password WORDS\nmachine y\n",
        "[db]\nuser: ann\npassword: WORDS\n",
        "login --user ann --password WORDS\n",
    ],
)
@pytest.mark.parametrize("words", ["Acme.Password2024", "shop.secret", "Acme_Password2024"])
def test_words_of_which_the_last_says_secret_are_a_value(tmp_path: Path, text: str, words: str) -> None:
    assert words in of_keys(tmp_path, text.replace("WORDS", words))[0]


def test_a_variable_with_bytes_that_are_not_utf8_is_read() -> None:
    """Python has half of a surrogate pair for such a byte."""
    value = f"a: b\nc\udc80 d\npassword: {VALUE}\nlogin: 'otter\udc80-42'\n"
    assert {VALUE, value.strip()} <= {*secrets_in("SHOP_SECRET", value)}


ORDINARY: Final = {
    ".envrc": """# shellcheck shell=bash
# Your token is in the vault of production-eu; see https://wiki.example.org/x
# DB_PASSWORD=change-me-soon
if ! has nix_direnv_version || ! nix_direnv_version 2.3.0; then
  source_url "https://raw.example.com/nix-direnv/2.3.0/direnvrc" "sha256-Dmd+j63L84wuzgyjITIfSxSD57Tx7v51DMxVZOsiUD8="
fi
use flake
layout python python3.11
PATH_add ./node_modules/.bin
watch_file secrets.yaml flake.nix nix/shell-env.nix
source_env_if_exists .envrc.private
export AWS_PROFILE=shop-production AWS_REGION=us-east-1
export AWS_REGION="us-east-1"; export STAGE='production-eu';
export GITHUB_TOKEN="$(pass show github/token-of-ann | head -n1)"
export DB_PASSWORD="${DB_PASSWORD:-$(vault kv get -field=password secret/shop-db)}"
export OP_SECRET=`op read op://vault/shop-db/password`
export KUBECONFIG="$PWD/.kube/config-eu"
load_secrets production-eu
check $API_KEY us-east-1
eval "$(aws secretsmanager get-secret-value --secret-id shop-db-password --output text-eu1)"
[ -z "$API_KEY" ] && echo "API_KEY is missing: ask ops-team-2 in #shop-help1"
if [ "$STAGE" = "production-eu" ]; then log_error "set DB_PASSWORD first-of-all2"; fi
: "${LOG_LEVEL:=debug-all1}"
: "${API_KEY:?is missing, run make-secrets1}"
export TOKEN_TTL=3600 TOKEN_URL=https://login.example.org/oauth2/token
export SSH_KEY_PATH="$HOME/.ssh/id_ed25519-shop1"
require_secrets DB_PASSWORD API_KEY_SHOP
""",
    ".env.docker": """COMPOSE_PROJECT_NAME=shop
COMPOSE_FILE=docker-compose.yml:docker-compose.dev1.yml
POSTGRES_USER=shop_app1
POSTGRES_DB=shop_dev1
DATABASE_URL=postgresql://shop_app1@postgres-1:5432/shop_dev1
JAVA_OPTS=-Xmx512m -Dspring.profiles.active=dev-eu1
HOME
GREETING="Enter password: now-or-never1"
API_KEY=
SMTP_PASSWORD=""
TOKEN_AUDIENCE=shop-api2
NEXT_PUBLIC_SITE=https://shop.example.org?x=1&region=us-east-1
""",
    ".env.yaml": """APP_ENV: production-eu1
REGION: us-east-1
DATABASE_HOST: db.shop-prod1.internal
PORT: "8080"
TOKEN_TTL: 3600
SECRET_NAME: shop-db-v2
""",
    ".env.local.php": "<?php\nreturn array (\n  'APP_ENV' => 'production-eu1',\n  'DSN' => 'smtp://mail-1.example:25',\n);\n",
    ".env.js": """const path = require('path-1x');
module.exports = { region: 'us-east-1', token: process.env.API_TOKEN, key: 'customer_id' };
function passwordRules1() { return checkPassword('weak-rule-1x'); }
""",
    ".env.py": 'form["client_secret"] = ""\n"password": getenv("DB_PASSWORD"),\nnames = ["API_KEY", "DB_PASSWORD"]\n',
    ".env.json": '{"development": {"APP_ENV": "dev-eu1", "REGION": "us-east-1", "PORT": 8080}}',
    ".envrc.local": "node start.js --key env.API_KEY --token process.env.API_TOKEN\n",
    ".env.fish": "set -gx AWS_REGION us-east-1\nset -x PATH $HOME/bin-1x $PATH\n",
    ".env.toml": '[app]\nregion = "us-east-1"\nname = "shop-app-1"\n',
}


@pytest.mark.parametrize("name", ORDINARY)
def test_no_ordinary_value_of_a_file_of_variables_is_a_secret(tmp_path: Path, name: str) -> None:
    assert of_env(tmp_path, ORDINARY[name], name) == ({}, [])


@pytest.mark.parametrize(
    "text",
    [
        "server: {host: db.shop-1.internal, region: us-east-1}\nsecret: {name: shop-db1}\npassword: VALUE\n"
        "tokens: {issuer: https://x.example, audience: shop-api2}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: shop-db-1, labels: {app.example/name: shop-app1}}\n"
        "stringData:\n  host: db.shop-1\n  password: VALUE\n",
        "containers:\n- env:\n  - name: DB_PASSWORD\n    value: VALUE\n  - {name: REGION, value: us-east-1}\n",
        "db.user=shop-app1\ndb.password=VALUE\nspring.region us-east-1\nserver.port 8080\n",
        "machine api-1.example.org login shop-app1 password VALUE account acc-1x\n# x\n",
        "[pypi-1x]\nrepository: https://pypi-1x.example\nusername: ann-of-shop1\npassword: VALUE\n",
        "password: {{ .Values.db-pw }}\ndb:\n  password: VALUE\n  region: us-east-1\n",
    ],
)
def test_beside_a_secret_no_ordinary_value_of_a_file_is_one(tmp_path: Path, text: str) -> None:
    assert set(of_keys(tmp_path, text.replace("VALUE", VALUE))[0]) == {VALUE}


@pytest.mark.parametrize(
    "word", ["a_key ", "a_key: ", 'a_key="', "a_key:\n  ", "key<<A\n", "a_key=x y;z\n", "A=b;"]
)
def test_a_long_text_of_names_takes_linear_time(tmp_path: Path, word: str) -> None:
    """Each name in a line is before all that follows."""
    times = []
    for length in (2_000, 8_000):
        start = perf_counter()
        of_env(tmp_path, word * (length // len(word)))
        times.append(perf_counter() - start)
    assert times[1] < max(12 * times[0], 0.5)
