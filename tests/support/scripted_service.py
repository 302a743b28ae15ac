"""``zeus serve`` as a process, with a scripted agent, that a test kills and starts again at the same address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.support.agents import write_agent
from tests.support.ports import unused_port

TOKEN = "a-token-that-the-test-and-its-service-share"

MODEL = '''
import asyncio
from pathlib import Path

from langchain_core.messages import AIMessage
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse, TextDelta, ToolCallDelta


class Scripted:
    """Answers by the last prompt: `count` is slow, `record` and `book` call a tool, `hang` never ends."""

    name = "gpt-4o"

    async def stream(self, request):
        prompt = next(each for each in reversed(request.messages) if each.type == "human").content
        last = request.messages[-1]
        calls = []
        if last.type == "tool":
            text = f"It said: {last.content}"
        elif "record" in prompt:
            text, calls = "", [{"name": "record", "args": {"text": "draft"}, "id": "r1", "type": "tool_call"}]
        elif "book" in prompt:
            text, calls = "", [{"name": "book", "args": {}, "id": "b1", "type": "tool_call"}]
        elif "count" in prompt:
            text = " ".join(map(str, range(60)))
        else:
            text = f"You said: {prompt}"
        if "hang" in prompt:
            yield TextDelta("Thinking very hard")  # the last words wait for more, here and in the client
            await asyncio.Event().wait()
        for word in text.split(" "):
            yield TextDelta(word + " ")
            if "count" in prompt:
                await asyncio.sleep(0.1 if "slowly" in prompt else 0.02)
        for index, each in enumerate(calls):
            yield ToolCallDelta(index, each["id"], each["name"], "")
        yield ModelResponse(AIMessage(text, tool_calls=calls))


@hookimpl
def register_models():
    return [Component("slow", create=lambda options, context: Scripted())]
'''


class ScriptedService:
    """The process; ``kill`` and ``start`` it as often as needed."""

    def __init__(self, folder: Path, *words: str) -> None:
        file = write_agent(folder, "middlewares: [approve]\nproject_instructions: false\n")
        (folder / "slow.py").write_text(MODEL)
        text = (
            file.read_text()
            .replace("model: gpt-4o", "model: {slow: {}}")
            .replace("[probe.py]", "[probe.py, slow.py]")
        )
        file.write_text(text)
        self.folder = folder
        self.url = f"http://127.0.0.1:{unused_port()}"
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        words = [sys.executable, "-m", "zeus_runtime", "serve", "zeus.yaml", "--port", port, *self._words]
        environ = {**os.environ, "ZEUS_TOKEN": TOKEN, "ZEUS_TRUST": "all", "HOME": str(self.folder / "home")}
        log = (self.folder / "serve.log").open("ab")
        self._process = subprocess.Popen(words, cwd=self.folder, env=environ, stderr=log, stdout=log)
        log.close()
        with httpx.Client(verify=False) as client:  # to read certificates takes as long as ten requests
            for _ in range(600):
                assert self._process.poll() is None, (self.folder / "serve.log").read_text()
                try:
                    if client.get(f"{self.url}/health").status_code == 200:
                        return
                except httpx.TransportError:
                    time.sleep(0.05)
        raise AssertionError((self.folder / "serve.log").read_text())

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(30)
