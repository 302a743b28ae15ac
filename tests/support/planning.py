"""Policies for tests: one that proposes what its YAML says, one that drops by size, one that summarizes by a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.agents import TOOLS, write_agent
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import StepEntry, ThreadLog

RULES = '''
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.context import DropBefore, Size
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.model import ModelRequest, ModelResponse
from zeus_runtime.context import Evict, Pin, Summarize, TruncateArguments

KINDS = {"drop": DropBefore, "evict": Evict, "pin": Pin, "truncate": TruncateArguments, "summarize": Summarize}

@dataclass(frozen=True)
class Proposals:
    at: int
    edits: tuple[Mapping[str, Any], ...]

class Propose(Middleware):
    """Proposes its edits once the view knows of message `at`."""
    def __init__(self, options, context):
        self.options, self.context = options, context
    async def edits(self, view, budget):
        if view.upto < self.options.at or view.edits:
            return ()
        return [
            KINDS[each["kind"]]("propose", "as told", **{k: v for k, v in each.items() if k != "kind"})
            for each in self.options.edits
        ]

@dataclass(frozen=True)
class Sizes:
    trigger: Size
    keep: int = 2

class Shed(Middleware):
    """Drops all but the last messages."""
    def __init__(self, options, context):
        self.options, self.context = options, context
    def cut(self, view):
        place = max(1, len(view) - self.options.keep)
        while place < len(view) and view[place].type == "tool":
            place += 1
        return view.item(min(place, len(view) - 1)).seq
    async def edits(self, view, budget):
        if not budget.at_least(self.options.trigger) or self.cut(view) <= view.first:
            return ()
        return [DropBefore("shed", f"{budget.used_tokens} tokens", self.cut(view))]

class Resume(Shed):
    """Summarizes all but the last messages, by the running model."""
    async def edits(self, view, budget):
        if not budget.at_least(self.options.trigger) or self.cut(view) <= view.first:
            return ()
        request = ModelRequest("Summarize.", list(view), purpose="summary")
        async for piece in self.context.model.stream(request):
            if isinstance(piece, ModelResponse):
                text = piece.message.content
        return [Summarize("resume", "too long", self.cut(view), str(text), "")]

@hookimpl
def register_middlewares():
    return [
        Component("propose", create=Propose, options=Proposals),
        Component("shed", create=Shed, options=Sizes),
        Component("resume", create=Resume, options=Sizes),
    ]
'''

POLICIES = TOOLS + RULES


def write_planned(folder: Path, yaml: str = "", *, window: int | None = None) -> Path:
    """An agent with these policies; ``window`` sets the model's input limit in tokens."""
    limit = "" if window is None else f"profiles: {{models: {{gpt-4o: {{max_input_tokens: {window}}}}}}}\n"
    return write_agent(folder, limit + yaml, plugin=POLICIES)


async def steps_of(folder: Path, session: str) -> list[StepRecord]:
    """The ledger of a session, read from the database alone."""
    return [StepRecord.from_json(entry.payload) for entry in await entries_of(folder, session)]


async def entries_of(folder: Path, session: str) -> list[StepEntry]:
    log = ThreadLog(database := Database("sqlite:///.zeus/zeus.db", directory=folder))
    try:
        return list(await log.steps(await log.find(session)))
    finally:
        await database.close()


async def texts_of(folder: Path, session: str) -> dict[str, str]:
    """What the ledger refers to, by digest."""
    log = ThreadLog(database := Database("sqlite:///.zeus/zeus.db", directory=folder))
    try:
        return dict(await log.texts(await log.find(session)))
    finally:
        await database.close()


async def edits_of(folder: Path, session: str) -> list[dict[str, Any]]:
    """The admitted edits of a session, as the log has them."""
    log = ThreadLog(database := Database("sqlite:///.zeus/zeus.db", directory=folder))
    try:
        return [json.loads(text) for text in await log.read_edits(await log.find(session))]
    finally:
        await database.close()
