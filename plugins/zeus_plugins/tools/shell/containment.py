"""The command line that runs a command in bubblewrap, on the workspace as its access policy shows it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot, system_mounts, workspace_mounts
from zeus_plugins.sandboxes.bubblewrap.host import check_system, host_root, needed_folders, try_out
from zeus_plugins.sandboxes.bubblewrap.mounts import FOLDERS_INSTEAD, read_only_proc, sees_judged, too_many
from zeus_plugins.sandboxes.bubblewrap.seccomp import filter_program
from zeus_plugins.tools.shell.processes import Start
from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.files import WorkspaceError
from zeus_runtime.plugin.sandbox import SandboxUnavailableError

if TYPE_CHECKING:
    from zeus_plugins.tools.shell.options import Options
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.files import ProgramMount, WorkspaceFiles

NAMESPACES: Final = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL"),
)
_ETC: Final = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf")
"""Programs look up the name of their user; the files have no passwords."""
_ETC_OF_NETWORKS: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/services")
_HOME: Final = "/tmp"


def arguments_of(
    mounts: Sequence[ProgramMount],
    root: SandboxRoot,
    environ: Mapping[str, str],
    folder: str,
    *,
    show: Sequence[str] = (),
    network: bool = False,
) -> list[str]:
    """Return bubblewrap's arguments for a command; a later mount covers an earlier one.

    Args:
        mounts: the workspace's folders and files, a folder before what is in it.
        root: the system that the command sees.
        environ: all its variables.
        folder: the real path of its working directory.
        show: further folders that it may read.
        network: whether it has one.
    """
    also = (*_ETC, *(_ETC_OF_NETWORKS if network else ()))
    return [
        *NAMESPACES,
        *(() if network else ("--unshare-net",)),
        *("--die-with-parent", "--new-session", "--hostname", "shell"),
        *system_mounts(root, also),
        *read_only_proc(),
        *("--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"),
        *(word for each in show for word in ("--ro-bind", each, each)),
        *workspace_mounts(root, mounts),
        # After all mounts, which bubblewrap makes folders for.
        *("--remount-ro", "/"),
        *(word for name, value in environ.items() for word in ("--setenv", name, value)),
        *("--chdir", folder),
    ]


class BubblewrapCommands:
    """Starts commands in bubblewrap.

    Args:
        options: the options from the YAML.
        context: the agent's.

    Raises:
        OptionsError: a folder of `show` may not be shown, or the workspace contains the system.
        SandboxUnavailableError: bubblewrap cannot run here.
    """

    def __init__(self, options: Options, context: PlanContext) -> None:
        self._options = options
        self._files = context.workspace
        self._show = [_shown(each, context) for each in options.show]
        found = context.own_programs.find(options.command)
        check_system()
        if found is None:
            raise SandboxUnavailableError(
                f"the program {options.command} is not installed outside of the project",
                remedy="Install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap), or set"
                " `contain: none`, which contains nothing.",
            )
        self._bwrap = found
        try_out(found, NAMESPACES)
        self._tops = [Path(each).resolve() for each in (self._files.root, *self._files.routes.values())]
        for place in self._tops:
            for needed in needed_folders():
                if needed.is_relative_to(place):
                    raise OptionsError(
                        f"shell: commands need {needed}, and it is in {place}, a folder of the workspace",
                        remedy="Choose a smaller folder as workspace.root or route.",
                    )

    def _system(self) -> SandboxRoot:
        hidden = (
            each
            for each in self._files.unseen()
            if not any(each.is_relative_to(place) for place in self._tops)
        )
        # Also what lies beside the workspace: its working directory and the folders of other sessions and agents.
        return host_root(None, (), [*hidden, *self._files.around()])

    def start(self, words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Start:
        """Return how to start a command; it looks at all files of the workspace, so call it in a thread.

        Raises:
            WorkspaceError: the workspace has too many files or mounts, or a folder of `show` may not be shown any more.
        """
        for each in self._show:
            # Also the folders of sub-agents, which are planned after the tools.
            if (reason := _refusal(each, self._files)) is not None:
                raise WorkspaceError(f"shell: {reason}", remedy=f"Tell the user: {_ELSEWHERE}")
        mounts = self._files.program_view(max_files=self._options.max_files)
        given = arguments_of(
            mounts,
            self._system(),
            {**environ, "HOME": _HOME, "TMPDIR": "/tmp"},
            str(folder),
            show=self._show,
            network=self._options.network,
        )
        if (reason := too_many(mounts, given)) is not None:
            raise WorkspaceError(reason, remedy=FOLDERS_INSTEAD)
        return Start(
            self._bwrap,
            tuple(words),
            bubblewrap=tuple(given),
            filter_program=filter_program(platform.machine()),
            sees=partial(sees_judged, mounts),
        )


def _shown(written: str, context: PlanContext) -> str:
    folder = (context.directory / written).resolve()
    if not folder.exists():
        raise OptionsError(
            f"shell: {written} does not exist", remedy="Correct the path, or remove it.", where="show"
        )
    if (reason := _refusal(str(folder), context.workspace)) is not None:
        raise OptionsError(f"shell: {reason}", remedy=_ELSEWHERE, where="show")
    return str(folder)


def _refusal(folder: str, files: WorkspaceFiles) -> str | None:
    reason = files.mount_refusal(Path(folder))
    return None if reason is None else f"commands may not see {folder}: {reason}"


_ELSEWHERE: Final = (
    "Choose a folder for `show` that is outside of the project, of agents' folders and of Zeus's."
)
