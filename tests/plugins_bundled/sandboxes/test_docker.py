"""The docker backend: the containers it asks for, and what it makes of a client's answers. No engine runs here."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from zeus_plugins.sandboxes.docker.backend import Docker, sandboxes
from zeus_plugins.sandboxes.docker.command import made, removed
from zeus_plugins.sandboxes.docker.options import Options
from zeus_plugins.sandboxes.docker.packing import unpack
from zeus_plugins.sandboxes.docker.whereabouts import docker_engine

from tests.support.sandboxes import bubblewrap
from zeus_runtime import Agent, Decision
from zeus_runtime.events import RunFailed
from zeus_runtime.plugin.sandbox import (
    OwnPrograms,
    Program,
    SandboxBackend,
    SandboxError,
    SandboxLimits,
    SandboxUnavailableError,
)
from zeus_runtime.testing import SandboxConformance, ScriptedModel, calling

pytestmark = pytest.mark.xdist_group("sandbox")
FAKE = Path(__file__).with_name("fake_docker.sh")


def faked(folder: Path) -> SandboxBackend:
    """A backend over a client that makes no containers."""
    bubblewrap(folder)
    client = folder / "docker"
    client.write_text(FAKE.read_text())
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    (folder / "state").mkdir(exist_ok=True)
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "FAKE_DOCKER": str(folder / "state")}
    return sandboxes(Options(), folder, OwnPrograms(environ))


class TestConformance(SandboxConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        faked(tmp_path)

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[SandboxBackend]:
        backend = faked(self.folder)
        yield backend
        await backend.aclose()


def test_a_container_has_nothing_of_the_host_and_every_limit() -> None:
    limits = SandboxLimits(
        seconds=30, memory_bytes=2**27, processes=10, file_bytes=2**20, disk_bytes=2**24, files=500
    )
    words = made(Options(image="img", runtime="runsc", cpus=0.5), "n1", limits)
    pairs = dict(pairwise(words))
    assert pairs["--network"] == "none"
    assert pairs["--user"] == "65534:65534"
    assert pairs["--cap-drop"] == "ALL"
    assert pairs["--security-opt"] == "no-new-privileges"
    assert "--read-only" in words
    assert pairs["--memory"] == pairs["--memory-swap"] == f"{2**27 + 2**25}b"
    assert pairs["--pids-limit"] == "14"
    assert pairs["--runtime"] == "runsc"
    assert pairs["--cpus"] == "0.5"
    assert "fsize=1048576" in words
    assert words.count("--tmpfs") == 2
    assert all(
        "size=16777216,nr_inodes=500" in word for word in words if word.startswith(("/workspace:", "/tmp:"))
    )
    assert all(
        "uid=65534,gid=65534" in word for word in words if word.startswith(("/workspace:", "/tmp:"))
    ), "the mode is the image's folder's"
    assert "--workdir" not in words, "the engine would make the folder, for root alone"
    assert not {"--volume", "-v", "--mount", "--privileged", "--env", "--publish"} & set(words)
    assert words[-3:] == ["sleep", "img", "150"]


def test_podman_is_asked_as_it_wants() -> None:
    words = made(Options(), "n1", SandboxLimits(), podman=True)
    assert "--init" not in words
    assert "--read-only-tmpfs=false" in words
    assert "--http-proxy=false" in words, "it would hand the proxy's password to the container"
    assert all("nr_inodes" not in word for word in words)
    assert all("notmpcopyup" in word for word in words if word.startswith(("/workspace:", "/tmp:")))
    assert removed("n1", podman=True)[-3:] == ["--time", "0", "n1"]


def test_a_client_that_is_podmans_is_known_by_what_it_says_of_itself(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'podman version 5.0.0'\n")
    client.chmod(0o755)
    backend = Docker(Options(), OwnPrograms({"PATH": f"{tmp_path}:/bin:/usr/bin"}))
    assert "files" in backend.capabilities.limits
    backend.check()
    assert "files" not in backend.capabilities.limits, "Podman has no limit of files"


REMOTE = "ssh://root@prod.example.org"
LOCAL = "unix:///home/ann/.docker/desktop/docker.sock"


@pytest.mark.parametrize(
    ("variables", "current", "machine"),
    [
        ({}, None, ""),
        ({}, "default", ""),
        ({}, "prod", REMOTE),
        ({}, "desktop", ""),
        ({}, "gone", "the docker context gone"),
        ({"DOCKER_CONTEXT": "default"}, "prod", ""),
        ({"DOCKER_CONTEXT": "prod"}, "desktop", REMOTE),
        ({"DOCKER_HOST": "tcp://10.0.0.5:2376", "DOCKER_CONTEXT": "prod"}, None, "tcp://10.0.0.5:2376"),
        ({"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}, "prod", ""),
        ({"DOCKER_HOST": "127.0.0.1:2375"}, None, "127.0.0.1:2375"),
        ({"DOCKER_HOST": ""}, "prod", REMOTE),
    ],
)
def test_it_says_on_which_machine_dockers_engine_is(
    tmp_path: Path, variables: dict[str, str], current: str | None, machine: str
) -> None:
    settings = tmp_path / ".docker"
    for name, address in (("prod", REMOTE), ("desktop", LOCAL)):
        kept = settings / "contexts/meta" / sha256(name.encode()).hexdigest()
        kept.mkdir(parents=True)
        (kept / "meta.json").write_text(
            json.dumps({"Name": name, "Endpoints": {"docker": {"Host": address}}})
        )
    if current is not None:
        (settings / "config.json").write_text(json.dumps({"currentContext": current}))
    environ = {"HOME": str(tmp_path), "PATH": "", **variables}
    assert Docker(Options(), OwnPrograms(environ)).capabilities.machine == machine
    _, fixed = docker_engine(environ)
    (settings / "config.json").write_text(json.dumps({"currentContext": "elsewhere"}))
    assert docker_engine(fixed) == (machine, fixed), "a later `docker context use` moves nothing"
    assert ("DOCKER_HOST" in fixed) != ("DOCKER_CONTEXT" in fixed)


@pytest.mark.parametrize(("first", "later"), [(REMOTE, "ssh://b.example"), (LOCAL, REMOTE), (REMOTE, "")])
async def test_nothing_runs_once_the_context_has_another_address(
    tmp_path: Path, first: str, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads the context's file at each call, and approvals are for the engine that Zeus looked at."""
    faked(tmp_path)
    kept = tmp_path / ".docker/contexts/meta" / sha256(b"far").hexdigest()
    kept.mkdir(parents=True)

    def address(text: str) -> None:
        (kept / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": text}}}))

    address(first)
    environ = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "far", "FAKE_DOCKER": str(tmp_path / "state")}
    path = f"{tmp_path}:{os.environ['PATH']}"
    backend = Docker(Options(), OwnPrograms({**environ, "PATH": path}))
    backend.check()
    files, program = tmp_path / "files", Program(("/bin/sh", "-c", "echo ran"))
    files.mkdir()
    assert b"ran" in (await backend.run(files, program, SandboxLimits(), None)).output
    address(later)
    with pytest.raises(SandboxError, match="the docker context far has another address now"):
        await backend.run(files, program, SandboxLimits(), None)
    address(first)
    assert b"ran" in (await backend.run(files, program, SandboxLimits(), None)).output


