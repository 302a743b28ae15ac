"""The command line that runs a program in namespaces, and the shell that waits before the program starts.

The shell reports that the sandbox is ready, and waits until the program's files are there. Then it sets the limits of a
process and becomes the program. The limits must be set inside the user namespace, so that they count only its
processes.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.bubblewrap.identity import Identity
from zeus_plugins.sandboxes.bubblewrap.mounts import mounting, read_only_proc
from zeus_runtime.plugin.sandbox import WORKING_FOLDER, SandboxLimits

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import ProgramMount

FOLDERS: Final = (WORKING_FOLDER, "/tmp", "/dev/shm")
"""The folders that programs can write to; each is a separate file system in memory."""

READY: Final = b"+"
FAILED: Final = 125
_NAMES: Final = "/opt/bin"
_ENVIRON: Final[Mapping[str, str]] = {
    "HOME": WORKING_FOLDER,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "TMPDIR": "/tmp",
    "USER": "sandbox",
}
_ETC: Final = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/mime.types",
    "/etc/localtime",
)
_GATE: Final = "printf + >&0 && read -r _ <&0 || exit 125\n"
_LIMITS: Final = """\
ulimit -u {processes} 2>/dev/null || ulimit -p {processes} || exit 125
ulimit -d {kilobytes} && ulimit -f {blocks} && ulimit -n {descriptors} || exit 125
exec "$@" </dev/null 2>&1
"""
_BLOCK: Final = 512


@dataclass(frozen=True)
class SandboxRoot:
    """The file system that programs see as ``/``.

    Args:
        rootfs: a folder; None for the host's ``/usr``.
        python: the interpreter's path for programs; None if there is no interpreter.
        prefix: the host folder with the interpreter, if that is not below ``/usr``, or is in an unseen folder. It has
            the same path inside, because the interpreter may be linked to its library by that path.
        unseen: real paths of folders and files that programs see empty, where a shown folder contains them.
    """

    rootfs: Path | None
    python: str | None
    prefix: Path | None = None
    unseen: Sequence[Path] = ()


def arguments_of(
    root: SandboxRoot,
    identity: Identity,
    limits: SandboxLimits,
    environ: Mapping[str, str],
    *,
    filter_fd: int,
    status_fd: int,
    mounts: Sequence[ProgramMount] = (),
    start: str = WORKING_FOLDER,
) -> list[str]:
    """Return bubblewrap's arguments; they are passed in a file, because programs can read the command line.

    Args:
        filter_fd: the system call filter, open for reading.
        status_fd: bubblewrap writes the first process and its exit code here.
        mounts: the workspace's folders and files, a folder before what is in it.
        start: the folder that the program starts in.
    """
    return [
        *_namespaces(identity),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox"),
        *_file_systems(root, limits, mounts, read_only_proc() if identity.is_root else ("--proc", "/proc")),
        *_variables({**_ENVIRON, "PATH": _path(root), **environ}),
        *("--chdir", start, "--seccomp", str(filter_fd), "--json-status-fd", str(status_fd)),
    ]


def waiting(identity: Identity, limits: SandboxLimits, arguments: Sequence[str]) -> list[str]:
    """Return the shell command that becomes the program ``arguments`` after a line on its standard input."""
    most = most_of_each(limits)
    limited = _LIMITS.format(
        processes=most[resource.RLIMIT_NPROC],
        kilobytes=most[resource.RLIMIT_DATA] // 1024,
        blocks=most[resource.RLIMIT_FSIZE] // _BLOCK,
        descriptors=most[resource.RLIMIT_NOFILE],
    )
    if not identity.changed:
        return [*_shell(_GATE + limited), *arguments]
    # The waiting shell still runs as this process's user, the only one that may set a limit from outside.
    return [*_shell(_GATE + 'exec "$@"'), *_dropping(identity), *_shell(limited), *arguments]


def most_of_each(limits: SandboxLimits) -> Mapping[int, int]:
    """Return the ``RLIMIT_*`` values of a process in the sandbox."""
    return {
        resource.RLIMIT_NPROC: limits.processes + 2,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_FSIZE: -(-limits.file_bytes // _BLOCK) * _BLOCK,
        resource.RLIMIT_NOFILE: 256,
    }


def _shell(script: str) -> Sequence[str]:
    return "/bin/sh", "-c", script, "sh"


def _namespaces(identity: Identity) -> Sequence[str]:
    if not identity.changed:
        user = str(identity.uid)
        return (
            *("--unshare-user", "--unshare-all", "--disable-userns", "--uid", user, "--gid", user),
            *("--cap-drop", "ALL"),
        )
    kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    return (
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--cap-drop", "ALL"),
        *(word for each in kept for word in ("--cap-add", each)),
    )


def _dropping(identity: Identity) -> Sequence[str]:
    """Return the command that drops root's privileges before a program of root starts."""
    user = str(identity.uid)
    return (
        *("/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups"),
        *("--inh-caps", "-all", "--bounding-set", "-all", "--"),
    )


