"""The sandbox tools as an agent has them: files in and out, ends, modes, and where nothing contains code."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.tools.sandbox.progress import MOST_CHARACTERS, told

from tests.support.sandboxes import bubblewrap, processes_with
from zeus_runtime import Agent, ConfigError, Decision, PendingApproval
from zeus_runtime.cli import main
from zeus_runtime.events import Event, Notice, RunCompleted, ToolCallResult, ToolProgress
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import WorkspaceFiles
from zeus_runtime.plugin.sandbox import SandboxCapabilities
from zeus_runtime.testing import ScriptedModel, calling
from zeus_runtime.tools.question import question_lines

pytestmark = pytest.mark.xdist_group("sandbox")
MISSING = {"backend": {"bubblewrap": {"command": "no-such-bwrap"}}}


def agent(folder: Path, *steps: Any, mode: Any = None, approve: bool = False, **options: Any) -> Agent:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"sandbox": options}]}
    if approve:
        config["middlewares"] = ["approve"]
    (folder / "zeus.yaml").write_text(json.dumps(config))
    return Agent.from_config(directory=folder, model=ScriptedModel([*steps, "done"]), environ={}, mode=mode)


async def events(running: Agent) -> list[Event]:
    async with running:
        return await events_of(running)


async def events_of(running: Agent) -> list[Event]:
    return [event async for event in running.stream("go")]


async def results(folder: Path, *steps: Any, **options: Any) -> list[ToolCallResult]:
    bubblewrap(folder)
    return [
        each for each in await events(agent(folder, *steps, **options)) if isinstance(each, ToolCallResult)
    ]


async def test_files_go_in_code_works_on_them_and_files_come_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in.csv").write_text("1,2,3\n")
    code = (
        "total = sum(map(int, open('data/in.csv').read().split(',')))\nopen('out.txt', 'w').write(str(total))"
    )
    copied, ran, shell, fetched = await results(
        tmp_path,
        calling(("create_sandbox", {"files": ["/data/in.csv"]})),
        calling(("execute_code", {"code": code})),
        calling(("execute_code", {"code": "cat out.txt; exit 3", "language": "shell"})),
        calling(("copy_from_sandbox", {"path": "/workspace/out.txt", "to": "/results/out.txt"})),
    )
    assert copied.content.startswith("Copied /workspace/data/in.csv (6 bytes).\nIn the sandbox:")
    assert (ran.content, ran.is_error) == ("[exit code 0]", False)
    assert (shell.content, shell.is_error) == ("6\n[exit code 3]", True)
    assert fetched.content == "Created /results/out.txt (1 bytes)."
    assert (tmp_path / "results/out.txt").read_text() == "6"


async def test_code_with_a_placeholder_of_a_secret_does_not_run(tmp_path: Path) -> None:
    bubblewrap(tmp_path)
    shown = "<secret:SHOP_TOKEN>"
    (tmp_path / "zeus.yaml").write_text('{"version": 1, "model": "gpt-4o", "tools": ["sandbox"]}')
    (tmp_path / "shop-Secret-abc123XYZ").write_text("1,2,3\n")
    steps = [
        calling(("execute_code", {"code": f"print({shown!r})"})),
        calling(("execute_code", {"code": f"cat {shown} made", "language": "shell"})),
        calling(("create_sandbox", {"files": [f"/{shown}"]})),
    ]
    environ = {"SHOP_TOKEN": "shop-Secret-abc123XYZ"}
    model = ScriptedModel([*steps, "done"])
    running = Agent.from_config(directory=tmp_path, model=model, environ=environ)
    code, shell, copied = [each for each in await events(running) if isinstance(each, ToolCallResult)]
    assert code.content.startswith(f"execute_code was not run: {shown} is a placeholder for a secret.")
    assert shell.content == code.content
    assert copied.content.startswith(f"Copied /workspace/{shown} (6 bytes)."), "the name of an entry"


class Reader:
    """Reads each question, then does something elsewhere, and approves."""

    def __init__(self, *deeds: Callable[[], object]) -> None:
        self.read: list[str] = []
        self._deeds = list(deeds)

    async def ask(self, pending: PendingApproval) -> Decision:
        self.read.append("\n".join(line.text for line in question_lines(pending)))
        self._deeds.pop(0)()
        return Decision("approve")


async def test_a_copy_out_of_the_sandbox_replaces_only_the_file_that_its_question_names(
    tmp_path: Path,
) -> None:
    bubblewrap(tmp_path)
    target, other = tmp_path / "run.sh", tmp_path / "other.sh"
    target.write_text("echo old\n")
    other.write_text("echo other\n")

    def becomes_a_link() -> None:
        target.unlink()
        target.symlink_to("other.sh")

    def stays() -> None:
        pass

    copy = calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/run.sh"}))
    code = calling(("execute_code", {"code": "open('a', 'w').write('new')"}))
    running = agent(tmp_path, code, copy, copy, copy, copy, approve=True)
    reader = Reader(stays, becomes_a_link, lambda: other.write_text("echo mine\n"), stays, other.unlink)
    async with running:
        told = [event async for event in running.stream("go", approvals=reader)]
    found = [each for each in told if isinstance(each, ToolCallResult)]
    assert [each.is_error for each in found] == [False, True, True, False, True]
    assert "  in the sandbox bubblewrap" in reader.read[0].split("\n")
    assert "no diff: /workspace/a is in the sandbox and not shown; it is copied" in reader.read[1]
    assert "when the call runs, and replaces /run.sh (9 bytes, state " in reader.read[1]
    assert "replaces /other.sh (11 bytes, " in reader.read[2]
    assert "replaces /other.sh (10 bytes, " in reader.read[3]
    assert "the file changed" in found[1].content
    assert not other.exists()


async def test_a_file_is_copied_out_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have `max_copy_mb`, and a slow disk; the runs of other sessions go on meanwhile."""
    written_in, write = [], WorkspaceFiles.write

    def noting(files: WorkspaceFiles, path: str, data: bytes) -> bool:
        written_in.append(threading.current_thread())
        return write(files, path, data)

    monkeypatch.setattr(WorkspaceFiles, "write", noting)
    _, copied = await results(
        tmp_path,
        calling(("execute_code", {"code": "open('a', 'w').write('a')"})),
        calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/a"})),
    )
    assert copied.content == "Created /a (1 bytes)."
    assert len(written_in) == 1
    assert threading.main_thread() not in written_in


