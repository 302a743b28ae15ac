"""The shell tools as an agent has them: commands, their ends, and that they cannot leave the workspace."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.sandboxes.bubblewrap import mounts
from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot
from zeus_plugins.sandboxes.bubblewrap.mounts import sees_judged
from zeus_plugins.tools.shell.containment import BubblewrapCommands, arguments_of
from zeus_plugins.tools.shell.encoding import other_encoding
from zeus_plugins.tools.shell.processes import (
    SPARE_BYTES,
    Background,
    CommandOutput,
    RunningCommand,
    ShellError,
    Start,
    Starter,
    TakenOutput,
)

from tests.support.shells import (
    LEAVING,
    LOOKING,
    MOVING,
    POLICY,
    TRIES,
    alive,
    below,
    command,
    descriptors_of,
    filling,
    need_bubblewrap,
    policed,
    processes_of,
    results,
    shell_agent,
)
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import RunCompleted, ToolCallResult
from zeus_runtime.plugin import Redactor, UntrustedError
from zeus_runtime.plugin.files import OPEN_BYTES, ProgramMount, masked_bytes
from zeus_runtime.testing import ScriptedModel, calling
from zeus_runtime.tools import invoke

pytestmark = pytest.mark.xdist_group("sandbox")


@pytest.fixture
def contain(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        need_bubblewrap()
    return str(request.param)


def both(test: Any) -> Any:
    return pytest.mark.parametrize("contain", ["bubblewrap", "none"], indirect=True)(test)


@both
async def test_a_command_changes_the_workspace_and_its_output_and_exit_code_are_told(
    tmp_path: Path, contain: str
) -> None:
    (tmp_path / "src").mkdir()
    wrote, failed, words, inside, empty = await results(
        tmp_path,
        "echo one > src/a && cat src/a; echo two >&2",
        "cat missing; exit 3",
        command(["printf", "%s|", "a b", "$HOME", "*"]),
        command("pwd; ls", cwd="/src"),
        "true",
        contain=contain,
    )
    assert (wrote.content, wrote.is_error) == ("one\ntwo", False)
    assert (tmp_path / "src/a").read_text() == "one\n"
    assert failed.is_error
    assert failed.content.endswith("No such file or directory\n[exit code 3]")
    assert words.content == "a b|$HOME|*|"
    assert inside.content == f"{tmp_path}/src\na"
    assert (empty.content, empty.is_error) == ("[exit code 0]", False)


@both
async def test_a_question_about_a_command_says_if_it_is_not_contained(tmp_path: Path, contain: str) -> None:
    async with shell_agent(tmp_path, "true", contain=contain) as agent:
        facts = {each.tool.name: each.tool.facts for each in agent.plan.tools}
    assert facts.pop("run_command") == (
        ("not contained (`shell: contain: none`)",) if contain == "none" else ()
    )
    assert not any(facts.values())


@both
async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, contain: str
) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    script = f"echo before; (setsid sleep {mark} >/dev/null 2>&1 &) ; nohup sleep {mark} >/dev/null 2>&1 & sleep {mark}"
    (ended,) = await results(tmp_path, command(script, timeout_seconds=0.5), contain=contain)
    assert ended.content == "before\n[ended: it took longer than 0.5 seconds]"
    assert ended.is_error
    assert processes_of(mark) == []


@both
async def test_what_a_command_leaves_running_is_ended_with_it(tmp_path: Path, contain: str) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    (done,) = await results(tmp_path, f"(setsid sleep {mark} &); sleep {mark} & echo over", contain=contain)
    assert done.content == "over"
    assert processes_of(mark) == []


@both
async def test_a_background_command_is_read_in_parts_and_stopped(tmp_path: Path, contain: str) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    script = f"echo first; until [ -e go ]; do sleep 0.02; done; echo second; sleep {mark}"
    answers = await results(
        tmp_path,
        command(script, background=True),
        calling(("read_output", {"command_id": "cmd_1", "wait_seconds": 20})),
        "touch go",
        calling(("read_output", {"command_id": "cmd_1", "wait_seconds": 20})),
        calling(("stop_command", {"command_id": "cmd_1"})),
        calling(("read_output", {"command_id": "cmd_1"})),
        calling(("read_output", {"command_id": "cmd_7"})),
        contain=contain,
    )
    started, first, _, second, stopped, after, unknown = [each.content for each in answers]
    assert started.startswith("Started as cmd_1.")
    assert (first, second) == ("first\n[running]", "second\n[running]")
    assert stopped == "[stopped]"
    assert after == "[exit code 137]"
    assert unknown.startswith("there is no background command 'cmd_7'")
    assert processes_of(mark) == []


@both
async def test_background_commands_end_with_the_agent(tmp_path: Path, contain: str) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    agent = shell_agent(tmp_path, command(f"sleep {mark}", background=True), contain=contain)
    async with agent:
        ending = [each async for each in agent.stream("go")][-1]
        assert isinstance(ending, RunCompleted)
        while not processes_of(mark):  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.01)
    assert processes_of(mark) == []


@both
async def test_another_session_cannot_read_a_command(tmp_path: Path, contain: str) -> None:
    agent = shell_agent(
        tmp_path,
        command("echo mine; sleep 30", background=True),
        "done",
        calling(("read_output", {"command_id": "cmd_1"})),
        contain=contain,
    )
    async with agent:
        assert [each async for each in agent.stream("go")]
        (read,) = [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]
    assert read.content.startswith("there is no background command")


@both
async def test_a_cancelled_run_leaves_no_process(tmp_path: Path, contain: str) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    async with shell_agent(tmp_path, command(f"touch begun; sleep {mark}"), contain=contain) as agent:

        async def play() -> None:
            async for _ in agent.stream("go"):
                pass

        task = asyncio.create_task(play())
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert processes_of(mark) == []


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.support.shells import command, shell_agent

async def main():
    folder, contain, mark = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    script = f"(setsid sleep {mark} &); sleep {mark} & touch begun; sleep {mark}"
    agent = shell_agent(folder, command(script, background=True), command(script.replace("begun", "also")),
                        contain=contain)
    async with agent:
        async for _ in agent.stream("go"):
            pass

asyncio.run(main())
"""