def _file_systems(
    root: SandboxRoot, limits: SandboxLimits, mounts: Sequence[ProgramMount], proc: Iterable[str]
) -> Iterator[str]:
    if root.rootfs is not None:
        # Nothing can be mounted in a folder of the rootfs where that has no such folder.
        held = {Path(each.host).parts[1] for each in mounts}
        for each in sorted(root.rootfs.iterdir()):
            if each.name in held:
                continue
            if each.is_symlink():
                yield from ("--symlink", str(each.readlink()), f"/{each.name}")
            elif f"/{each.name}" not in ("/proc", "/dev", "/tmp", WORKING_FOLDER):
                yield from ("--ro-bind", str(each), f"/{each.name}")
    else:
        yield from system_mounts(root)
    yield from proc
    yield from ("--dev", "/dev")
    # This also reads as zeros, but cannot be mapped: shared mappings of /dev/zero are memory that no limit counts.
    yield from ("--dev-bind", "/dev/full", "/dev/zero")
    for folder in FOLDERS:
        size = max(limits.disk_bytes if folder != "/dev/shm" else limits.disk_bytes // 4, 4096)
        yield from ("--perms", "1777", "--size", str(size), "--tmpfs", folder)
    yield from workspace_mounts(root, mounts)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def system_mounts(root: SandboxRoot, also: Sequence[str] = ()) -> Iterator[str]:
    """Yield the arguments that show the host's programs and libraries read-only.

    Args:
        also: further files and folders of the host, as far as they exist.
    """
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if Path("/", name).is_symlink():
            yield from ("--symlink", f"usr/{name}", f"/{name}")
    for shown in system_folders():
        yield from ("--ro-bind", str(shown), str(shown))
    for folder in ("/etc", "/etc/ssl"):
        yield from ("--perms", "0755", "--dir", folder)
    for name in (*_ETC, *also):
        if not any(Path(name).resolve().is_relative_to(each) for each in root.unseen):
            yield from ("--ro-bind-try", name, name)
    yield from _covering(_system_covers(root))
    if root.prefix is not None:  # it may be in a cover
        for shown in (Path(_NAMES), root.prefix):
            for parent in reversed(shown.parents[:-1]):
                yield from ("--perms", "0755", "--dir", str(parent))
        yield from ("--perms", "0755", "--dir", _NAMES)
        yield from ("--ro-bind", str(root.prefix), str(root.prefix))
        for name in ("python", "python3"):
            yield from ("--symlink", str(root.python), f"{_NAMES}/{name}")
        yield from _covering(_covers(root, [root.prefix]))


def _covering(covers: Iterable[tuple[Path, str, bool]]) -> Iterator[str]:
    for _, inside, is_folder in covers:
        if is_folder:
            yield from ("--perms", "0555", "--size", "4096", "--tmpfs", inside)
        else:
            yield from ("--ro-bind", "/dev/null", inside)


def workspace_mounts(root: SandboxRoot, mounts: Sequence[ProgramMount]) -> Iterator[str]:
    """Yield the arguments that mount the workspace after ``system_mounts``, also within what that covers."""
    of_prefix = () if root.prefix is None else _covers(root, [root.prefix])
    covers = [
        (place, inside) for place, inside, is_folder in (*_system_covers(root), *of_prefix) if is_folder
    ]
    hosts = [Path(each.host) for each in mounts]
    within = {
        above
        for place, _ in covers
        for host in hosts
        if place in host.parents
        for above in host.parents
        if place in above.parents
    }
    for above in sorted(within):  # else bubblewrap makes them for its own user alone
        yield from ("--perms", "0755", "--dir", str(above))
    yield from mounting(mounts)
    for place, inside in covers:  # last, because mounts in it need a place
        if not any(place.is_relative_to(host) for host in hosts):
            yield from ("--remount-ro", inside)


def system_folders() -> Iterator[Path]:
    """Yield the host's folders that programs need to run at all."""
    yield Path("/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        folder = Path("/", name)
        if folder.is_dir() and not folder.is_symlink():
            yield folder


def _system_covers(root: SandboxRoot) -> Iterator[tuple[Path, str, bool]]:
    return _covers(root, [*system_folders(), *map(Path, _ETC)])


def _covers(root: SandboxRoot, shown: Sequence[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Yield what programs see empty of shown folders: its real path, its place inside, and whether it is a folder."""
    covered: list[Path] = []
    for place in sorted(root.unseen):
        for folder in shown:
            if not place.is_relative_to(folder.resolve()) or not place.exists():
                continue
            inside = folder / place.relative_to(folder.resolve())
            if any(inside.is_relative_to(each) for each in covered):
                continue
            covered.append(inside)
            yield place, str(inside), place.is_dir()


def _variables(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        yield from ("--setenv", name, value)


def _path(root: SandboxRoot) -> str:
    folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
    if root.python is not None:
        folders.insert(0, str(Path(root.python).parent) if root.prefix is None else _NAMES)
    return ":".join(dict.fromkeys(folders))