async def test_what_leads_out_of_workspace_or_sandbox_is_refused(tmp_path: Path) -> None:
    answers = await results(
        tmp_path,
        calling(("create_sandbox", {"files": ["/../../etc/passwd"]})),
        calling(("execute_code", {"code": "open('a', 'w').write('a')"})),
        calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/.git/config"})),
        calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/.zeus/zeus.db"})),
        calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/zeus.prod.yaml"})),
        calling(("create_sandbox", {"files": ["/.env"]})),
        calling(("copy_from_sandbox", {"path": "/workspace/a", "to": "/../a"})),
        calling(("copy_from_sandbox", {"path": "/etc/passwd", "to": "/passwd"})),
    )
    assert [each.is_error for each in answers] == [True, False, True, True, True, True, True, True]
    assert "no tool may read or change it" in answers[5].content
    assert not (tmp_path / ".git").exists()
    assert not (tmp_path / "passwd").exists()


async def test_what_a_limit_ended_is_said_in_words(tmp_path: Path) -> None:
    slow, loud, long = await results(
        tmp_path,
        calling(("execute_code", {"code": "while True: pass", "timeout_seconds": 0.3})),
        calling(("execute_code", {"code": "while True: print('x' * 1000)"})),
        calling(("execute_code", {"code": "print('begin'); print('x' * 5000); print('end')"})),
        max_output_kb=20,
        max_result_chars=600,
    )
    assert slow.content == "[ended: it took longer than 0.3 seconds]"
    assert loud.content.endswith("[ended: it printed more than 20 KB]")
    assert "characters left out" in loud.content
    assert long.content.startswith("begin\nxxx")
    assert long.content.endswith("xxx\nend")
    assert slow.is_error
    assert not long.is_error


async def test_what_a_program_prints_is_told_while_it_runs(tmp_path: Path) -> None:
    """It goes on, and ends, when what it printed was told."""
    bubblewrap(tmp_path)
    word = f"told{secrets.token_hex(4)}"
    code = f"""
import signal, time
open('/proc/self/comm', 'w').write({word!r})
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('first héllo')
signal.sigwait([signal.SIGUSR1])
for n in range(12): time.sleep(0.05); print(n)
signal.sigwait([signal.SIGUSR1])
"""
    running = agent(tmp_path, calling(("execute_code", {"code": code})))
    seen: list[str] = []
    begun = time.monotonic()
    async with running:
        async for event in running.stream("go"):
            if isinstance(event, ToolProgress):
                seen.append(event.message)
                if "".join(seen).strip().endswith(("héllo", "11")):
                    (process,) = processes_with(word)
                    os.kill(process, signal.SIGUSR1)
            elif isinstance(event, ToolCallResult):
                assert "".join(seen).strip() == event.content, (
                    "all of it was told before the result, in order"
                )
    tenths = (time.monotonic() - begun) * 10
    assert 2 <= len(seen) <= tenths + 1, "pieces come a tenth of a second apart"