@both
async def test_no_process_is_left_of_a_runtime_that_is_killed(tmp_path: Path, contain: str) -> None:
    mark = f"30{secrets.randbelow(10**9)}"
    words = [sys.executable, "-c", KILLED, str(tmp_path), contain, mark]
    runtime = subprocess.Popen(words, cwd=Path(__file__).parents[3])  # noqa: ASYNC220 - it is killed
    while not ((tmp_path / "begun").exists() and (tmp_path / "also").exists()):
        assert runtime.poll() is None
        await asyncio.sleep(0.02)
    assert f"sleep {mark}" in " ".join(processes_of(mark))
    started = set(below(runtime.pid))
    assert len(started) >= 5
    os.kill(runtime.pid, signal.SIGKILL)
    runtime.wait()
    # The kernel or a keeper ends them; the test's time limit is the limit.
    while processes_of(mark) or started & alive():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_each_command_has_a_keeper_with_no_descriptor_of_another(tmp_path: Path) -> None:
    marks = [f"30{secrets.randbelow(10**9)}" for _ in range(3)]
    steps = [command(["sleep", each], background=True) for each in marks]
    before = set(below(os.getpid()))
    async with shell_agent(tmp_path, *steps, contain="none") as agent:
        assert [each async for each in agent.stream("go")]
        while not all(processes_of(each) for each in marks):  # noqa: ASYNC110 - another process starts them
            await asyncio.sleep(0.01)
        made = {pid: parent for pid, parent in below(os.getpid()).items() if pid not in before}
        (server,) = [pid for pid, parent in made.items() if parent == os.getpid()]
        keepers = [pid for pid, parent in made.items() if parent == server]
        assert sorted(parent for parent in made.values() if parent in keepers) == sorted(keepers)
        held = [descriptors_of(pid) for pid in keepers]
        assert [len(each) for each in held] == [2, 2, 2]  # its output, and its socket
        assert len(set().union(*held, descriptors_of(server))) == 7
    assert set(below(os.getpid())) <= before


KILLED_FIRST = """
import os, socket
from zeus_plugins.tools.shell import keeper

kill = os.killpg

def killpg(leader, number):
    print(os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None, flush=True)
    kill(leader, number)

os.killpg = killpg
ours, theirs = socket.socketpair()
print(keeper._run([b"sh", b"-c", b"exit 3"], ours.fileno()))
"""


def test_the_group_of_a_command_is_killed_before_its_number_is_free() -> None:
    """Another process could get it, and its group would be killed."""
    done = subprocess.run([sys.executable, "-c", KILLED_FIRST], capture_output=True, text=True)
    assert done.stdout == "True\n3\n", done.stderr


async def test_the_next_command_runs_if_one_has_killed_the_process_of_all_keepers(tmp_path: Path) -> None:
    # A busy machine takes a while to end a killed process, and its next command would end with it.
    is_over = "[ ! -e /proc/$all ] || grep -q ') Z' /proc/$all/stat"
    killed = f"kill -9 $all && until {is_over}; do sleep 0.02; done; echo killed"
    kill_all = f"all=$(cut -d ' ' -f 4 /proc/$PPID/stat); {killed}"
    background = command("echo begun; until [ -e go ]; do sleep 0.02; done; echo over", background=True)
    read = calling(("read_output", {"command_id": "cmd_1", "wait_seconds": 20}))
    before = set(below(os.getpid()))
    answers = await results(
        tmp_path, background, read, kill_all, "touch go; echo after", read, contain="none"
    )
    begun, said, after, over = [each.content for each in answers[1:]]
    assert (begun, said, after) == ("begun\n[running]", "killed", "after")
    assert over.startswith("over")
    assert set(below(os.getpid())) <= before


@pytest.mark.timeout(30)
async def test_an_agent_closes_although_a_command_has_stopped_the_process_of_all_keepers(
    tmp_path: Path,
) -> None:
    before = set(below(os.getpid()))
    # While that process has its copies of the command's descriptors, nobody sees the command's end.
    stop = """process=$(cut -d ' ' -f 4 /proc/$PPID/stat)
    while [ "$(ls /proc/$process/fd | wc -l)" -gt 3 ]; do sleep 0.01; done
    kill -STOP $process && echo stopped"""
    (stopped,) = await results(tmp_path, stop, contain="none")
    assert stopped.content == "stopped"
    assert set(below(os.getpid())) <= before


@both
async def test_a_keeper_that_its_command_kills_ends_the_command(tmp_path: Path, contain: str) -> None:
    """In bubblewrap the first process cannot be killed."""
    killed, after = await results(
        tmp_path, "kill -9 $PPID; sleep 0.1; echo survived", "echo next", contain=contain
    )
    assert after.content == "next"
    assert killed.content == ("survived" if contain == "bubblewrap" else "[exit code 137]")


