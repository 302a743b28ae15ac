"""Runs each program in new Linux namespaces, with a folder of files for each session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.bubblewrap.cgroups import (
    NO_GROUP,
    UNLIMITED,
    UNLIMITED_REMEDY,
    delegated_group,
    older_group,
)
from zeus_plugins.sandboxes.bubblewrap.command import FOLDERS, SandboxRoot
from zeus_plugins.sandboxes.bubblewrap.host import (
    check_system,
    counts_own,
    host_root,
    needed_folders,
    probe,
    probe_own,
)
from zeus_plugins.sandboxes.bubblewrap.options import Options
from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.sandbox import (
    WORKING_FOLDER,
    SandboxCapabilities,
    SandboxLimit,
    SandboxUnavailableError,
    folder_sandboxes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.sandbox import Outcome, OwnPrograms, Program, SandboxLimits, SandboxSessions

_ALL: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)


class Bubblewrap:
    """Runs programs in namespaces.

    Args:
        options: the options from the YAML.
        directory: the base of relative paths.
        programs: finds ``bwrap``.
        workspace: returns the real folders and files that programs must not see.
        around: returns further ones, as far as programs do not need what is in them.
    """

    def __init__(
        self,
        options: Options,
        directory: Path,
        programs: OwnPrograms,
        workspace: Callable[[], Sequence[Path]] = tuple,
        around: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._options = options
        self._rootfs = None if options.rootfs is None else (directory / options.rootfs).resolve()
        self._programs = programs
        self._others = [each.resolve() for each in (directory, directory / options.folder)]
        self._workspace = workspace
        self._around = around
        self._checked = False

    @property
    def capabilities(self) -> SandboxCapabilities:
        return SandboxCapabilities(
            boundary="namespaces",
            network=False,
            languages=("shell",) if self.root.python is None else ("python", "shell"),
            limits=_ALL,
            weaknesses=() if delegated_group() else (NO_GROUP,),
            workspace=self._check_workspace,
            machine="",
        )

    def _check_workspace(self, folders: Sequence[Path]) -> None:
        for each in folders:
            for own in map(Path, FOLDERS):
                # The copies of a session's files would be made in the workspace.
                if own.is_relative_to(each) or (own == Path(WORKING_FOLDER) and each.is_relative_to(own)):
                    raise OptionsError(
                        f"sandbox: programs have a folder {own} of their own, so they cannot use the workspace {each}",
                        remedy="Move the project to another folder, or remove `workspace`.",
                        where="workspace",
                    )
        bwrap = self._bwrap()
        probe_own(bwrap)
        has_group = delegated_group() is not None or older_group() is not None
        if os.geteuid() == 0 and not has_group and not counts_own(bwrap):
            raise SandboxUnavailableError(UNLIMITED, remedy=UNLIMITED_REMEDY)

    @property
    def root(self) -> SandboxRoot:
        """The file system that programs see as ``/``."""
        wanted = self._options.python
        if self._rootfs is not None:
            inside = wanted or "/usr/bin/python3"
            return SandboxRoot(self._rootfs, inside if _has(self._rootfs, inside) else None)
        return host_root(wanted, self._workspace(), [*self._others, *self._around()])

    def check(self) -> None:
        if self._checked:
            return
        check_system()
        probe(self._bwrap())
        self._checked = True

    def _bwrap(self) -> str:
        found = self._programs.find(self._options.command)
        if found is None:
            raise SandboxUnavailableError(
                f"the program {self._options.command} is not installed outside of the project",
                remedy="Install bubblewrap: apt-get install bubblewrap, or dnf install bubblewrap.",
            )
        return found

    async def run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        from zeus_plugins.sandboxes.bubblewrap.running import run

        return await run(self._bwrap(), self.root, folder, program, limits, on_output)


def sandboxes(
    options: Options,
    directory: Path,
    programs: OwnPrograms,
    workspace: Callable[[], Sequence[Path]] = tuple,
    around: Callable[[], Sequence[Path]] = tuple,
) -> SandboxSessions:
    """Create the backend; the arguments are those of ``Bubblewrap``."""
    contained = Bubblewrap(options, directory, programs, workspace, around)
    return folder_sandboxes(contained, directory / options.folder, keep_days=options.keep_days)


def create(options: Options, context: PlanContext) -> SandboxSessions:
    """Create the backend for the config.

    Raises:
        OptionsError: the rootfs or the Python in the YAML does not exist, or programs may not see it, or they need a
            folder that is in the workspace.
        LinkedFolderError: the folder is in ``.zeus``, and a link leads there.
    """
    if options.rootfs is not None:
        _require_shown(context, context.directory / options.rootfs, "rootfs")
        if not _has(context.directory / options.rootfs, "bin/sh"):
            raise OptionsError(
                f"bubblewrap: the rootfs {options.rootfs} is not a folder that contains bin/sh",
                remedy="Correct the path; it is relative to the working directory.",
                where="rootfs",
            )
    else:
        _require_apart(context)
        if options.python is not None:
            _need_python(options.python)
            prefix = host_root(options.python).prefix
            if prefix not in (None, host_root(None).prefix):
                _require_shown(context, prefix, "python")
            if (
                host_root(options.python, context.workspace.unseen()).python
                != host_root(options.python).python
            ):
                raise OptionsError(
                    f"bubblewrap: programs may not see {options.python}: it is in the workspace",
                    remedy="Choose a Python outside of the workspace.",
                    where="python",
                )
    files = context.workspace
    return sandboxes(options, context.directory, context.own_programs, files.unseen, files.around)


def _require_apart(context: PlanContext) -> None:
    """Ensure that what programs need can be shown without the workspace: hidden, no program would run."""
    for place in context.workspace.unseen():
        for needed in needed_folders():
            if needed.is_relative_to(place):
                raise OptionsError(
                    f"bubblewrap: programs need {needed}, and it is in {place}, a folder of the workspace",
                    remedy="Choose a smaller folder as workspace.root or route, or give the sandbox a rootfs.",
                )


def _require_shown(context: PlanContext, folder: Path, option: str) -> None:
    reason = context.workspace.mount_refusal(folder)
    if reason is not None:
        raise OptionsError(
            f"bubblewrap: programs may not see {folder}: {reason}",
            remedy="Choose a folder that is outside of the project and of Zeus's folders.",
            where=option,
        )


def _need_python(wanted: str) -> None:
    if not Path(wanted).is_file():
        raise OptionsError(
            f"bubblewrap: the Python {wanted} does not exist",
            remedy="Write the path of an interpreter, such as /usr/bin/python3.",
            where="python",
        )
    if host_root(wanted).python != str(Path(wanted).resolve()):
        raise OptionsError(
            f"bubblewrap: the Python {wanted} cannot be shown to programs without other files",
            remedy="Choose one below /usr, or one in the folder bin of a prefix that contains nothing else.",
            where="python",
        )


def _has(rootfs: Path, path: str) -> bool:
    return os.path.lexists(rootfs / path.lstrip("/"))
