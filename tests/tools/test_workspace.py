"""The workspace: what its paths mean, and that there is no way out of it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.errors import ZeusError
from zeus_runtime.escaping import printable
from zeus_runtime.tools import atomic
from zeus_runtime.tools.mounts import Mounts
from zeus_runtime.tools.paths import WorkspaceError, join, split
from zeus_runtime.tools.workspace import WorkspaceFiles

MB = 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def files(root: Path) -> WorkspaceFiles:
    return WorkspaceFiles(root)


def read(files: WorkspaceFiles, path: str) -> str:
    return files.read(path, max_bytes=MB).decode()


# Paths


@pytest.mark.parametrize("path", ["/src/a.py", "src/a.py", "./src//x/../a.py", "/src/./a.py", "//src/a.py"])
def test_a_path_starts_at_the_workspace_however_it_is_written(path: str) -> None:
    assert split(path) == ("src", "a.py")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("..", "leaves the workspace"),
        ("/../etc/passwd", "leaves the workspace"),
        ("a/../../b", "leaves the workspace"),
        ("a\0b", "NUL"),
        ("C:\\temp\\a.py", "not a workspace path"),
        ("c:/temp/a.py", "not a workspace path"),
        ("src\\a.py", "not a workspace path"),
        ("~/.ssh/id_rsa", "~ is not expanded"),
        ("https://example.org/a", "URL"),
        ("file:///etc/passwd", "URL"),
        ("a\ud800", "characters that no file name can have"),
    ],
)
def test_a_path_of_another_world_is_refused_with_its_reason(path: str, reason: str) -> None:
    with pytest.raises(WorkspaceError, match=reason):
        split(path)


@given(st.text(max_size=40))
def test_a_path_is_refused_or_has_parts_that_cannot_climb(path: str) -> None:
    try:
        parts = split(path)
    except WorkspaceError:
        return
    assert all(part not in ("", ".", "..") and "/" not in part and "\0" not in part for part in parts)
    assert split(join(parts)) == parts


@given(st.text(max_size=40))
def test_a_shown_name_is_one_printable_line_of_valid_utf_8(name: str) -> None:
    assert printable(name).isprintable()
    printable(name).encode()


# Reading, writing, listing


def test_what_is_written_is_read_back_and_folders_are_made(files: WorkspaceFiles, root: Path) -> None:
    assert files.write("/a/b/c.txt", b"one") is True
    assert files.write("a/b/c.txt", b"two") is False
    assert (root / "a/b/c.txt").read_bytes() == b"two" == files.read("/a/b/c.txt", max_bytes=MB)


def test_a_listing_is_sorted_and_says_what_is_what(files: WorkspaceFiles, root: Path) -> None:
    (root / "b").mkdir()
    (root / "a.txt").write_text("12345")
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    assert [(entry.path, entry.kind, entry.size) for entry in files.entries("/", sizes=True)] == [
        ("/a.txt", "file", 5),
        ("/b", "directory", None),
        ("/link", "link", None),
        ("/pipe", "other", None),
    ]


def test_a_walk_gives_a_folder_before_its_content_in_path_order(files: WorkspaceFiles) -> None:
    for path in ("/b/z.txt", "/b/a/x.txt", "/a.txt", "/c.txt", "/b.txt"):
        files.write(path, b"")
    paths = [entry.path for entry in files.walk()]
    assert paths == ["/a.txt", "/b", "/b/a", "/b/a/x.txt", "/b/z.txt", "/b.txt", "/c.txt"]


def test_a_walk_leaves_out_what_is_skipped_with_all_below(files: WorkspaceFiles) -> None:
    files.write("/node_modules/x/y.js", b"")
    files.write("/a.js", b"")
    assert [e.path for e in files.walk(skip=lambda entry: entry.name == "node_modules")] == ["/a.js"]


def test_a_walk_does_not_follow_links_so_a_circle_ends(files: WorkspaceFiles, root: Path) -> None:
    (root / "loop").symlink_to(".")
    assert [e.path for e in files.walk()] == ["/loop"]


def test_a_folder_that_vanishes_during_a_walk_is_reported_and_the_walk_goes_on(
    files: WorkspaceFiles, root: Path
) -> None:
    for path in ("/a/x", "/b/x"):
        files.write(path, b"")
    problems: list[WorkspaceError] = []
    seen = []
    for entry in files.walk(on_error=problems.append):
        seen.append(entry.path)
        if entry.path == "/a":
            (root / "a/x").unlink()
            (root / "a").rmdir()
    assert seen == ["/a", "/b", "/b/x"]
    assert len(problems) == 1


def test_a_missing_file_names_the_nearest_one_that_a_tool_can_open(files: WorkspaceFiles, root: Path) -> None:
    files.write("/src/main.py", b"")
    with pytest.raises(WorkspaceError) as caught:
        files.open("/src/mian.py")
    assert caught.value.remedy == "Did you mean /src/main.py?"
    for odd in (b"caf\xe9.py", b"caf\\.py", b"caf\n.py"):
        (root / "src" / os.fsdecode(odd)).touch()
    with pytest.raises(WorkspaceError) as caught:
        files.open("/src/caf\ufffd.py")
    assert caught.value.remedy == "ls and glob find files.", "a path with an escape would be refused"
    with pytest.raises(WorkspaceError, match="does not exist"):
        files.open("/nowhere/at/all")


def test_a_very_deep_path_is_refused_not_a_stack_overflow(files: WorkspaceFiles) -> None:
    with pytest.raises(WorkspaceError, match="deeper"):
        files.open("a/" * 2_000 + "x")
    with pytest.raises(WorkspaceError, match="does not exist"):
        files.open("a/" * 199 + "x")


def test_a_host_path_is_answered_with_the_virtual_one(files: WorkspaceFiles, root: Path) -> None:
    files.write("/src/a.py", b"")
    with pytest.raises(WorkspaceError) as caught:
        files.open(f"{root}/src/a.py")
    assert caught.value.remedy == "/ is the workspace: use /src/a.py"
    with pytest.raises(WorkspaceError, match="a path of the host"):
        files.write(f"{root}/src/b.py", b"")
    assert not (root / str(root)[1:]).exists()


def test_a_folder_that_looks_like_the_host_path_but_exists_is_used(files: WorkspaceFiles, root: Path) -> None:
    twin = str(root)[1:]
    (root / twin).mkdir(parents=True)
    files.write(f"/{twin}/a.txt", b"here")
    assert read(files, f"/{twin}/a.txt") == "here"


def test_names_that_are_not_utf_8_are_listed(files: WorkspaceFiles, root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt"))).write_text("x")
    [entry] = files.entries()
    assert printable(entry.path) == "/caf\\xe9.txt"
    assert read(files, entry.path) == "x"


def test_a_workspace_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ZeusError) as caught:
        WorkspaceFiles(tmp_path / "nope").check()
    assert caught.value.exit_code == 3
    assert "workspace.root" in (caught.value.remedy or "")
    WorkspaceFiles(tmp_path).check()


# No way out


@pytest.mark.parametrize("operation", ["open", "entries", "write", "edit", "append", "entry"])
@pytest.mark.parametrize("link", ["../outside", "{outside}", "sub/../../outside"])
def test_a_link_out_of_the_workspace_is_refused_by_every_operation(
    files: WorkspaceFiles, root: Path, outside: Path, operation: str, link: str
) -> None:
    (root / "sub").mkdir()
    (root / "out").symlink_to(link.format(outside=outside))
    path = "/out" if operation == "entries" else "/out/secret.txt"
    with pytest.raises(WorkspaceError, match="link out of the workspace"):
        {
            "open": lambda: files.open(path),
            "entries": lambda: files.entries(path),
            "entry": lambda: files.entry(path),
            "write": lambda: files.write(path, b"changed"),
            "append": lambda: files.append(path, b"changed"),
            "edit": lambda: files.edit(path, lambda data: b"changed", max_bytes=MB),
        }[operation]()
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_link_to_a_file_outside_is_neither_read_nor_replaced(
    files: WorkspaceFiles, root: Path, outside: Path
) -> None:
    (root / "a.txt").symlink_to(outside / "secret.txt")
    with pytest.raises(WorkspaceError, match="link out"):
        files.open("/a.txt")
    with pytest.raises(WorkspaceError, match="link out"):
        files.write("/a.txt", b"changed")
    (root / "new.txt").symlink_to(outside / "made.txt")
    with pytest.raises(WorkspaceError, match="link out"):
        files.write("/new.txt", b"made")
    assert sorted(p.name for p in outside.iterdir()) == ["secret.txt"]


def test_a_folder_link_outside_makes_no_folder_there(
    files: WorkspaceFiles, root: Path, outside: Path
) -> None:
    (root / "out").symlink_to(outside)
    with pytest.raises(WorkspaceError):
        files.write("/out/new/a.txt", b"")
    assert not (outside / "new").exists()


@pytest.mark.parametrize("target", ["real/a.txt", "{root}/real/a.txt", "real/../real/a.txt", "chain"])
def test_a_link_inside_the_workspace_works_and_stays_a_link(
    files: WorkspaceFiles, root: Path, target: str
) -> None:
    files.write("/real/a.txt", b"old")
    (root / "chain").symlink_to("real/a.txt")
    (root / "link").symlink_to(target.format(root=root))
    assert read(files, "/link") == "old"
    files.write("/link", b"new")
    files.edit("/link", lambda data: data + b"er", max_bytes=MB)
    assert (root / "link").is_symlink()
    assert (root / "real/a.txt").read_text() == "newer"


def test_an_absolute_link_in_a_folder_starts_at_the_root_and_not_in_its_folder(
    files: WorkspaceFiles, root: Path
) -> None:
    files.write("/real/a.txt", b"at the root")
    files.write("/deep/er/real/a.txt", b"in the folder")
    (root / "deep/er/link").symlink_to(root / "real/a.txt")
    (root / "deep/folder").symlink_to(root / "real")
    assert read(files, "/deep/er/link") == "at the root"
    assert read(files, "/deep/folder/a.txt") == "at the root"
    assert files.real("/deep/er/link") == "/real/a.txt"
    files.write("/deep/er/link", b"new")
    assert (root / "real/a.txt").read_text() == "new"
    assert (root / "deep/er/real/a.txt").read_text() == "in the folder"


@pytest.mark.parametrize("into", ["fifo", "folder"])
@pytest.mark.parametrize(
    "operation",
    [
        lambda files: files.open("/a.txt").close(),
        lambda files: files.read("/a.txt", max_bytes=MB),
        lambda files: files.edit("/a.txt", lambda data: data, max_bytes=MB),
    ],
    ids=["open", "read", "edit"],
)
def test_a_file_that_becomes_something_else_between_the_look_and_the_opening_is_refused(
    files: WorkspaceFiles,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: Callable[[WorkspaceFiles], object],
    into: str,
) -> None:
    file = root / "a.txt"
    file.write_text("a file")
    real_open = os.open

    def swapped(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if path == "a.txt" and file.is_file():
            file.unlink()
            os.mkfifo(file) if into == "fifo" else file.mkdir()
        return real_open(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(WorkspaceError):
        operation(files)
    assert not file.is_file(), "it was swapped"


def test_links_that_go_in_circles_end(files: WorkspaceFiles, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(WorkspaceError, match="circles"):
        files.open("/a")


def test_a_link_that_this_user_may_not_read_leads_out(
    files: WorkspaceFiles, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (outside / "closed").symlink_to(root)
    (root / "link").symlink_to(outside / "closed")
    read_link = os.readlink

    def readlink(path: str, **options: Any) -> str:
        if Path(path) == outside / "closed":  # as Linux does for the link /proc/1/cwd
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return read_link(path, **options)

    monkeypatch.setattr(os, "readlink", readlink)
    for operation in (files.real, files.identity, files.entry):
        with pytest.raises(WorkspaceError, match="out of the workspace"):
            operation("/link")


def test_a_workspace_behind_a_link_accepts_absolute_links_of_both_names(tmp_path: Path, root: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    (root / "a.txt").write_text("x")
    (root / "real").symlink_to(root / "a.txt")
    (root / "aliased").symlink_to(tmp_path / "alias" / "a.txt")
    files = WorkspaceFiles(tmp_path / "alias")
    assert read(files, "/real") == read(files, "/aliased") == "x"


def test_a_folder_swapped_for_a_link_between_check_and_use_leads_nowhere(
    files: WorkspaceFiles, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("/dir/secret.txt", b"mine")
    real_open = os.open

    def swap_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "dir" and not (root / "dir").is_symlink():
            (root / "dir").rename(root / "moved")
            (root / "dir").symlink_to(outside)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    monkeypatch.setattr(os, "supports_dir_fd", {swap_then_open})
    with pytest.raises(WorkspaceError):
        WorkspaceFiles(root).open("/dir/secret.txt")


def test_a_file_swapped_for_a_link_between_check_and_use_is_not_followed(
    files: WorkspaceFiles, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("/secret.txt", b"mine")
    real_open = os.open

    def swap_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "secret.txt":
            (root / "secret.txt").unlink()
            (root / "secret.txt").symlink_to(outside / "secret.txt")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(WorkspaceError, match="became a link"):
        files.open("/secret.txt")


def test_constant_swapping_never_leaks_what_is_outside(
    files: WorkspaceFiles, root: Path, outside: Path
) -> None:
    (root / "inside").mkdir()
    (root / "inside/secret.txt").write_text("mine")
    (root / "to_in").symlink_to("inside")
    (root / "to_out").symlink_to(outside)
    (root / "door").symlink_to("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("to_out", "to_in"):
                (root / "next").symlink_to((root / target).readlink())
                (root / "next").rename(root / "door")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(500):
            try:
                seen.add(read(files, "/door/secret.txt"))
            except WorkspaceError:
                seen.add("refused")
    finally:
        stop.set()
        swapper.join()
    assert "secret" not in seen
    assert seen <= {"mine", "refused"}


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory", "device"])
def test_what_is_not_a_file_is_refused_at_once(
    files: WorkspaceFiles, root: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("x")
    elif kind == "directory":
        path.mkdir()
    else:
        files = WorkspaceFiles(Path("/dev"))
    name = "/null" if kind == "device" else "/x"
    expected = {"fifo": "a FIFO", "socket": "a socket", "directory": "a folder", "device": "a device"}[kind]
    for operation in (
        lambda: files.open(name),
        lambda: files.write(name, b""),
        lambda: files.append(name, b""),
        lambda: files.edit(name, lambda data: data, max_bytes=MB),
    ):
        with pytest.raises(WorkspaceError, match=expected):
            operation()


# Atomic writes


def test_a_write_keeps_the_mode_of_the_old_file_and_respects_the_umask(
    files: WorkspaceFiles, root: Path
) -> None:
    files.write("/run.sh", b"")
    fresh = (root / "run.sh").stat().st_mode & 0o777
    (root / "plain").touch()
    assert fresh == (root / "plain").stat().st_mode & 0o777
    (root / "run.sh").chmod(0o750)
    files.write("/run.sh", b"x")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_does_not_take_over_the_files_it_edits(files: WorkspaceFiles, root: Path) -> None:
    files.write("/a", b"")
    os.chown(root / "a", 12345, 12345)
    files.write("/a", b"x")
    assert (root / "a").stat().st_uid == 12345


def test_a_read_only_file_is_not_replaced(files: WorkspaceFiles, root: Path) -> None:
    files.write("/a", b"old")
    (root / "a").chmod(0o444)
    with pytest.raises(WorkspaceError, match="read-only"):
        files.write("/a", b"new")
    assert read(files, "/a") == "old"


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_failing_write_leaves_the_old_file_and_no_litter(
    files: WorkspaceFiles, root: Path, monkeypatch: pytest.MonkeyPatch, unnamed: bool
) -> None:
    files.write("/a", b"old")
    if not unnamed:
        monkeypatch.setattr("zeus_runtime.tools.atomic._unnamed", lambda directory: None)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceError, match="no space is left"):
        files.write("/a", b"new")
    with pytest.raises(WorkspaceError, match="no space is left"):
        files.write("/b", b"new")
    assert [p.name for p in root.iterdir()] == ["a"]
    assert read(files, "/a") == "old"


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_write_that_gets_no_name_leaves_no_litter(
    files: WorkspaceFiles, root: Path, monkeypatch: pytest.MonkeyPatch, unnamed: bool
) -> None:
    files.write("/a", b"old")
    if not unnamed:
        monkeypatch.setattr("zeus_runtime.tools.atomic._unnamed", lambda directory: None)

    def full(*_words: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(WorkspaceError, match="no space is left"):
        files.write("/a", b"new")
    assert [p.name for p in root.iterdir()] == ["a"]


def test_a_name_is_safe_on_disk_after_a_write(files: WorkspaceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
    )
    for write in (files.write, files.write, files.create):
        write("/b" if write == files.create else "/a", b"x")
    assert synced == [False, True] * 3


@pytest.mark.parametrize("new", [True, False])
def test_without_unnamed_files_a_write_still_works(
    files: WorkspaceFiles, root: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    monkeypatch.setattr("zeus_runtime.tools.atomic._unnamed", lambda directory: None)
    if not new:
        files.write("/a", b"old")
    files.write("/a", b"new")
    assert read(files, "/a") == "new"
    assert [p.name for p in root.iterdir()] == ["a"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_only_one_of_several_makes_a_new_file(
    files: WorkspaceFiles, root: Path, monkeypatch: pytest.MonkeyPatch, unnamed: bool
) -> None:
    if not unnamed:
        monkeypatch.setattr("zeus_runtime.tools.atomic._unnamed", lambda directory: None)
    (root / "taken").mkdir()
    (root / "link").symlink_to("taken")
    assert [files.create(f"/{name}", b"x") for name in ("taken", "link")] == [False, False]
    fill = atomic._fill

    def meanwhile(descriptor: int, data: bytes, old: os.stat_result | None) -> None:
        (root / "new").write_bytes(b"of another process")
        fill(descriptor, data, old)

    monkeypatch.setattr(atomic, "_fill", meanwhile)
    assert not files.create("/new", b"x")
    assert read(files, "/new") == "of another process"
    monkeypatch.setattr(atomic, "_fill", fill)
    assert files.create("/newer", b"x")
    assert read(files, "/newer") == "x"
    assert {each.name for each in root.iterdir()} == {"taken", "link", "new", "newer"}


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system has no unnamed files")
def test_a_crash_in_the_middle_of_a_write_leaves_no_temporary_file(root: Path) -> None:
    (root / "a").write_text("old")
    program = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from zeus_runtime.tools.workspace import WorkspaceFiles
        os.fsync = lambda descriptor: os._exit(9)
        WorkspaceFiles(Path(sys.argv[1])).write("/a", b"new" * 100_000)
        """
    )
    done = subprocess.run([sys.executable, "-c", program, str(root)], check=False)
    assert done.returncode == 9
    assert [p.name for p in root.iterdir()] == ["a"]
    assert (root / "a").read_text() == "old"


