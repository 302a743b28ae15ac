"""Where the files of a project are mounted a second time, they are the project's too."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.mount_table import MountTable, mount_table
from zeus_runtime.trust import parts
from zeus_runtime.trust.parts import Command, Project, covered_by

TABLE = """\
20 1 0:50 / / rw - overlay overlay rw
21 20 8:1 /home/ann/shop/agents /etc/zeus/agents ro,relatime master:1 - ext4 /dev/sda1 rw
22 20 8:1 /home/ann/shop/one\\040key /run/one\\040key ro - ext4 /dev/sda1 rw
23 20 8:1 /home/ann/shop /var/lib/zeus rw - ext4 /dev/sda1 rw
24 20 8:1 /home /mnt/home rw - ext4 /dev/sda1 rw
25 20 8:1 /home/bob /etc/bob rw - ext4 /dev/sda1 rw
26 20 8:1 /home/ann/shop2 /etc/shop2 rw - ext4 /dev/sda1 rw
27 20 8:2 /home/ann/shop/agents /etc/other rw - ext4 /dev/sdb1 rw
28 23 0:60 / /var/lib/zeus/cache rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/var/lib/zeus", ["/etc/zeus/agents", "/run/one key", "/mnt/home/ann/shop"]),
        ("/var/lib/zeus/agents/team", ["/etc/zeus/agents/team", "/mnt/home/ann/shop/agents/team"]),
        ("/etc/zeus/agents", ["/var/lib/zeus/agents", "/mnt/home/ann/shop/agents"]),
        ("/var/lib/zeus/cache", []),
        ("/opt", []),
    ],
)
def test_the_other_places_of_a_folder(folder: str, found: list[str]) -> None:
    assert [*map(str, MountTable(TABLE).again([Path(folder)]))] == found


def test_a_system_without_a_table_has_no_second_mounts() -> None:
    assert [*MountTable("").again([Path("/opt")])] == []


@pytest.mark.parametrize(
    ("place", "is_once"),
    [
        ("/opt/p.md", True),
        ("/var/lib/zeus/cache/p.md", False),  # the mount around it may be hidden
        ("/etc/bob/p.md", False),  # /mnt/home shows it too
        ("/etc/shop2/new/p.md", False),
        ("/var/lib/zeus/p.md", False),
        ("/etc/other/p.md", True),
        ("/etc", True),
    ],
)
def test_a_place_is_there_once_if_nothing_around_it_or_in_it_is_shown_again(
    place: str, is_once: bool
) -> None:
    assert MountTable(TABLE).has_once(("/opt", place)) is is_once
    assert not MountTable("").has_once((place,)), "unknown"


def test_a_folder_that_holds_something_that_is_shown_again_is_not_there_once() -> None:
    table = MountTable("1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /w/sub /etc/sub rw - ext4 /dev/a rw\n")
    assert [table.has_once((each,)) for each in ("/w", "/w/sub", "/w/sub/x", "/v")] == [False] * 3 + [True]


def test_a_path_may_hold_any_sign() -> None:
    table = MountTable(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /a\x85b\u2028 /c\\012\\134d rw - ext4 /dev/a rw\n"
    )
    assert [*table.again([Path("/a\x85b\u2028")])] == [Path("/c\n\\d")]


def test_the_table_of_this_system_can_be_read() -> None:
    assert all(isinstance(each, Path) for each in mount_table().again([Path.cwd()]))


def test_a_program_that_is_mounted_from_the_project_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    script = tmp_path / "etc/check.py"
    script.write_text("")
    tools, own = f"8:1 /p/tools {tmp_path}/etc ro", f"8:1 /p {tmp_path}/p rw"
    table = "".join(f"1 0 {each} - ext4 /dev/a rw\n" for each in ("0:1 / / rw", tools, own))

    def paths() -> tuple[Path, ...]:
        project = Project(tmp_path / "p", (tmp_path / "p",))
        return covered_by(Command("", ("python3", str(script))), project).paths

    assert paths() == ()
    monkeypatch.setattr(parts, "mount_table", lambda: MountTable(table))
    assert paths() == (script,)