@both
async def test_words_arrive_as_they_are(tmp_path: Path, contain: str) -> None:
    long = "ä" * 60_000  # with three of them, more than a socket takes at once
    words, counted, missing = await results(
        tmp_path,
        command(["printf", "<%s>", "", "two\nlines", "ß"]),
        command(["sh", "-c", 'printf %s "$1$2$3" | wc -c', "sh", long, long, long]),
        command(["no-such-program"]),
        contain=contain,
    )
    assert words.content == "<><two\nlines><ß>"
    assert counted.content.strip() == "360000"
    assert missing.is_error
    assert "no-such-program" in missing.content
    assert missing.content.endswith("[exit code 127]")


@both
async def test_a_long_output_is_shown_in_part_and_read_file_opens_the_whole(
    tmp_path: Path, contain: str
) -> None:
    keys = {"tools": [{"shell": {"contain": contain, "max_result_chars": 200}}, "filesystem"]}
    async with shell_agent(tmp_path, command("seq 1 2000"), keys=keys) as agent:
        (shown,) = [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]
    assert shown.content.startswith("1\n2\n")
    assert "\n2000\n" in shown.content
    assert "characters left out" in shown.content
    path = shown.content.rpartition(" is in ")[2].rstrip("]")
    read = calling(("read_file", {"path": path, "offset": 1500, "limit": 1}))
    async with shell_agent(tmp_path, command("seq 1 2000"), read, keys=keys) as agent:
        whole = [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)][-1]
    assert "1500" in whole.content or "1501" in whole.content
    assert not whole.is_error


async def test_beyond_the_limit_the_middle_is_lost_and_the_result_says_so(tmp_path: Path) -> None:
    (shown,) = await results(
        tmp_path, "seq 1 100000", contain="none", max_output_kb=1, max_result_chars=5_000
    )
    assert shown.content.startswith("1\n2\n")
    assert shown.content.endswith("\n99999\n100000")
    assert "bytes are lost: the command printed too much" in shown.content


def taken(
    output: CommandOutput, secrets: Redactor, *, has_ended: bool, meanwhile: bytes = b""
) -> tuple[bytes, int, bytes]:
    """What is told of the output; ``meanwhile`` is printed while it is prepared."""
    taken = output.take()
    output.add(meanwhile)
    head, lost, tail, end = taken.parted(secrets, has_ended=has_ended)
    output.put_back(end)
    return head, lost, tail


def _plain(shown: bytes) -> bytes:
    """Output with each placeholder in one form."""
    return re.sub(rb"<secret:KEY[^>]*>", b"<secret:KEY>", shown.replace(b"\0", b""))


def test_output_of_any_pieces_keeps_its_beginning_and_its_end() -> None:
    output = CommandOutput(10)
    for piece in (b"abc", b"defgh", b"", b"ijklmnopqrstuvwxyz"):
        output.add(piece)
    assert taken(output, Redactor(), has_ended=False) == (b"abcde", 16, b"vwxyz")
    assert taken(output, Redactor(), has_ended=False) == (b"", 0, b"")


class EndsAtOnce:
    """Starts nothing; the output is what a test adds."""

    async def refusal(self) -> str | None:
        return None

    async def wait(self) -> int:
        return 3

    def kill(self) -> None:
        pass


class Fails(EndsAtOnce):
    """A command that cannot be followed to its end, until it is killed."""

    def __init__(self) -> None:
        self.killed = asyncio.Event()

    async def wait(self) -> int:
        await self.killed.wait()
        raise OSError(errno.EIO, "no more of it")

    def kill(self) -> None:
        self.killed.set()


class Lingers(Fails):
    """A command that ends some turns of the event loop after it was killed."""

    async def wait(self) -> int:
        await self.killed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        return -signal.SIGKILL


class FailsAtOnce(Fails):
    """A command that runs on, but cannot be followed."""

    async def wait(self) -> int:
        raise OSError(errno.EIO, "no more of it")


def begun(starter: Starter, most: int = 100) -> RunningCommand:
    read, write = os.pipe()
    os.close(write)
    return RunningCommand(starter, read, CommandOutput(most))


async def test_all_background_commands_are_ended_also_if_one_of_them_fails() -> None:
    background = Background(100)
    running = [begun(each) for each in (Lingers(), Fails(), Fails(), Lingers())]
    for each in running:
        background.add("s", each)
    with pytest.raises(OSError, match="no more of it") as caught:
        await background.aclose()
    assert caught.value.__notes__ == ["Also failed: OSError: [Errno 5] no more of it"]
    assert [each.exit_code for each in running] == [137, 137, 137, 137]


async def test_a_command_that_cannot_be_followed_is_killed_and_no_reader_waits_for_more() -> None:
    starter = FailsAtOnce()
    running = begun(starter)
    with pytest.raises(OSError, match="no more of it"):
        await running.wait()
    assert starter.killed.is_set()
    assert running.exit_code == 137
    assert running.news.is_set()


@pytest.mark.parametrize(
    "failure", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]
)
async def test_a_command_whose_begin_fails_is_not_run_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    need_bubblewrap()
    failures, pidfd_open = [failure], os.pidfd_open

    def fails_once(process: int) -> int:
        if failures:
            raise failures.pop()
        return pidfd_open(process)

    before = set(below(os.getpid()))
    async with shell_agent(tmp_path, command("touch ran"), command("echo next")) as agent:
        held = descriptors_of(os.getpid())
        monkeypatch.setattr(os, "pidfd_open", fails_once)
        answers = [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]
        assert descriptors_of(os.getpid()) == held
    assert answers[0].is_error
    assert answers[0].content == f"the command cannot be started: {failure}"
    assert answers[1].content == "next"
    assert not (tmp_path / "ran").exists()
    assert set(below(os.getpid())) <= before