def test_temporary_files_of_others_are_not_listed(files: WorkspaceFiles, root: Path) -> None:
    (root / ".abc.zeus-tmp").touch()
    assert files.entries() == []


def test_concurrent_edits_of_one_file_lose_nothing_even_through_links(
    files: WorkspaceFiles, root: Path
) -> None:
    files.write("/count", b"0")
    (root / "link").symlink_to("count")

    def count(path: str) -> None:
        for _ in range(10):
            files.edit(path, lambda data: str(int(data) + 1).encode(), max_bytes=MB)

    threads = [
        threading.Thread(target=count, args=(path,)) for path in ("/count", "/link", "./count", "/x/../link")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(files, "/count") == "40"


def test_an_edit_does_not_overwrite_what_another_process_wrote_meanwhile(
    files: WorkspaceFiles, root: Path
) -> None:
    files.write("/a", b"old")

    def change(data: bytes) -> bytes:
        (root / "a").write_text("from the editor")
        return b"from the agent"

    with pytest.raises(WorkspaceError, match="changed by someone else"):
        files.edit("/a", change, max_bytes=MB)
    assert read(files, "/a") == "from the editor"
    assert [p.name for p in root.iterdir()] == ["a"]


def test_a_file_over_the_limit_is_neither_read_nor_edited(files: WorkspaceFiles) -> None:
    files.write("/a", b"x" * 11)
    with pytest.raises(WorkspaceError, match="larger than 10 bytes"):
        files.read("/a", max_bytes=10)
    with pytest.raises(WorkspaceError, match="larger than 10 bytes"):
        files.edit("/a", lambda data: b"", max_bytes=10)
    assert len(files.read("/a", max_bytes=11)) == 11


def test_appends_add_up(files: WorkspaceFiles) -> None:
    files.append("/log/a.md", b"one\n")
    files.append("/log/a.md", b"two\n")
    assert read(files, "/log/a.md") == "one\ntwo\n"


# Routes


@pytest.fixture
def routed(root: Path, tmp_path: Path) -> WorkspaceFiles:
    return WorkspaceFiles(
        root,
        {"/memory/": tmp_path / "m", "/memory/deep": tmp_path / "d", "/a/b/": tmp_path / "ab"},
    )


def test_the_longest_route_wins(routed: WorkspaceFiles, tmp_path: Path) -> None:
    routed.write("/memory/x", b"1")
    routed.write("/memory/deep/x", b"2")
    routed.write("/memoryx", b"3")
    assert (tmp_path / "m/x").read_text() == "1"
    assert (tmp_path / "d/x").read_text() == "2"
    assert (tmp_path / "root/memoryx").read_text() == "3"


def test_routes_are_listed_where_they_are_mounted_even_before_they_exist(routed: WorkspaceFiles) -> None:
    assert [e.path for e in routed.entries("/")] == ["/a", "/memory"]
    assert [e.path for e in routed.entries("/memory")] == ["/memory/deep"]
    assert [e.path for e in routed.entries("/a")] == ["/a/b"]
    assert routed.entries("/a/b") == []
    assert routed.entry("/a").kind == routed.entry("/a/b").kind == "directory"


def test_a_walk_goes_through_routes(routed: WorkspaceFiles) -> None:
    routed.write("/a/b/c", b"")
    routed.write("/z", b"")
    assert [e.path for e in routed.walk()] == ["/a", "/a/b", "/a/b/c", "/memory", "/memory/deep", "/z"]


def test_a_route_hides_a_real_folder_of_its_name(routed: WorkspaceFiles, root: Path) -> None:
    (root / "memory").mkdir()
    (root / "memory/hidden").touch()
    assert [e.path for e in routed.entries("/memory")] == ["/memory/deep"]
    with pytest.raises(WorkspaceError):
        routed.open("/memory/hidden")


def test_there_is_no_way_from_a_route_into_the_root_or_out(
    routed: WorkspaceFiles, root: Path, tmp_path: Path
) -> None:
    routed.write("/memory/x", b"")
    routed.write("/secret", b"")
    (tmp_path / "m/up").symlink_to("../root/secret")
    with pytest.raises(WorkspaceError, match="link out"):
        routed.open("/memory/up")


@pytest.mark.parametrize("prefix", ["/", "", "memory/", "/a/../../b"])
def test_a_route_that_is_no_prefix_is_refused(root: Path, prefix: str) -> None:
    with pytest.raises(ZeusError, match="is not a route") as caught:
        WorkspaceFiles(root, {prefix: root})
    assert caught.value.exit_code == 3


def test_a_path_that_lasts_is_below_the_workspace_as_it_is_written(tmp_path: Path) -> None:
    for folder in ("releases/1/docs/in", "releases/1/memory", "kept/old", "far"):
        (tmp_path / folder).mkdir(parents=True)
    current, notes, out = tmp_path / "current", tmp_path / "kept/new", tmp_path / "releases/1/out"
    for link, target in ((current, "releases/1"), (notes, "old"), (out, "../../far")):
        link.symlink_to(target)
    files = WorkspaceFiles(current, {"/notes/": notes, "/memory/": tmp_path / "kept"})
    assert files.lasting(tmp_path / "releases/1/docs/in") == current / "docs/in"
    assert files.lasting(current / "docs") == current / "docs"
    assert files.lasting(tmp_path / "kept/old/a") == notes / "a"
    assert files.lasting(current / "memory") == tmp_path / "releases/1/memory", (
        "the route means another folder"
    )
    assert files.lasting(current / "out/a") == current / "out/a"
    assert files.leads_out(current / "out/a")
    assert not files.leads_out(current / "docs")
    assert files.lasting(tmp_path / "far") == tmp_path / "far"


def test_a_mounts_folder_is_resolved_anew_when_its_link_leads_elsewhere(tmp_path: Path) -> None:
    """A release that is renamed keeps its inode, as a new folder may have that of a removed one."""
    first, second, current = tmp_path / "1", tmp_path / "2", tmp_path / "current"
    (first / "docs").mkdir(parents=True)
    current.symlink_to("1")
    mounts = Mounts(current, {"/later/": current / "later", "/docs/": current / "docs"})
    assert mounts.reals() == [str(first), str(first / "later"), str(first / "docs")]
    first.rename(second)
    current.unlink()
    current.symlink_to("2")
    assert mounts.reals() == [str(second), str(second / "later"), str(second / "docs")]
    (second / "docs").rename(second / "other")
    assert mounts.names_of(str(second / "docs/a"))[-1].parts == ("docs", "a")
    (second / "docs").symlink_to("other")
    assert mounts.reals()[2] == str(second / "other")
