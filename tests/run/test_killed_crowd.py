"""Twenty sessions at once, whose writes are committed together, survive SIGKILL: nothing is lost, nothing repeats."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.databases import SQLITE_URL, database_on
from tests.support.killing import await_goodbye, effects, rows
from tests.support.killing_crowd import SESSIONS, STEPS

WAIT_SECONDS = 300
KILLS = 3
CHECKOUT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(WAIT_SECONDS + 60)


def started(folder: Path, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.killing_crowd", str(folder), url]
    return forked.Forked(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(folder: Path, url: str) -> Counter[str]:
    """How often each effect that the log has a result of was done."""
    payloads = rows(folder, url, "SELECT payload FROM message")
    contents = [m["content"] for (text,) in payloads if (m := json.loads(text))["role"] == "tool"]
    done = effects(folder)
    return Counter({name: done[name] for name in (each.removeprefix("left ") for each in contents)})


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_twenty_sessions_at_once_survive_sigkill(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        check(tmp_path, SQLITE_URL)
        return
    with database_on(request.getfixturevalue("postgres_server")) as url:
        check(tmp_path, url)


def check(folder: Path, url: str) -> None:
    dice = random.Random(20261123)
    whole = SESSIONS * STEPS
    for kill in range(KILLS):
        before = finished(folder, url)
        process = started(folder, url)
        # Killed in the middle of the work, wherever that is: after so many more effects.
        enough = effects(folder).total() + dice.randrange(1, whole // (KILLS + 1))
        deadline = time.monotonic() + WAIT_SECONDS / (KILLS + 1)
        while effects(folder).total() < enough:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"no progress after kill {kill}"
            time.sleep(0.002)
        process.kill()
        process.communicate()
        await_goodbye(url)
        after = finished(folder, url)
        assert {name: after[name] for name in before} == dict(before), "what the log has is not done again"
    process = started(folder, url)
    out, errors = process.communicate(timeout=WAIT_SECONDS)
    assert out.split("\n") == [*["done"] * SESSIONS, ""], (out, errors)
    assert logs(folder, url) == [expected(number) for number in range(SESSIONS)]


def logs(folder: Path, url: str) -> list[list[str]]:
    """Every session's messages, the sessions in the order of their prompts."""
    found: dict[int, list[str]] = {}
    for thread, text in rows(folder, url, "SELECT thread, payload FROM message ORDER BY thread, seq"):
        message: dict[str, Any] = json.loads(text)
        found.setdefault(thread, []).append(f"{message['role']} {message['content'] or ''}")
    return sorted(found.values(), key=lambda lines: int(lines[0].removeprefix("user go ")))


def expected(number: int) -> list[str]:
    steps = [line for step in range(STEPS) for line in ("assistant ", f"tool left {number}.{step}")]
    return [f"user go {number}", *steps, "assistant done"]
