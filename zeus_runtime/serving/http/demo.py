"""The service of `zeus serve --demo`: its sessions get their turns as any client's would, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeus_runtime.serving.http.service import Service

CONFIG: Final = "demo"
"""The config that it offers; its cassette has the answers to ``SESSIONS``."""

SESSIONS: Final = {
    "What an agent can do": ("Show me what you can do",),
    "Stock for the spring": (
        "Remember that reports for me are half a page at most.",
        "Write a list of our stock into the quickstart folder.",
        "Read the whole list. What runs out first?",
        "How would you order, item by item?",
        "How would that have gone last year?",
        "Let the scout find the fastest supplier.",
        "Write the order to the supplier.",
    ),
}
"""The titles of the sessions, and their prompts. The last turn waits for a decision."""


@dataclass
class DemoService(Service):
    """Begins the turns of ``SESSIONS``; the next process on the same folder finds them begun, by their keys."""

    async def _begin(self) -> None:
        """Resume what an earlier process left, and begin what is missing."""
        await super()._begin()
        (hosted,) = self.hosting
        for title, prompts in SESSIONS.items():
            begun = await self.turns.begin_session(hosted, None, title=title, key=f"{CONFIG}:{title}")
            for number, prompt in enumerate(prompts):
                await self.turns.add(
                    hosted, None, begun.session, {"prompt": prompt}, key=f"{CONFIG}:{number}", queue=True
                )
