"""`zeus serve --demo` as a user starts it: a process of its own, its page in Chromium, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving.test_page import ROOT
from tests.support.mcp_servers import CHROMIUM
from tests.support.proxy import stripping
from zeus_runtime.models.cassette import read_cassette
from zeus_runtime.serving.http.demo import CONFIG, SESSIONS

Found = TypeVar("Found")

pytestmark = pytest.mark.xdist_group("page")


class Demo:
    """A demonstration.

    Args:
        folder: where it is started.
        words: of its command line.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "zeus_runtime", "serve", "--port", "0", "--demo", *words]
        environ = {**os.environ, "TMPDIR": str(folder)}
        # Not a pipe, which its access lines would fill.
        self._told = folder.parent / f"{folder.name}.txt"
        with self._told.open("w") as told:
            self.process = subprocess.Popen(command, cwd=folder, stderr=told, env=environ)
        lines = until(lambda: found if len(found := self._told.read_text().splitlines()) > 1 else [])
        self.said, self.printed = lines[:2]
        parts = urlsplit(self.printed)
        self.port = parts.port or 0
        self.client = httpx.Client(
            base_url=f"http://{parts.netloc}",
            headers={"Authorization": f"Bearer {parts.query.removeprefix('token=')}"},
            timeout=30,
        )

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ended(self, number: int) -> int:
        self.client.close()
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        assert "Traceback" not in self._told.read_text()
        return code

    def settled(self) -> list[dict[str, Any]]:
        """The sessions, once no turn runs: the last one waits for a decision."""

        def at_rest() -> list[dict[str, Any]]:
            sessions = [each for each in self.get("/v1/sessions") if each["agent"] == CONFIG]
            turns = [turn for each in sessions for turn in self.get(f"/v1/sessions/{each['session']}/runs")]
            states = {turn["state"] for turn in turns}
            return sessions if "waiting" in states and not states & {"queued", "running"} else []

        return until(at_rest)


def until(ask: Callable[[], list[Found]]) -> list[Found]:
    for _ in range(600):
        if found := ask():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to rest")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    subprocess.run([sys.executable, "web/bundle.py"], cwd=ROOT, check=True)
    folder = tmp_path_factory.mktemp("demo")
    demo = Demo(folder, "--path-prefix", "/zeus")
    (work,) = folder.iterdir()
    assert str(work) in demo.said
    yield demo
    assert demo.ended(signal.SIGTERM) == 130
    assert list(folder.iterdir()) == [], "a demonstration without a name leaves nothing"


def test_the_demonstration_has_history_a_compaction_a_memory_and_a_waiting_call(demo: Demo) -> None:
    sessions = demo.settled()
    assert {each["title"] for each in sessions} == set(SESSIONS)
    (long,) = [each["session"] for each in sessions if each["title"] == "Stock for the spring"]
    turns = demo.get(f"/v1/sessions/{long}/runs")
    assert [each["state"] for each in turns] == ["complete"] * 6 + ["waiting"]
    events = [
        each["name"]
        for each in demo.get(f"/v1/sessions/{long}/messages")
        for each in each.get("tool_calls", ())
    ]
    assert events == ["memory_save", "write_file", "read_file", "task", "write_file"]
    steps = demo.get(f"/v1/sessions/{long}/context/steps")
    made = [each for step in steps["steps"] for each in step["decisions"] if each["admitted"]]
    assert {"summarization", "eviction"} <= {each["policy"] for each in made}
    (pending,) = demo.get("/v1/approvals")
    assert pending["parameters"]["path"] == "/outbox/order.md"


def test_any_prompt_is_answered(demo: Demo) -> None:
    demo.settled()
    session = demo.client.post("/v1/sessions", json={}).json()["session"]
    for prompt in ("What is the weather?", "And tomorrow?"):
        run = demo.client.post(f"/v1/sessions/{session}/runs", json={"prompt": prompt}).json()["run"]
        turn = until(lambda run=run: [t for t in [demo.get(f"/v1/runs/{run}")] if t["ended_ms"]])[0]  # type: ignore[misc]
        assert (turn["state"], "I made two files" in turn["ending"]["answer"]) == ("complete", True)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_person_sees_it_and_decides(demo: Demo) -> None:
    from playwright.sync_api import expect, sync_playwright

    demo.settled()
    with sync_playwright() as driver, ExitStack() as stack:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860}, locale="en-GB")
        page.set_default_timeout(30_000)
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        # Through a proxy, under a path: what the page asks for must stay below it.
        page.goto(
            f"{stack.enter_context(stripping('/zeus', demo.port))}/zeus/?{urlsplit(demo.printed).query}"
        )
        page.get_by_role("link", name=re.compile("Stock for the spring")).click()
        page.get_by_role("button", name="Approve", exact=True).first.click()
        expect(page.get_by_text("You have decided about the call")).to_be_visible(timeout=30_000)
        page.get_by_role("tab", name="Context").click()
        expect(page.get_by_text("are summarized here").first).to_be_visible(timeout=30_000)
        assert page.url.partition("#")[0].endswith("/zeus/")
        assert complaints == []
        browser.close()


def test_a_named_folder_keeps_it_and_nothing_happens_twice(tmp_path: Path) -> None:
    first = Demo(tmp_path, "here")
    before = first.get("/v1/sessions")
    # Its turns are interrupted, and the next process continues them.
    assert first.ended(signal.SIGTERM) == 130
    second = Demo(tmp_path, "here")
    sessions = second.settled()
    assert {each["session"] for each in before} <= {each["session"] for each in sessions}
    assert len(sessions) == len(SESSIONS)
    for each in sessions:
        prompts = [turn["prompt"] for turn in second.get(f"/v1/sessions/{each['session']}/runs")]
        assert prompts == list(SESSIONS[each["title"]])
    assert second.ended(signal.SIGTERM) == 130
    assert (tmp_path / "here" / ".zeus" / "zeus.db").is_file()


def test_the_recording_has_the_answers_to_its_prompts() -> None:
    calls = read_cassette(ROOT / "configs" / f"{CONFIG}.jsonl").calls
    recorded = [
        each["content"] for call in calls for each in call.request["messages"] if each["role"] == "user"
    ]
    missing = {prompt for prompts in SESSIONS.values() for prompt in prompts} - set(recorded)
    assert missing == set(), "record it anew: python scripts/record_demo.py"
