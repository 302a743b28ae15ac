"""Sandboxes for tests: a bubblewrap one over a folder, or a skip that says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.sandboxes.bubblewrap.backend import sandboxes
from zeus_plugins.sandboxes.bubblewrap.options import Options

from zeus_runtime.plugin.sandbox import (
    Outcome,
    OwnPrograms,
    Program,
    Sandbox,
    SandboxBackend,
    SandboxLimits,
    SandboxUnavailableError,
)

RAN = "the program ran"
MEGABYTE = 2**20


def bubblewrap(folder: Path, **options: Any) -> SandboxBackend:
    """A backend whose sessions' files are below ``folder``."""
    backend = sandboxes(Options(**options), folder, OwnPrograms(os.environ))
    try:
        backend.check()
    except SandboxUnavailableError as error:
        pytest.skip(f"no bubblewrap here: {error.message}")
    return backend


async def ran(box: Sandbox, code: str, **limits: Any) -> tuple[Outcome, str]:
    """How a Python program ended and what it printed, once it is sure that it ran at all."""
    outcome, text = await _ran(box, code, SandboxLimits(**{"seconds": 60.0, **limits}))
    assert RAN in text, f"the program did not run: {text!r}"
    return outcome, text.partition(RAN)[2].lstrip("\n")


async def ran_out_of_time(box: Sandbox, code: str, **limits: Any) -> Outcome:
    """How a Python program ended that never does by itself: each time by its limit, which grows until it has begun."""
    seconds = 0.5
    while True:
        outcome, text = await _ran(box, code, SandboxLimits(seconds=seconds, **limits))
        assert outcome.killed_by == "seconds", text
        assert outcome.seconds >= seconds
        if RAN in text:
            return outcome
        seconds *= 2


async def _ran(box: Sandbox, code: str, limits: SandboxLimits) -> tuple[Outcome, str]:
    program = Program(
        ("python3", "/tmp/code.py"), {"code.py": f"print({RAN!r}, flush=True)\n{code}".encode()}
    )
    outcome = await box.exec(program, limits)
    return outcome, outcome.output.decode(errors="replace")


def processes_with(word: str) -> list[int]:
    """The host's processes whose command line or name holds ``word``."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                line = (each / "cmdline").read_bytes() + (each / "comm").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(each.name))
    return found


def small_rootfs(folder: Path, *programs: str) -> None:
    """A folder with a few of the host's programs and the libraries that they need."""
    for name in ("usr/bin", "etc", "lib", "lib64", "workspace"):
        (folder / name).mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "etc/issue").write_text("my own\n")
    for program in programs:
        found = str(shutil.which(program, path="/usr/bin:/bin"))
        shutil.copy(found, folder / "usr/bin" / program)
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(", listed):
            target = folder / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
