"""What a user allowed is kept for them alone, per config and per digest."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.trust.decision import Trust, recorded_trust, records_folder
from zeus_runtime.trust.parts import Part
from zeus_runtime.trust.records import add, all_records, is_recorded, records_of, revoke, short_seal

ONE = Part("server", "one", f"sha256:{'1' * 64}", (("command", "run"),))
TWO = Part("plugin", "two.py", f"sha256:{'2' * 64}")


def test_a_part_is_allowed_for_the_config_that_it_was_allowed_for(tmp_path: Path) -> None:
    add(tmp_path / "trust", "/a.yaml", ONE)
    assert is_recorded(tmp_path / "trust", "/a.yaml", ONE.digest)
    assert not is_recorded(tmp_path / "trust", "/b.yaml", ONE.digest)
    assert not is_recorded(tmp_path / "trust", "/a.yaml", TWO.digest)


def test_the_record_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "trust"
    add(folder, "/a.yaml", ONE)
    (place,) = folder.iterdir()
    (file,) = place.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, place, file)] == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("mode", [0o720, 0o702])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_record_that_others_can_write_allows_nothing(tmp_path: Path, depth: int, mode: int) -> None:
    folder = tmp_path / "trust"
    add(folder, "/a.yaml", ONE)
    (place,) = folder.iterdir()
    (file,) = place.iterdir()
    (folder, place, file)[depth].chmod(mode)
    with pytest.raises(MissingError, match="written by others"):
        is_recorded(folder, "/a.yaml", ONE.digest)


@pytest.mark.parametrize("mode", [0o044, 0o040, 0o004, 0o001])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_record_with_the_modes_of_a_checkout_allows_nothing(tmp_path: Path, depth: int, mode: int) -> None:
    """Where the home folder is a clone, its author brings the record."""
    folder = tmp_path / "trust"
    add(folder, "/a.yaml", ONE)
    (place,) = folder.iterdir()
    (file,) = place.iterdir()
    (folder, place, file)[depth].chmod(0o700 | mode)
    assert not is_recorded(folder, "/a.yaml", ONE.digest)
    assert all_records(folder) == records_of(folder, "/a.yaml") == ()
    add(folder, "/a.yaml", ONE)
    assert is_recorded(folder, "/a.yaml", ONE.digest)


def test_a_file_system_that_keeps_a_record_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Zeus would ask each time, since the record never counts."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(MissingError, match="leaves it open to others") as caught:
        add(tmp_path, "/a.yaml", ONE)
    assert "XDG_STATE_HOME" in str(caught.value.remedy)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"file": 1}', "\udc80"])
def test_a_damaged_record_allows_nothing(tmp_path: Path, content: str) -> None:
    add(tmp_path, "/a.yaml", ONE)
    (file,) = tmp_path.glob("*/*.json")
    file.write_text(content, errors="surrogateescape")
    assert not is_recorded(tmp_path, "/a.yaml", ONE.digest)
    assert all_records(tmp_path) == ()


def test_a_record_that_was_moved_to_another_config_allows_nothing(tmp_path: Path) -> None:
    add(tmp_path, "/a.yaml", ONE)
    add(tmp_path, "/b.yaml", TWO)
    (of_a,) = (each for each in tmp_path.glob("*/*.json") if "/a.yaml" in each.read_text())
    (of_b,) = (each.parent for each in tmp_path.glob("*/*.json") if "/b.yaml" in each.read_text())
    (of_b / of_a.name).write_bytes(of_a.read_bytes())
    assert not is_recorded(tmp_path, "/b.yaml", ONE.digest)


def test_many_processes_may_allow_at_once(tmp_path: Path) -> None:
    parts = [Part("server", str(number), f"sha256:{number:064d}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda part: add(tmp_path / "trust", "/a.yaml", part), parts * 2))
    assert {each.digest for each in records_of(tmp_path / "trust", "/a.yaml")} == {p.digest for p in parts}
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("digits", ["12", "21"])
def test_the_newest_permission_of_a_part_is_the_last(tmp_path: Path, digits: str) -> None:
    for at, digit in enumerate(digits):
        part = Part("server", "one", f"sha256:{digit * 64}")
        add(tmp_path, "/a.yaml", part)
        (file,) = tmp_path.glob(f"*/{digit * 64}.json")
        os.utime(file, (at, at))
    assert [each.digest[-1] for each in records_of(tmp_path, "/a.yaml")] == [*digits]


def test_a_record_keeps_too_little_of_a_seal_to_find_the_masked_text(tmp_path: Path) -> None:
    part = Part("server", "one", ONE.digest, (("env", "A=***"), ("env", "B=***")), seals=("a" * 64, ""))
    add(tmp_path, "/a.yaml", part)
    add(tmp_path, "/b.yaml", part)
    one, other = all_records(tmp_path)
    assert one.salt != other.salt
    assert [len(each) for each in one.seals] == [4, 0]
    assert one.seals[0] == short_seal(one.salt, "a" * 64) != short_seal(other.salt, "a" * 64)
    assert one.sealed_lines() == [("env", "A=***", one.seals[0]), ("env", "B=***", "")]


def test_revoking_forgets_one_config(tmp_path: Path) -> None:
    add(tmp_path, "/a.yaml", ONE)
    add(tmp_path, "/a.yaml", TWO)
    add(tmp_path, "/b.yaml", ONE)
    assert revoke(tmp_path, "/a.yaml") == 2
    assert [(each.file, each.name) for each in all_records(tmp_path)] == [("/b.yaml", "one")]
    assert revoke(tmp_path, "/a.yaml") == 0


def test_the_folder_is_the_users_state_folder() -> None:
    assert records_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/zeus/trust")
    assert records_folder({"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path("/h/.local/state/zeus/trust")
    assert records_folder({}) is None


def allows(given: str, part: Part = ONE, file: str = "/a.yaml") -> bool:
    trust = recorded_trust({"ZEUS_TRUST": given})
    return Trust(trust.given, None, file, folder=str(Path(file).parent), named=file).allows(part)


def test_the_environment_allows_digests_files_or_everything() -> None:
    assert allows(ONE.digest)
    assert allows(f"{TWO.digest}, {ONE.digest}")
    assert allows("/a.yaml")
    assert allows("all")
    assert not allows("")
    assert not allows(TWO.digest)
    assert not allows("/b.yaml")


def test_a_given_path_allows_no_link_to_it_from_another_folder(tmp_path: Path) -> None:
    for folder in ("app", "volume", "checkout"):
        (tmp_path / folder).mkdir()
    (tmp_path / "volume/zeus.yaml").touch()
    (tmp_path / "app/zeus.yaml").symlink_to("../volume/zeus.yaml")
    (tmp_path / "alias").symlink_to("app")
    (tmp_path / "checkout/zeus.yaml").symlink_to("../app/zeus.yaml")
    target = str((tmp_path / "volume/zeus.yaml").resolve())

    def allowed(given: str, named: str) -> bool:
        trust = recorded_trust({"ZEUS_TRUST": str(tmp_path / given)})
        at = (tmp_path / named).parent.resolve()
        return Trust(trust.given, None, target, folder=str(at), named=str(at / "zeus.yaml")).allows(ONE)

    assert allowed("app/zeus.yaml", "app/zeus.yaml")
    assert allowed("alias/zeus.yaml", "app/zeus.yaml")
    assert allowed("app/zeus.yaml", "alias/zeus.yaml")
    assert allowed("app/zeus.yaml", "volume/zeus.yaml")
    assert not allowed("app/zeus.yaml", "checkout/zeus.yaml")
    assert not allowed("volume/zeus.yaml", "app/zeus.yaml")


@pytest.mark.parametrize("value", ["1", "yes", "zeus.yaml", "sha256:12", "SHA256:" + "1" * 64, "ALL"])
def test_a_value_that_would_allow_nothing_is_an_error(value: str) -> None:
    with pytest.raises(UsageError, match="ZEUS_TRUST has"):
        recorded_trust({"ZEUS_TRUST": value})


def test_a_folder_would_allow_nothing_and_is_an_error(tmp_path: Path) -> None:
    for value in (tmp_path, f"{tmp_path}/", f"all,{tmp_path}"):
        with pytest.raises(UsageError, match="which is a folder and allows nothing") as refused:
            recorded_trust({"ZEUS_TRUST": str(value)})
        assert str(tmp_path / "zeus.yaml") in str(refused.value.remedy)
    recorded_trust({"ZEUS_TRUST": str(tmp_path / "later.yaml")})
