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
context = SimpleNamespace(workspace=WorkspaceFiles(Path(".")), takes_pictures=False)
made = [*tools.create(options.Options(), context), *todo_tools.create(todo_options.Options(), context)]
assert not check_tools(made) and len(tools_description(visible(made, "ask"), "full")) > 500
print(" ".join(sys.modules))
"""


def test_making_and_describing_the_tools_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())


CHECKED = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from zeus_plugins.sandboxes.bubblewrap import backend as bubblewrap, options as bubblewrap_options
from zeus_plugins.sandboxes.docker import backend as docker, options as docker_options
from zeus_plugins.searches.duckduckgo.search import DuckDuckGo, Options as SearchOptions
from zeus_plugins.tools.sandbox import options as sandbox_options, tools as sandbox_tools
from zeus_plugins.tools.web import options as web_options, tools as web_tools
from zeus_runtime.plugin.sandbox import OwnPrograms, SandboxUnavailableError
from zeus_runtime.tools import WorkspaceFiles
context = SimpleNamespace(
    directory=Path("."), environ=dict(os.environ), process_environ=dict(os.environ),
    own_programs=OwnPrograms(os.environ),
    workspace=WorkspaceFiles(Path(".")),
    open_component=lambda kind, ref: DuckDuckGo(SearchOptions()),
)
made = list(web_tools.create(web_options.Options(), context))
for backend in (
    bubblewrap.create(bubblewrap_options.Options(), context),
    docker.create(docker_options.Options(), context),
):
    context.sandboxes = SimpleNamespace(open=lambda ref: backend)
    try: made += sandbox_tools.create(sandbox_options.Options(), context)
    except SandboxUnavailableError: pass
assert len(made) >= 2
print(" ".join(sys.modules))
"""


def test_making_the_tools_of_sandbox_and_web_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", CHECKED], capture_output=True, text=True, check=True)
    heavy = HEAVY | {"httpcore", "ssl", "bs4", "markdownify", "ddgs", "anyio", "tarfile"}
    assert heavy.isdisjoint(done.stdout.split())
