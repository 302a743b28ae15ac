"""The law of a server's digest: it changes with every byte of the project that the words of a command start."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.trust import command_files, name_search
from zeus_runtime.trust.parts import Command, Part, Project, command_part, program_data


class Form(NamedTuple):
    """A way to start a file; ``F`` stands for a folder, ``N`` for a name.

    Args:
        words: of the command.
        file: that runs.
        env, cwd: of the command.
    """

    words: tuple[str, ...]
    file: str
    env: Mapping[str, str] = {}
    cwd: str = "."

    def filled(self, folder: str, name: str) -> Form:
        def fill(text: str) -> str:
            return text.replace("F", folder).replace("N", name)

        env = {key: fill(value) for key, value in self.env.items()}
        return Form(tuple(map(fill, self.words)), fill(self.file), env, fill(self.cwd))


FORMS = (
    Form(("x", "F/N.py"), "F/N.py"),
    Form(("x", "--load=F/N.py"), "F/N.py"),
    Form(("x", "-rF/N.py"), "F/N.py"),
    Form(("x", "F"), "F/__main__.py"),
    Form(("x", "./F/"), "F/__main__.py"),
    Form(("x", "-m", "F"), "F/__main__.py"),
    Form(("x", "-m", "F.N"), "F/N.py"),
    Form(("x", "-m", "F.N"), "F/N/__main__.py"),
    Form(("x", "-m", "F.N"), "F/__init__.py"),
    Form(("x", "-m", "F.N"), "F.py"),
    Form(("x", "-m", "F.N"), "F/__pycache__/N.cpython-311.pyc"),
    Form(("x", "-mF.N"), "F/N.py"),
    Form(("x", "-Im", "F.N"), "F/N.py"),
    Form(("x", "-uImF.N"), "F/N.py"),
    Form(("x", "F.N:app"), "F/N.py"),
    Form(("x", "-m", "N"), "N.py"),
    Form(("x", "-m", "N"), "F/N.py", {"PYTHONPATH": "lib:F"}),
    Form(("x", "F/N"), "F/N.js"),
    Form(("x", "F/N"), "F/N.min.js"),
    Form(("x", "F/N.min"), "F/N.min.js"),
    Form(("x", "--directory", "F", "run", "N.py"), "F/N.py"),
    Form(("x", "-C", "F", "serve"), "F/Makefile"),
    Form(("x", "-C", "F", "-C", "deep", "N.sh"), "F/deep/N.sh"),
    Form(("x", "-c", "cd F && ./N.sh --fast"), "F/N.sh"),
    Form(("x", "-c", "cd F; cd deep; . ./N.sh"), "F/deep/N.sh"),
    Form(("x", "-c", "cd 'F' && exec ./\"N.sh\""), "F/N.sh"),
    Form(("x", "-c", "cd 'F with space' && ./N.sh"), "F with space/N.sh"),
    Form(("x", "-c", '. "F with space/N.sh"'), "F with space/N.sh"),
    Form(("x", "-c", ". F/N\\.s'h'"), "F/N.sh"),
    Form(("x", "-c", ". $D/N.sh"), "F/N.sh", {"D": "F"}),
    Form(("x", "-c", "import runpy; runpy.run_path('F/N.py')"), "F/N.py"),
    Form(("x", "-c", "X=F/N.s'h' true"), "F/N.sh"),
    Form(("x", "run", "./F"), "F/deep/main.go"),
    Form(("x", "F/Upper"), "F/Upper.js"),
    Form(("x", "-IF", "-MN"), "F/N.pm"),
    Form(("x",), "F/N.js", {"NODE_OPTIONS": "--require ./F/N"}),
    Form(("x", "-m", "F-1.N-2"), "F-1/N-2.py"),
    Form(("x", "F.N-2:app"), "F/N-2.py"),
    Form(("x", "F.N+2:app.sub"), "F/N+2.py"),
    Form(("x", "F.N-2.run"), "F/N-2.py"),
    Form(("x", "src/F.N:app"), "src/F/N.py"),
    Form(("x", "-m", "F.N"), "F/N.py", {"PYTHONPATH": "lib+F"}, "."),
    Form(("x", "--import", "./F/N.mjs#v2"), "F/N.mjs"),
    Form(("x", "--import", "./F/N%20%23x.mjs?a=1#v2"), "F/N #x.mjs"),
    Form(("x", "run", "./F#server"), "F/flake.nix"),
    Form(("x", "run", "//F:server"), "F/BUILD"),
    Form(("x", "run", "@shop//F/deep:server"), "F/deep/BUILD"),
    Form(("x", "run", "./F/..."), "F/deep/main.go"),
    Form(("x", "--with", "./F[extra]"), "F/pyproject.toml"),
    Form(("x", "jar:file:F/N.jar!/x"), "F/N.jar"),
    Form(("x", "other.js+F/N.js"), "F/N.js"),
    Form(("x", "F\\N.js"), "F/N.js"),
    Form(("x", "--db=sqlite:///F/N.db"), "F/N.db"),
    Form(("x", "--load=F/[N] (1)/a+b.js#part"), "F/[N] (1)/a+b.js"),
    Form(("x", "--load=#F/N.js"), "#F/N.js"),
    Form(("x", "-rF/N+1.js"), "F/N+1.js"),
    Form(("x", "--load=./cafe\u0301/N.js#part"), "cafe\u0301/N.js"),
    Form(("F/N",), "F/N"),
    Form(("N",), "F/N", {"PATH": "/usr/bin:F"}),
    Form(("x", "N.py"), "F/N.py", cwd="F"),
    Form(("x", "."), "F/__main__.py", cwd="F"),
    Form(("x", "../lib/N.py"), "lib/N.py", cwd="F"),
)
IDENTIFIERS = st.from_regex(r"[a-z][a-z_]{1,6}", fullmatch=True)


def part(form: Form, folder: Path, *data: str) -> Part:
    command = Command("s", form.words, form.env, form.cwd, data)
    return command_part(command, Project(folder, (folder,), "/usr/bin"))


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=3)
@given(IDENTIFIERS, IDENTIFIERS, st.binary(min_size=9, max_size=60), st.data())
def test_every_byte_of_a_file_that_would_run_is_in_the_digest(
    form: Form, folder: str, name: str, content: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(content) - 1))
    if "__pycache__" in form.file and content[4:8] == bytes(4):
        content = content[:4] + b"\1" + content[5:]
        at = max(at, 8)
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    with TemporaryDirectory() as made:
        project = Path(made)
        form = form.filled(folder, name)
        (project / form.cwd).mkdir(exist_ok=True)
        file = project / form.file
        file.parent.mkdir(parents=True, exist_ok=True)
        absent = part(form, project)
        file.write_bytes(content)
        before = part(form, project)
        file.write_bytes(changed)
        after = part(form, project)
        assert len({absent.digest, before.digest, after.digest}) == 3
        assert any(file == each or each in file.parents for each in before.files)


SIGNS = st.characters(exclude_categories=("L", "N", "Cs"), exclude_characters="\0_-./")


@pytest.mark.parametrize("is_quoted", [False, True], ids=["as it is", "percent-encoded"])
@settings(max_examples=100)
@given(SIGNS, SIGNS, st.text(SIGNS, max_size=3), SIGNS)
def test_any_sign_may_end_a_name_or_be_in_it(
    is_quoted: bool, before: str, in_folder: str, in_name: str, after: str
) -> None:
    with TemporaryDirectory() as made:
        project = Path(made)
        file = project / f"to{in_folder}ols" / f"ser{in_name}ver.js"
        file.parent.mkdir()
        file.write_text("")
        name = str(file.relative_to(project))
        word = f"--load{before}{quote(name) if is_quoted else name}{after}part"
        assert any(each in (file, file.parent) for each in part(Form(("x", word), ""), project).files)


def test_a_file_url_is_read_as_the_path_that_it_encodes(tmp_path: Path) -> None:
    file = tmp_path / "tools/hook.mjs"
    file.parent.mkdir()
    file.write_text("")
    for url in (f"file://{tmp_path}/tools/%68ook.mjs", f"file://{file}?v=2#a", f"--import=file:{file}"):
        assert part(Form(("x", url), ""), tmp_path).files == (file,)


LETTERS = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/.")


@pytest.mark.parametrize("place", ["argument", "env"])
@settings(max_examples=60)
@given(st.text(LETTERS, min_size=1, max_size=4), st.integers(1, 3), st.booleans(), st.data())
def test_a_name_is_found_however_json_spells_it(
    place: str, name: str, depth: int, is_key: bool, data: st.DataObject
) -> None:
    spelled = ""
    for letter in f"tools/{name}.js":
        ways = ["".join(f"\\u{code.hex()}" for code in halves(letter)), json.dumps(letter)[1:-1]]
        ways += ["\\/"] if letter == "/" else []
        spelled += data.draw(st.sampled_from(ways))
    word = f'{{"{spelled}": [1]}}' if is_key else f'[{{"a": ["{spelled}"]}}]'
    for _ in range(depth - 1):
        word = json.dumps({"inner": word})
    with TemporaryDirectory() as made:
        file = Path(made, f"tools/{name}.js")
        file.parent.mkdir()
        file.write_text("")
        words = ("x", f"--config={word}") if place == "argument" else ("x",)
        found = part(Form(words, "", {"CONF": word} if place == "env" else {}), Path(made))
        assert file in found.files
        file.unlink()
        absent = part(Form(words, "", {"CONF": word} if place == "env" else {}), Path(made))
        assert is_closed(file, absent)


def halves(letter: str) -> list[bytes]:
    encoded = letter.encode("utf-16-be")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]


def test_a_path_that_json_spells_and_that_names_nothing_is_said(tmp_path: Path) -> None:
    made_project(tmp_path)
    lines = part(Form(("x", r'{"run":"tools\/t\u0061rget"}'), ""), tmp_path).lines
    assert any(
        label == "note" and value.startswith("argument 1 has tools/target: ") for label, value in lines
    )


def test_half_a_letter_of_json_names_no_file(tmp_path: Path) -> None:
    made_project(tmp_path)
    assert part(Form(("x", r'"tools/\ud800.js" "tools/server.js"'), ""), tmp_path).files


def test_more_texts_than_a_word_is_decoded_to_are_said(tmp_path: Path) -> None:
    made_project(tmp_path)
    word = f"%{'25' * 30}74ools"
    assert any(
        label == "note" and "more names than are looked up" in value
        for label, value in part(Form(("x", word), ""), tmp_path).lines
    )


def test_a_path_covers_the_file_and_no_part_of_the_path(tmp_path: Path) -> None:
    for name in ("tools/my-server.py", "server.py", "my/x", "tools-2/x", "py/x", "my-server.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert part(Form(("x", "tools/my-server.py"), ""), tmp_path).files == (tmp_path / "tools/my-server.py",)


UNKNOWN = (
    ("tools/target", "tools/target"),
    ("//tools/target:x", "tools/target"),
    ("--run=./tools/target#x", "./tools/target"),
    ("github.com/ann/shop/tools/server@latest", "github.com/ann/shop/tools/server"),
    ("git+https://github.com/ann/server.py@v1", "github.com/ann/server.py"),
    ("shop.tools.server", "shop.tools.server"),
    ("tools/%74arget", "tools/target"),
)


@pytest.mark.parametrize(("word", "path"), UNKNOWN)
@pytest.mark.parametrize("place", ["argument 2", "env D"])
def test_a_path_that_only_a_program_understands_is_said_to_hide_its_files(
    word: str, path: str, place: str, tmp_path: Path
) -> None:
    made_project(tmp_path)
    form = Form(("x", "run", word), "") if place == "argument 2" else Form(("x", "run"), "", {"D": word})
    assert [value for label, value in part(form, tmp_path).lines if label == "note"] == [
        f"{place} has {path}: this names no file or folder, so the files that the program finds for it are not"
        " covered"
    ]


@pytest.mark.parametrize(
    "word",
    [
        *(
            "run",
            "-y",
            "--port=8000",
            "--host=127.0.0.1",
            "--level=info",
            "tools/server.py",
            "-rtools/server.js",
        ),
        *(
            "tools.server:app",
            "tools.server",
            "./tools",
            "tools",
            "server.py",
            "a/../tools",
            "/srv/tools",
            "dist/x.js",
        ),
        *("@ann/tools@1.2.3", "@modelcontextprotocol/server-tools@2025.1.14", "mcp-server-tools==2025.4.25"),
        *(
            "ghcr.io/ann/tools:1.2",
            "postgresql://ann:pw@tools.shop.com:5432/tools",
            "https://api.shop.com/v1/tools",
        ),
        *(
            "-v=./tools:/tools",
            "git+https://github.com/ann/tools@v1.2",
            "tools.shop.com",
            "{project}/new.py",
            "./new.py",
        ),
    ],
)
def test_a_word_that_names_a_file_a_package_or_an_address_has_no_note(word: str, tmp_path: Path) -> None:
    made_project(tmp_path)
    word = word.format(project=tmp_path)
    assert "note" not in dict(part(Form(("x", word), "", {"D": word}), tmp_path).lines)


def made_project(folder: Path) -> None:
    for name in ("tools/server.py", "tools/server.js", "server.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")


def test_a_long_script_is_read_in_a_few_thousand_lookups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_project(tmp_path)
    looked: list[Path] = []
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **how: looked.append(path) or stat(path, **how))
    script = "; ".join(f"echo 'line {index}' > out-{index}.txt" for index in range(500))
    found = part(Form(("sh", "-c", f"{script}; . tools/server.js"), ""), tmp_path)
    assert found.files == (tmp_path / "tools/server.js",)
    assert len(looked) < 10_000


COMPILED = (
    Form((sys.executable, "-m", "F.N"), "F/N.py"),
    Form((sys.executable, "F"), "F/__main__.py"),
)


@pytest.mark.parametrize("form", COMPILED, ids=["module", "folder"])
def test_a_program_that_python_compiles_does_not_change_its_own_digest(form: Form, tmp_path: Path) -> None:
    form = form.filled("tools", "server")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/helper.py").write_text("")
    (tmp_path / "tools/__init__.py").write_text("")
    file = tmp_path / form.file
    file.write_text("import sys; sys.path.insert(0, 'tools'); import helper")
    before = part(form, tmp_path)
    run(form.words, cwd=tmp_path, check=True, env={k: v for k, v in os.environ.items() if k[:6] != "PYTHON"})
    assert list(tmp_path.glob("tools/__pycache__/*.pyc"))
    assert part(form, tmp_path) == before


@pytest.mark.parametrize("name", ["more/new.py", "new.py"])
def test_a_file_that_appears_in_a_folder_changes_the_digest(name: str, tmp_path: Path) -> None:
    form = Form(("x", "tools"), "")
    (tmp_path / "tools/more").mkdir(parents=True)
    before = part(form, tmp_path)
    (tmp_path / "tools" / name).write_text("")
    assert part(form, tmp_path).digest != before.digest


def test_two_files_of_a_folder_that_change_places_change_the_digest(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    digests = []
    for contents in ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}):
        for name, content in contents.items():
            (tmp_path / "tools" / name).write_text(content)
        digests.append(part(Form(("x", "tools"), ""), tmp_path).digest)
    assert digests[0] != digests[1]


def test_a_file_of_a_folder_that_gets_another_name_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/a.py").write_text("same")
    before = part(Form(("x", "tools"), ""), tmp_path)
    (tmp_path / "tools/a.py").rename(tmp_path / "tools/__main__.py")
    assert part(Form(("x", "tools"), ""), tmp_path).digest != before.digest


def test_a_file_below_folders_that_are_too_large_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, "MOST_ENTRIES", 0)
    file = tmp_path / "a/b/run.sh"
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert part(Form(("x", "-C", "a", "-C", "b", "run.sh"), ""), tmp_path).files == (file,)


def test_a_dot_is_the_servers_own_folder(tmp_path: Path) -> None:
    for name in ("tools", "other"):
        (tmp_path / name).mkdir()
    assert part(Form(("x", ".", "../other"), "", cwd="tools"), tmp_path).files == (
        tmp_path / "tools",
        tmp_path / "other",
    )
    assert (
        len([1 for label, _ in part(Form(("x", "."), "", cwd="tools"), tmp_path).lines if label == "file"])
        == 1
    )


def test_the_folders_of_a_command_are_covered_up_to_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, "MOST_ENTRIES", 3)
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert part(Form(("x", "a", "b"), ""), tmp_path).files == (tmp_path / "a",)


def test_a_folder_behind_a_link_is_covered_once(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "tools/lib").symlink_to(tmp_path / "lib")
    (tmp_path / "tools/more").symlink_to(tmp_path / "lib")
    (tmp_path / "lib/back").symlink_to(tmp_path / "tools")
    (tmp_path / "tools/nothing").symlink_to("nowhere")
    (tmp_path / "lib/a.py").write_text("one")
    before = part(Form(("x", "tools"), ""), tmp_path)
    assert [path.name for path, _ in before.held] == ["a.py"]
    (tmp_path / "lib/a.py").write_text("two")
    assert part(Form(("x", "tools"), ""), tmp_path).digest != before.digest


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder one of another user, who lets nobody list it."""
    scan = os.scandir

    def scandir(path: str) -> object:
        if path == str(folder):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)