def test_podmans_engine_is_that_of_its_own_variables(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'podman version 5.0.0'\n")
    client.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/bin:/usr/bin", "HOME": str(tmp_path), "DOCKER_HOST": REMOTE}
    for variables, machine in (
        ({}, ""),
        ({"CONTAINER_HOST": "unix:///run/podman/podman.sock"}, ""),
        (
            {"CONTAINER_HOST": "ssh://core@far.example/run/podman.sock"},
            "ssh://core@far.example/run/podman.sock",
        ),
        ({"CONTAINER_CONNECTION": "prod"}, "the podman connection prod"),
    ):
        backend = Docker(Options(), OwnPrograms(environ | variables))
        backend.check()
        assert backend.capabilities.machine == machine


async def test_an_approval_for_one_engine_does_not_hold_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faked(tmp_path)
    # A file that the project holds is no client.
    project = tmp_path / "project"
    project.mkdir()
    config = {"version": 1, "model": "gpt-4o", "tools": [{"sandbox": {"backend": "docker"}}]}
    (project / "zeus.yaml").write_text(json.dumps(config | {"middlewares": [{"approve": {"mode": "ask"}}]}))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DOCKER", str(tmp_path / "state"))
    model = ScriptedModel([calling(("execute_code", {"code": "print(1)"})), "done"])

    def at(host: str) -> Agent:
        monkeypatch.setenv("DOCKER_HOST", host)
        return Agent.from_config(directory=project, model=model)

    async with at("ssh://zeus@staging.example.org") as staging:
        ending = [event async for event in staging.stream("go")][-1]
        assert isinstance(ending, RunFailed)
        (pending,) = ending.details["pending"]
        assert pending["tool_facts"] == ["in the sandbox docker on ssh://zeus@staging.example.org"]
        await staging.decide(ending.session, {pending["id"]: Decision("approve")})
    async with at(REMOTE) as production:
        ending = [event async for event in production.resume(ending.session)][-1]
        assert isinstance(ending, RunFailed)
        (pending,) = ending.details["pending"]
        assert pending["tool_facts"] == [f"in the sandbox docker on {REMOTE}"]
    assert "run" not in (tmp_path / "state/asked").read_text().split()


async def test_every_container_is_removed_whatever_happens(tmp_path: Path) -> None:
    box = await faked(tmp_path).create("s1")
    await box.exec(Program(("true",)), SandboxLimits())
    await box.exec(Program(("sleep", "60")), SandboxLimits(seconds=0.2))
    asked = [line.split() for line in (tmp_path / "state/asked").read_text().splitlines()]
    names = {each[each.index("--name") + 1] for each in asked if each[0] == "run"}
    assert len(names) == 2
    assert names == {each[-1] for each in asked if each[0] == "rm"}


def test_without_a_client_or_an_engine_it_is_off(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="is not installed"):
        Docker(Options(command="no-docker"), OwnPrograms({"PATH": str(tmp_path)})).check()
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    with pytest.raises(SandboxUnavailableError, match="Cannot connect to the Docker daemon"):
        Docker(Options(), OwnPrograms({"PATH": f"{tmp_path}:/bin:/usr/bin"})).check()


async def test_what_the_engine_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    backend = faked(tmp_path)
    box = await backend.create("s1")
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'no such image' >&2\nexit 125\n")
    with pytest.raises(SandboxError, match="docker run failed: no such image"):
        await box.exec(Program(("true",)), SandboxLimits())


def test_an_archive_that_a_program_made_is_believed_in_nothing(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind, link in (
            ("./fine", tarfile.REGTYPE, ""),
            ("../escaped", tarfile.REGTYPE, ""),
            ("/absolute", tarfile.REGTYPE, ""),
            ("out", tarfile.SYMTYPE, "../../etc"),
            ("passwd", tarfile.SYMTYPE, "/etc/passwd"),
            ("device", tarfile.CHRTYPE, ""),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("large", tarfile.REGTYPE, ""),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, link, 0o6755
            content = b"x" * (2_000 if name == "large" else 1) if kind == tarfile.REGTYPE else b""
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    data.seek(0)
    folder = tmp_path / "boxes/s1"
    folder.mkdir(parents=True)
    (folder / "old").write_text("old")
    lost = unpack(data, folder, max_bytes=1_000, max_files=100)
    found = {each.name for each in folder.iterdir()}
    assert found <= {"fine", "absolute"}
    assert "fine" in found
    assert (folder / "fine").stat().st_mode & 0o7022 == 0
    assert len(lost) >= 6
    assert sorted(each.name for each in tmp_path.iterdir()) == ["boxes"]
    assert [each.name for each in (tmp_path / "boxes").iterdir()] == ["s1"]


def test_an_archive_leads_no_python_out_of_the_folder(tmp_path: Path) -> None:
    """Some versions of Python do not resolve links in a path that is too long, and their filter let such a link pass.

    What a program leaves running can write into the pipe of the container's `tar`.
    """
    steps, long = "abcdefghijklmnop", "d" * 247
    names = ["/".join([long] * depth) for depth in range(len(steps) + 1)]
    way = f"{'/'.join(steps)}/{'l' * 254}"
    entries = [
        each
        for name, below, step in zip(names, names[1:], steps, strict=False)
        for each in ((below, tarfile.DIRTYPE, ""), (f"{name}/{step}".lstrip("/"), tarfile.SYMTYPE, long))
    ]
    entries += [
        (way, tarfile.SYMTYPE, "../" * len(steps)),
        ("out", tarfile.SYMTYPE, f"{way}/.."),
        ("near", tarfile.SYMTYPE, "."),
        ("/".join([long] * 20), tarfile.REGTYPE, ""),
        ("ze\0ro", tarfile.DIRTYPE, ""),
        ("linked", tarfile.LNKTYPE, "out/own"),
        ("linked", tarfile.REGTYPE, ""),
        ("out/made", tarfile.REGTYPE, ""),
        ("near/inside", tarfile.REGTYPE, ""),
        ("near", tarfile.REGTYPE, ""),
        ("fine", tarfile.REGTYPE, ""),
        ("again", tarfile.LNKTYPE, "./fine"),
    ]
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, kind, link in entries:
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.mode = kind, link, 0o755
            entry.size = 6 if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(b"forged"))
    data.seek(0)
    # In the place where the links lead, beside the folder.
    (tmp_path / "own").write_text("mine")
    folder = tmp_path / "s1"
    folder.mkdir()
    lost = dict(each.rpartition(": ")[::2] for each in unpack(data, folder, max_bytes=1_000, max_files=100))
    assert (tmp_path / "own").read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["own", "s1"]
    assert {"out/made", "near/inside", "near"} <= set(lost)
    assert (folder / "linked").stat().st_nlink == 1
    assert (folder / "fine").samefile(folder / "again")
    assert not (folder / "inside").exists()


async def test_files_with_holes_do_not_fill_the_hosts_disk_on_their_way_out(tmp_path: Path) -> None:
    box = await faked(tmp_path).create("s1")
    limits = SandboxLimits(disk_bytes=2**20, files=10)
    await box.exec(Program(("/bin/sh", "-c", "echo old > kept")), limits)
    outcome = await box.exec(
        Program(("/bin/sh", "-c", "truncate -s 60M a b c; echo new > kept; echo ran")), limits
    )
    assert outcome.output == b"ran\n"
    assert outcome.lost == ("its files of this run: too many bytes (holes in files count)",)
    assert await box.read("kept", max_bytes=10) == b"old\n"


async def test_files_that_cannot_be_read_are_told_and_the_others_kept(tmp_path: Path) -> None:
    box = await faked(tmp_path).create("s1")
    harm = "echo x > fine; echo ran"
    client = (tmp_path / "docker").read_text()
    (tmp_path / "docker").write_text(
        client.replace("verb=$1\n", 'verb=$1\ncase "$*" in *"tar -cf"*) tell=1 ;; esac\n').replace(
            "  wait $!\n",
            '  wait $!\n  [ -z "$tell" ] || { echo "tar: shut: Permission denied" >&2; exit 2; }\n',
        )
    )
    outcome = await box.exec(Program(("/bin/sh", "-c", harm)), SandboxLimits())
    assert (outcome.output, outcome.lost) == (b"ran\n", ("tar: shut: Permission denied",))
    assert await box.read("fine", max_bytes=10) == b"x\n"


def test_a_further_name_of_a_file_that_is_too_large_takes_no_others_along(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind, link, size in (
            ("large", tarfile.REGTYPE, "", 2_000),
            ("again", tarfile.LNKTYPE, "large", 0),
            ("/".join(["d"] * 80), tarfile.DIRTYPE, "", 0),
            ("fine", tarfile.REGTYPE, "", 1),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, link, size
            archive.addfile(entry, io.BytesIO(b"x" * size))
    data.seek(0)
    folder = tmp_path / "s1"
    folder.mkdir()
    lost = unpack(data, folder, max_bytes=1_000, max_files=100)
    assert [each.rpartition(": ")[2] for each in lost] == [
        "too many bytes",
        "a hard link to a file that is not kept",
        "deeper than 64 folders",
    ]
