"""What the command line's tests share: a project folder with a scripted agent, and ways to run ``zeus``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import Forked
from zeus_runtime.cli import main

SCRIPTED = '''
"""A model that answers by a script: text, {"call": name, "args": {...}}, {"raise": kind}, {"hang": text}."""
import json
from dataclasses import dataclass

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelError, ModelResponse, TextDelta, Usage
from zeus_runtime.plugin.tool import tool


@dataclass(frozen=True)
class Options:
    answers: tuple[str, ...] = ("Hello.",)


class Scripted:
    name = "scripted"

    def __init__(self, options):
        self.answers = options.answers

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        said = sum(message.type == "ai" for message in request.messages)
        answer = self.answers[said % len(self.answers)]
        step = json.loads(answer) if answer.startswith("{") else {}
        usage = Usage(100, 5, cache_read_tokens=40)
        if "raise" in step:
            raise ModelError(step.get("message", "the provider said no"), kind=step["raise"])
        if "hang" in step:
            import asyncio

            yield TextDelta(step["hang"] + " ...")  # the last word waits for more
            await asyncio.Event().wait()
        if "call" in step:
            call = {"name": step["call"], "args": step["args"], "id": f"call_{said}", "type": "tool_call"}
            yield ModelResponse(AIMessage("", tool_calls=[call]), usage=usage, cost_usd=0.25)
            return
        for start in range(0, len(answer), 5):
            yield TextDelta(answer[start : start + 5])
        yield ModelResponse(AIMessage(answer), usage=usage, cost_usd=0.25)


@tool(access="read")
async def echo(text: str) -> str:
    """Say it back.

    Args:
        text: what to say.
    """
    return f"echo: {text}"


@tool(access="write")
async def shout(text: str) -> str:
    """Say it loudly.

    Args:
        text: what to say.
    """
    return text.upper() + "\\nand again"


@hookimpl
def register_models():
    return [Component("scripted", create=lambda options, context: Scripted(options), options=Options)]


@hookimpl
def register_tools():
    return [Component("voices", create=lambda options, context: [echo, shout])]
'''


@dataclass(frozen=True)
class Result:
    """What a command left."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Project:
    """A working directory to run ``zeus`` in."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def agent(self, *answers: str | Mapping[str, Any], name: str = "zeus.yaml", more: str = "") -> Path:
        """A config whose model gives ``answers``."""
        self.write("scripted.py", SCRIPTED)
        texts = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        options = {"scripted": {"answers": texts or ["Hello."]}}
        head = f"version: 1\nname: tester\nmodel: {json.dumps(options)}\ntools: [voices]\n"
        return self.write(name, head + "plugins: {files: [scripted.py]}\n" + textwrap.dedent(more))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name in ("ZEUS_GOLDEN", "ZEUS_TRUST"):
            continue
        if name.startswith("ZEUS_") or name.endswith(("_API_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project(folder)


class Zeus:
    """``zeus`` in this process: ``zeus("run", "zeus.yaml", "hi", stdin="...")``."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: str | bytes | None = None) -> Result:
        import io

        given = stdin if isinstance(stdin, bytes) else (stdin or "").encode()
        text = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        self._monkeypatch.setattr(sys, "stdin", text)
        self._capsys.readouterr()
        exit_code = main(words)
        captured = self._capsys.readouterr()
        return Result(exit_code, captured.out, captured.err)


@pytest.fixture
def zeus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zeus:
    return Zeus(capsys, monkeypatch)


def command(*words: str) -> list[str]:
    """The words that start ``zeus`` as a process of its own."""
    return [sys.executable, "-m", "zeus_runtime", *words]


def spawn(words: Sequence[str], folder: Path, **kwargs: Any) -> subprocess.Popen[str]:
    """``zeus`` as a process whose streams are pipes."""
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    return Forked(command(*words), cwd=folder, text=True, **given)
