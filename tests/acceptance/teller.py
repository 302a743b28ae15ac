"""A model that tells a story: what it says to a message of the user, which tools it calls, and what it was shown.

``told`` writes it beside a config as the plugin ``teller.py``. Its lines are in ``story.json``, so that another process
goes on with them; what it was asked is in ``asked.jsonl``, one line for each call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = str | Mapping[str, Any]
"""An answer, or the arguments of a tool call with the tool's name under ``call``; an argument ``id of: TEXT`` is the id
of the memory with that text, as the model can read it in its prompt or in a tool's result, also in a list."""

PLUGIN = """
import json
import re
from pathlib import Path

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse, TextDelta, Usage


class Teller:
    name = "teller"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        seen = [[message.type, message.text] for message in request.messages]
        asked = {"purpose": request.purpose, "system": request.system, "messages": seen}
        with Path("asked.jsonl").open("a") as file:
            file.write(json.dumps(asked) + "\\n")
        usage = Usage(100, 5)
        if request.purpose != "turn":
            yield ModelResponse(AIMessage("They spoke of themes and of tea."), usage=usage, cost_usd=0.0)
            return
        place = max(number for number, (kind, _) in enumerate(seen) if kind == "human")
        lines = json.loads(Path("story.json").read_text()).get(seen[place][1], ["Understood."])
        line = lines[sum(kind == "ai" for kind, _ in seen[place:])]
        if isinstance(line, str):
            yield TextDelta(line)
            yield ModelResponse(AIMessage(line), usage=usage, cost_usd=0.0)
            return
        readable = "\\n".join([request.system, *(text for _, text in seen)])
        name, args = line["call"], {}
        for key, value in line.items():
            if key != "call":
                args[key] = read(value, readable)
        call = {"name": name, "args": args, "id": f"call_{len(seen)}", "type": "tool_call"}
        yield ModelResponse(AIMessage("", tool_calls=[call]), usage=usage, cost_usd=0.0)


def read(value, readable):
    if isinstance(value, list):
        return [read(each, readable) for each in value]
    return known(value[7:], readable) if str(value).startswith("id of: ") else value


def known(text, readable):
    found = re.findall(r"\\[(mem_[0-9a-f]+), [^]]*\\] " + re.escape(text), readable)
    return found[-1] if found else "mem_unknown"


@hookimpl
def register_models():
    return [Component("teller", create=lambda options, context: Teller())]
"""


def tell(folder: Path, story: Mapping[str, Sequence[Line]], more: str) -> None:
    """Write a config whose model tells ``story`` (the user's words to the lines that follow), and ``more`` of YAML."""
    (folder / "teller.py").write_text(PLUGIN)
    (folder / "story.json").write_text(json.dumps(story))
    head = "version: 1\nname: tale\nmodel: {teller: {}}\nplugins: {files: [teller.py]}\n"
    (folder / "zeus.yaml").write_text(head + more)


def asked(folder: Path) -> list[dict[str, Any]]:
    """What the model was asked, call by call."""
    return [json.loads(line) for line in (folder / "asked.jsonl").read_text().splitlines()]