@pytest.mark.parametrize("target", ["unread", "__main__.py/x", "a" * 300, "sub", None])
def test_an_entry_that_cannot_be_read_hides_no_other_file_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str | None
) -> None:
    """One link to itself in a repository made the digest a constant, and a later commit changed the program."""
    form, program = Form(("x", "tools"), ""), tmp_path / "tools/__main__.py"
    closed = tmp_path / "tools" / ("unread" if target is None else "sub")
    (tmp_path / "tools/sub").mkdir(parents=True)
    program.write_text("one")
    before = part(form, tmp_path)
    if target is None:
        closed.mkdir()
    elif target != "sub":
        closed = tmp_path / "tools/unread"
        closed.symlink_to(target)
    if target in (None, "sub"):
        close(closed, monkeypatch)
    one = part(form, tmp_path)
    assert one.digest != before.digest
    program.write_text("two")
    two = part(form, tmp_path)
    (tmp_path / "tools/more.py").write_text("")
    assert len({each.digest for each in (one, two, part(form, tmp_path))}) == 3
    assert [each for each, _ in two.held] == [program]
    told = [value for label, value in two.lines if label == "file"]
    assert told[0].startswith("tools: a folder with ")
    assert [each.split(":")[0] for each in told[1:]] == [closed.relative_to(tmp_path).as_posix()]
    assert ": cannot be read: " in told[1]