async def ended(background: Background, printed: int, most: int = 2**20) -> tuple[str, RunningCommand]:
    """A background command that has printed so many bytes and ended, and its id."""
    running = begun(EndsAtOnce(), most)
    running.output.add(b"^" + b"x" * (printed - 2) + b"$")
    name = background.add("s", running)
    await running.wait()
    await asyncio.sleep(0)  # its callback
    return name, running


async def test_the_output_of_ended_background_commands_is_bounded() -> None:
    background = Background(3 * 2**20)
    made = [await ended(background, 2**20) for _ in range(10)]
    assert sum(each.output.held for _, each in made) <= 3 * 2**20
    assert [background.find("s", name) for name, _ in made] == [each for _, each in made]
    head, lost, tail = taken(made[0][1].output, Redactor(), has_ended=True)
    assert (head[:1], tail[-1:], len(head) + lost + len(tail)) == (b"^", b"$", 2**20)
    assert len(head) + len(tail) == 2**15
    head, lost, tail = taken(made[-1][1].output, Redactor(), has_ended=True)
    assert (lost, len(head + tail)) == (0, 2**20)


async def test_ended_background_commands_are_forgotten_oldest_first_and_the_last_one_never() -> None:
    background = Background(100_000)
    first, _ = await ended(background, 40_000)
    second, _ = await ended(background, 40_000)
    last, huge = await ended(background, 200_000)
    for each in (first, second):
        with pytest.raises(ShellError, match="there is no background command") as caught:
            background.find("s", each)
        assert (
            caught.value.remedy
            == f"There are: {last}. Of those that have ended, the last 1,000 are kept at most."
        )
    assert background.find("s", last).output.held == huge.output.held == 200_000


async def test_no_more_than_a_thousand_ended_background_commands_are_kept() -> None:
    background = Background(2**20)
    names = [(await ended(background, 2))[0] for _ in range(1_003)]
    for each in names[:3]:
        with pytest.raises(ShellError):
            background.find("s", each)
    assert all(background.find("s", each).exit_code == 3 for each in names[3:])


KEY = "ghp_A1b2C3d4E5f6 \u00e97h8I9"
FORMS = [
    KEY.encode(),
    b64encode(KEY.encode()),
    *(KEY.encode(each) for each in ("utf-16-le", "utf-16-be")),
    KEY.replace(" ", "\\n").encode(),
]


@given(
    st.lists(st.sampled_from([*FORMS, FORMS[0][:5], b"\n", b"plain ", b" " * 40, bytes(20_000)]), max_size=8),
    st.lists(st.integers(0, 400), max_size=6),
    st.integers(1, 6),
    st.sampled_from([1, 30, 100, 10**6]),
    st.sampled_from([None, 20, 100]),
    st.sampled_from([0, 3, 50]),
)
def test_no_part_of_a_secret_is_in_output_that_is_read_in_pieces_and_cut(
    parts: list[bytes], places: list[int], reads: int, most: int, least: int | None, between: int
) -> None:
    known = Redactor({KEY: "KEY"})
    data = b"".join(parts)
    ends = sorted({min(each, len(data)) for each in places} | {len(data)})
    output, shown, dropped = CommandOutput(most), b"", False
    added = 0
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        output.add(data[max(start, added) : end])
        added = max(end, added)
        if end == len(data) and least is not None:
            output.shrink(least)
        if end == len(data) or number % reads == 0:
            more = b"" if end == len(data) else data[added : added + between]
            added += len(more)
            head, lost, tail = taken(output, known, has_ended=end == len(data), meanwhile=more)
            shown += masked_bytes(head + (b"|" if lost else b"") + tail, known)
            dropped |= bool(lost)
    if not dropped:
        # Of UTF-16, whether a placeholder has its letters in UTF-16 too depends on the bytes before it.
        assert _plain(shown) == _plain(masked_bytes(data, known))
    for form in FORMS:
        assert not [at for at in range(len(form) - 5) if form[at : at + 6] in shown]


@pytest.mark.parametrize("kept", [2_000 + OPEN_BYTES, 2_000 + SPARE_BYTES])
def test_the_half_of_a_long_secret_that_was_torn_where_output_is_lost_is_not_shown(kept: int) -> None:
    secret = "".join(sha256(b"%d" % number).hexdigest() for number in range(50))
    known, output = Redactor({secret: "KEY"}), CommandOutput(4_000)
    # Lines that may be parts of one word.
    rest = (b"\n" + b"A" * 76) * 1_000
    output.add(b"first " * 1_000 + secret.encode() + rest[: kept - 1_000])
    head, lost, tail = taken(output, known, has_ended=True)
    assert lost
    shown = masked_bytes(head + tail, known).decode()
    assert not [at for at in range(len(secret) - 12) if secret[at : at + 12] in shown]


async def test_a_secret_that_a_command_prints_in_two_pieces_is_masked_as_one(tmp_path: Path) -> None:
    key = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4"
    (tmp_path / "key").write_text(key)
    until = "until [ -e {0} ]; do sleep 0.02; done"
    first = f"echo x; head -c 16 key; touch half; {until.format('go')}"
    script = f"{first}; tail -c +17 key; echo ' all'; touch all; sleep 1000"
    read = calling(("read_output", {"command_id": "cmd_1"}))
    stop = calling(("stop_command", {"command_id": "cmd_1"}))
    steps = [
        command(script, background=True),
        *(until.format("half"), read, f"touch go; {until.format('all')}", read, stop),
    ]
    keys = {"mcpServers": {"none": {"command": "none", "env": {"SOME_TOKEN": key}}}}
    answers = await results(tmp_path, *steps, keys=keys, contain="none")
    begun, second = answers[2].content, answers[4].content
    assert begun == "x\n[running; 16 more bytes follow with the next output]"
    assert second.startswith("<secret:mcpServers.none.env.SOME_TOKEN>")


