"""Runs one program on a folder: copies files in, runs the program in new namespaces, copies files out."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot
from zeus_plugins.sandboxes.bubblewrap.identity import Identity, fresh_identity, own_identity
from zeus_plugins.sandboxes.bubblewrap.mounts import MOST_STARTS
from zeus_plugins.sandboxes.bubblewrap.process import NotMadeError, standing
from zeus_plugins.sandboxes.bubblewrap.seccomp import filter_program
from zeus_plugins.sandboxes.bubblewrap.staging import Staged, copy_in, copy_out, put_files
from zeus_runtime.plugin.sandbox import Outcome, Program, SandboxError, SandboxLimits
from zeus_runtime.plugin.tool import finished

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import ProgramMount


async def run(
    bwrap: str,
    root: SandboxRoot,
    folder: Path,
    program: Program,
    limits: SandboxLimits,
    on_output: Callable[[bytes], None] | None,
) -> Outcome:
    """Run a program on ``folder`` in new namespaces, which are removed when this returns or is cancelled.

    Raises:
        SandboxError: the program could not be run.
    """
    shared = program.workspace
    if shared is None:
        return await _run(bwrap, root, folder, program, limits, on_output, fresh_identity(), ())
    error: NotMadeError | None = None
    for _ in range(MOST_STARTS):
        mounts = await finished(asyncio.to_thread(shared.look))
        try:
            return await _run(bwrap, root, folder, program, limits, on_output, own_identity(), mounts)
        except NotMadeError as found:  # a file may have gone or come meanwhile
            error = found
    assert error is not None, "it was tried"
    raise error


async def _run(
    bwrap: str,
    root: SandboxRoot,
    folder: Path,
    program: Program,
    limits: SandboxLimits,
    on_output: Callable[[bytes], None] | None,
    identity: Identity,
    mounts: Sequence[ProgramMount],
) -> Outcome:
    owner = identity.uid if identity.changed else None
    kept = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        async with standing(
            bwrap,
            root,
            identity,
            limits,
            program,
            filter_program=filter_program(platform.machine()),
            mounts=mounts,
        ) as stands:
            work, scratch = stands.folders[:2]
            staged = await finished(asyncio.to_thread(_staged_in, kept, work, owner, limits))
            _put_own(scratch, program, owner)
            try:
                ended = await stands.run(limits, on_output)
            finally:
                stands.kill()
                lost = await finished(asyncio.to_thread(copy_out, work, kept, staged, limits))
    finally:
        os.close(kept)
    return Outcome(ended.exit_code, ended.killed_by, ended.output, ended.seconds, lost)


def _put_own(scratch: int, program: Program, owner: int | None) -> None:
    try:
        put_files(scratch, program.files, owner)
    except OSError as error:
        raise SandboxError(
            f"the program's files cannot be copied into the sandbox: {error.strerror}",
            remedy="Raise disk_mb.",
        ) from None


def _staged_in(kept: int, work: int, owner: int | None, limits: SandboxLimits) -> Staged:
    try:
        staged = copy_in(kept, work, owner)
    except OSError as error:
        raise SandboxError(
            f"the session's files cannot be copied into the sandbox: {error.strerror}",
            remedy="Remove some of them, or raise disk_mb.",
        ) from None
    if len(staged.files) + len(staged.folders) > limits.files:
        raise SandboxError(
            f"the session's files cannot be copied into the sandbox: it has more than {limits.files:,} files",
            remedy="Remove some of them, or raise max_files.",
        )
    return staged
