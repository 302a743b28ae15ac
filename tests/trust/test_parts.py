"""The law of trust: a part's digest changes if and only if something that is executed changes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import make_url

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.trust.masking import PartMask
from zeus_runtime.trust.parts import (
    READS_ON,
    Command,
    Part,
    Project,
    Remote,
    command_part,
    destination_part,
    is_here,
    one_line,
    option_part,
    part_digest,
    plugin_part,
    remote_part,
)

WORDS = st.lists(st.text(max_size=8), min_size=1, max_size=4).map(tuple)
ENV = st.dictionaries(st.sampled_from(["A", "B", "TOKEN"]), st.text(max_size=5), max_size=3)
COMMANDS = st.tuples(WORDS, ENV, st.sampled_from([".", "sub", "/elsewhere"]))


def digest(words: tuple[str, ...], env: Mapping[str, str], cwd: str, name: str = "server") -> str:
    folder = Path("/nowhere")
    return command_part(Command(name, words, env, cwd), Project(folder, (folder,))).digest


@given(COMMANDS, COMMANDS)
def test_two_commands_have_one_digest_if_and_only_if_they_are_one_command(
    one: tuple[tuple[str, ...], dict[str, str], str], other: tuple[tuple[str, ...], dict[str, str], str]
) -> None:
    assert (digest(*one) == digest(*other)) is (one == other)


@given(COMMANDS, COMMANDS)
@example((("x",), {"TOKEN": "one"}, "."), (("x",), {"TOKEN": "other"}, "."))
@example((("x", "--api-key=one"), {}, "."), (("x", "--api-key=other"), {}, "."))
@settings(max_examples=50)
def test_lines_and_seals_tell_two_commands_apart(
    one: tuple[tuple[str, ...], dict[str, str], str], other: tuple[tuple[str, ...], dict[str, str], str]
) -> None:
    def told(words: tuple[str, ...], env: Mapping[str, str], cwd: str) -> object:
        folder = Path("/nowhere")
        part = command_part(Command("server", words, env, cwd), Project(folder, (folder,)))
        return part.lines, part.seals

    assert (told(*one) == told(*other)) is (one == other)


@given(COMMANDS, st.text(max_size=5))
def test_what_a_server_is_called_is_not_executed(
    command: tuple[tuple[str, ...], dict[str, str], str], name: str
) -> None:
    assert digest(*command) == digest(*command, name=name)


@given(COMMANDS, st.text(max_size=5))
def test_a_hook_is_its_place_too(command: tuple[tuple[str, ...], dict[str, str], str], name: str) -> None:
    words, env, cwd = command
    folder = Path("/nowhere")
    one, other = (
        command_part(Command(each, words, env, cwd, kind="command"), Project(folder, (folder,)))
        for each in ("hook", name)
    )
    assert (one.digest == other.digest) is (one.name == other.name)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_plugin_file_is_its_content(one: bytes, other: bytes) -> None:
    here, there = Path("/a/x.py"), Path("/b/y.py")
    assert (plugin_part(here, one).digest == plugin_part(there, other).digest) is (one == other)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_the_program_that_an_argument_names_is_part_of_the_command(one: bytes, other: bytes) -> None:
    digests = []
    for content in (one, other):
        with TemporaryDirectory() as made:
            folder = Path(made)
            (folder / "server.py").write_bytes(content)
            command = Command("s", ("python", "server.py"))
            digests.append(command_part(command, Project(folder, (folder,))).digest)
    assert (digests[0] == digests[1]) is (one == other)


NAMING: list[tuple[str, ...]] = [
    ("./run.sh",),
    ("sh", "run.sh"),
    ("sh", "./sub/../run.sh"),
    ("node", "--require=./run.sh", "x"),
    ("node", "-r./run.sh"),
    ("gcc", "@run.sh"),
    ("bash", "-c", "cd . && ./run.sh --fast"),
    ("bash", "-c", "true;./run.sh"),
    ("bash", "-c", "X=1 sh 'run.sh'"),
    ("python", "-m", "package.module"),
    ("python", "-m", "package"),
    ("tool",),
]


@pytest.mark.parametrize("words", NAMING, ids=" ".join)
def test_a_program_of_the_project_is_found_however_a_command_names_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    files = ["run.sh", "package/module.py", "package/__main__.py", "bin/tool"]
    (tmp_path / "sub").mkdir()
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    project = Project(tmp_path, (tmp_path,), path=f"/usr/bin:{tmp_path}/bin")
    before = command_part(Command("s", words), project)
    for name in files:
        (tmp_path / name).write_text("two")
    assert command_part(Command("s", words), project).digest != before.digest
    assert before.files


def test_a_program_is_looked_for_where_the_server_would_look(tmp_path: Path) -> None:
    tool = tmp_path / "bin/tool"
    tool.parent.mkdir()
    digests = set()
    for content in ("one", "two"):
        tool.write_text(content)
        command = Command("s", ("tool",), {"PATH": "bin"})
        digests.add(command_part(command, Project(tmp_path, (tmp_path,), "/usr/bin")).digest)
    assert len(digests) == 2


def test_a_file_outside_the_project_is_named_and_not_read(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.py"
    project.mkdir()
    outside.write_text("one")
    command = Command("s", ("python", str(outside)))
    before = command_part(command, Project(project, (project,)))
    outside.write_text("two")
    assert command_part(command, Project(project, (project,))) == before


def test_a_link_that_leads_out_of_the_project_is_bound_to_where_it_leads(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    link = project / "server.py"
    digests = set()
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("same")
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        command = Command("s", ("python", "server.py"))
        digests.add(command_part(command, Project(project, (project,))).digest)
    assert len(digests) == 2


def test_a_file_that_appears_later_changes_the_digest(tmp_path: Path) -> None:
    command, project = Command("s", ("node", "dist/server.js")), Project(tmp_path, (tmp_path,))
    before = command_part(command, project)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/server.js").write_text("later")
    assert command_part(command, project).digest != before.digest


def test_a_digest_holds_wherever_the_project_lies(tmp_path: Path) -> None:
    digests = set()
    for name in ("home", "container"):
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        (folder / "sub/server.py").write_text("same")
        command = Command("s", ("python", "server.py"), {"A": "1"}, "sub")
        digests.add(command_part(command, Project(folder, (folder,))).digest)
    assert len(digests) == 1


@given(st.text(max_size=6), st.text(max_size=6))
def test_an_option_is_its_value(one: str, other: str) -> None:
    project = Project(Path("/nowhere"), ())
    digests = [option_part("docker.command", each, project).digest for each in (one, other)]
    assert (digests[0] == digests[1]) is (one == other)
    assert option_part("docker.runtime", one, project).digest != digests[0]


@pytest.mark.parametrize(
    ("name", "value", "file"),
    [
        ("env.BASH_ENV", "env.sh", "env.sh"),
        ("env.BASH_ENV", "./env.sh", "env.sh"),
        ("env.NODE_OPTIONS", "--require=./hook", "hook.js"),
    ],
)
def test_the_digest_of_an_option_holds_the_files_that_its_value_names(
    name: str, value: str, file: str, tmp_path: Path
) -> None:
    def part() -> Part:
        return option_part(name, value, Project(tmp_path, (tmp_path,)))

    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    digests = {part().digest}
    for text in ("one", "two"):
        (tmp_path / file).write_text(text)
        digests.add(part().digest)
        assert [label for label, _ in part().lines] == ["value", "file"]
    assert len(digests) == 3
    assert option_part(name, value, None).files == ()


def test_the_lines_of_an_option_say_which_files_are_not_covered(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    project = Project(tmp_path, (tmp_path,))
    notes = [dict(option_part("env.X", each, project).lines)["note"] for each in ("$D/a", "tools/b")]
    assert notes[0].startswith("the value has $")
    assert notes[1].startswith("the value has tools/b: this names no file")


def test_secrets_are_in_the_digest_and_not_in_the_lines() -> None:
    project = Project(Path("/nowhere"), ())

    def part(secret: str) -> tuple[str, str]:
        mask = PartMask.of({}, Redactor().adding({secret: "NAME"}))
        command = Command("s", ("run", f"--api-key={secret}", f"https://{secret}@host"), {"TOKEN": secret})
        made = command_part(command, project, mask=mask)
        return made.digest, str(made.lines)

    assert part("first-secret")[0] != part("other-secret")[0]
    assert "first-secret" not in part("first-secret")[1]


@given(st.text())
def test_a_line_shows_every_character(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert len(shown) >= len(text)
    if (
        text.isprintable()
        and text.isascii()
        and "\\" not in text
        and text.strip() == text
        and text[:1] not in ("", '"')
    ):
        assert shown == text


def test_control_and_direction_characters_are_escapes() -> None:
    assert one_line("a\x1b]0;\u202eb\nc\ud800") == "a\\x1b]0;\\u202eb\\nc\\ud800"


@given(st.lists(st.text(" \t\"a'\\n", max_size=4), min_size=2, max_size=2, unique=True))
def test_two_texts_with_blanks_at_their_ends_are_two_lines(texts: list[str]) -> None:
    first, second = map(one_line, texts)
    assert first != second
    assert first.rstrip() == first != ""


def test_a_server_name_shows_look_alike_letters_and_ends_where_it_ends() -> None:
    assert str(Part("server", "s\u0430\u3164", "")) == "MCP server 's\\u0430\\u3164'"
    assert str(Part("server", "x', changed", "")) == "MCP server 'x\\', changed'"


@pytest.mark.parametrize("hidden", ["\u3164", "\ufe0f", "\u0338", "\u2800", "\x1b"])
def test_two_commands_that_differ_are_two_lines(hidden: str) -> None:
    assert one_line(f"run{hidden}") not in ("run", f"run{hidden}", one_line("run " + hidden))
    assert one_line(f"run{hidden}") != one_line(one_line(f"run{hidden}"))


@pytest.mark.parametrize("value", ["--require ./hook.js", "-r./hook.js", "lib.jar:hook.js", "hook.js"])
def test_a_file_that_a_variable_names_is_in_the_digest(tmp_path: Path, value: str) -> None:
    hook = tmp_path / "hook.js"
    hook.write_text("1")
    command = Command("x", ("node", "a.js"), {"NODE_OPTIONS": value})
    project = Project(tmp_path, (tmp_path,))
    before = command_part(command, project)
    assert hook in before.files
    hook.write_text("2")
    assert command_part(command, project).digest != before.digest


def test_of_a_header_only_the_name_is_shown_and_the_digest_covers_the_value() -> None:
    part, other = (
        remote_part(Remote("far", "https://example.com", {"X-Pin": pin}))
        for pin in ("4711 0815", "4711 0816")
    )
    assert ("header", "X-Pin: **********") in part.lines
    assert part.lines == other.lines
    assert part.digest != other.digest


def test_a_server_that_gets_nothing_more_keeps_its_digest() -> None:
    """Each user would be asked again about each server."""
    remote = remote_part(Remote("far", "https://example.com"))
    assert remote.digest == part_digest("remote", address="https://example.com", headers={})
    sent = [
        remote_part(Remote("far", "https://example.com", {}, {"prompts": {"a": {"to": x}}})) for x in "xy"
    ]
    assert len({remote.digest, *(each.digest for each in sent)}) == 3


PROMPTS: tuple[dict[str, Any], ...] = (
    {"review": {"mode": "safe", "path": "/a"}},
    {"review": {"mode": "safe path=/a"}},
    {"review": {"mode": 'safe path="/a"'}},
    {"review": {"mode=safe path": "/a"}},
    {"review mode=safe path=/a": {}},
    {"review mode=safe": {"path": "/a"}},
    {"review": {"mode": "safe", "path": "/a\n"}},
    {"review": {"mode": "safe", "path": "/a\\n"}},
    {"review": {"mode": "safe", "path": "/a\u202e"}},
    {"review": {"mode": "safe", "path": "/a "}},
)


def test_two_different_prompts_of_a_server_never_look_the_same(tmp_path: Path) -> None:
    project = Project(tmp_path, (tmp_path,))
    for parts in (
        [remote_part(Remote("far", "https://example.com", {}, {"prompts": each})) for each in PROMPTS],
        [command_part(Command("s", ("run",), sent={"prompts": each}), project) for each in PROMPTS],
    ):
        assert len({each.lines for each in parts}) == len(PROMPTS)
        assert all(text.isprintable() for each in parts for _, text in each.lines)
        assert ("prompt", 'review mode=safe path="/a"') in parts[0].lines


PIECES = st.sampled_from(
    ["localhost", "127.0.0.1", "evil.example", "host=evil.example", "%2F", *"5x:@/?#,.=& \\"]
)
ADDRESSES = st.builds(
    lambda scheme, host, pieces: f"{scheme}://{host}{''.join(pieces)}",
    st.sampled_from(["postgresql", "postgresql+psycopg", "postgres", "http", "https"]),
    st.sampled_from(
        [
            *("", "localhost", "localhost.", "localho\u017ft", "[::1]", "[0::1]", "ann:pw@localhost"),
            *(
                "127.0.0.1",
                "127.0.0.1.",
                "127.1",
                "127.1.2.300",
                "127.08.0.1",
                "127.0.0.0010",
                "127.\u0660.0.1",
            ),
        ]
    ),
    st.lists(PIECES, max_size=6),
)


@given(ADDRESSES)
@example("postgresql://localhost:5432/x@evil.example:1/db")
@example("postgresql+psycopg://127.0.0.1:1/@evil.example/db")
@example("postgresql:///x@evil.example/db")
@example("postgresql:///db")
@example("postgres://")
@example("postgresql://127.08.0.1/app")
@example("po\u017ftgre\u017fql://localhost/app")
@example("http://localho\u017ft/")
@example("http://localhost:80@evil.example/")
@settings(max_examples=300)
def test_an_address_that_needs_no_permission_is_on_this_machine_for_all_who_open_it(address: str) -> None:
    here = {"localhost", "::1"}
    for host in hosts_of(address) if is_here(address) else ():
        assert host in here or ip_address(host).is_loopback


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:11434/v1",
        "HTTP://LocalHost/",
        "http://127.255.0.254",
        "https://127.0.0.1",
        "http://[::1]:8000/",
        "postgresql://ann:pw@localhost/db",
    ],
)
def test_this_machine_needs_no_permission(address: str) -> None:
    assert is_here(address)


def hosts_of(address: str) -> Iterator[str | None]:
    """The hosts that SQLAlchemy, PostgreSQL's library or an HTTP library would connect to."""
    if address.startswith("http"):
        yield urlsplit(address).hostname
        yield httpx.URL(address).host
        return
    url = make_url(address)
    yield url.host
    assert not url.query
    plain = address.replace("postgresql+psycopg:", "postgresql:")
    read = conninfo_to_dict(plain)
    # Without a host, the library takes that of a variable.
    yield from str(read.get("host", "")).split(",")
    assert "hostaddr" not in read