@pytest.mark.skipif(not Path("/proc/sys/kernel").is_dir(), reason="needs Linux's /proc")
@pytest.mark.parametrize("target", ["/proc/version", "/proc/sys/kernel"])
def test_what_a_link_into_proc_leads_to_is_not_read(tmp_path: Path, target: str) -> None:
    """Its files may have no end, such as ``/proc/self/pagemap``, and its folders lead to all of the machine."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/__main__.py").write_text("")
    (tmp_path / "tools/link").symlink_to(target)
    found = part(Form(("x", "tools"), ""), tmp_path)
    assert [each for each, _ in found.held] == [tmp_path / "tools/__main__.py"]
    told = [value for label, value in found.lines if label == "file"]
    assert len(told) == 2
    assert told[1].startswith("tools/link: cannot be read: it is no f")


@pytest.mark.parametrize("names", [("safe", "other"), ("safe/run.py", "other/run.py")])
@pytest.mark.parametrize("link", ["tools/zz", "tools/aa", "lib/zz"])
def test_where_a_link_in_a_covered_folder_leads_is_in_the_digest(
    link: str, names: tuple[str, str], tmp_path: Path
) -> None:
    """A link turned to another folder that was covered already, and the program imported from there, unasked."""
    digests = []
    for at in ("here", "there/deeper"):
        folder = tmp_path / at
        for name in ("safe", "other"):
            (folder / "tools" / name).mkdir(parents=True)
            (folder / "tools" / name / "run.py").write_text("")
        (folder / "lib").mkdir()
        (folder / "tools/lib").symlink_to("../lib")
        for target in (f"../tools/{names[0]}", folder / "tools" / names[0], f"../tools/{names[1]}"):
            (folder / link).symlink_to(target)
            digests.append(part(Form(("x", "tools"), ""), folder).digest)
            (folder / link).unlink()
    one, same, other = digests[:3]
    assert one == same != other
    assert digests[3:] == digests[:3]


def test_a_link_to_data_may_turn(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "tools" / name).mkdir(parents=True)
    (tmp_path / "tools/store").symlink_to("one")
    form = Form(("x", "-C", "tools"), "")
    before = part(form, tmp_path, "tools/store")
    (tmp_path / "tools/store").unlink()
    (tmp_path / "tools/store").symlink_to("two")
    assert part(form, tmp_path, "tools/store").digest == before.digest


def test_links_count_among_the_entries_that_a_folder_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, "MOST_ENTRIES", 8)
    (tmp_path / "tools").mkdir()
    for index in range(9):
        (tmp_path / f"tools/{index}").symlink_to(".")
    assert part(Form(("x", "tools"), ""), tmp_path).files == ()


def test_folders_that_cannot_be_read_count_among_the_entries_that_a_folder_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, "MOST_ENTRIES", 3)
    for index in range(4):
        folder = tmp_path / f"tools/{index}"
        folder.mkdir(parents=True)
        close(folder, monkeypatch)
    assert part(Form(("x", "tools"), ""), tmp_path).files == ()


@pytest.mark.parametrize("is_folder", [True, False])
def test_data_that_cannot_be_read_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_folder: bool
) -> None:
    store = tmp_path / "tools/store"
    store.parent.mkdir()
    if is_folder:
        store.mkdir()
        close(store, monkeypatch)
    else:
        store.symlink_to("store")
    told = part(Form(("x", "-C", "tools"), ""), tmp_path, "tools/store").lines
    assert [value for label, value in told if label == "file" and "cannot" in value] == []


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_BYTES"])
def test_a_folder_that_is_too_large_is_said_to_be(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, limit, 3)
    for folder in ("node_modules", "small"):
        (tmp_path / folder).mkdir()
    for index in range(4):
        (tmp_path / f"node_modules/{index}").write_text("x")
    (tmp_path / "small/one").write_text("x")
    found = part(Form(("x", "node_modules", "small"), ""), tmp_path)
    assert [line.partition(",")[0] for _, line in found.lines if ":" in line] == [
        "node_modules: the files in this folder are not covered",
        "small: a folder with 1 file",
    ]
    assert found.files == (tmp_path / "small",)


def test_a_folder_that_the_agent_works_in_is_not_covered_and_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    form = Form(("fs-server", ".", str(tmp_path.parent)), "")
    before = part(form, tmp_path)
    (tmp_path / "a.txt").write_text("two")
    assert part(form, tmp_path) == before
    assert before.files == ()
    assert [value for label, value in before.lines if label == "file"] == [
        ".: the files in this folder are not covered, because it is or holds the working directory, the workspace"
        " or the config's folder"
    ]


@pytest.mark.parametrize(
    "text", [". $D/run", ". `echo x`", "./r*", "./r?n", "./[r]un", "./{run,x}", "~/run", "it's"]
)
@pytest.mark.parametrize("place", ["argument 2", "env D"])
def test_a_text_that_a_shell_expands_is_said_to_hide_its_files(text: str, place: str, tmp_path: Path) -> None:
    form = Form(("sh", "-c", text), "") if place == "argument 2" else Form(("sh", "-c"), "", {"D": text})
    notes = [value for label, value in part(form, tmp_path).lines if label == "note"]
    assert [note.startswith(f"{place} has $, `, a pattern") for note in notes] == [True]


def test_a_plain_text_has_no_note(tmp_path: Path) -> None:
    form = Form(("$sh", "-c", "cd 'a b' && ./run --fast=1 a~b; true"), "", {"A": "plain"})
    assert "note" not in dict(part(form, tmp_path).lines)


def test_more_folders_than_are_looked_in_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_search, "MOST_BASES", 2)
    for name in "abc":
        (tmp_path / name).mkdir()
    assert "note" not in dict(part(Form(("x", "a", "b"), ""), tmp_path).lines)
    assert "note" in dict(part(Form(("x", "a", "b", "c"), ""), tmp_path).lines)


def test_more_names_than_are_looked_up_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_search, "MOST_LOOKUPS", 200)
    words = tuple(f"w{number}" for number in range(100))
    assert "note" not in dict(part(Form(("x", *words[:20]), ""), tmp_path).lines)
    (said,) = (value for label, value in part(Form(("x", *words), ""), tmp_path).lines if label == "note")
    assert "more names than are looked up" in said


@pytest.mark.timeout(60)  # the square of each word's length would take many minutes
def test_long_paths_are_looked_up_in_linear_time(tmp_path: Path) -> None:
    words = [f"{number}/{'../' * 1_300}" for number in range(200)]
    lines = part(
        Form(("x", *words, *(f"{number}/{'../' * 60}" for number in range(1_000))), ""), tmp_path
    ).lines
    assert any("more names than are looked up" in value for label, value in lines if label == "note")


def test_a_very_long_path_that_names_nothing_is_said(tmp_path: Path) -> None:
    lines = part(Form(("x", "gone/" * 65), ""), tmp_path).lines
    assert any("gone/" in value and "not covered" in value for label, value in lines if label == "note")


@pytest.mark.parametrize(
    "words",
    [
        ("node", "--import", "./su\tb/x.mjs"),
        ("node", "--import=./su\nb/x.mjs"),
        ("node", "file:///FOLDER/su\r\nb/%78.mjs"),
        ("sh", "-c", "node ./su\\\nb/x.mjs"),
        ("sh", "-c", "cd su\\\nb && node x.mjs"),
    ],
)
def test_a_path_is_found_without_the_characters_that_programs_drop(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub/x.mjs"
    form = Form(tuple(each.replace("/FOLDER", str(tmp_path)) for each in words), "")
    file.write_text("1")
    assert file in part(form, tmp_path).files


@pytest.mark.parametrize(
    ("form", "place"),
    [
        (Form(("python", "sub/link/../server.py"), ""), "far/server.py"),
        (Form(("node", "sub/link/../server.py"), ""), "sub/server.py"),
        (Form(("sh", "-c", "cd sub/link/.. && ./server.py"), ""), "sub/server.py"),
        (Form(("sh", "-c", "cd -P sub/link/.. && ./server.py"), ""), "far/server.py"),
        (Form(("sh", "-c", "cd sub/link; cd ..; ./server.py"), ""), "sub/server.py"),
        (Form(("x", "server.py"), "", cwd="sub/link/.."), "far/server.py"),
        (Form(("x",), "", {"A": "sub/link/../server"}), "far/server.py"),
        (Form(("x",), "", {"A": "sub/link/../server"}), "sub/server.py"),
    ],
)
def test_a_link_before_two_dots_is_read_as_the_system_and_as_a_shell_does(
    tmp_path: Path, form: Form, place: str
) -> None:
    (tmp_path / "far/deep").mkdir(parents=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/link").symlink_to("../far/deep")
    file = tmp_path / place
    absent = part(form, tmp_path).absent
    assert len(form.words) != 2 or (str(file.parent), "server.py") in absent
    file.write_text("one")
    before = part(form, tmp_path)
    assert file in before.files
    file.write_text("two")
    assert part(form, tmp_path).digest != before.digest


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("bin/server",), "#!bin/python -I"),
        (("bin/server",), "#! FOLDER/bin/python"),
        (("bin/server",), "#!/usr/bin/env -S python -I"),
        (("server",), "#!/usr/bin/env python"),
        (("sh", "-c", "bin/server --fast"), "#!bin/python"),
        (("bin/server",), "#!bin/start\n#!bin/python"),
    ],
)
def test_the_interpreter_of_a_script_is_covered(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    (tmp_path / "bin").mkdir()
    first, _, second = line.replace("FOLDER", str(tmp_path)).partition("\n")
    (tmp_path / "bin/server").write_text(f"{first}\nprint()\n")
    (tmp_path / "bin/start").write_text(f"{second or '#!bin/start'}\n")
    python = tmp_path / "bin/python"
    form = Form(words, "", {"PATH": f"/usr/bin:{tmp_path}/bin"})
    absent = part(form, tmp_path)
    assert (str(python.parent), python.name) in absent.absent
    python.write_bytes(b"\x7fELF")
    before = part(form, tmp_path)
    assert python in before.files
    (tmp_path / "bin/server").write_text(f"#!/usr/bin/env -Spython -I\n{'#' * 5_000}")
    assert python in part(form, tmp_path).files
    (tmp_path / "bin/server").write_text(f"{first}\nprint()\n")
    python.write_bytes(b"\x7fELF!")
    assert len({each.digest for each in (absent, before, part(form, tmp_path))}) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="each kernel reads the line in its own way")
@pytest.mark.parametrize(
    "sign",
    [
        *(bytes([each]) for each in (*range(1, 10), *range(11, 34), 34, 92, 127, 133, 160, 255)),
        *map(str.encode, "\x85\xa0\u2003\u3000"),
    ],
)
def test_the_interpreter_that_the_kernel_starts_is_covered(tmp_path: Path, sign: bytes) -> None:
    """The kernel ends a name at other blanks than Python does."""
    script, folder = tmp_path / "server", os.fsencode(tmp_path)
    started = folder + b"/in" + sign + b"t"
    for file in (started, folder + b"/in"):
        Path(os.fsdecode(file)).write_bytes(b"#!/bin/sh\n")
        Path(os.fsdecode(file)).chmod(0o755)
    Path(os.fsdecode(started)).write_bytes(b"#!/bin/sh\necho whole\n")
    script.write_bytes(b"#! ./in" + sign + b"t\n")
    script.chmod(0o755)
    said = run([str(script)], cwd=tmp_path, capture_output=True, check=False).stdout
    covered = part(Form(("./server",), ""), tmp_path).files
    assert tmp_path / "in" in covered or said
    assert not said or Path(os.fsdecode(started)) in covered


def test_a_program_may_be_made_in_each_folder_of_the_path(tmp_path: Path) -> None:
    path = os.pathsep.join(
        [
            str(tmp_path.parent / "far"),
            "deep",
            str(tmp_path / "early"),
            "near",
            str(tmp_path / "found"),
            str(tmp_path / "late"),
        ]
    )
    for folder, mode in (("found", 0o755), ("work/near", 0o644)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "server").write_text("")
        (tmp_path / folder / "server").chmod(mode)
    made = command_part(Command("s", ("server",), cwd="work"), Project(tmp_path, (tmp_path,), path))
    assert made.absent == tuple((str(tmp_path / each), "server") for each in ("work/deep", "early", "late"))
    assert made.files == (tmp_path / "work/near/server", tmp_path / "found/server")
    path_form = command_part(Command("s", ("./se[r]ver",)), Project(tmp_path, (tmp_path,), path))
    assert path_form.absent == ((str(tmp_path), "se[[]r]ver"),)


@pytest.mark.parametrize(
    ("words", "is_closed"),
    [
        (("npx", "-y", "server"), True),
        (("again",), True),
        (("FOLDER/system/npx",), True),
        (("../system/npx",), True),
        (("uv", "run", "npx"), True),
        (("sh", "-c", "cd x && FOLDER/system/npx eslint|tee y"), True),
        (("flag",), True),
        (("env", "A=1", "node", "x.js"), False),
        (("sh", "-c", "cd x;node y"), False),
        (("x", "--runtime=node"), False),
    ],
)
def test_a_program_that_a_name_finds_in_the_project_is_covered(
    tmp_path: Path, words: tuple[str, ...], *, is_closed: bool
) -> None:
    """Wherever the chain of names begins, and whoever looks for the name."""
    for folder in ("system", "work/bin"):
        (tmp_path / folder).mkdir(parents=True)
    lines = {
        "npx": "#!/usr/bin/env node",
        "again": f"#!{tmp_path}/system/npx",
        "flag": "#!/usr/bin/env -S uv run --runtime=bin/node",
        "node": "",
    }
    for name, line in lines.items():
        (tmp_path / "system" / name).write_text(f"{line}\n")
        (tmp_path / "system" / name).chmod(0o755)
    work, node = tmp_path / "work", tmp_path / "work/bin/node"
    named = tuple(each.replace("FOLDER", str(tmp_path)) for each in words)

    def made() -> Part:
        return command_part(
            Command("s", named), Project(work, (work,), f"{work}/bin:{tmp_path}/system:/usr/bin")
        )

    seen = [made()]
    # A bare word closes nothing until there is a file.
    assert ((str(node.parent), node.name) in seen[0].absent) is is_closed
    for content in ("one", "two"):
        node.write_text(content)
        seen.append(made())
        assert seen[-1].files == (node,)
    assert len({each.digest for each in seen}) == 3
    # A name finds nothing in the system's folder alone, nor does a text outside that nothing can execute.
    apart = command_part(Command("s", named), Project(work, (work,), f"{tmp_path}/system:/usr/bin"))
    assert apart.files == ((node,) if words == ("flag",) else ())
    (tmp_path / "system/npx").chmod(0o644)
    assert words[0] != "../system/npx" or not made().files


def test_a_long_path_takes_a_limited_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_search, "MOST_LOOKUPS", 100)
    for folders, is_cut in ((1, False), (200, True)):
        project = Project(tmp_path, (tmp_path,), ":".join(f"/no/{each}" for each in range(folders)))
        lines = command_part(Command("s", ("x", "one")), project).lines
        assert any("more names than are looked up" in text for _, text in lines) is is_cut


def test_a_program_that_an_argument_names_is_never_data(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/node").write_text("")
    command = Command("s", ("x", "--with=node"), {}, ".", ("bin/node",))
    assert program_data(command, Project(tmp_path, (tmp_path,), f"{tmp_path}/bin")) == ("bin/node",)


@pytest.mark.parametrize("content", [b"SQLite format 3\0 rows", b"PK\3\4", b"plain"])
def test_no_content_exempts_a_file_from_the_digest(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "server.pyz"
    file.write_bytes(content)
    form = Form(("python", "server.pyz"), "")
    before = part(form, tmp_path)
    file.write_bytes(content + b"more")
    assert part(form, tmp_path).digest != before.digest


DATA = (
    (("uvx", "mcp-notes", "--db-path=store/notes.db"), {}, "store/notes.db"),
    (("uvx", "mcp-notes", "--db-path=store/notes.db"), {}, "store"),
    (("uvx", "mcp-notes", "store"), {}, "store"),
    (("python", "server.py", "store/notes.db"), {}, "store/notes.db"),
    (("python", "server.py", "store/notes.db"), {}, "./store/../store/notes.db"),
    (("python", "server.py", "store"), {}, "store/notes.db"),
    (("python", "server.py", "-C", "store", "notes.db"), {}, "notes.db"),
    (("python", "server.py"), {"DB": "sqlite:///store/notes.db"}, "store/notes.db"),
)


@pytest.mark.parametrize(("words", "env", "data"), DATA)
def test_data_may_change_appear_and_go(
    words: tuple[str, ...], env: Mapping[str, str], data: str, tmp_path: Path
) -> None:
    file = tmp_path / "store/notes.db"
    file.parent.mkdir()
    (tmp_path / "server.py").write_text("")
    form = Form(words, "", env)
    seen = [part(form, tmp_path, data)]
    for content in ("one", "two"):
        file.write_text(content)
        seen.append(part(form, tmp_path, data))
    assert len({each.digest for each in seen}) == 1
    assert ("data", f"{data}: its content may change") in seen[0].lines
    assert file not in seen[2].files
    assert part(form, tmp_path).digest != seen[0].digest
    assert program_data(Command("s", words, env, ".", (data,)), Project(tmp_path, (tmp_path,))) == ()


def test_data_that_does_not_exist_yet_has_no_note(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    form = Form(("python", "--db=store/notes.db"), "")
    assert "note" in dict(part(form, tmp_path).lines)
    for data in ("store/notes.db", "store"):
        assert "note" not in dict(part(form, tmp_path, data).lines)


def turned(place: Path, target: str) -> None:
    place.unlink()
    place.symlink_to(target)


@pytest.mark.parametrize("words", [("x", "--rules=rules.py", "--db=cache/db"), ("x", "-C", ".", "rules.py")])
@pytest.mark.parametrize("data", ["cache/db", "cache", "./cache/../cache/db"])
def test_data_that_becomes_a_link_exempts_only_the_link(
    words: tuple[str, ...], data: str, tmp_path: Path
) -> None:
    """The target of the link left the digest and the protection."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/db").write_text("")
    rules = tmp_path / "rules.py"
    rules.write_text("one")
    form = Form(words, "")
    before = part(form, tmp_path, data)
    turned(tmp_path / "cache/db", "../rules.py")
    linked = part(form, tmp_path, data)
    assert linked.digest == before.digest
    assert rules in linked.files
    assert tmp_path / "cache/db" not in linked.files
    rules.write_text("two")
    assert part(form, tmp_path, data).digest != before.digest
    said = [value for label, value in linked.lines if label == "data"]
    if data == "cache/db":
        assert said == ["cache/db: a link to rules.py: does not count, only the link itself may change"]


