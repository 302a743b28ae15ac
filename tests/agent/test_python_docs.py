"""docs/how-to/python.md names what the Agent has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from zeus_runtime import Agent

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "python.md").read_text()
CALL = re.compile(r"\b[aA]gent\.(?P<name>\w+)(?:\((?P<arguments>[^)]*)\))?")


def test_every_call_and_every_keyword_is_there() -> None:
    calls = list(CALL.finditer(TEXT))
    assert len(calls) > 15
    for call in calls:
        found = getattr(Agent, call["name"])
        keywords = re.findall(r"(\w+)=", call["arguments"] or "")
        assert not keywords or set(keywords) <= inspect.signature(found).parameters.keys(), call[0]