async def test_a_secret_that_a_program_prints_in_two_pieces_is_masked_though_the_model_may_see_it(
    tmp_path: Path,
) -> None:
    bubblewrap(tmp_path)
    word = f"told{secrets.token_hex(4)}"
    token = "shop-Secret-abc123XYZ"
    code = f"""
import signal
open('/proc/self/comm', 'w').write({word!r})
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('it is {token[:9]}', end='', flush=True)
signal.sigwait([signal.SIGUSR1])
print('{token[9:]}')
"""
    model = ScriptedModel([calling(("execute_code", {"code": code})), "done"])
    config = {"version": 1, "model": "gpt-4o", "tools": ["sandbox"], "secrets": {"to_model": "allow"}}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    environ = {"SHOP_TOKEN": token}
    seen: list[str] = []
    async with Agent.from_config(directory=tmp_path, model=model, environ=environ) as running:
        async for event in running.stream("go"):
            if isinstance(event, ToolProgress):
                if not seen:
                    (process,) = processes_with(word)
                    os.kill(process, signal.SIGUSR1)
                seen.append(event.message)
    assert "it is <secret:SHOP_TOKEN>\n".startswith("".join(seen))
    assert token in str(model.requests[-1].messages[-1].content)


async def test_of_output_that_comes_too_fast_the_end_is_told() -> None:
    seen: list[str] = []
    again = asyncio.Event()

    def tell(text: str) -> None:
        if seen:
            again.set()
        seen.append(text)

    with told(tell, Redactor()) as hear:
        hear("é".encode()[:1])
        hear("é".encode()[1:] + b"first")
        hear(b"x" * 10_000 + b"last")
        assert seen == ["éfirst"]
        await asyncio.wait_for(again.wait(), 60)
        hear(b"never told: the result tells it")
    assert len(seen) == 2
    assert seen[1].endswith("xlast")
    assert len(seen[1]) == MOST_CHARACTERS


async def test_the_sandbox_is_emptied_on_request_and_goes_with_its_session(tmp_path: Path) -> None:
    bubblewrap(tmp_path)
    running = agent(
        tmp_path,
        calling(("execute_code", {"code": "open('a', 'w')"})),
        calling(("create_sandbox", {"empty": True, "files": ["/typo.csv"]})),
        calling(("execute_code", {"code": "print('kept' if __import__('os').path.exists('a') else 'lost')"})),
        calling(("create_sandbox", {"empty": True})),
        calling(("execute_code", {"code": "open('b', 'w')"})),
    )
    async with running:
        told = [event async for event in running.stream("go")]
        end = told[-1]
        assert isinstance(end, RunCompleted)
        folder = tmp_path / ".zeus/sandboxes" / end.session
        assert [each.name for each in folder.iterdir()] == ["b"]
        await running.delete_session(end.session)
        assert not folder.exists()
    said = [getattr(each, "content", "") for each in told]
    assert "The sandbox is ready and has no files." in said
    assert [each for each in said if each.startswith("kept")], "a file that is not there costs no others"


