"""The command lines to create, fill, use, empty and remove a container. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zeus_plugins.sandboxes.docker.options import Options
from zeus_runtime.plugin.sandbox import WORKING_FOLDER, SandboxLimits

USER: Final = "65534:65534"
TEMPORARY: Final = "/tmp"
BEGUN: Final = b"+"
"""The first output when a program begins; the client's time before that does not count as the program's."""
_SPARE_SECONDS: Final = 120
_COUNTED: Final = """\
for each in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$each" ] || continue
    while read -r name count; do
        [ "$name" = oom_kill ] && [ "$count" -gt 0 ] && echo true
    done < "$each"
done
exit 0
"""
_ENVIRON: Final[Mapping[str, str]] = {
    "HOME": WORKING_FOLDER,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "TMPDIR": TEMPORARY,
}


def made(options: Options, name: str, limits: SandboxLimits, *, podman: bool = False) -> list[str]:
    """Create a waiting container that contains nothing from the host; it ends by itself if it is not removed.

    Args:
        podman: whether the client is Podman. Podman cannot limit a file system's files and needs a separate program for
            ``--init``. Unless options prevent it, it fills file systems in memory from the image and adds further ones,
            and hands its own ``HTTPS_PROXY``, perhaps with a password, to the container.
    """
    mount = f"rw,exec,nosuid,nodev,mode=1777,size={limits.disk_bytes}"
    # Docker's runtime gives the file system the mode of the image's folder at that path, but not its owner.
    owned = ",".join(f"{name}={number}" for name, number in zip(("uid", "gid"), USER.split(":"), strict=True))
    mount += ",notmpcopyup" if podman else f",nr_inodes={limits.files},{owned}"
    memory = f"{limits.memory_bytes + 2 * limits.disk_bytes}b"
    return [
        *("run", "--detach", "--rm", "--name", name),
        *(("--read-only-tmpfs=false", "--http-proxy=false") if podman else ("--init",)),
        *("--network", "none", "--ipc", "private", "--read-only"),
        *("--user", USER, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", memory, "--memory-swap", memory, "--cpus", f"{options.cpus:g}"),
        *("--pids-limit", str(limits.processes + 4)),
        *("--ulimit", f"fsize={limits.file_bytes}", "--ulimit", "nofile=256", "--ulimit", "core=1"),
        *("--tmpfs", f"{WORKING_FOLDER}:{mount}", "--tmpfs", f"{TEMPORARY}:{mount}"),
        *(() if options.runtime is None else ("--runtime", options.runtime)),
        *("--entrypoint", "sleep", options.image, str(int(limits.seconds) + _SPARE_SECONDS)),
    ]


def running(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Run a program in the container ``name``; its output and error output are joined, with ``BEGUN`` first."""
    given = {**_ENVIRON, **environ}
    variables = [word for key, value in given.items() for word in ("--env", f"{key}={value}")]
    return [
        *("exec", "--workdir", WORKING_FOLDER),
        *variables,
        name,
        "/bin/sh",
        "-c",
        f"printf '{BEGUN.decode()}'; exec \"$@\" </dev/null 2>&1",
        "sh",
        *arguments,
    ]


def filled(name: str, folder: str) -> list[str]:
    """Unpack a tar archive from the standard input."""
    return ["exec", "--interactive", name, "tar", "-xf", "-", "-C", folder]


def emptied(name: str) -> list[str]:
    """Pack the working folder as a tar archive to the standard output."""
    return ["exec", name, "tar", "-cf", "-", "-C", WORKING_FOLDER, "."]


def removed(name: str, *, podman: bool = False) -> list[str]:
    """Kill and remove the container with all its processes; by default Podman would wait ten seconds for its end."""
    return ["rm", "--force", "--volumes", *(("--time", "0") if podman else ()), name]


def memory_ran_out(name: str) -> list[str]:
    """Print ``true`` if the container's control group counts a process that was killed for lack of memory.

    Podman, and Docker with version 1 of control groups, report this only for the container's first process.
    """
    return ["exec", name, "/bin/sh", "-c", _COUNTED]


def memory_ran_out_told(name: str) -> list[str]:
    """Print ``true`` if the engine reports it, for runtimes such as gVisor that show no control group."""
    return ["inspect", "--format", "{{.State.OOMKilled}}", name]