def test_a_link_on_the_way_of_data_exempts_nothing(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/db").write_text("one")
    (tmp_path / "cache").symlink_to("lib")
    for word in ("lib/db", "cache/db", "lib"):
        form = Form(("x", f"--db={word}"), "")
        before = part(form, tmp_path, "cache/db")
        assert ("data", "cache/db: does not count, it is behind the link cache") in before.lines
        assert before.files == (tmp_path / word,)
    (tmp_path / "lib/db").write_text("two")
    assert part(form, tmp_path, "cache/db").digest != before.digest
    (tmp_path / "lib/db").unlink()
    told = dict(part(Form(("x", "--db=cache/db"), ""), tmp_path, "cache/db").lines)["data"]
    assert "behind the link" in told
    (tmp_path / "lib/db").write_text("")
    assert part(Form(("x", "--db=lib/db"), ""), tmp_path, "cache").files == (tmp_path / "lib/db",)
    assert part(Form(("x", "--db=lib/db"), ""), tmp_path, "c\0ache").files == (tmp_path / "lib/db",)


def test_a_link_below_data_exempts_nothing_that_it_leads_to(tmp_path: Path) -> None:
    for name in ("cache", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "lib/rules.py").write_text("")
    (tmp_path / "cache/plugins").symlink_to("../lib")
    found = part(Form(("x", "--load=cache/plugins/rules.py"), ""), tmp_path, "cache")
    assert found.files == (tmp_path / "cache/plugins/rules.py",)


@pytest.mark.parametrize("link", ["aa", "zz"])
def test_a_link_among_the_data_of_a_covered_folder_hides_no_file_of_it(link: str, tmp_path: Path) -> None:
    """A folder is read once, and it counted as read where the link led to it."""
    (tmp_path / "app/lib").mkdir(parents=True)
    (tmp_path / f"app/{link}").symlink_to("lib")
    form, digests = Form(("x", "app"), ""), set()
    for content in ("one", "two"):
        (tmp_path / "app/lib/rules.py").write_text(content)
        digests.add(part(form, tmp_path, f"app/{link}").digest)
    assert len(digests) == 2


def test_a_covered_link_to_data_is_covered(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "cache/rules.py").write_text("")
    (tmp_path / "plugins").symlink_to("cache")
    (tmp_path / "app/plugins").symlink_to("../cache")
    for word in ("plugins/rules.py", "app"):
        found = part(Form(("x", "-r", word), ""), tmp_path, "cache")
        assert found.files == (tmp_path / word,)
        assert [file.name for file, _ in found.held] == ["rules.py"]


def test_links_above_the_project_do_not_matter_to_data(tmp_path: Path) -> None:
    (tmp_path / "real/store").mkdir(parents=True)
    (tmp_path / "real/store/db").write_text("")
    (tmp_path / "shop").symlink_to("real")
    for at in ("real", "shop"):
        for data in ("store/db", str(tmp_path / "shop/store")):
            found = part(Form(("x", "--db=store/db"), ""), tmp_path / at, data)
            assert found.files == ()
            assert ("data", f"{data}: its content may change") in found.lines


@pytest.mark.parametrize("data", ["cache/db", "cache"])
def test_a_further_name_of_a_covered_file_is_no_data(data: str, tmp_path: Path) -> None:
    """Whoever writes to the one name changes the other."""
    (tmp_path / "app").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "app/rules.py").write_text("")
    (tmp_path / "cache/db").write_text("")
    (tmp_path / "cache/other").hardlink_to(tmp_path / "cache/db")
    form = Form(("x", "app", "--db=cache/db"), "")
    assert part(form, tmp_path, data).files == (tmp_path / "app",)
    (tmp_path / "cache/db").unlink()
    (tmp_path / "cache/db").hardlink_to(tmp_path / "app/rules.py")
    found = part(form, tmp_path, data)
    assert found.files == (tmp_path / "app", tmp_path / "cache/db")
    told = "does not count, it is a further name (hard link) of a file whose content counts"
    assert (("data", f"cache/db: {told}") in found.lines) is (data == "cache/db")


