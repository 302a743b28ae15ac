"""How the code is laid out, in figures: ``python -m benchmarks.structure [--english PROGRAM]``.

Nothing here is timed. A figure is a reason to look, never a goal by itself: a merged file or an inlined function
improves a figure and no code.
"""

from __future__ import annotations

import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = {"zeus_runtime": ROOT / "zeus_runtime", "zeus_plugins": ROOT / "plugins/zeus_plugins"}
ENGLISH: Final = ("README.md", "ARCHITECTURE.md", "docs", "zeus_runtime", "plugins")
SHORT_FILE: Final = 40

VALIDATED: Final = """\
version: 1
model: openai/gpt-5.2
tools: [filesystem]
middlewares: [eviction, caching]
limits: {max_steps: 20}
"""

TRACED: Final = """
import atexit, json, os, sys, threading
seen = set()
def note(frame, event, arg):
    if event == "call":
        seen.add(frame.f_code)
def write():
    sys.setprofile(None)
    threading.setprofile(None)
    found = [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in set(seen)]
    with open(os.environ["ENTERED"], "w") as file:
        json.dump(found, file)
atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
from zeus_runtime.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A `zeus` that writes down which functions were entered."""


@dataclass(frozen=True)
class Import:
    """One import of a module of ours by another.

    Args:
        source: the module that has the statement.
        target: the module that is imported.
        local: whether the statement is inside a function.
    """

    source: str
    target: str
    local: bool


@dataclass(frozen=True)
class Module:
    """A Python file of ours.

    Args:
        name: its dotted name.
        path: where it is.
    """

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def modules() -> dict[str, Module]:
    """Every module of the core and of the bundled plugins, by name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = Module(name, path)
    return found


def imports(module: Module, known: Mapping[str, Module]) -> Iterator[Import]:
    """What a module imports of ours when it runs; imports for type checkers alone do not count."""
    for node, local in _statements(module.tree.body, local=False):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        else:
            base = _absolute(module, node)
            wanted = [f"{base}.{alias.name}" for alias in node.names]
            wanted = [name if name in known else base for name in wanted]
        for name in dict.fromkeys(wanted):
            if name in known and name != module.name:
                yield Import(module.name, name, local)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    up = node.level - (module.path.name == "__init__.py")
    return ".".join([*package[: len(package) - up], *([node.module] if node.module else [])])


def _statements(
    body: Sequence[ast.AST], *, local: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, local
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _statements(node.orelse, local=local)
        else:
            inner = local or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _statements(list(ast.iter_child_nodes(node)), local=inner)


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(sorted(edges[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, below = work[-1]
            for target in below:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    place = stack.index(node)
                    group, stack[place:] = stack[place:], []
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def folder(name: str) -> str:
    """The part of the core that a module is in, such as ``zeus_runtime.agent``; a plugin's is its folder."""
    parts = name.split(".")
    deep = 2 if parts[0] == "zeus_runtime" else 3
    return ".".join(parts[:deep])


def function_lengths(known: Mapping[str, Module]) -> list[int]:
    """The lines of each function, from ``def`` to its end, the docstring included."""
    return sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in known.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def documented(known: Mapping[str, Module]) -> float:
    """The share of public functions and methods that have a docstring."""
    public = [
        node
        for module in known.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    ]
    return sum(ast.get_docstring(node) is not None for node in public) / len(public)


def comments(known: Mapping[str, Module]) -> int:
    """The lines that are or end in a comment, without those that speak to a tool."""
    count = 0
    for module in known.values():
        with tokenize.open(module.path) as file:
            for token in tokenize.generate_tokens(file.readline):
                count += token.type == tokenize.COMMENT and not re.match(
                    r"#\s*(type:|noqa|pragma|!)", token.string
                )
    return count