@pytest.mark.parametrize("by", ["python", "command"])
async def test_a_sub_agents_sandbox_goes_with_the_session_that_it_worked_for(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap(tmp_path)
    coder = {"description": "Runs code.", "overrides": {"tools": ["sandbox"]}}
    config = {"version": 1, "model": "gpt-4o", "tools": ["subagents"], "agents": {"coder": coder}}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    steps = [
        calling(("task", {"description": "work", "prompt": "work", "agent": "coder"})),
        calling(("execute_code", {"code": "open('a', 'w')"})),
        "the child is done",
        "done",
    ]
    async with Agent.from_config(directory=tmp_path, model=ScriptedModel(steps), environ={}) as running:
        end = (await events_of(running))[-1]
        assert isinstance(end, RunCompleted)
        (folder,) = (tmp_path / ".zeus/sandboxes").iterdir()
        assert folder.name != end.session
        if by == "python":
            await running.delete_session(end.session)
    if by == "command":
        monkeypatch.chdir(tmp_path)
        assert await asyncio.to_thread(main, ["sessions", "delete", end.session, "--yes"]) == 0
    assert not folder.exists()


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_only_agent_mode_has_them(mode: str, tmp_path: Path) -> None:
    bubblewrap(tmp_path)
    running = agent(tmp_path, calling(("execute_code", {"code": "open('a', 'w')"})), mode=mode)
    (refused,) = [each for each in await events(running) if isinstance(each, ToolCallResult)]
    assert refused.is_error
    assert "agent mode" in refused.content
    assert not (tmp_path / ".zeus/sandboxes").exists()


async def test_where_nothing_contains_code_the_tools_are_off_and_the_user_is_told(tmp_path: Path) -> None:
    running = agent(
        tmp_path, calling(("execute_code", {"code": f"open({str(tmp_path / 'ran')!r}, 'w')"})), **MISSING
    )
    assert [each.component for each in running.plan.off] == ["sandbox"]
    told = await events(running)
    (notice,) = [each for each in told if isinstance(each, Notice)]
    assert notice.code == "tools_off"
    assert "apt-get install bubblewrap" in notice.message
    (result,) = [each for each in told if isinstance(each, ToolCallResult)]
    assert "There is no tool 'execute_code'" in result.content
    assert isinstance(told[-1], RunCompleted)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", [("tools", "list"), ("doctor",)])
def test_the_commands_say_why_it_is_off(
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent(tmp_path, **MISSING)
    monkeypatch.chdir(tmp_path)
    main([*command])
    shown = capsys.readouterr()
    assert "the program no-such-bwrap is not installed" in shown.out + shown.err


class Feeble:
    """A backend that limits next to nothing."""

    capabilities = SandboxCapabilities(
        "machine", True, ("shell",), frozenset({"seconds", "output"}), False, machine="far.example"
    )

    def check(self) -> None:
        return


FEEBLE = """
from tests.plugins_bundled.tools.test_sandbox_tools import Feeble
from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_sandboxes():
    return [Component("feeble", create=lambda options, context: Feeble())]
"""


def test_what_the_backend_does_not_contain_or_keep_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "feeble.py").write_text(FEEBLE)

    def made(options: Mapping[str, Any]) -> Agent:
        config = {
            "version": 1,
            "model": "gpt-4o",
            "plugins": {"files": ["feeble.py"]},
            "tools": [{"sandbox": {"backend": "feeble", **options}}],
        }
        (tmp_path / "zeus.yaml").write_text(json.dumps(config))
        return Agent.from_config(directory=tmp_path, environ={})

    with pytest.raises(ConfigError, match="see the files of the machine and reach its network") as refused:
        made({"timeout_seconds": 5})
    assert "require_isolation: false" in str(refused.value)
    allowed = {"require_isolation": False}
    create, execute, copy = made({"timeout_seconds": 5, **allowed}).plan.tools
    assert "There is a network" in execute.tool.description
    for each in (create, execute, copy):
        assert each.tool.facts == ("in the sandbox feeble on far.example (not isolated)",)
    assert "MB" not in execute.tool.description
    with pytest.raises(ConfigError, match="memory_mb cannot be enforced"):
        made({"memory_mb": 64, **allowed})


def test_files_of_a_sandbox_that_the_agent_does_not_have_are_an_error_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nmiddlewares:\n  - sandbox_files\n")
    with pytest.raises(ConfigError, match="no sandbox") as refused:
        Agent.from_config(directory=tmp_path, environ={})
    (found,) = refused.value.diagnostics
    assert (found.code, found.hint) == ("no-sandbox", "add `- sandbox` to tools, or remove this line")
    assert found.position is not None
    assert found.position.line == 4


def test_files_of_a_sandbox_that_is_off_here_are_no_error(tmp_path: Path) -> None:
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": [{"sandbox": MISSING}],
        "middlewares": ["sandbox_files"],
    }
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    assert Agent.from_config(directory=tmp_path, environ={}).plan.off


@pytest.mark.parametrize(
    ("options", "last"), [({"max_files": 5}, "... and more"), ({"max_files": 60}, "/workspace/59")]
)
async def test_what_is_not_shown_of_the_sandboxs_files_is_said(
    options: dict[str, int], last: str, tmp_path: Path
) -> None:
    bubblewrap(tmp_path)
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": ["sandbox"],
        "middlewares": [{"sandbox_files": {"max_tokens": 2_000, **options}}],
    }
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    code = "for number in range(60): open(f'{number:02}', 'w')"
    model = ScriptedModel(
        [calling(("execute_code", {"code": code})), calling(("create_sandbox", {})), "done", "done"]
    )
    async with Agent.from_config(directory=tmp_path, model=model, environ={}) as running:
        told = [event async for event in running.stream("go")]
        session = told[-1].session  # type: ignore[union-attr]
        async for _ in running.stream("again", session=session):
            pass
    listed = [each.content for each in told if isinstance(each, ToolCallResult)][1].splitlines()
    assert (len(listed), listed[-1].strip()) == (1 + 50 + 1, "... and more")
    section = model.requests[-1].system.split("# Files in the sandbox\n")[1].splitlines()
    assert section[options["max_files"] - 1].startswith("/workspace/")
    assert section[min(options["max_files"], 59)].startswith(last)
