"""Agents with a shell for tests, and the processes that are left of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from zeus_plugins.sandboxes.bubblewrap.host import check_system, try_out
from zeus_plugins.tools.shell.containment import NAMESPACES

from zeus_runtime import Agent
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin.sandbox import SandboxUnavailableError
from zeus_runtime.testing import ScriptedModel, calling


def need_bubblewrap() -> None:
    """Skip the test where bubblewrap cannot run commands."""
    import shutil

    found = shutil.which("bwrap")
    if found is None:
        pytest.skip("bubblewrap is not installed")
    try:
        check_system()
        try_out(found, NAMESPACES)
    except SandboxUnavailableError as error:
        pytest.skip(f"no bubblewrap here: {error.message}")


def shell_agent(folder: Path, *steps: Any, keys: dict[str, Any] | None = None, **options: Any) -> Agent:
    """An agent whose model makes the calls of ``steps``.

    Args:
        keys: further keys of the config.
        options: of the component `shell`.
    """
    config = {"version": 1, "model": "gpt-4o", "tools": [{"shell": options}], **(keys or {})}
    (folder / "zeus.yaml").write_text(yaml.safe_dump(config))
    model = ScriptedModel([*steps, "done"])
    return Agent.from_config(directory=folder, model=model, environ={}, trust="all")


def command(text: str | Sequence[str], **arguments: Any) -> Any:
    """A step that runs a command."""
    return calling(("run_command", {"command": text, **arguments}))


async def results(
    folder: Path, *steps: Any, keys: dict[str, Any] | None = None, **options: Any
) -> list[ToolCallResult]:
    """The results of the calls of ``steps``; a text is a command."""
    made = [command(each) if isinstance(each, str) else each for each in steps]
    async with shell_agent(folder, *made, keys=keys, **options) as agent:
        return [each async for each in agent.stream("go") if isinstance(each, ToolCallResult)]


def processes_of(mark: str) -> list[str]:
    """The command lines of this machine's processes that have the text ``mark``."""
    found = []
    for each in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are wanted
        try:
            line = Path("/proc", each, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and int(each) != os.getpid():
            found.append(line)
    return found
