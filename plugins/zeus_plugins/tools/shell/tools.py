"""The shell tools: run a command on the workspace, follow a background command, stop it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar

from zeus_plugins.sandboxes.bubblewrap.mounts import MOST_STARTS
from zeus_plugins.tools import PASSED_ON
from zeus_plugins.tools.sandbox.report import cut
from zeus_plugins.tools.shell.encoding import in_utf8
from zeus_plugins.tools.shell.keepers import Keepers
from zeus_plugins.tools.shell.options import UNCONTAINED, Options
from zeus_plugins.tools.shell.processes import (
    SPARE_BYTES,
    Background,
    RunningCommand,
    ShellError,
    started,
    started_uncontained,
)
from zeus_runtime.plugin import Minimum
from zeus_runtime.plugin.files import WorkspaceError, masked_bytes
from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, finished, tool

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_plugins.tools.shell.containment import BubblewrapCommands
    from zeus_runtime.plugin import PlanContext, Redactor

_ARCHIVE: Final = "/large_tool_results"
_SHORT: Final = 2**12
"""Bytes of output. To search more for secrets takes the event loop longer than a millisecond."""
_T = TypeVar("_T")


def create(options: Options, context: PlanContext) -> Sequence[Tool]:
    """``run_command read_output stop_command``.

    Raises:
        OptionsError: a folder may not be shown to commands.
        SandboxUnavailableError: bubblewrap cannot run here; the tools are off then.
    """
    shell = _Shell(options, context)
    return [shell.run_command(), shell.read_output(), shell.stop_command()]


class _Printed(NamedTuple):
    """The output of a command since the last call, not masked yet.

    Args:
        lost: the number of bytes lost between ``head`` and ``tail``.
        held: the number of bytes that follow with the next output.
        code: the exit code; None if the command runs.
    """

    head: bytes
    lost: int
    tail: bytes
    held: int
    code: int | None


async def _taken(running: RunningCommand, secrets: Redactor) -> _Printed:
    async with running.taking:
        # Before the output is taken: later output is news for the next call.
        running.news.clear()
        output, code = running.output.take(), running.exit_code
        parted = partial(output.parted, secrets, has_ended=code is not None)
        head, lost, tail, end = await _apart(parted, len(output))
        running.output.put_back(end)
    return _Printed(head, lost, tail, len(end), code)


async def _apart(work: Callable[[], _T], size: int) -> _T:
    """Return what ``work`` on so many bytes returns: in a thread, unless they are few."""
    return work() if size < _SHORT else await asyncio.to_thread(work)


class _Shell:
    def __init__(self, options: Options, context: PlanContext) -> None:
        self._options = options
        self._context = context
        self._files = context.workspace
        # The ended ones keep as much together as those that run may keep in one session.
        self._background = Background(options.max_background * (options.max_output_kb * 1024 + SPARE_BYTES))
        self._bubblewrap: BubblewrapCommands | None = None
        if options.contain == "bubblewrap":
            from zeus_plugins.tools.shell.containment import BubblewrapCommands

            self._bubblewrap = BubblewrapCommands(options, context)
        own = context.process_environ
        self._environ = in_utf8(
            {
                "PATH": os.defpath,
                **{name: own[name] for name in PASSED_ON if name in own},
                **options.env,
            }
        )
        self._keepers = Keepers(self._environ)
        self._shell = context.own_programs.find("bash") or "/bin/sh"

    def run_command(self) -> Tool:
        options = self._options

        @tool(category="shell", access="write", commands=["command"], description=self._described())
        async def run_command(
            run: ToolRun,
            command: str | list[str],
            cwd: str = "/",
            timeout_seconds: Annotated[float | None, Minimum(0.1)] = None,
            background: bool = False,
        ) -> ToolResult:
            """Run a command.

            Args:
                command: A command line for the shell, or a list of a program and its arguments, which runs without one.
                cwd: The folder of the workspace to start in.
                timeout_seconds: Time limit in seconds; a background command has none.
                background: Return at once with an id, for servers and the like.
            """
            if background and self._background.running(run.session) >= options.max_background:
                raise ShellError(
                    f"{options.max_background} background commands run already", remedy="Stop one first."
                )
            running = await self._running(command, cwd)
            if background:
                if self._background.is_empty:
                    self._context.closing.push_async_callback(self._background.aclose)
                name = self._background.add(run.session, running)
                return ToolResult(
                    f"Started as {name}. read_output returns its output, stop_command ends it.",
                    artifact={"id": name},
                )
            asked = options.timeout_seconds if timeout_seconds is None else timeout_seconds
            seconds = min(asked, options.max_timeout_seconds)
            ending = None
            try:
                async with asyncio.timeout(seconds):
                    await running.wait()
            except TimeoutError:
                ending = f"[ended: it took longer than {seconds:g} seconds]"
            # Also after a good end: it returns at once then. After a cancellation no process may be left.
            finally:
                await running.stop()
            return await self._result(running, run, ending)

        if self._bubblewrap is None:
            return replace(run_command, facts=("not contained (`shell: contain: none`)",))
        return run_command

    def read_output(self) -> Tool:
        @tool(category="shell", access="read")
        async def read_output(
            run: ToolRun, command_id: str, wait_seconds: Annotated[float, Minimum(0)] = 0.0
        ) -> ToolResult:
            """Return what a background command has printed since the last call, and whether it still runs.

            Args:
                command_id: The command's id.
                wait_seconds: Wait so long, if it has printed nothing new and still runs.
            """
            running = self._background.find(run.session, command_id)
            if wait_seconds and running.exit_code is None:
                try:
                    async with asyncio.timeout(min(wait_seconds, self._options.max_timeout_seconds)):
                        await running.news.wait()
                except TimeoutError:
                    pass
            return await self._result(running, run)

        return read_output

    def stop_command(self) -> Tool:
        # It ends only what the session itself has started, so the user is not asked.
        @tool(category="shell", access="read")
        async def stop_command(run: ToolRun, command_id: str) -> ToolResult:
            """End a background command with all its processes, and return the rest of its output.

            Args:
                command_id: The command's id.
            """
            running = self._background.find(run.session, command_id)
            has_ended = running.exit_code is not None
            await running.stop()
            return await self._result(running, run, None if has_ended else "[stopped]")

        return stop_command

    async def _running(self, command: str | list[str], cwd: str) -> RunningCommand:
        refusal: str | None = None
        # A background command may replace files between the look at their rights and the mount: look and mount again.
        for _ in range(MOST_STARTS):
            running = await self._started(command, cwd)
            try:
                refusal = await running.refusal()
            except BaseException:
                await running.stop()
                raise
            if refusal is None:
                return running
            await running.stop()
        raise ShellError(
            f"the command was not run, because {refusal}",
            remedy="Stop the background commands that replace files or folders, and run it again.",
        )

    async def _started(self, command: str | list[str], cwd: str) -> RunningCommand:
        if not command or not (command if isinstance(command, str) else command[0]).strip():
            raise ShellError(
                "the command is empty", remedy="Pass a command line, or a program and its arguments."
            )
        words = (self._shell, "-c", command) if isinstance(command, str) else tuple(command)
        if any("\0" in each for each in words):
            raise ShellError("a command cannot contain a NUL character")
        try:
            for each in words:
                each.encode()
        except UnicodeEncodeError:
            raise ShellError(
                "the command has characters that UTF-8 cannot encode (lone surrogates)"
            ) from None
        if self._files.entry(cwd).kind != "directory":
            raise WorkspaceError(f"{self._files.normalize(cwd)} is not a folder.")
        folder: Path = self._files.place(cwd)
        most_bytes = self._options.max_output_kb * 1024
        if self._bubblewrap is not None:
            start = await asyncio.to_thread(self._bubblewrap.start, words, folder, self._environ)
            return started(start, most_bytes)
        if not self._keepers.is_open:
            self._context.closing.push_async_callback(self._keepers.aclose)
        return started_uncontained(self._keepers, words, folder, most_bytes)

    async def _result(self, running: RunningCommand, run: ToolRun, ending: str | None = None) -> ToolResult:
        # To its end: after a cancellation, the next call would begin within a secret.
        printed = await finished(_taken(running, run.known))
        return await _apart(partial(self._told, printed, run, ending), len(printed.head) + len(printed.tail))

    def _told(self, printed: _Printed, run: ToolRun, ending: str | None) -> ToolResult:
        head, lost, tail, held, code = printed
        gap = f"\n[... {lost:,} bytes are lost: the command printed too much ...]\n".encode() if lost else b""
        if code is None:
            ending = f"[running; {held:,} more bytes follow with the next output]" if held else "[running]"
        data = masked_bytes(head + gap + tail, run.secrets)
        text = data.decode("utf-8", "replace")
        paths: tuple[str, ...] = ()
        endings = (
            [ending] if ending is not None else [f"[exit code {code}]"] if code or not text.strip() else []
        )
        shown = cut(text, self._options.max_result_chars)
        if shown != text:
            digest = hashlib.sha256(data).hexdigest()[:16]
            path = f"{_ARCHIVE}/shell_{digest}.txt"
            self._files.runtime.write(path, data)
            paths = (path,)
            endings.append(f"[the whole output, {len(text):,} characters, is in {path}]")
        return ToolResult(
            "\n".join([*([shown.rstrip("\n")] if shown.strip() else []), *endings]),
            is_error=bool(code) or (ending or "").startswith("[ended"),
            artifact={"exit_code": code},
            files=paths,
        )

    def _described(self) -> str:
        options = self._options
        shell = self._shell.rpartition("/")[2]
        if self._bubblewrap is None:
            contained = f"Take care: {UNCONTAINED}."
        else:
            contained = (
                "Commands see the workspace and the system's programs, nothing else of this machine; some files are"
                f" read-only or empty for them. There is {'a' if options.network else 'no'} network, and /tmp is empty"
                " at each start."
            )
        return (
            f"Run a command in the workspace, as a line for {shell} or as a list of words, and get its output.\n\n"
            "It starts in the workspace's folder, so use relative paths: the file /src/a.py of the file tools is"
            f" src/a.py. {contained} It may take {options.timeout_seconds:g} seconds, has no standard input, and the"
            " processes that it leaves are ended; start a server with `background`."
        )