def complexities(known: Mapping[str, Module]) -> list[tuple[int, str]]:
    """The cyclomatic complexity of each function with what is nested in it, the worst first.

    One, and one more for each branch, loop, handler, ``case``, comprehension and operand of ``and`` and ``or``.
    """
    return sorted(
        (
            (1 + sum(map(_branches, ast.walk(node))), f"{module.path.relative_to(ROOT)}: {node.name}")
            for module in known.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return isinstance(
        node,
        ast.If
        | ast.IfExp
        | ast.For
        | ast.AsyncFor
        | ast.While
        | ast.ExceptHandler
        | ast.Assert
        | ast.match_case,
    )


def entered(*words: str, files: Mapping[str, str] | None = None) -> tuple[int, int]:
    """The files and the functions of ours that a command of `zeus` enters; module bodies are not functions."""
    with tempfile.TemporaryDirectory() as name:
        for file, text in (files or {}).items():
            Path(name, file).write_text(text)
        report = Path(name, "entered.json")
        environ = {**os.environ, "ENTERED": str(report), "HOME": name, "XDG_STATE_HOME": f"{name}/state"}
        environ["PYTHONPATH"] = os.pathsep.join(str(path.parent) for path in PACKAGES.values())
        done = subprocess.run(
            [sys.executable, "-c", TRACED, *words], cwd=name, env=environ, capture_output=True, text=True
        )
        if done.returncode:
            raise click.ClickException(f"zeus {' '.join(words)} failed:\n{done.stderr}")
        called = [tuple(each) for each in json.loads(report.read_text())]
    folders = tuple(f"{path}{os.sep}" for path in PACKAGES.values())
    ours = {each for each in called if each[0].startswith(folders)}
    functions = {each for each in ours if each[1] != "<module>" and "<listcomp>" not in each[1]}
    return len({each[0] for each in ours}), len(functions)


def public_names() -> tuple[int, int]:
    """The names of ``zeus_runtime`` for programs, and of ``zeus_runtime.plugin`` for plugin authors."""
    import importlib

    top = importlib.import_module("zeus_runtime")
    author: set[str] = set()
    for path in sorted(PACKAGES["zeus_runtime"].glob("plugin/*.py")):
        name = "zeus_runtime.plugin" + ("" if path.stem == "__init__" else f".{path.stem}")
        author |= set(getattr(importlib.import_module(name), "__all__", ()))
    return len(top.__all__), len(author)


def english(program: str) -> Iterator[tuple[str, str]]:
    """The last line that ``program`` prints for each part that people read."""
    for part in ENGLISH:
        done = subprocess.run(
            [sys.executable, program, "--top", "0", part],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        yield part, done.stdout.strip().rpartition("\n")[2]


@click.command()
@click.option(
    "--english", "checker", help="A program that prints, as its last line, its hits per 1,000 sentences."
)
@click.option("--worst", default=0, help="List so many of the worst functions and local imports by folder.")
def main(checker: str | None, worst: int) -> None:
    """Print the figures."""
    known = modules()
    edges: dict[str, set[str]] = {name: set() for name in known}
    loaded: dict[str, set[str]] = {name: set() for name in known}
    between: dict[str, set[str]] = defaultdict(set)
    local: dict[str, int] = defaultdict(int)
    for module in known.values():
        for each in imports(module, known):
            edges[each.source].add(each.target)
            here, there = folder(each.source), folder(each.target)
            if here != there:
                between[here].add(there)
                between.setdefault(there, set())
            if not each.local:
                loaded[each.source].add(each.target)
            else:
                local[here] += 1
    lengths = function_lengths(known)
    hard = complexities(known)
    lines = sum(module.lines for module in known.values())
    short = sum(module.lines < SHORT_FILE for module in known.values())
    top, author = public_names()
    rows = [
        ("files, lines", f"{len(known)}, {lines:,}"),
        (f"files under {SHORT_FILE} lines", str(short)),
        ("public names: zeus_runtime, zeus_runtime.plugin", f"{top}, {author}"),
        ("import circles of modules as they load", _sizes(circles(loaded))),
        ("import circles with imports in functions", _sizes(circles(edges))),
        ("import circles of folders", _sizes(circles(between))),
        (
            "imports of ours in functions, all and outside cli",
            f"{sum(local.values())}, {sum(local.values()) - local['zeus_runtime.cli']}",
        ),
        (
            "function lines: median, 95 %, most",
            f"{statistics.median(lengths):.0f}, {lengths[int(len(lengths) * 0.95)]}, {lengths[-1]}",
        ),
        ("cyclomatic complexity: worst, above 20", f"{hard[0][0]}, {sum(each > 20 for each, _ in hard)}"),
        ("public functions with a docstring", f"{documented(known):.0%}"),
        ("comments per 1,000 lines", f"{1000 * comments(known) / lines:.0f}"),
        ("zeus run quickstart: files, functions", "{}, {}".format(*entered("run", "quickstart", "go"))),
        (
            "zeus validate of five lines: files, functions",
            "{}, {}".format(*entered("validate", "a.yaml", files={"a.yaml": VALIDATED})),
        ),
    ]
    for name, figure in rows:
        print(f"{name:<52}{figure}")
    if checker:
        for part, said in english(checker):
            print(f"{'plain English: ' + part:<52}{said}")
    if worst:
        print()
        for complexity, where in hard[:worst]:
            print(f"{complexity:>4}  {where}")
        for name, count in sorted(local.items(), key=lambda item: -item[1])[:worst]:
            print(f"{count:>4}  imports in functions of {name}")
        for circle in (*circles(edges), *circles(between)):
            print(f"{len(circle):>4}  {', '.join(circle)}")


def _sizes(found: list[list[str]]) -> str:
    return f"{len(found)}" + (f" (of {', '.join(str(len(each)) for each in found)})" if found else "")


if __name__ == "__main__":
    main()
