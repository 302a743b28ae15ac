"""The files that settings of Git name are known as Git reads them: their secrets, and their places."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.agents import write_agent
from zeus_runtime.config.secrets.git_settings import _settings, git_files
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.tools.access import Deciding
from zeus_runtime.trust.decision import recorded_trust

TOKEN = "ghpQ7x9Zk2mB4vN8sL1t"
HEADER = f'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: bearer {TOKEN}\n'
LOGIN = f"https://x-access-token:{TOKEN}@github.com\n"
COOKIES = f"# Netscape\ngithub.com\tTRUE\t/\tTRUE\t0\tsession\t{TOKEN}\n"
INCLUDE = "[include]\n\tpath = "
STORE = "[credential]\n\thelper = "

NAMED = {
    "a file beside": (INCLUDE + "../team.inc\n", "team.inc", HEADER),
    "a file in .git": (INCLUDE + "creds.inc\n", ".git/creds.inc", HEADER),
    "a condition": (
        '[includeIf "gitdir:/x/.git"]\n\tpath = "{above}/a b.config" # of CI\n',
        "../a b.config",
        HEADER,
    ),
    "another spelling": ("[Include] Path=../te\\\r\nam.inc;x\n", "team.inc", HEADER),
    "a file in the home folder": (INCLUDE + "~/team.inc\n", "../home/team.inc", HEADER),
    "logins": (STORE + "store --file=logins\n", "logins", LOGIN),
    "logins of one host": (
        '[credential "https://github.com"]\n\thelper = "!git credential-store --file \'../a b\'"\n',
        "../a b",
        LOGIN,
    ),
    "logins at their usual place": (STORE + "\n\thelper = store\n", "../home/.git-credentials", LOGIN),
    "logins of XDG": (STORE + "store\n", "../home/.config/git/credentials", LOGIN),
    "cookies": ("[http]\n\tcookieFile = cookies.txt\n", "cookies.txt", COOKIES),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    put(tmp_path / "project/.git/config", "[core]\n")
    return tmp_path / "project"


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def checked(folder: Path, **variables: str) -> Checked:
    config = write_agent(folder, "workspace: {root: work}\n")
    environ = {"HOME": str(folder.parent / "home"), **variables}
    return check(config, directory=folder, environ=environ, trust=recorded_trust({}, "all"))


@pytest.mark.parametrize("kind", NAMED)
def test_a_secret_in_a_file_that_git_s_settings_name_is_known(kind: str, folder: Path) -> None:
    settings, name, text = NAMED[kind]
    put(folder / ".git/config", settings.format(above=folder.parent))
    put(folder / name, text)
    shown = checked(folder).document.redactor.text(f"{TOKEN} was refused")
    assert TOKEN not in shown
    assert "was refused" in shown


@pytest.mark.parametrize("has_repository", [True, False])
@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_settings_that_a_variable_names_count_as_included_ones(
    variable: str, has_repository: bool, folder: Path
) -> None:
    if not has_repository:
        (folder / ".git/config").unlink()
        (folder / ".git").rmdir()
    put(folder / "ci.conf", f"{INCLUDE}team\n")
    put(folder / "team", HEADER)
    found = checked(folder, **{variable: str(folder / "ci.conf")})
    assert TOKEN not in found.document.redactor.text(TOKEN)
    for token in (TOKEN[::-1], TOKEN[5:] + TOKEN[:5]):
        put(folder / "ci.conf", HEADER.replace(TOKEN, token))
        assert found.secret_files.changed()[token] == variable
    deciding = Deciding()
    add_deciding(deciding, found)
    at = deciding.find(str(folder / "ci.conf"))
    assert at is not None
    assert not at[0].holds_keys
    assert [*deciding.unasked_files] == [str(folder / "ci.conf")]
    assert [*git_files([folder / ".git/config"], folder, {variable: "/dev/null"})]
    assert not [*git_files([folder / ".git/config"], folder, {variable: ""})]


def test_settings_may_be_included_through_each_other_and_need_not_be_there(folder: Path) -> None:
    put(folder / ".git/config", f"{INCLUDE}../missing\n{INCLUDE}../a/b\n{INCLUDE}.\n{INCLUDE}a\0b\n")
    put(folder / "a/b", f"{INCLUDE}c\n{INCLUDE}../.git/config\n[http]\n\tcookieFile = d\n\tcookieFile =\n")
    put(folder / "a/c", f"{HEADER}{INCLUDE}b\n")
    found = [*git_files([folder / ".git/config"], folder, {})]
    names = ["missing", "a/b", ".git", "a/c", "d"]
    assert [str(each.path.relative_to(folder)) for each in found] == names
    assert TOKEN not in checked(folder).document.redactor.text(TOKEN)


def test_a_file_that_appears_or_changes_later_is_read_though_the_settings_stay(folder: Path) -> None:
    put(folder / ".git/config", f"{INCLUDE}../team\n")
    files = checked(folder).secret_files
    for token in (TOKEN, TOKEN[::-1]):
        put(folder / "team", HEADER.replace(TOKEN, token))
        assert files.changed()[token] == "include.path"


def test_many_submodules_do_not_use_up_the_files_that_are_followed(folder: Path) -> None:
    configs = [folder / f"modules/{number}/config" for number in range(150)]
    for each in configs:
        put(each, f"{INCLUDE}shared\n")
    assert len([*git_files(configs, folder, {})]) == 100


def test_no_tool_changes_a_file_that_git_s_settings_name_nor_reads_logins(folder: Path) -> None:
    put(folder / ".git/config", f"{INCLUDE}../team\n{INCLUDE}..\n{STORE}store --file=logins\n")
    put(folder / "team", "[http]\n\tcookieFile = new/cookies\n")
    deciding = Deciding()
    add_deciding(deciding, checked(folder))
    found = {
        name: None if (at := deciding.find(str(folder / name))) is None else at[0].holds_keys
        for name in ("team", "logins", "new/cookies", "new/other", "src")
    }
    assert found == {"team": False, "logins": True, "new/cookies": True, "new/other": None, "src": None}
    assert [*deciding.unasked_files] == [str(folder / "team")], "git would execute what a command put there"


def test_settings_are_read_as_git_reads_them(tmp_path: Path) -> None:
    text = (
        '[core]\n\tbare = false ; [x] path = y\n[includeIf "gitdir:/a/\\"]b"] path = "a ;b\\\\c"\t# c\n'
        '# [comment] \\\n\t; path = no\n[Include]\r\n\tPATH=x\\\r\ny "  z"  \r\n[a-b "S"]\n\tk-1 = \\"q\\" r\n\tlone\n'
        "\tl = é=[f]\n"
    )
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    command = ["git", "config", "--file", str(file), "--list", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    pairs = [each.partition("\n") for each in listed if "\n" in each]
    expected = [(name.split(".")[0], name.rpartition(".")[2], value) for name, _, value in pairs]
    assert [*_settings(text.replace("\r\n", "\n"))] == expected


@pytest.mark.timeout(30)  # the square of the length would take minutes
@pytest.mark.parametrize("word", ["=", "a ", "a=", "[a", '[a "', '"', 'a="', "\\", "-", "#", "a"])
def test_long_settings_are_read_in_linear_time(word: str) -> None:
    assert len([*_settings(word * (300_000 // len(word)))]) <= 1
