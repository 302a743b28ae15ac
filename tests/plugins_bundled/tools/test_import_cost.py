"""`zeus plan` makes the tools: that must import nothing heavy."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "asyncio",
    "pydantic",
    "jsonschema",
    "regex",
    "rich",
    "litellm",
    "langchain_core",
    "langgraph",
    "tiktoken",
}

PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
from zeus_plugins.tools.filesystem import options, tools
from zeus_plugins.tools.todos import options as todo_options, tools as todo_tools
from zeus_runtime.prompt import tools_description
from zeus_runtime.tools import WorkspaceFiles, check_tools, visible
build = SimpleNamespace(workspace=WorkspaceFiles(Path(".")))
made = [*tools.create(options.Options(), build), *todo_tools.create(todo_options.Options(), build)]
assert not check_tools(made) and len(tools_description(visible(made, "ask"), "full")) > 500
print(" ".join(sys.modules))
"""


def test_making_and_describing_the_tools_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
