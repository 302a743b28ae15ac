"""A process as root of a user namespace whose root is an ordinary user of the host, as in a rootless container."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

_HOST_USER: Final = 2_000_100_000
_ENTERING: Final = """
import ctypes, os, sys
command = sys.argv[1:]
if ctypes.CDLL(None).unshare(0x10000000):  # CLONE_NEWUSER
    sys.exit("no user namespace here")
print("made", flush=True)
sys.stdin.readline()  # until it is mapped
os.setresgid(0, 0, 0)
os.setresuid(0, 0, 0)
os.execv(command[0], command)
"""


def as_mapped_root(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code there.

    Args:
        folder: its working directory, which it gets to own; root alone may not read the folders above.
    """
    python = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    repository = Path(__file__).parents[2]
    path = (repository, repository / "plugins", Path(sysconfig.get_paths()["purelib"]))
    if not Path(python).exists() or not all(map(_is_open, path)):
        pytest.skip("an ordinary user cannot run this Python")
    os.chown(folder, _HOST_USER, _HOST_USER)
    process = subprocess.Popen(
        [python, "-c", _ENTERING, python, "-c", code],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(map(str, path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        if process.stdout.readline() == "made\n":
            for each in ("uid_map", "gid_map"):
                Path("/proc", str(process.pid), each).write_text(f"0 {_HOST_USER} 65536\n")
        out, err = process.communicate("\n", timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _is_open(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o5 == 0o5 for each in (folder, *folder.parents))