@pytest.mark.parametrize("kind", ["pipe", "proc"])
def test_a_destination_in_a_file_without_an_end_is_not_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "ca.pem"
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/proc/version")
    part = destination_part("model.litellm.extra.ssl_verify", "ca.pem", file=file)
    assert dict(part.lines)["content"] == "cannot be read: it is no file of a disk"
    assert part.held == ()


@pytest.mark.parametrize(
    ("words", "cwd", "is_said"),
    [
        (("tools/server",), ".", True),
        (("python3", "-I", "tools/server.py"), ".", True),
        (("python3", "-m", "tools.server"), "/", True),
        (("python3", "tools"), ".", True),
        (("node", "."), "tools", True),
        (("bash", "-c", "source venv/bin/activate && exec python3 -I /opt/x.py"), ".", True),
        (("npx", "-y", "notes@1"), ".", True),
        (("sh", "-c", "exec uv run notes"), "tools", True),
        (("npx", "-y", "notes@1"), "/", False),
        (("uvx", "notes==1"), ".", False),
        (("python3", "-I", "/opt/server.py", "--root=tools/server.py"), ".", False),
        (("mcp-server-git", "--repository", "."), ".", False),
        # `uvx` takes its Python from there.
        (("uvx", "--python", "venv", "notes==1"), ".", True),
        (("env", "UV_PYTHON=venv", "uvx", "notes==1"), ".", True),
    ],
)
def test_a_program_that_may_read_more_of_the_project_is_said_in_one_line(
    tmp_path: Path, words: tuple[str, ...], cwd: str, *, is_said: bool
) -> None:
    """Nobody can list what a program reads by itself, so the user is told."""
    for file in (
        "tools/server",
        "tools/server.py",
        "tools/__main__.py",
        "tools/index.js",
        "venv/bin/activate",
        "venv/pyvenv.cfg",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    (tmp_path / "package.json").write_text("{}")
    for kind in ("server", "command"):
        part = command_part(
            Command("s", words, cwd=cwd, kind=kind), Project(tmp_path, (tmp_path,), "/usr/bin")
        )
        assert [value for _, value in part.lines].count(READS_ON) == int(is_said)
        assert part.reads_on is is_said
