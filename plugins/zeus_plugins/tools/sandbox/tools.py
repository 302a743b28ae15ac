"""The sandbox tools: running code, and copying files in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from zeus_plugins.tools.sandbox.options import KEEPS, Options
from zeus_plugins.tools.sandbox.progress import told
from zeus_plugins.tools.sandbox.report import listed, report
from zeus_runtime.plugin import Minimum, OptionsError
from zeus_runtime.plugin.files import NoSuchFileError
from zeus_runtime.plugin.sandbox import WORKING_FOLDER, Program, SandboxError, SharedWorkspace
from zeus_runtime.plugin.tool import Preview, Tool, ToolResult, ToolRun, finished, tool

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.files import ProgramMount, WorkspaceFiles
    from zeus_runtime.plugin.sandbox import SandboxBackend, SandboxCapabilities

_COMMANDS = {"python": ("python3", "/tmp/code.py"), "shell": ("/bin/sh", "/tmp/code.sh")}
_MOST_LISTED = 50
_BESIDE = """Prepare the sandbox's own folder /workspace: copy workspace files into it, or empty it.

Programs see the workspace itself; copy the files that they shall change without changing the workspace. The folder's
files remain for later programs. execute_code makes it if needed."""


def create(options: Options, context: PlanContext) -> Sequence[Tool]:
    """``create_sandbox execute_code copy_from_sandbox``.

    Raises:
        OptionsError: the backend does not enforce a limit that the YAML sets, isolates less than the YAML requires, or
            cannot show programs the workspace.
        SandboxUnavailableError: the backend cannot run on this machine; the tools are off then.
    """
    backend = context.sandboxes.open(options.backend)
    _refuse_open(options, backend)
    shares = _sharing(options, backend)
    backend.check()
    if shares is not None:
        files = context.workspace
        shares([Path(each).resolve() for each in (files.root, *files.routes.values())])
    _refuse_unkept(options, backend)
    where, machine = _where(options, backend.capabilities), backend.capabilities.machine
    return [
        replace(make(options, backend, context.workspace), facts=(where,), setting=machine)
        for make in (_create_sandbox, _execute_code, _copy_from_sandbox)
    ]


def _create_sandbox(options: Options, backend: SandboxBackend, workspace: WorkspaceFiles) -> Tool:
    @tool(category="sandbox", access="write", description=_BESIDE if options.workspace else None)
    async def create_sandbox(run: ToolRun, files: list[str] | None = None, empty: bool = False) -> ToolResult:
        """Prepare the sandbox: copy workspace files into it, or empty it.

        The sandbox is separate from the workspace: programs in it see only the sandbox's files under /workspace, which
        remain for later programs. execute_code creates the sandbox if needed; use this tool for files that a program
        needs.

        Args:
            files: Workspace files to copy, such as /data/sales.csv; each gets the same path below /workspace.
            empty: First remove all files from the sandbox.
        """
        import asyncio

        most = options.max_copy_mb * 2**20
        inners = [workspace.normalize(path) for path in files or ()]
        if empty:
            for inner in inners:
                # A wrong name must not cost the sandbox's files; all contents together may not fit into memory.
                await asyncio.to_thread(workspace.read, inner, max_bytes=most)
            await backend.remove(run.session)
        box = await backend.create(run.session)
        copied = []
        for inner in inners:
            data = await asyncio.to_thread(workspace.read, inner, max_bytes=most)
            await box.write(f"{WORKING_FOLDER}{inner}", data)
            copied.append(f"{WORKING_FOLDER}{inner} ({len(data):,} bytes)")
        held = await box.list(max_files=_MOST_LISTED + 1)
        lines = [f"Copied {', '.join(copied)}."] if copied else []
        return ToolResult("\n".join([*lines, *listed(held, most=_MOST_LISTED)]))

    return create_sandbox


def _execute_code(options: Options, backend: SandboxBackend, workspace: WorkspaceFiles) -> Tool:
    languages = backend.capabilities.languages

    @tool(
        category="sandbox",
        access="write",
        description=_described(options, backend.capabilities),
    )
    async def execute_code(
        run: ToolRun,
        code: str,
        language: Literal["python", "shell"] = languages[0],
        timeout_seconds: Annotated[float | None, Minimum(0.1)] = None,
    ) -> ToolResult:
        """Run code in the sandbox.

        Args:
            code: The whole program.
            language: python, or shell for an sh script.
            timeout_seconds: Time limit in seconds.
        """
        if language not in languages:
            raise SandboxError(f"this sandbox cannot run {language}; it runs {' and '.join(languages)}")
        box = await backend.create(run.session)
        command = _COMMANDS[language]
        limits = options.limits(timeout_seconds)
        try:
            source = code.encode()
        except UnicodeEncodeError:
            raise SandboxError(
                "code contains characters that UTF-8 cannot encode (lone surrogates)"
            ) from None
        program = Program(
            command, {command[-1].rpartition("/")[2]: source}, workspace=_shared(options, workspace)
        )
        with told(run.progress, run.known) as hear:
            outcome = await box.exec(program, limits, hear)
        return ToolResult(
            report(outcome, limits, max_characters=options.max_result_chars, secrets=run.secrets),
            is_error=outcome.exit_code != 0 or outcome.killed_by is not None,
            artifact={
                "exit_code": outcome.exit_code,
                "killed_by": outcome.killed_by,
                "seconds": round(outcome.seconds, 3),
            },
        )

    return replace(execute_code, programs=frozenset({"code"}))


def _where(options: Options, capabilities: SandboxCapabilities) -> str:
    """Where code runs and files are, for the person who approves a call."""
    machine = f" on {capabilities.machine}" if capabilities.machine else ""
    return (
        f"in the sandbox {options.backend.name}{machine}{'' if capabilities.isolated else ' (not isolated)'}"
    )


def _shared(options: Options, workspace: WorkspaceFiles) -> SharedWorkspace | None:
    if options.workspace is None:
        return None

    def look() -> Sequence[ProgramMount]:
        return workspace.program_view(
            max_files=options.max_workspace_files, writable=options.workspace == "write"
        )

    return SharedWorkspace(workspace.place("/"), look)


def _copy_from_sandbox(options: Options, backend: SandboxBackend, workspace: WorkspaceFiles) -> Tool:
    def preview(path: str, to: str) -> Preview:
        # A plan opens no sandbox, so nobody can be shown the file: the user approves to replace this one by any.
        return Preview(
            problem=f"{path} is in the sandbox and not shown; it is copied as it is when the call runs, and"
            f" {_target(workspace, to, options)}"
        )

    @tool(category="sandbox", access="write", paths=["to"], preview=preview)
    async def copy_from_sandbox(run: ToolRun, path: str, to: str) -> str:
        """Copy a file from the sandbox into the workspace; an existing file there is replaced.

        Args:
            path: File in the sandbox, such as /workspace/plot.png.
            to: File in the workspace, such as /reports/plot.png.
        """
        import asyncio

        box = await backend.create(run.session)
        data = await box.read(path, max_bytes=options.max_copy_mb * 2**20)
        # Awaited to its end: a run that was cancelled changes no file afterwards.
        created = await finished(asyncio.to_thread(workspace.write, to, data))
        return f"{'Created' if created else 'Replaced'} {workspace.normalize(to)} ({len(data):,} bytes)."

    return copy_from_sandbox


def _target(workspace: WorkspaceFiles, path: str, options: Options) -> str:
    """A file that a copy would make or replace, in words that differ where its place or its content does."""
    place = workspace.real(path)
    try:
        held = workspace.read(path, max_bytes=options.max_copy_mb * 2**20)
    except NoSuchFileError:
        return f"becomes the new file {place} (state {workspace.state(path)})"
    return f"replaces {place} ({len(held):,} bytes, state {workspace.state(path, [held])})"


def _described(options: Options, capabilities: SandboxCapabilities) -> str:
    network = "a" if capabilities.network else "no"
    place = (
        WORKING_FOLDER
        if capabilities.isolated
        else "a folder of the session, which file tools call /workspace"
    )
    memory = f" and {options.memory_mb} MB" if "memory" in capabilities.limits else ""
    if options.workspace is None:
        files = (
            f"The code starts in {place}, whose files are kept for the next call. There is {network} network, and the"
            " workspace's files are not there until create_sandbox copies them."
        )
    else:
        rights = (
            "read-only" if options.workspace == "read" else "there with its rights: some files are read-only"
        )
        files = (
            "The code starts in the workspace's folder, so use relative paths: the file /src/a.py of the file tools is"
            f" src/a.py. The workspace is {rights}, and some files of it are closed. The code also has a folder"
            f" {WORKING_FOLDER} of its own, whose files are kept for the next call. There is {network} network."
        )
    return (
        f"Run {' or '.join(capabilities.languages)} code in the sandbox and get its output.\n\n{files} The code may"
        f" take {options.timeout_seconds:g} seconds{memory}; processes that it leaves running are ended."
    )


def _sharing(options: Options, backend: SandboxBackend) -> Callable[[Sequence[Path]], None] | None:
    """Return the backend's check of the workspace; None if the YAML does not share it."""
    if options.workspace is None:
        return None
    check = backend.capabilities.workspace
    if check is None:
        raise OptionsError(
            f"sandbox: the backend {options.backend.name!r} cannot show the workspace to programs",
            remedy="Choose the backend bubblewrap, or remove `workspace`.",
            where="workspace",
        )
    return check


def _refuse_open(options: Options, backend: SandboxBackend) -> None:
    has = backend.capabilities
    if options.require_isolation and (has.network or not has.isolated):
        what = "reach a network" if has.isolated else "see the files of the machine and reach its network"
        raise OptionsError(
            f"sandbox: programs in the backend {options.backend.name!r} {what}",
            remedy="Choose another backend or isolate this one, or set `require_isolation: false` to allow it.",
            where="require_isolation",
        )


def _refuse_unkept(options: Options, backend: SandboxBackend) -> None:
    kept = backend.capabilities.limits
    defaults = Options()
    for each in fields(Options):
        needs = KEEPS.get(each.name)
        if needs is None or needs in kept:
            continue
        if getattr(options, each.name) != getattr(defaults, each.name):
            raise OptionsError(
                f"sandbox: {each.name} cannot be enforced: the backend {options.backend.name!r} has no such limit",
                remedy=f"Remove {each.name}, or choose another backend.",
                where=each.name,
            )
