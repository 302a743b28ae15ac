"""Where the files of a project are mounted a second time, they are the project's too."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.trust import parts
from zeus_runtime.trust.mounted_again import mount_table, mounted_again
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
    assert [*map(str, mounted_again([Path(folder)], TABLE))] == found


def test_a_system_without_a_table_has_no_second_mounts() -> None:
    assert [*mounted_again([Path("/opt")], "")] == []


def test_the_table_of_this_system_can_be_read() -> None:
    assert all(isinstance(each, Path) for each in mounted_again([Path.cwd()], mount_table()))


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
    monkeypatch.setattr(parts, "mount_table", lambda: table)
    assert paths() == (script,)
