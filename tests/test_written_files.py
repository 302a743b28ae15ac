"""Each module that makes files says where: a repository can bring a link at any name in its project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
MAKES: Final = frozenset(
    {
        *(
            "write_text",
            "write_bytes",
            "mkdir",
            "mkstemp",
            "mkdtemp",
            "TemporaryDirectory",
            "NamedTemporaryFile",
        ),
        *("symlink_to", "hardlink_to", "copyfile", "copytree", "O_CREAT", "O_WRONLY", "O_RDWR"),
    }
)
_WORDS: Final = re.compile(rf"\b({'|'.join(MAKES)}|sqlite3\.connect)\b|\bopen\((?!\))")
WHERE: Final = {
    "in the system's folder for temporary files, or in a folder in it": """
        zeus_runtime/agent/what_if zeus_runtime/plan/apart zeus_runtime/cli/context/backtest
        zeus_runtime/cli/context/tune_replays zeus_runtime/cli/memory/editing zeus_runtime/testing/cases/judging
        zeus_runtime/testing/cases/running zeus_runtime/testing/evals/subject zeus_runtime/testing/own_folder
        zeus_runtime/testing/memory_conformance zeus_runtime/testing/protocol_conformance
        zeus_runtime/testing/vector_store_conformance zeus_plugins/sandboxes/ssh/plain""",
    "in the user's own folders, which the variables of the process name": """
        zeus_runtime/cli/prompt_input zeus_runtime/trust/compiled zeus_runtime/trust/records
        zeus_plugins/tools/mcp/oauth/store zeus_plugins/tools/mcp/transports""",
    "where the user says on the command line; links in `.zeus`, and at names that it adds itself, are refused": """
        zeus_runtime/cli/init zeus_runtime/cli/schema zeus_runtime/cli/serve zeus_runtime/cli/whole_file
        zeus_runtime/models/recorder zeus_runtime/testing/cases/kept_files zeus_runtime/testing/evals/__main__""",
    "where the config says: the real path needs permission, and what is made beside it is no link": """
        zeus_runtime/cli/checks zeus_runtime/cli/completion zeus_runtime/memory/embedding_choice
        zeus_runtime/store/database zeus_runtime/store/schema zeus_runtime/store/session_lock
        zeus_runtime/trust/databases zeus_plugins/checkpointers/sqlite/saver
        zeus_plugins/vector_stores/chroma/opening zeus_plugins/vector_stores/chroma/store""",
    "in `.zeus`, or where the config says, through `own_path`, `opened` or `open_own`": """
        zeus_runtime/tools/own_folders zeus_runtime/cli/context/tune_search zeus_runtime/serving/http/uploads
        zeus_plugins/tools/mcp/start_times zeus_plugins/tools/mcp/stderr zeus_plugins/sandboxes/docker/packing""",
    "in the workspace, by the rules for its links": """
        zeus_runtime/tools/atomic zeus_runtime/tools/program_view zeus_runtime/tools/safe_open
        zeus_runtime/tools/workspace zeus_plugins/sandboxes/bubblewrap/staging""",
    "in folders of the system, or on another machine": """
        zeus_runtime/cli/entry zeus_plugins/sandboxes/bubblewrap/cgroups zeus_plugins/sandboxes/ssh/files
        zeus_plugins/sandboxes/ssh/remote_agent""",
}


def makes_files(source: str) -> bool:
    # Most modules have none of the words, and need not be parsed.
    return _WORDS.search(source) is not None and any(map(_makes, ast.walk(ast.parse(source))))


def _makes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id) in MAKES
    if not isinstance(node, ast.Call):
        return False
    match node.func:
        case ast.Attribute(ast.Name("sqlite3"), "connect"):
            return True
        case ast.Attribute(attr="open") | ast.Name("open"):
            return any(map(_is_writing_mode, (*node.args, *(each.value for each in node.keywords))))
    return False


def _is_writing_mode(argument: ast.expr) -> bool:
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        return False
    return set(argument.value) <= set("rwxabt+") and not set(argument.value).isdisjoint("wxa+")


def _making() -> Iterator[str]:
    for above, package in ((ROOT, "zeus_runtime"), (ROOT / "plugins", "zeus_plugins")):
        for file in (above / package).rglob("*.py"):
            if makes_files(file.read_text("utf-8")):
                yield str(file.relative_to(above).with_suffix(""))


def test_every_module_that_makes_files_says_where() -> None:
    said = [each for names in WHERE.values() for each in names.split()]
    assert len(said) == len(set(said))
    assert set(_making()) == set(said)


@pytest.mark.parametrize(
    "line",
    ["p.mkdir()", "p.open('x')", "open(p, mode='ab')", "os.open(p, os.O_CREAT)", "sqlite3.connect(p)"],
)
def test_a_line_that_makes_a_file_is_found(line: str) -> None:
    assert makes_files(line)
    assert not makes_files("p.open('rb'); open(p); os.open(p, os.O_RDONLY); p.replace('w', 'x')")
