"""Sandboxes by session, over folders on this machine: one for each, whoever asks, in whichever event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zeus_runtime.plugin.sandbox import (
    Outcome,
    Program,
    SandboxCapabilities,
    SandboxError,
    SandboxLimits,
    SandboxUnavailableError,
    folder_sandboxes,
    make_session_folder,
)
from zeus_runtime.tools.own_folders import LinkedFolderError

SAY = Program(("say",))


class Counting:
    """Counts how many programs run over one folder at once."""

    def __init__(self, refusal: SandboxUnavailableError | None = None) -> None:
        self.capabilities = SandboxCapabilities(
            "namespaces", False, ("shell",), frozenset({"seconds"}), machine=""
        )
        self.refusal = refusal
        self.running = 0
        self.most = 0

    def check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return Outcome(0, None, str(folder.name).encode(), 0.0)


async def test_whoever_asks_for_a_session_at_once_gets_the_same_sandbox(tmp_path: Path) -> None:
    counting = Counting()
    backend = folder_sandboxes(counting, tmp_path, keep_days=1)
    boxes = await asyncio.gather(*(backend.create("s1") for _ in range(5)))
    await asyncio.gather(*(box.exec(SAY, SandboxLimits()) for box in boxes))
    assert counting.most == 1
    assert len(set(map(id, boxes))) == 1


async def test_a_session_that_is_opened_beside_another_does_not_lose_that_ones_files(tmp_path: Path) -> None:
    backend = folder_sandboxes(Counting(), tmp_path, keep_days=1)
    box = await backend.create("s1")
    await box.write("kept", b"x")
    os.utime(tmp_path / "s1", (time.time() - 5 * 86_400,) * 2)
    await backend.create("s2")
    assert await box.read("kept", max_bytes=1) == b"x"


async def test_a_session_whose_programs_change_nothing_is_not_old(tmp_path: Path) -> None:
    box = await folder_sandboxes(Counting(), tmp_path, keep_days=1).create("s1")
    await box.write("kept", b"x")
    os.utime(tmp_path / "s1", (time.time() - 5 * 86_400,) * 2)
    await box.exec(SAY, SandboxLimits())
    await folder_sandboxes(Counting(), tmp_path, keep_days=1).create("s2")
    assert (tmp_path / "s1/kept").exists()


@pytest.mark.parametrize("is_open", [True, False])
async def test_who_waits_while_a_session_is_removed_finds_it_empty_and_alone(
    is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting()
    backend = folder_sandboxes(counting, tmp_path, keep_days=None)
    make_session_folder(tmp_path / "s1")
    (tmp_path / "s1/old").write_text("x")
    seen: list[list[str]] = []

    async def run(folder: Path, *given: object) -> Outcome:
        seen.append(os.listdir(folder))  # noqa: PTH208
        (folder / "new").touch()
        return await Counting.run(counting, folder, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(counting, "run", run)
    box = await backend.create("s1") if is_open else None
    removing = asyncio.ensure_future(backend.remove("s1"))
    await asyncio.sleep(0)
    boxes = [box or await backend.create("s1"), await backend.create("s1"), await backend.create("s1")]
    await asyncio.gather(removing, *(each.exec(SAY, SandboxLimits()) for each in boxes))
    assert seen == [[], ["new"], ["new"]]
    assert counting.most == 1


def test_a_sandbox_of_an_event_loop_that_ended_holds_nobody_up(tmp_path: Path) -> None:
    backend = folder_sandboxes(Counting(), tmp_path, keep_days=None)

    async def leave() -> None:
        box = await backend.create("s1")
        await box.write("file", b"x")
        asyncio.ensure_future(box.exec(SAY, SandboxLimits()))  # noqa: RUF006 - it ends with the loop
        await asyncio.sleep(0)

    async def again() -> bytes:
        box = await backend.create("s1")
        data = await box.read("file", max_bytes=1)
        await backend.aclose()
        return data

    asyncio.run(leave())
    assert asyncio.run(again()) == b"x"


async def test_closing_an_old_sandbox_leaves_the_one_that_was_made_since(tmp_path: Path) -> None:
    backend = folder_sandboxes(Counting(), tmp_path, keep_days=None)
    old = await backend.create("s1")
    await backend.remove("s1")
    new = await backend.create("s1")
    await old.close()
    assert await backend.create("s1") is new


def test_nothing_is_opened_where_nothing_can_be_contained(tmp_path: Path) -> None:
    backend = folder_sandboxes(
        Counting(SandboxUnavailableError("no kernel for it")), tmp_path, keep_days=None
    )
    with pytest.raises(SandboxUnavailableError):
        asyncio.run(backend.create("s1"))
    assert list(tmp_path.iterdir()) == []


async def test_what_no_system_can_run_is_refused_before_it_is_tried(tmp_path: Path) -> None:
    counting = Counting()
    box = await folder_sandboxes(counting, tmp_path, keep_days=None).create("s1")
    with pytest.raises(SandboxError, match="NUL"):
        await box.exec(Program(("a\0b",)), SandboxLimits())
    assert counting.most == 0


LONG_AGO = (1, 1)


@pytest.mark.parametrize("keep_days", [0, 1])
async def test_folders_that_zeus_did_not_make_are_never_removed(keep_days: int, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").touch()
    backend = folder_sandboxes(Counting(), tmp_path, keep_days=keep_days)
    await (await backend.create("s1")).write("file", b"x")
    for each in ("photos", "s1"):
        os.utime(tmp_path / each, LONG_AGO)
    await folder_sandboxes(Counting(), tmp_path, keep_days=keep_days).create("s2")
    assert not (tmp_path / "s1").exists()
    assert (tmp_path / "photos/a.jpg").exists()
    with pytest.raises(SandboxError, match="Zeus did not make it"):
        await backend.remove("photos")
    assert (tmp_path / "photos/a.jpg").exists()
    await backend.remove("nobody")


async def test_a_session_whose_folder_was_the_users_own_keeps_the_users_files(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").touch()
    backend = folder_sandboxes(Counting(), tmp_path, keep_days=0)
    await (await backend.create("photos")).exec(SAY, SandboxLimits())
    with pytest.raises(SandboxError, match="Zeus did not make it"):
        await backend.remove("photos")
    assert (tmp_path / "photos/a.jpg").exists()


async def test_nothing_is_left_of_a_session_that_is_removed(tmp_path: Path) -> None:
    backend = folder_sandboxes(Counting(), tmp_path / "boxes", keep_days=None)
    await (await backend.create("s1")).write("file", b"x")
    await backend.remove("s1")
    assert list((tmp_path / "boxes").iterdir()) == []


@pytest.mark.parametrize("link", [".zeus", ".zeus/sandboxes"])
async def test_no_link_leads_to_the_sessions_of_a_project(link: str, tmp_path: Path) -> None:
    victim = tmp_path / "home/sandboxes/photos"
    victim.mkdir(parents=True)
    os.utime(victim, LONG_AGO)
    place = tmp_path / "p" / link
    place.parent.mkdir(parents=True)
    root = tmp_path / "p/.zeus/sandboxes"
    backend = folder_sandboxes(Counting(), root, keep_days=0)
    place.symlink_to(tmp_path / "home" / ("sandboxes" if link.endswith("sandboxes") else ""))
    with pytest.raises(LinkedFolderError) as refused:
        await backend.create("s1")
    assert refused.value.exit_code == 4
    with pytest.raises(LinkedFolderError):
        folder_sandboxes(Counting(), root, keep_days=0)
    with pytest.raises(LinkedFolderError):
        make_session_folder(root / "s1")
    assert victim.exists()
    assert os.listdir(tmp_path / "home/sandboxes") == ["photos"]  # noqa: PTH208


@pytest.mark.parametrize("root", [".zeus/sandboxes", "boxes"])
async def test_the_folder_of_a_session_is_no_link(root: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/id").write_text("secret")
    (tmp_path / root).mkdir(parents=True)
    (tmp_path / root / "s1").symlink_to(tmp_path / "keys")
    box = await folder_sandboxes(Counting(), tmp_path / root, keep_days=0).create("s1")
    with pytest.raises(LinkedFolderError):
        await box.read("id", max_bytes=10)
    with pytest.raises(LinkedFolderError):
        await box.list(max_files=10)
    with pytest.raises(LinkedFolderError):
        await box.write("id", b"x")
    with pytest.raises(LinkedFolderError):
        await box.exec(SAY, SandboxLimits())
    assert (tmp_path / "keys/id").read_text() == "secret"