def test_further_names_are_not_searched_for_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "rules.py").write_text("")
    (tmp_path / "lib/other.py").hardlink_to(tmp_path / "rules.py")
    (tmp_path / "cache").symlink_to("lib")
    assert part(Form(("x", "rules.py"), ""), tmp_path, "cache").files == (tmp_path / "rules.py",)


def test_a_search_for_further_names_that_ends_early_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.py").write_text("")
    (tmp_path / "other.py").hardlink_to(tmp_path / "rules.py")
    (tmp_path / "cache").mkdir()
    for index in range(60):
        (tmp_path / f"cache/{index}").write_text("")
    monkeypatch.setattr(name_search, "MOST_LOOKUPS", 40)
    form = Form(("x", "rules.py"), "")
    assert "note" not in dict(part(form, tmp_path).lines)
    assert "more names" in dict(part(form, tmp_path, "cache").lines)["note"]


@pytest.mark.parametrize(("limit", "size"), [("MOST_ENTRIES", 0), ("MOST_BYTES", 9)])
@pytest.mark.parametrize("data", ["app/cache", "app/cache/x"])
def test_data_count_for_no_limit(
    limit: str, size: int, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's own files took its folder out of the digest."""
    monkeypatch.setattr(command_files, limit, 5)
    store = tmp_path / data
    store.mkdir(parents=True)
    (tmp_path / "app/__main__.py").write_text("x=1")
    form = Form(("x", "app"), "")
    before = part(form, tmp_path, data)
    for index in range(6):
        (store / f"d{index}").mkdir()
        (store / f"f{index}").write_text("x" * size)
    assert part(form, tmp_path, data) == before
    assert before.files == (tmp_path / "app",)
    assert part(form, tmp_path).files == ()


STARTED = (
    (("./server.py",), "server.py"),
    (("server.py",), "server.py"),
    (("python", "server.py"), "server.py"),
    (("python", "-u", "server.py", "other.py"), "./server.py"),
    (("python", "-m", "server"), "server.py"),
    (("python", "./server.py"), "."),
    (("sh", "-c", "./server.py other.py"), "server.py"),
    (("python", "link.py"), "server.py"),
    (("python", "link.py"), "link.py"),
)


@pytest.mark.parametrize(("words", "data"), STARTED)
def test_the_program_is_not_data(words: tuple[str, ...], data: str, tmp_path: Path) -> None:
    project = Project(tmp_path, (tmp_path,), str(tmp_path))
    command = Command("s", words, data=(data,))
    digests = set()
    (tmp_path / "link.py").symlink_to("server.py")
    for content in ("one", "two"):
        (tmp_path / "server.py").write_text(content)
        (tmp_path / "other.py").write_text("")
        made = command_part(command, project)
        digests.add(made.digest)
        assert ("data", f"{data}: it is started, so its content may not change") in made.lines
    assert len(digests) == 2
    assert program_data(command, project) == (data,)


MODULES = (
    (("tools.server:app",), "tools/server.py"),
    (("tools.server:app",), "tools/__init__.py"),
    (("uvicorn", "tools.server:app", "--log=x"), "tools/server.py"),
    (("uvicorn", "tools.deep.server:app"), "tools/deep/server.py"),
    (("uvicorn", "tools.deep.server:app"), "tools/deep"),
    (("uvicorn", "tools:app"), "tools/__init__.py"),
    (("python", "-m", "tools"), "tools/__main__.py"),
    (("python", "-m", "tools.server"), "tools/server.py"),
    (("python", "tools/server.py"), "tools/server.py"),
    (("java", "-cp", "tools:lib", "tools/server.py"), "tools/server.py"),
)


@pytest.mark.parametrize(("words", "data"), MODULES)
def test_the_module_that_a_command_starts_is_not_data(
    words: tuple[str, ...], data: str, tmp_path: Path
) -> None:
    """Of `tools.server:app` only `tools/__init__.py` was taken for the file that is started."""
    for name in ("__init__", "__main__", "server", "store/__init__", "deep/__init__", "deep/server"):
        made(tmp_path, f"tools/{name}.py")
    project = Project(tmp_path, (tmp_path,))
    assert program_data(Command("s", ("x", *words), data=(data,)), project) == (data,)
    assert program_data(Command("s", ("uvx", "notes", "tools"), data=("tools/__init__.py",)), project) == ()
    others = ("tools/store", "tools/deep/notes.db", "notes.db")
    assert program_data(Command("s", ("x", *words, "notes.db"), data=others), project) == ()


FOLDERS = (
    (("python3", "-u", "tools"), "__main__.py"),
    (("python3", "-W", "ignore", "tools"), "__main__.py"),
    (("env", "python3", "./tools"), "__main__.pyc"),
    (("go", "run", "./tools"), "main.go"),
    (("node", "tools"), "index.js"),
    (("node", "tools"), "package.json"),
)


@pytest.mark.parametrize(("words", "name"), FOLDERS)
def test_a_folder_that_a_command_starts_is_not_data(
    words: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    """`data: [tools]` of `python3 tools` exempted the program, and the question recommended it."""
    made(tmp_path, f"tools/{name}")
    made(tmp_path, "tools/cache/db")
    project = Project(tmp_path, (tmp_path,))
    for data in ("tools", f"tools/{name}", "."):
        assert program_data(Command("s", words, data=(data,)), project) == (data,)
    assert program_data(Command("s", words, data=("tools/cache",)), project) == ()
    assert "tools" in command_part(Command("s", words), project).started


def test_a_folder_that_a_program_works_in_is_data(tmp_path: Path) -> None:
    for name in ("site/index.js", "site/package.json", "notes/a.md", "__main__.py", "server.py"):
        made(tmp_path, name)
    project = Project(tmp_path, (tmp_path,))
    works = (("npx", "-y", "pkg", "site"), ("mcp-notes", "notes"), ("python3", "server.py", "site"))
    for words in works:
        assert program_data(Command("s", words, data=words[-1:]), project) == ()
    assert command_part(Command("s", works[2]), project).started == ("server.py",)


@pytest.mark.parametrize("name", ["helper.pyc", "helper.cpython-311.pyc"])
def test_a_compiled_file_without_its_source_is_in_the_digest(tmp_path: Path, name: str) -> None:
    caches = tmp_path / "tools" / "__pycache__"
    caches.mkdir(parents=True)
    (tmp_path / "tools/__main__.py").write_text("import helper")

    def digest(content: bytes) -> str:
        (caches / name).write_bytes(bytes(8) + content)
        command = Command("s", ("python3", "tools"), {}, ".", ())
        return command_part(command, Project(tmp_path, (tmp_path,), "/usr/bin")).digest

    assert digest(b"a") != digest(b"b")
    (tmp_path / "tools/helper.py").write_text("")
    assert (digest(b"a") == digest(b"b")) is (name != "helper.pyc")


def test_the_program_that_the_system_starts_is_covered_whichever_match_it_is(tmp_path: Path) -> None:
    """The system goes on to the next match where it cannot execute one, and the digest had the first alone."""
    contents = {
        "outside": b"#!/nowhere/python\n",
        "work/bin": b"x",
        "work/moved": b"#!/nowhere/python\n",
        "work/other": b"\xcf\xfa\xed\xfe" + bytes(200),
        "work/started": b"#!/bin/sh\necho started\n",
        "work/later": b"#!/bin/sh\necho later\n",
    }
    for folder, content in contents.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "srv").write_bytes(content)
        (tmp_path / folder / "srv").chmod(0o644 if folder == "work/bin" else 0o755)
    path = os.pathsep.join(str(tmp_path / each) for each in contents)
    work = tmp_path / "work"
    output = run(("srv",), cwd=work, check=True, env={"PATH": path}, capture_output=True).stdout
    assert output == b"started\n"
    found = command_part(Command("s", ("srv",), {}, ".", ()), Project(work, (work,), path))
    assert [each.parent.name for each in found.files] == ["bin", "moved", "other", "started", "later"]


MODULE_WORDS = ("-m", "-I -m", "-m{}", "-Im{}", "{}:app", "--app={}:app")
PARTS = (("tools",), ("tools", "server"), ("my-tools", "server"), ("tools", "deep", "server"))


def executed(parts: tuple[str, ...], folder: Path, *, is_run: bool) -> list[Path]:
    """The files that Python executes for a module, as far as it finds them.

    Args:
        is_run: the module is a program, so that the `__main__` of a package is executed too.
    """
    found: list[Path] = []
    search: Sequence[str] | None = [str(folder)]
    # Only what is below the folder is forgotten: `importlib.invalidate_caches` looks at the folders of all tests.
    for each in [each for each in sys.path_importer_cache if each.startswith(str(folder))]:
        del sys.path_importer_cache[each]
    for name in (*parts, "__main__")[: len(parts) + is_run]:
        spec = None if search is None else PathFinder.find_spec(name, list(search))
        if spec is None:
            return found
        if spec.has_location:
            found.append(Path(str(spec.origin)))
        search = spec.submodule_search_locations
    return found


def module_files(parts: tuple[str, ...]) -> list[str]:
    """The files that could decide which file a module is."""
    bases = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    within = [f"{base}/{name}" for base in bases for name in ("__init__", "__main__")]
    named = [base + suffix for base in (*bases, *within) for suffix in all_suffixes()]
    return [*bases, *(f"{base}/notes.txt" for base in bases), *named]


def made(folder: Path, name: str) -> bool:
    """Make a file; False if something is in its place or its way."""
    file = folder / name
    if any(each.is_file() for each in file.parents) or file.exists():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return True


def is_closed(file: Path, to: Part) -> bool:
    """Whether tools may not make a file, or a folder on its way."""
    ways = (file, *file.parents)
    return not set(ways).isdisjoint(to.files) or any(
        str(way.parent) == folder and fnmatchcase(way.name, pattern)
        for way in ways
        for folder, pattern in to.absent
    )


@pytest.mark.parametrize("words", MODULE_WORDS)
@pytest.mark.parametrize("parts", PARTS, ids=".".join)
@settings(max_examples=5)  # of each pair: an example makes all files that could decide, one by one
@given(st.data())
def test_a_module_is_the_file_that_python_prefers_also_if_it_is_made_later(
    words: str, parts: tuple[str, ...], data: st.DataObject
) -> None:
    name = ".".join(parts)
    form = Form(("python3", *(words.format(name) if "{}" in words else f"{words} {name}").split()), "")
    is_run = "m" in words.partition("{")[0]
    candidates = module_files(parts)
    there = data.draw(st.lists(st.sampled_from(candidates), max_size=5))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        for each in there:
            made(folder, each)
        before, first = part(form, folder), executed(parts, folder, is_run=is_run)
        assert all(file in [path for path, _ in before.held] for file in first)
        # A bare word that names nothing is no module yet.
        if not is_run and not any(each.name.startswith(parts[0]) for each in folder.iterdir()):
            return
        for each in candidates:
            missing = [way for way in (folder / each).parents if not way.exists()]
            if not made(folder, each):
                continue
            then = executed(parts, folder, is_run=is_run)
            if then != first and folder / each in then:
                assert is_closed(folder / each, before), f"{each} beside {there}"
                assert part(form, folder).digest != before.digest
            (folder / each).unlink()
            for way in missing:
                way.rmdir()
