"""Programs on another machine: whom it is believed to be, what happens when it is lost, and what is kept there."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from zeus_plugins.sandboxes.bubblewrap import watch
from zeus_plugins.sandboxes.ssh import asking, plain
from zeus_plugins.sandboxes.ssh import framing as wire
from zeus_plugins.sandboxes.ssh.backend import sandboxes
from zeus_plugins.sandboxes.ssh.bootstrap import command, parcel
from zeus_plugins.sandboxes.ssh.connection import SshConnection
from zeus_plugins.sandboxes.ssh.framing import ASKED, next_frame, said
from zeus_plugins.sandboxes.ssh.options import Options

from tests.support.sandboxes import bubblewrap, processes_with
from tests.support.ssh_server import Server, keys, known, own_server
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.sandbox import (
    Program,
    SandboxBackend,
    SandboxError,
    SandboxLimits,
    SandboxSessions,
    SandboxUnavailableError,
    make_session_folder,
)
from zeus_runtime.testing import ScriptedModel, calling

pytestmark = pytest.mark.xdist_group("ssh")
WAITS = "while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with own_server(tmp_path_factory.mktemp("ssh")) as running:
        yield running


def backend(server: Server, folder: Path, **more: Any) -> SandboxSessions:
    given = {"wrap": "none", "folder": str(folder / "there"), "python": sys.executable, **more}
    return sandboxes(Options(**server.options(**given)), folder, {})


def refusal(made: SandboxBackend) -> SandboxUnavailableError:
    with pytest.raises(SandboxUnavailableError) as refused:
        made.check()
    assert refused.value.exit_code == 4
    return refused.value


def shell(script: str) -> Program:
    return Program(("/bin/sh", "-c", script))


@pytest.mark.parametrize(
    ("options", "machine"),
    [({}, "build.example"), ({"user": "ann", "port": 2222}, "ann@build.example port 2222")],
)
def test_its_machine_is_named_before_it_is_reached(
    options: dict[str, Any], machine: str, tmp_path: Path
) -> None:
    at = sandboxes(Options(host="build.example", **options), tmp_path, {})
    assert at.capabilities.machine == machine


def test_a_machine_that_nobody_knows_is_refused_with_its_fingerprint(server: Server, tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    error = refusal(backend(server, tmp_path, known_hosts="known"))
    assert "is not in known" in error.message
    assert asyncssh.read_public_key(server.folder / "host_key.pub").get_fingerprint() in error.message
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> known" in str(error.remedy)


def test_a_machine_with_another_key_than_before_is_refused(server: Server, tmp_path: Path) -> None:
    keys(tmp_path / "other")
    known(tmp_path / "other", server.port)
    error = refusal(backend(server, tmp_path, known_hosts="other/known_hosts"))
    assert "has another key" in error.message
    assert "ssh-keygen -R" in str(error.remedy)


def test_without_a_file_of_known_machines_none_is_trusted(server: Server, tmp_path: Path) -> None:
    assert "cannot be read" in refusal(backend(server, tmp_path, known_hosts="nowhere")).message


def test_a_key_that_the_machine_does_not_know_is_refused(server: Server, tmp_path: Path) -> None:
    keys(tmp_path / "other")
    error = refusal(backend(server, tmp_path, key=str(tmp_path / "other/key")))
    assert "does not accept the login" in error.message
    assert "ssh-agent" in str(error.remedy)


@pytest.mark.parametrize(
    ("given", "said"), [(None, "cannot be used"), ("wrong", "with this passphrase"), ("right", "")]
)
def test_a_key_with_a_passphrase_needs_it(
    server: Server, tmp_path: Path, given: str | None, said: str
) -> None:
    key = asyncssh.read_private_key(server.folder / "key")
    key.write_private_key(tmp_path / "locked", "pkcs8-pem", passphrase="right")
    made = backend(server, tmp_path, key="locked", passphrase=None if given is None else Secret(given))
    if said:
        error = refusal(made)
        assert said in error.message
        assert "right" not in str(error)
    else:
        made.check()


async def agent_listening(place: Path) -> asyncssh.SSHAgentClient:
    """A connection to the ssh-agent being started there: its socket is a file before it answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await asyncssh.connect_agent(str(place))
            except OSError:
                await asyncio.sleep(0.01)