@both
async def test_commands_get_no_secret_of_the_process(
    tmp_path: Path, contain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    above = "cat /proc/$PPID/environ | tr '\\0' '\\n'"
    (shown, first, parents) = await results(
        tmp_path, "env", above.replace("$PPID", "1"), above, contain=contain, env={"CI": "yes"}
    )
    assert "OPENAI" not in parents.content
    assert "CI=yes" in shown.content
    assert "OPENAI" not in shown.content
    if contain == "bubblewrap":
        assert first.content == "[exit code 0]"


@both
async def test_a_folder_outside_and_an_empty_command_are_refused(tmp_path: Path, contain: str) -> None:
    answers = await results(
        tmp_path,
        command("ls", cwd="/../.."),
        command("ls", cwd="/nowhere"),
        command("ls", cwd="/zeus.yaml"),
        command("  "),
        command([]),
        contain=contain,
    )
    assert all(each.is_error for each in answers)
    assert [each.content.partition(".")[0] for each in answers[1:3]] == ["/nowhere does not exist", "/zeus"]


async def test_the_access_policy_holds_for_commands(tmp_path: Path) -> None:
    need_bubblewrap()
    policed(tmp_path)
    answers = await results(tmp_path, *TRIES, keys=POLICY)
    assert {text: not each.is_error for text, each in zip(TRIES, answers, strict=True)} == TRIES
    assert (tmp_path / "fixed/open/d").read_text() == "y\n"
    assert (tmp_path / ".git/config").read_text() == "CONTENT=of it\n"


@pytest.mark.parametrize("before", [True, False])
async def test_a_command_sees_nothing_that_other_sessions_keep_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """A command of one user read each file that another one attached, as it came."""
    need_bubblewrap()
    keys = dict(filling(tmp_path, monkeypatch, before=before))
    async with shell_agent(tmp_path, command(LOOKING), keys=keys) as agent:
        prompt = "Read /attached_files/aa/mine.txt."
        (done,) = [each async for each in agent.stream(prompt) if isinstance(each, ToolCallResult)]
    assert "CONTENT of .zeus/attached_files/aa/mine.txt" in done.content
    assert "CONTENT of .zeus/skills/a/SKILL.md" in done.content
    assert "their" not in done.content


async def test_no_command_makes_the_folder_of_zeus_that_is_not_there_yet(tmp_path: Path) -> None:
    """With the sessions elsewhere, Zeus would make it later, and read prompts and skills in it at the next start."""
    need_bubblewrap()
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    texts = await results(
        project,
        f"ln -s {elsewhere} .zeus",
        "mkdir -p .zeus/mcp",
        "mkdir .zeus/prompts",
        keys={"storage": {"url": "sqlite://"}},
    )
    assert [each.is_error for each in texts] == [True] * 3
    assert not (project / ".zeus").is_symlink()
    assert not list((project / ".zeus").iterdir())
    assert not list(elsewhere.iterdir())


async def test_no_command_makes_what_a_library_executes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boto starts the `credential_process` of `~/.aws/config`, uncontained and unasked."""
    need_bubblewrap()
    monkeypatch.setenv("HOME", str(tmp_path))
    tries = ("mkdir -p .aws && echo x > .aws/config", "mv .aws own", "rm -f .netrc; echo x > .netrc")
    *refused, honest = await results(tmp_path, *tries, "mkdir -p .venv && echo x > .venv/a && cat .venv/a")
    assert [each.is_error for each in refused] == [True] * 3
    assert (honest.content, honest.is_error) == ("x", False)
    assert (list((tmp_path / ".aws").iterdir()), (tmp_path / ".netrc").read_bytes()) == ([], b"")


async def test_a_command_cannot_take_away_a_link_by_which_a_rule_holds(tmp_path: Path) -> None:
    need_bubblewrap()
    (tmp_path / "releases/42/secrets").mkdir(parents=True)
    (tmp_path / "releases/42/secrets/a").write_text("CONTENT=of it\n")
    (tmp_path / "releases/b").write_text("old")
    (tmp_path / "current").symlink_to("releases/42")
    answers = await results(
        tmp_path,
        "rm current; mv current moved; ln -sfn releases current; echo new > releases/b",
        "cat releases/42/secrets/a",
        keys={"workspace": {"access": {"current/secrets/**": "deny"}}},
    )
    assert answers[1].is_error
    assert "CONTENT" not in answers[1].content
    assert (tmp_path / "current").readlink() == Path("releases/42")
    assert (tmp_path / "releases/b").read_text() == "new\n"


async def test_a_path_with_rights_of_its_own_keeps_them_whatever_a_command_moves(
    tmp_path: Path, outside: Path
) -> None:
    need_bubblewrap()
    policed(tmp_path)
    for name in ("src", "notes", "submodule"):
        (tmp_path / name).mkdir()
    (tmp_path / "submodule/.git").write_text("gitdir: ../.git/modules/submodule\n")
    keys: dict[str, Any] = {
        "workspace": {
            "access": {**POLICY["workspace"]["access"], "deep/er/key.pem": "deny"},
            "routes": {"/notes/": "notes"},
        }
    }
    tries = [each.format(outside=outside) for each in MOVING]
    waiting = "until [ -e go ]; do sleep 0.02; done; mv deep moved || mv deep/er moved; cat moved/key.pem"
    answers = await results(
        tmp_path,
        command(waiting, background=True),
        *tries,
        "touch go",
        calling(("read_output", {"command_id": "cmd_1", "wait_seconds": 20})),
        "cat moved/* moved; echo x >> deep/er/key.pem; cat notes/secret; ls deep/er",
        keys=keys,
    )
    moved = answers[1 : len(tries) + 1]
    assert [text for text, each in zip(tries, moved, strict=True) if not each.is_error] == []
    said = " ".join(each.content for each in answers)
    assert "CONTENT" not in said
    assert "of another project" not in said
    assert answers[-1].content.endswith("key.pem")
    assert (tmp_path / "deep/er/key.pem").read_text() == "CONTENT=of it\n"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text("of another project")
    return folder


async def test_commands_cannot_leave_the_workspace(tmp_path: Path, outside: Path) -> None:
    need_bubblewrap()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen()
        victim = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - nothing waits for it
        try:
            port = server.getsockname()[1]
            tries = [each.format(outside=outside, pid=victim.pid, port=port) for each in LEAVING]
            answers = await results(tmp_path, *tries, "echo it runs")
            assert victim.poll() is None
        finally:
            victim.kill()
            victim.wait()
    *left, works = answers
    assert works.content == "it runs"
    assert [text for text, each in zip(LEAVING, left, strict=True) if not each.is_error] == []
    assert "of another project" not in " ".join(each.content for each in left)
    assert (outside / "secret").read_text() == "of another project"


def swapping(monkeypatch: pytest.MonkeyPatch, one: Path, other: Path, times: int) -> None:
    """Let two files change places after each look at the workspace, before bubblewrap mounts what was seen."""
    start, left = BubblewrapCommands.start, [times]

    def swapped(self: BubblewrapCommands, *rest: Any) -> Start:
        judged = start(self, *rest)
        if left[0]:
            left[0] -= 1
            third = one.with_name("third")
            one.rename(third)
            other.rename(one)
            third.rename(other)
        return judged

    monkeypatch.setattr(BubblewrapCommands, "start", swapped)


@pytest.mark.parametrize("name", ["src", "fixed", "fixed/open", "asked.txt"])
@pytest.mark.parametrize("times", [1, 9])
async def test_a_file_that_is_replaced_before_it_is_mounted_is_judged_again(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, times: int
) -> None:
    need_bubblewrap()
    policed(tmp_path)
    place = tmp_path / name
    place.mkdir(exist_ok=True) if name != "asked.txt" else None
    other = Path(shutil.copytree(place, tmp_path / "other") if place.is_dir() else tmp_path / "other.txt")
    (other / ".env" if place.is_dir() else other).write_text("A=CONTENT\n")
    if name == "src":
        (place / ".env").write_text("A=b\n")
    swapping(monkeypatch, place, other, times)
    (done,) = await results(tmp_path, "cat src/.env other/.env; echo ran", keys=POLICY)
    assert "CONTENT" not in done.content
    assert done.content.endswith("ran") == (times == 1)
    assert ("files of the workspace were replaced while it started" in done.content) == (times > 1)


def test_only_the_judged_file_with_its_right_is_seen(tmp_path: Path) -> None:
    """This process sees all files as they are: none is mounted read-only or emptied."""
    for name in ("a/b", "c/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()

    def sees(path: str, right: Any, *, of: str = "", is_folder: bool = True) -> bool:
        status = (tmp_path / (of or path)).stat()
        mount = ProgramMount(str(tmp_path / path), right, is_folder, (status.st_dev, status.st_ino))
        return sees_judged([mount], os.getpid())

    assert sees("a/b", "write")
    assert not sees("a/b", "write", of="c/b")
    assert not sees("link/b", "write")
    assert not sees("a/b", "read")
    assert not sees("a/b", "none")
    assert not sees("a/b", "none", of="c/b")
    assert not sees("file", "none", is_folder=False)


async def test_a_link_that_replaces_a_folder_before_it_is_mounted_leads_nowhere(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A background command that began before a folder held a protected file may replace the folder."""
    need_bubblewrap()
    policed(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/.env").write_text("A=b\n")
    (tmp_path / "link").symlink_to(outside)
    swapping(monkeypatch, tmp_path / "src", tmp_path / "link", 1)
    (done,) = await results(tmp_path, "cat src/secret; touch src/new")
    assert done.is_error
    assert "of another project" not in done.content
    assert os.listdir(outside) == ["secret"]  # noqa: PTH208 - names are wanted


async def test_a_network_is_there_only_if_the_config_says_so(tmp_path: Path) -> None:
    need_bubblewrap()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\""
        (without,) = await results(tmp_path, text)
        (given,) = await results(tmp_path, text, network=True)
    assert (without.is_error, given.is_error) == (True, False)


async def test_a_folder_that_the_config_shows_can_be_read_and_not_changed(
    tmp_path: Path, outside: Path
) -> None:
    need_bubblewrap()
    read, wrote = await results(
        tmp_path, f"cat {outside}/secret", f"echo x > {outside}/secret", show=[str(outside)]
    )
    assert read.content == "of another project"
    assert wrote.is_error


@pytest.fixture
def shown() -> Iterator[Path]:
    """A folder that can be shown; those in /tmp and /dev are empty for commands."""
    with TemporaryDirectory(prefix="zeus-", dir="/var/tmp") as folder:
        yield Path(folder)


async def test_no_command_sees_what_sqlite_keeps_beside_the_database_in_a_shown_folder(
    tmp_path: Path, shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the database below `/usr`, a command read `-wal` with the messages of other sessions."""
    need_bubblewrap()
    data = shown / "data"
    data.mkdir()
    (data / "other").write_text("of a program\n")
    monkeypatch.setattr("zeus_plugins.sandboxes.bubblewrap.command._ETC", (str(shown),))
    keys = {"storage": {"url": f"sqlite:///{data}/zeus.db"}}
    look = command(f"cat {data}/* 2>/dev/null; ls {data}; find {data} -size +0")
    texts = []
    async with shell_agent(tmp_path, look, look, keys=keys) as agent:
        async for each in agent.stream("SECRET PROMPT"):
            if isinstance(each, ToolCallResult):
                texts.append(each.content)
                (data / "zeus.db-later").write_text("SECRET too")
    assert len(texts) == 2
    for text in texts:
        assert "of a program" in text
        assert "zeus.db-wal" in text
        assert "SECRET" not in text


def test_a_folder_around_the_workspace_is_not_shown(tmp_path: Path) -> None:
    need_bubblewrap()
    with pytest.raises(ConfigError, match="commands may not see"):
        _ = shell_agent(tmp_path, show=[str(tmp_path.parent)]).plan


async def test_a_shown_folder_is_looked_at_again_before_each_command(tmp_path: Path, outside: Path) -> None:
    """Sub-agents are planned after the tools of the agent above."""
    need_bubblewrap()
    (tmp_path / "helper.yaml").write_text(
        f"version: 1\nmodel: gpt-4o\nworkspace: {{routes: {{/own/: {outside}/own}}}}\n"
    )
    (outside / "own").mkdir()
    keys = {
        "agents": {"helper": {"description": "Helps.", "config": "helper.yaml"}},
        "tools": ["subagents", {"shell": {"show": [str(outside)]}}],
    }
    (read,) = await results(tmp_path, f"cat {outside}/secret", keys=keys)
    assert read.is_error
    assert "another agent works in it" in read.content


def test_the_arguments_show_the_system_read_only_and_the_workspace_last() -> None:
    mounts = [
        ProgramMount("/w", "write", True),
        ProgramMount("/w/.env", "none", False),
        ProgramMount("/w/.git", "read", True),
        ProgramMount("/w/.zeus", "none", True),
        ProgramMount("/w/.zeus/skills", "read", True),
    ]
    given = arguments_of(mounts, SandboxRoot(None, None), {"PATH": "/usr/bin"}, "/w")
    text = " ".join(given)
    for part in ("--unshare-net", "--die-with-parent", "--disable-userns", "--cap-drop ALL", "--new-session"):
        assert part in text
    assert (
        "--tmpfs /tmp --bind /w /w --ro-bind /dev/null /w/.env --ro-bind /w/.git /w/.git --perms 0755 --tmpfs /w/.zeus"
        " --ro-bind /w/.zeus/skills /w/.zeus/skills --remount-ro /w/.zeus --remount-ro /"
        " --setenv PATH /usr/bin --chdir /w" in text
    )
    binds = [place for place, word in enumerate(given) if word == "--bind"]
    assert [given[place + 1] for place in binds] == ["/w"]
    assert "--unshare-net" not in arguments_of(mounts, SandboxRoot(None, None), {}, "/w", network=True)


def test_without_bubblewrap_the_tools_are_off_and_the_plan_says_why(tmp_path: Path) -> None:
    plan = shell_agent(tmp_path, command="no-such-bwrap").plan
    (off,) = plan.off
    assert off.component == "shell"
    assert "no-such-bwrap is not installed" in off.reason
    assert "`contain: none`, which contains nothing" in off.reason
    assert plan.tools == ()


def test_plan_and_tool_say_that_nothing_is_contained(tmp_path: Path) -> None:
    plan = shell_agent(tmp_path, contain="none").plan
    (warning,) = plan.warnings
    assert (warning.code, warning.severity) == ("not-contained", "warning")
    assert "commands are not contained" in warning.message
    assert "not contained" in plan.tools[0].tool.description
    assert str(warning.position).startswith("zeus.yaml:")


@pytest.mark.parametrize(
    "options", [{"contain": "none"}, {"network": True}, {"env": {"A": "b"}}, {"show": ["/opt"]}]
)
def test_a_config_that_loosens_the_shell_needs_permission(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    config = {"version": 1, "model": "gpt-4o", "tools": [{"shell": options}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    with pytest.raises(UntrustedError, match=rf"shell\.{next(iter(options))}"):
        _ = Agent.from_config(directory=tmp_path, model=ScriptedModel([]), environ={}).plan


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_other_modes_hide_the_shell(tmp_path: Path, mode: Any) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"shell": {"contain": "none"}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    agent = Agent.from_config(directory=tmp_path, model=ScriptedModel([]), environ={}, mode=mode, trust="all")
    assert {each.showing for each in agent.plan.tools} == {"hidden"}


def with_locale(folder: Path, language: str, charset: str) -> Path:
    """Make a locale in a folder, for `LOCPATH`."""
    program = shutil.which("localedef")
    if program is None:
        pytest.skip("localedef is not installed")
    folder.mkdir()
    words = [program, "-i", language, "-f", charset, str(folder / f"{language}.{charset}")]
    if subprocess.run(words, capture_output=True, check=False).returncode > 1:  # 1 is a warning
        pytest.skip("the system has no sources of locales")
    return folder


@both
async def test_bash_reads_a_line_in_utf8_whatever_lang_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contain: str
) -> None:
    """In GBK, the last byte of a Chinese character and a backslash are one character, and the string ends there."""
    locales = with_locale(tmp_path / "locales", "zh_CN", "GBK")
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": [{"shell": {"contain": contain, "env": {"LOCPATH": str(locales)}}}],
        "middlewares": [{"approve": {"mode": "ask", "allow": [{"run_command": {"command": "echo *"}}]}}],
    }
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    model = ScriptedModel([command('echo "中\\"; echo ran #"'), "done"])
    monkeypatch.setenv("LANG", "zh_CN.GBK")
    async with Agent.from_config(directory=tmp_path, model=model, environ={}, trust="all") as agent:
        events = [each async for each in agent.stream("go")]
    (result,) = (each for each in events if isinstance(each, ToolCallResult))
    assert result.content == '中"; echo ran #'


IN_BIG5 = """
import asyncio, sys
from pathlib import Path
from tests.support.shells import results

assert sys.getfilesystemencoding() == "big5"
line = 'echo "\\u529f" "; echo ran #"'
(result,) = asyncio.run(results(Path(sys.argv[1]), line, contain=sys.argv[2]))
print(ascii(result.content))
"""


@both
def test_bash_gets_a_line_in_utf8_whatever_zeus_speaks(tmp_path: Path, contain: str) -> None:
    """In Big5, the second byte of this character is a backslash, which would keep the string open."""
    locales = with_locale(tmp_path / "locales", "zh_TW", "BIG5")
    environ = {**os.environ, "LOCPATH": str(locales), "LC_ALL": "zh_TW.BIG5", "PYTHONUTF8": "0"}
    words = [sys.executable, "-c", IN_BIG5, str(tmp_path), contain]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[3], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ascii("\u529f ; echo ran #")


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, None),
        ({"LANG": "C"}, None),
        ({"LANG": "en_US.UTF-8"}, None),
        ({"LANG": "de_DE.utf8@euro"}, None),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.GBK"}, None),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "zh_TW"}, "LANG"),
        ({"LC_CTYPE": "zh_CN.GBK", "LANG": "C.UTF-8"}, "LC_CTYPE"),
        ({"LC_ALL": "ja_JP.SJIS", "LC_CTYPE": "C.UTF-8"}, "LC_ALL"),
    ],
)
def test_the_variable_that_decides_about_characters(environ: dict[str, str], name: str | None) -> None:
    assert other_encoding(environ) == name


def test_an_encoding_in_which_commands_are_not_judged_is_refused(tmp_path: Path) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"shell": {"env": {"LC_ALL": "zh_CN.GBK"}}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"LC_ALL is for another encoding than UTF-8"):
        _ = Agent.from_config(directory=tmp_path, model=ScriptedModel([]), environ={}, trust="all").plan


@pytest.mark.parametrize(("printed", "in_thread"), [(100, False), (100_000, True)])
async def test_the_event_loop_masks_short_outputs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: int, in_thread: bool
) -> None:
    """Megabytes take a tenth of a second, in which the runs of other sessions would wait."""
    masked_in = []

    def noting(data: bytes, known: Redactor) -> bytes:
        masked_in.append(threading.current_thread() is not threading.main_thread())
        return masked_bytes(data, known)

    monkeypatch.setattr("zeus_plugins.tools.shell.tools.masked_bytes", noting)
    (shown,) = await results(tmp_path, f"head -c {printed} /dev/zero | tr '\\0' x", contain="none")
    assert shown.content.startswith("xxx")
    assert masked_in == [in_thread]


async def test_a_reader_that_is_cancelled_leaves_no_half_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4"
    (tmp_path / "key").write_text(key)
    known, searching, go_on = Redactor({key: "KEY"}), asyncio.Event(), threading.Event()
    loop, parted = asyncio.get_running_loop(), TakenOutput.parted

    def slow(output: TakenOutput, given: Redactor, *, has_ended: bool) -> Any:
        loop.call_soon_threadsafe(searching.set)
        assert go_on.wait(60)
        return parted(output, given, has_ended=has_ended)

    async def there(name: str) -> None:
        while not (tmp_path / name).exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)

    monkeypatch.setattr(TakenOutput, "parted", slow)
    first_half = "head -c 10000 /dev/zero | tr '\\0' x; echo; head -c 9 key; touch half"
    script = f"{first_half}; until [ -e go ]; do sleep 0.02; done; tail -c +10 key; echo after; touch all; sleep 1000"
    run: Any = SimpleNamespace(session="s", known=known, secrets=known)
    async with shell_agent(tmp_path, contain="none") as agent:
        tools = {each.tool.name: each.tool for each in agent.plan.tools}
        await invoke(tools["run_command"], {"command": script, "background": True}, run)
        await there("half")
        first = asyncio.create_task(invoke(tools["read_output"], {"command_id": "cmd_1"}, run))
        await searching.wait()
        first.cancel()
        second = asyncio.create_task(invoke(tools["read_output"], {"command_id": "cmd_1"}, run))
        (tmp_path / "go").touch()
        await there("all")
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).content == "<secret:KEY>after\n[running]"


async def test_too_many_mounts_are_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    monkeypatch.setattr(mounts, "MOST_WORDS", 700)
    for at in range(200):
        (tmp_path / f"{at}.pem").touch()
    (refused,) = await results(
        tmp_path, "echo ran", keys={"workspace": {"access": {"*.pem": "deny"}}}, contain="bubblewrap"
    )
    assert refused.is_error
    assert "files and folders have other rights than the folders around them" in refused.content
    assert "rules of workspace.access for folders instead of files" in refused.content
