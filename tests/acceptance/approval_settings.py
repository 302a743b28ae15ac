"""The options of `approve`, one by one, and what each changes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.acceptance.settings import Flip, Scene, See
from zeus_runtime import Decision, PendingApproval
from zeus_runtime.store.allowlist import store_mode
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.testing import ScriptedModel, calling


def called(name: str, **arguments: Any) -> See:
    """How a run ends that makes one call: `complete`, `approval_needed`, or `refused`."""

    async def see(scene: Scene) -> str:
        played = await scene.play(calling((name, arguments)), "done")
        refused = any(result.is_error for result in played.all("tool_call_result"))
        return "refused" if refused else played.ending

    return see


class Nobody:
    """Is asked and never answers in time."""

    async def ask(self, pending: PendingApproval) -> Decision | None:
        if pending.expires_ms is None:
            return None
        await asyncio.Event().wait()
        return None


async def unanswered(scene: Scene) -> str:
    """What becomes of a call that nobody decides in time."""
    model = ScriptedModel([calling(("note", {"text": "x"})), "done"])
    async with scene.agent(model) as agent:
        events = [event async for event in agent.stream("go", approvals=Nobody())]
    decided = [event.decision for event in events if event.type == "approval_decided"]
    return decided[0] if decided else events[-1].code  # type: ignore[union-attr]


def given(**options: Any) -> dict[str, Any]:
    return {
        "tools": ["gauge"],
        "plugins": {"files": ["probe.py"]},
        "middlewares": [{"approve": options}],
    }


NOTE, ECHO = called("note", text="draft one"), called("speak", words=1)


async def after_choosing(scene: Scene) -> str:
    """How a call ends that is made for a user who chose to run everything."""
    database = Database("sqlite:///.zeus/zeus.db", directory=scene.folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        await store_mode(log, "local", "run_everything")
    finally:
        await database.close()
    return await NOTE(scene)


APPROVALS = (
    Flip(
        "middleware:approve.user_modes",
        ["run_everything"],
        after_choosing,
        "approval_needed",
        "complete",
        given(),
    ),
    Flip("approvals", "run_everything", NOTE, "approval_needed", "complete", given()),
    Flip("middleware:approve.mode", "run_everything", NOTE, "approval_needed", "complete", given()),
    Flip(
        "middleware:approve.allow",
        [{"note": {"text": "draft*"}}],
        NOTE,
        "approval_needed",
        "complete",
        given(),
    ),
    Flip("middleware:approve.ask", ["speak"], ECHO, "complete", "approval_needed", given()),
    Flip("middleware:approve.deny", [{"sp*": {"words": 1}}], ECHO, "complete", "refused", given()),
    Flip("middleware:approve.read_tools", "ask", ECHO, "complete", "approval_needed", given()),
    Flip("middleware:approve.timeout_seconds", 0.05, unanswered, "approval_needed", "reject", given()),
    Flip(
        "middleware:approve.on_timeout",
        "approve",
        unanswered,
        "reject",
        "approve",
        given(timeout_seconds=0.05),
    ),
)
