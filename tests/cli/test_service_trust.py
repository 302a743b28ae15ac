"""The settings and the database of a service decide who may use the agents: those of a stranger need permission."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal

AWAY = "db.example.org"
VERBS = [("keys", "list"), ("keys", "create", "eve"), ("audit",), ("serve", "quickstart")]


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def port() -> Iterator[int]:
    """A port in use: a service that would start ends there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def words_of(verb: tuple[str, ...], port: int) -> tuple[str, ...]:
    return (*verb, "--port", str(port)) if verb[0] == "serve" else verb


def with_settings(project: Project, text: str) -> None:
    (project.folder / "zeus-serve.yaml").write_text(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"storage: {{url: 'postgresql://ann@{AWAY}/db'}}", "destination 'storage.url'"),
        ("storage: {url: 'sqlite:////elsewhere/serve.db'}", "file 'storage.url'"),
        (f"oidc: [{{issuer: 'https://{AWAY}', audience: zeus}}]", f"issuer 'https://{AWAY}'"),
        ("oidc: [{issuer: 'http://127.0.0.1:9', audience: zeus}]", "issuer 'http://127.0.0.1:9'"),
        ("proxies: ['*']", "option 'proxies'"),
        ("storage: {url: 'postgresql://ann@127.0.0.1/db'}", "option 'storage.url'"),
        ("extends: ../base.yaml", "file '../base.yaml'"),
    ],
    ids=[
        *("another machine", "a file elsewhere", "an issuer", "an issuer on loopback", "proxies"),
        *("a database of this machine", "settings elsewhere"),
    ],
)
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_settings_that_lead_elsewhere_ask(
    project: Project, zeus: Zeus, text: str, named: str, verb: tuple[str, ...], port: int
) -> None:
    (project.folder.parent / "base.yaml").write_text("access_log: json\n")
    with_settings(project, text)
    result = zeus(*words_of(verb, port))
    assert result.exit_code == 4, result.err
    assert named in result.err
    assert not (project.folder / ".zeus" / "serve.db").exists()


def test_an_issuer_is_allowed_once_and_another_one_asks_again(project: Project, zeus: Zeus) -> None:
    with_settings(project, f"oidc: [{{issuer: 'https://{AWAY}', audience: zeus}}]")
    assert AWAY in zeus("trust", "--serve").err
    assert zeus("keys", "list").exit_code == 0
    with_settings(project, f"oidc: [{{issuer: 'https://{AWAY}', audience: another-client}}]")
    asked = zeus("keys", "list")
    assert asked.exit_code == 4
    assert "issuer" in asked.err
    with_settings(project, "oidc: [{issuer: 'https://other.example.org', audience: zeus}]")
    assert zeus("keys", "list").exit_code == 4
    assert zeus("trust", "--serve", "zeus-serve.yaml").exit_code == 0
    assert zeus("keys", "list").exit_code == 0
    assert zeus("trust", "--serve", "--revoke").exit_code == 0
    assert zeus("keys", "list").exit_code == 4


def issuer(roles: Mapping[str, str]) -> str:
    entry = {"issuer": f"https://{AWAY}", "audience": "zeus", "roles": roles}
    return json.dumps({"oidc": [entry]})


def test_what_an_issuer_lists_is_readable_and_escaped_once(project: Project, zeus: Zeus) -> None:
    names = ("Geschäftsführung", "a\u202eb", "\\u202e", "x\ny", 'q"q')
    with_settings(project, issuer(dict.fromkeys(names, "viewer")))
    shown = zeus("trust", "--serve", "--print").err.split("\n")
    (line,) = (each for each in shown if each.startswith("    roles "))
    names = (r"Geschäftsführung", r"a\u202eb", r"\\u202e", r"x\ny", r"q\"q")
    assert line.split(maxsplit=1)[1] == "{" + ", ".join(f'"{each}": "viewer"' for each in names) + "}"
    starts = {len(each) - len(each.split(maxsplit=1)[1]) for each in shown if each.startswith("    ")}
    assert len(starts) == 1, "all values begin in one column, however long a label is"


def test_the_question_shows_which_of_many_roles_changed(project: Project, zeus: Zeus) -> None:
    roles = {f"group-{each}": "viewer" for each in range(700)}
    with_settings(project, issuer(roles))
    assert zeus("trust", "--serve").exit_code == 0
    with_settings(project, issuer(roles | {"group-350": "admin"}))
    with PseudoTerminal(["keys", "list"], project.folder, {"HOME": os.environ["HOME"]}) as terminal:
        asked = terminal.until("[v]iew whole: ").replace("\r\n", "\n").replace("\n    ┊ ", "")
        terminal.press("n\n")
        terminal.end()
    gone, new = (next(each for each in asked.split("\n") if each.startswith(f"  {mark} ")) for mark in "-+")
    around = '"group-349": "viewer", "group-350": "{}", "group-351": "viewer", "group-352":'
    assert around.format("viewer") in gone
    assert around.format("admin") in new
    for each in (gone, new):
        assert each.endswith(" more characters)")


def test_settings_are_allowed_by_the_environment(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_settings(project, f"oidc: [{{issuer: 'https://{AWAY}', audience: zeus}}]")
    digests = zeus("trust", "--serve", "--print").out.strip()
    for given in (digests, str(project.folder / "zeus-serve.yaml")):
        monkeypatch.setenv("ZEUS_TRUST", given)
        assert zeus("keys", "list").exit_code == 0
    monkeypatch.setenv("ZEUS_TRUST", str(project.folder / "zeus.yaml"))
    assert zeus("keys", "list").exit_code == 4


def test_a_database_that_the_process_was_given_needs_no_permission(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_settings(project, "storage: {url: '${SERVICE_DATABASE}'}")
    monkeypatch.setenv("SERVICE_DATABASE", "postgresql://ann@127.0.0.9:9/db?host=127.0.0.9")
    assert zeus("trust", "--serve", "--print").out.strip() == ""
    monkeypatch.delenv("SERVICE_DATABASE")
    (project.folder / ".env").write_text(f"SERVICE_DATABASE=postgresql://ann@{AWAY}/db\n")
    assert zeus("keys", "list").exit_code == 4


def test_settings_are_shown_before_they_are_allowed(project: Project, zeus: Zeus) -> None:
    with_settings(project, f"oidc: [{{issuer: 'https://{AWAY}', audience: zeus}}]")
    result = zeus("serve", "--show-settings")
    assert result.exit_code == 0
    assert AWAY in result.out


def test_settings_are_not_an_evaluation(project: Project, zeus: Zeus) -> None:
    assert zeus("trust", "--serve", "--eval", "x.yaml").exit_code == 2


def test_a_terminal_asks_about_the_settings_of_a_service(project: Project) -> None:
    with_settings(project, f"oidc: [{{issuer: 'https://{AWAY}', audience: zeus}}]")
    environ = {"HOME": os.environ["HOME"], "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    for said, code in (("n", 4), ("y", 0)):
        with PseudoTerminal(["keys", "list"], project.folder, environ) as terminal:
            assert AWAY in terminal.until("[v]iew whole: ")
            terminal.press(f"{said}\n")
            assert terminal.end() == code
    with PseudoTerminal(["keys", "list"], project.folder, environ) as terminal:
        assert terminal.end() == 0