async def test_the_keys_of_ssh_agent_are_used(server: Server, tmp_path: Path) -> None:
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent is not installed here")
    place = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.DEVNULL)
    try:
        async with await agent_listening(place) as client:
            await client.add_keys([asyncssh.read_private_key(server.folder / "key")])
        options = server.options(key=None, wrap="none", folder=str(tmp_path / "there"), python=sys.executable)
        sandboxes(Options(**options), tmp_path, {"SSH_AUTH_SOCK": str(place)}).check()
    finally:
        agent.kill()
        agent.wait()


def test_a_machine_that_does_not_answer_is_off(server: Server, tmp_path: Path) -> None:
    assert "cannot be reached" in refusal(backend(server, tmp_path, port=1)).message


async def test_without_the_extra_the_install_command_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeus_plugins.sandboxes.ssh.machine.find_spec", lambda name: None)
    made = backend(server, tmp_path)
    assert "pip install 'zeus-runtime[ssh]'" in str(refusal(made).remedy)
    with pytest.raises(SandboxUnavailableError):
        await made.remove("s1")
    await made.aclose()


@pytest.mark.parametrize("ended", ["later", "before it is asked"])
def test_a_machine_without_a_python_that_can_watch_is_off(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    if ended == "before it is asked":
        create = asyncssh.SSHClientConnection.create_process

        async def slow(self: Any, *given: Any, **more: Any) -> Any:
            process = await create(self, *given, **more)
            await process.wait_closed()
            return process

        monkeypatch.setattr(asyncssh.SSHClientConnection, "create_process", slow)
    assert "no-such-python: not found" in refusal(backend(server, tmp_path, python="no-such-python")).message
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'it is Python 3.6, and 3.11 or newer is needed' >&2\nexit 1\n")
    old.chmod(0o755)
    assert "3.11 or newer" in refusal(backend(server, tmp_path, python=str(old))).message


def test_a_machine_without_bubblewrap_is_off_and_never_runs_without_walls(
    server: Server, tmp_path: Path
) -> None:
    bubblewrap(tmp_path)
    error = refusal(backend(server, tmp_path, wrap="bubblewrap", bwrap="no-such-bwrap"))
    assert "no-such-bwrap is not installed there" in error.message
    assert "apt-get install bubblewrap" in str(error.remedy)


async def test_bubblewrap_that_goes_away_ends_the_sandbox_and_not_its_walls(
    server: Server, tmp_path: Path
) -> None:
    bubblewrap(tmp_path)
    program = tmp_path / "bwrap"
    program.symlink_to(str(shutil.which("bwrap")))
    made = backend(server, tmp_path, wrap="bubblewrap", bwrap=str(program))
    box = await made.create("s1")
    program.unlink()
    with pytest.raises(SandboxUnavailableError, match="not installed there"):
        await box.exec(shell(f"touch {tmp_path}/ran"), SandboxLimits())
    assert not (tmp_path / "ran").exists()
    await made.aclose()


async def test_what_is_sent_needs_no_zeus_there(tmp_path: Path) -> None:
    """A Python that sees no installed package answers."""
    process = await asyncio.create_subprocess_shell(
        command(getattr(sys, "_base_executable", sys.executable)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(tmp_path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    question = {"do": "look", "folder": "boxes", "wrap": "none", "bwrap": "bwrap", "files": []}
    process.stdin.write(parcel() + said(ASKED, question))
    kind, data = await next_frame(process.stdout)
    assert (kind, json.loads(data)["root"]) == (wire.DONE, str(tmp_path / "boxes"))
    process.stdin.close()
    assert await process.wait() == 0


@pytest.mark.parametrize("wrap", ["none", "bubblewrap"])
async def test_a_connection_that_is_cut_is_said_and_leaves_nothing_running(
    server: Server, tmp_path: Path, wrap: str
) -> None:
    if wrap == "bubblewrap":
        bubblewrap(tmp_path)
    made = backend(server, tmp_path, wrap=wrap)
    box = await made.create("s1")
    word = f"left{secrets.token_hex(4)}"
    heard = asyncio.Event()
    script = f": {word}; echo kept > kept; (setsid sh -c ': {word}; {WAITS}' &) ; echo begun; {WAITS}"
    running = asyncio.ensure_future(box.exec(shell(script), SandboxLimits(), lambda _data: heard.set()))
    await asyncio.wait_for(heard.wait(), 60)
    assert processes_with(word)
    server.cut()
    with pytest.raises(SandboxError, match="was lost") as lost:
        await running
    assert "a new connection is made" in str(lost.value.remedy)
    async with asyncio.timeout(60):
        while processes_with(word):
            await asyncio.sleep(0.02)
    outcome = await box.exec(shell("cat kept"), SandboxLimits())
    assert outcome.output == b"kept\n"
    await made.aclose()


async def test_who_finds_a_connection_lost_leaves_the_one_made_since(server: Server, tmp_path: Path) -> None:
    line = SshConnection(Options(**server.options()), tmp_path, {})
    lost = await line.open()
    lost.abort()
    await lost.wait_closed()
    anew = await line.open()
    line.drop(lost)
    assert await line.open() is anew
    line.drop(anew)
    assert await line.open() is not anew
    await line.close()


async def test_a_program_ends_in_time_there_when_nobody_here_listens(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stands, and this side says nothing any more: the other one gives up by itself."""
    monkeypatch.setattr(asking, "ALIVE_SECONDS", 3_600)
    source = parcel()
    short = _altered(source, b"SILENT_SECONDS: Final = 30.0", b"SILENT_SECONDS: Final = 0.5")
    made = backend(server, tmp_path)
    made.check()
    monkeypatch.setattr(asking, "parcel", lambda: short)
    box = await made.create("s1")
    word = f"left{secrets.token_hex(4)}"
    with pytest.raises(SandboxError, match="received nothing for too long"):
        await box.exec(shell(f": {word}; {WAITS}"), SandboxLimits())
    assert processes_with(word) == []
    await made.aclose()


async def test_what_goes_wrong_there_is_told_at_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = _altered(
        parcel(), b"libc.prctl(_PR_SET_CHILD_SUBREAPER", b"libc.no_such_call(_PR_SET_CHILD_SUBREAPER"
    )
    made = backend(server, tmp_path)
    made.check()
    monkeypatch.setattr(asking, "parcel", lambda: wrong)
    box = await made.create("s1")
    with pytest.raises(SandboxError, match=r"AttributeError: .*no_such_call"):
        await box.exec(shell("true"), SandboxLimits())
    await made.aclose()


def test_a_process_that_is_being_reaped_is_counted_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder in /proc is there, and no thread is in it."""
    listed = os.listdir

    def without_threads(path: str) -> list[str]:
        return [] if str(path).startswith("/proc/") else listed(path)

    monkeypatch.setattr(os, "listdir", without_threads)
    assert plain._shared(os.getpid()) == 0
    assert list(watch.processes(os.getpid())) == []


async def test_whoever_kills_the_watcher_there_kills_the_program(server: Server, tmp_path: Path) -> None:
    bubblewrap(tmp_path)
    made = backend(server, tmp_path, wrap="bubblewrap")
    box = await made.create("s1")
    word = f"left{secrets.token_hex(4)}"
    heard = asyncio.Event()
    script = f": {word}; (setsid sh -c ': {word}; {WAITS}' &) ; echo begun; {WAITS}"
    running = asyncio.ensure_future(box.exec(shell(script), SandboxLimits(), lambda _data: heard.set()))
    await asyncio.wait_for(heard.wait(), 60)
    for watcher in processes_with("import os, sys, zlib"):
        with suppress(
            FileNotFoundError, ProcessLookupError
        ):  # another test's, or of a question answered by now
            if Path(f"/proc/{watcher}/cwd").resolve() == server.home:
                os.kill(watcher, signal.SIGKILL)
    with pytest.raises(SandboxError, match=r"was killed \(KILL\)"):
        await running
    async with asyncio.timeout(60):
        while processes_with(word):
            await asyncio.sleep(0.02)
    assert (await box.exec(shell("echo again"), SandboxLimits())).output == b"again\n"
    await made.aclose()


async def test_many_programs_at_once_wait_for_each_other(server: Server, tmp_path: Path) -> None:
    made = backend(server, tmp_path)
    boxes = [await made.create(f"s{number}") for number in range(12)]
    outcomes = await asyncio.gather(
        *(box.exec(shell(f"echo {number}"), SandboxLimits()) for number, box in enumerate(boxes))
    )
    assert [int(each.output) for each in outcomes] == list(range(12))
    await made.aclose()


def _altered(packed: bytes, old: bytes, new: bytes) -> bytes:
    import zlib

    text = zlib.decompress(packed[4:])
    assert old in text
    again = zlib.compress(text.replace(old, new))
    return len(again).to_bytes(4, "big") + again


async def test_processes_that_flee_their_session_are_ended_with_the_program(
    server: Server, tmp_path: Path
) -> None:
    made = backend(server, tmp_path)
    box = await made.create("s1")
    word = f"left{secrets.token_hex(4)}"
    script = f"(setsid sh -c '(setsid sh -c \": {word}; {WAITS}\" &)' &); sleep 0.2; echo done"
    outcome = await box.exec(shell(script), SandboxLimits())
    assert outcome.output == b"done\n"
    assert processes_with(word) == []
    await made.aclose()


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("while True: say(b'O', b'x' * 65_000)", "sent more output than the program may print"),
        ("say(b'R', b'[0, null]')", "an answer that cannot be read"),
        ("say(b'R', b'[0, \"no such limit\", 1.0, []]')", "an answer that cannot be read"),
        ("say(b'R', b'[')", "an answer that cannot be read"),
        ("say(b'E', b'{}')", "an answer that cannot be read"),
        ("say(b'O', size=2**29)", "it sent invalid data"),
        ("while True: say(b'.'); time.sleep(0.05)", "did not end in time"),
    ],
    ids=["floods", "too little", "a limit of its own", "no JSON", "no reason", "too long", "never ends"],
)
async def test_a_machine_that_lies_harms_nobody_here(
    says: str, told: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without walls a program can speak in place of what watches over it."""
    monkeypatch.setattr(asking, "GRACE_SECONDS", 0.3 if "time" in told else 60)
    monkeypatch.setattr(asking, "_CLOSING_SECONDS", 0.5)
    monkeypatch.setattr(asking, "_END_SECONDS", 0.5)
    liar = tmp_path / "liar"
    liar.write_text(f"""#!{sys.executable}
import sys, time
def say(kind, data=b"", size=None):
    sys.stdout.buffer.write(kind + (len(data) if size is None else size).to_bytes(4, "big") + data)
    sys.stdout.buffer.flush()
{says}
sys.stdin.buffer.read()
""")
    liar.chmod(0o755)
    made = backend(server, tmp_path, python=str(liar), keep_days=None)
    made.containment._seen = {"root": str(tmp_path / "there"), "python": True}  # type: ignore[attr-defined]
    box = await made.create("s1")
    with pytest.raises(SandboxError, match=told):
        await box.exec(shell("true"), SandboxLimits(seconds=0.5, output_bytes=1_000_000))
    await made.aclose()


SHARED_IN_PARTS = b"""
import mmap, time
held = mmap.mmap(-1, 200 * 2**20)
for offset in range(0, len(held), 2**20): held.madvise(mmap.MADV_DONTFORK, offset, 4096)
held[::4096] = b'x' * len(held[::4096])
time.sleep(60)
"""


async def test_without_walls_memory_and_file_size_are_limited_all_the_same(
    server: Server, tmp_path: Path
) -> None:
    made = backend(server, tmp_path)
    box = await made.create("s1")
    code = b"held = bytearray(b'x') * 300_000_000\nimport time\ntime.sleep(60)"
    program = Program(("python3", "/tmp/code.py"), {"code.py": code})
    outcome = await box.exec(program, SandboxLimits(memory_bytes=100 * 2**20))
    assert outcome.killed_by == "memory"
    outcome = await box.exec(
        Program(("python3", "/tmp/code.py"), {"code.py": SHARED_IN_PARTS}),
        SandboxLimits(memory_bytes=100 * 2**20),
    )
    assert outcome.killed_by == "memory"
    outcome = await box.exec(shell("exec head -c 3000000 /dev/zero > big"), SandboxLimits(file_bytes=2**20))
    assert outcome.killed_by == "file_size"
    assert (tmp_path / "there/s1/big").stat().st_size == 2**20
    await made.aclose()


async def test_a_path_that_the_machine_refuses_takes_no_other_program_along(
    server: Server, tmp_path: Path
) -> None:
    made = backend(server, tmp_path)
    one, two = await made.create("s1"), await made.create("s2")
    started = asyncio.Event()
    script = shell("echo started; while [ ! -e go ]; do sleep 0.02; done; echo ended")
    running = asyncio.ensure_future(two.exec(script, SandboxLimits(), lambda _data: started.set()))
    await started.wait()
    await one.write("here", b"x")
    name = "x" * 300
    for refused in (one.read(name, max_bytes=1), one.write(f"{name}/a", b"x"), one.list(name)):
        with pytest.raises(SandboxError, match="in the sandbox: xxx"):
            await refused
    (tmp_path / "there/s2/go").touch()
    assert (await running).output == b"started\nended\n"
    await made.aclose()


async def test_links_are_followed_within_the_folder_and_not_out_of_it(server: Server, tmp_path: Path) -> None:
    made = backend(server, tmp_path)
    box = await made.create("s1")
    (tmp_path / "secret").write_text("secret")
    await box.write("in/deep/file", b"inside")
    await box.exec(
        shell(
            f"""ln -s {tmp_path} folder; ln -s {tmp_path}/secret absolute; ln -s ../../secret up; ln -s loop loop
            ln -s in/deep fine; ln -s ../in/../../../secret in/round; mkfifo pipe; ln -s nowhere dangling"""
        ),
        SandboxLimits(),
    )
    assert await box.read("fine/file", max_bytes=10) == b"inside"
    for path in (
        "folder/secret",
        "absolute",
        "up",
        "loop",
        "in/round",
        "pipe",
        "../../secret",
        "in/deep/../../../secret",
        "dangling",
        "in",
    ):
        with pytest.raises(SandboxError):
            await box.read(path, max_bytes=1_000)
    for path in ("folder/secret", "absolute", "up", "in/round", "../secret", "in", ""):
        with pytest.raises(SandboxError):
            await box.write(path, b"overwritten")
    await box.write("fine/new", b"new")
    assert await box.read("in/deep/new", max_bytes=10) == b"new"
    assert (tmp_path / "secret").read_text() == "secret"
    listed = {each.path: each.kind for each in await box.list()}
    assert listed["/workspace/folder"] == "link"
    assert "/workspace/pipe" not in listed
    assert not any(path.startswith("/workspace/folder/") for path in listed)
    await made.aclose()


async def test_files_there_are_their_owners_alone(server: Server, tmp_path: Path) -> None:
    made = backend(server, tmp_path)
    await (await made.create("s1")).write("a/b", b"x")
    await made.aclose()
    for path, mode in (("there/s1", 0o700), ("there/s1/a", 0o700), ("there/s1/a/b", 0o600)):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == mode


async def test_files_go_with_their_age_or_with_the_agent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The marks of folders are recorded there.
    monkeypatch.setenv("XDG_STATE_HOME", str(server.home / ".local/state"))
    for name, days in (("old", 40), ("new", 5)):
        make_session_folder(tmp_path / "there" / name)
        os.utime(tmp_path / "there" / name, (time.time() - days * 86_400,) * 2)
    made = backend(server, tmp_path, keep_days=30.0)
    await (await made.create("s1")).write("a", b"x")
    await made.aclose()
    assert sorted(each.name for each in (tmp_path / "there").glob("[!.]*")) == ["new", "s1"]
    made = backend(server, tmp_path, keep_days=0.0)
    await (await made.create("s2")).write("a", b"x")
    await made.aclose()
    assert sorted(each.name for each in (tmp_path / "there").glob("[!.]*")) == ["new", "s1"]


def config(folder: Path, server: Server, **more: Any) -> Path:
    given = server.options(folder=str(folder / "there"), python=sys.executable, **more.pop("options", {}))
    tool = {"backend": {"ssh": given}, **more}
    path = folder / "zeus.yaml"
    path.write_text(json.dumps({"version": 1, "model": "gpt-4o", "tools": [{"sandbox": tool}]}))
    return path


def test_a_machine_without_walls_needs_a_word_in_the_yaml(server: Server, tmp_path: Path) -> None:
    config(tmp_path, server, options={"wrap": "none"})
    with pytest.raises(ConfigError, match="see the files of the machine") as refused:
        Agent.from_config(directory=tmp_path, environ={})
    assert refused.value.exit_code == 3
    config(tmp_path, server, options={"wrap": "none"}, require_isolation=False, max_processes=3)
    with pytest.raises(ConfigError, match="max_processes cannot be enforced"):
        Agent.from_config(directory=tmp_path, environ={})


def test_where_the_machine_is_not_there_the_tools_are_off_and_the_user_is_told(
    server: Server, tmp_path: Path
) -> None:
    config(tmp_path, server, options={"port": 1})
    (off,) = Agent.from_config(directory=tmp_path, environ={}).plan.off
    assert "cannot be reached over SSH" in off.reason


def test_a_passphrase_without_a_key_is_an_error_with_its_place(server: Server, tmp_path: Path) -> None:
    config(tmp_path, server, options={"passphrase": "x", "key": None})
    with pytest.raises(ConfigError, match="but no `key` for it") as refused:
        Agent.from_config(directory=tmp_path, environ={})
    assert refused.value.diagnostics[0].position is not None


async def test_an_agent_works_there(server: Server, tmp_path: Path) -> None:
    bubblewrap(tmp_path)
    config(tmp_path, server)
    (tmp_path / "in.txt").write_text("6")
    code = "open('out.txt', 'w').write(str(7 * int(open('in.txt').read())))\nprint(__import__('os').getcwd())"
    model = ScriptedModel(
        [
            calling(("create_sandbox", {"files": ["/in.txt"]})),
            calling(("execute_code", {"code": code})),
            calling(("copy_from_sandbox", {"path": "/workspace/out.txt", "to": "/out.txt"})),
            "done",
        ]
    )
    async with Agent.from_config(directory=tmp_path, model=model, environ={}) as agent:
        results = [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]
    assert [each.is_error for each in results] == [False, False, False], [each.content for each in results]
    assert results[1].content == "/workspace"
    assert (tmp_path / "out.txt").read_text() == "42"
