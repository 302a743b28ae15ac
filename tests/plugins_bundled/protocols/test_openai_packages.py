"""The protocol `openai`, asked by packages of others, unchanged.

They need a newer `openai` than litellm allows, so they run in an environment of their own, which
`ZEUS_CLIENTS_PYTHON` names (CONTRIBUTING.md).
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import clients
from tests.support.serving import TOKEN
from tests.support.talking import talking
from zeus_runtime.config.ref import Ref

PYTHON = os.environ.get("ZEUS_CLIENTS_PYTHON", "")

pytestmark = pytest.mark.skipif(not PYTHON, reason="ZEUS_CLIENTS_PYTHON names no Python with the packages")


@pytest.mark.slow  # another interpreter imports the package
@pytest.mark.parametrize("package", ["openai", "agents", "pydantic_ai"])
async def test_a_package_has_sessions_with_a_tool_an_approval_and_a_cancel(
    tmp_path: Path, database_url: str, package: str
) -> None:
    file = Path(clients.__file__).with_name(f"{package}_client.py")
    async with talking(tmp_path, Ref("openai"), url=database_url) as (native, _, _model):
        url = f"{str(native.base_url).rstrip('/')}/v1"
        process = await asyncio.create_subprocess_exec(
            PYTHON, str(file), url, TOKEN, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(100):
            out, said = await process.communicate()
        assert process.returncode == 0, said.decode()
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        sessions = (await native.get("/v1/sessions")).json()
        states = [
            each["state"]
            for session in sessions
            for each in (await native.get(f"/v1/sessions/{session['session']}/runs")).json()
        ]
    assert found["ran"] == ["Pylos"] * 4
    assert found["asked"] == [["record", {"text": "draft"}]] * 4
    assert list(found["found"]) == ["chat False", "chat True", "responses False", "responses True"]
    for way, told in found["found"].items():
        assert told["tool"].endswith("It said: rain"), (way, told)
        assert told["approval"].endswith("It said: recorded: draft"), (way, told)
        assert told["input_tokens"] == 200, (way, told)
    assert len(sessions) == 4, "each conversation stayed in its session"
    # One turn for each prompt: a client that gives up does not ask again.
    assert sorted(states) == ["cancelled"] * 4 + ["complete"] * 8
    assert (tmp_path / "effects.txt").read_text() == "draft\n" * 4
