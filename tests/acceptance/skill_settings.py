"""What the settings of skills change."""

from __future__ import annotations

import re

from tests.acceptance.settings import Flip, Scene
from tests.support.skills import write_skill
from zeus_runtime.testing import calling

GIVEN = {"middlewares": [{"skills": {}}], "homes": ["home"]}
LOADING = ("load_skill", {"name": "tables"})


def _skills(scene: Scene) -> None:
    write_skill(scene.folder / "home/skills", "tables", body="word\n" * 900)
    write_skill(scene.folder / ".agents/skills", "theirs", "words " * 100)


async def listed_skills(scene: Scene) -> list[str]:
    """The names in section 8."""
    _skills(scene)
    request = (await scene.play("done")).requests[0]
    section = request.system.partition("\n<available_skills>\n")[2].partition("</available_skills>")[0]
    return re.findall(r"^- ([\w-]+)", section, re.M)


async def described(scene: Scene) -> bool:
    """Whether section 8 describes its skill."""
    write_skill(scene.folder / "home/skills", "tables", "words " * 150)
    request = (await scene.play("done")).requests[0]
    return "- tables: words" in request.system


async def pages(scene: Scene) -> bool:
    """Whether a skill of 900 lines comes by pages."""
    _skills(scene)
    played = await scene.play(calling(LOADING), "done")
    return "Page 1 of" in played.results[0]


async def pinned(scene: Scene) -> bool:
    """Whether a loaded skill is pinned without a word of a limit."""
    _skills(scene)
    played = await scene.play(calling(LOADING), "done")
    return not any(each.type == "notice" and "max_pinned_tokens" in each.message for each in played.events)


SKILLS = (
    Flip("middleware:skills.trust_project", True, listed_skills, ["tables"], ["theirs", "tables"], GIVEN),
    Flip("middleware:skills.max_tokens", 200, described, True, False, GIVEN),
    Flip("middleware:skills.page_tokens", 500, pages, False, True, GIVEN),
    Flip("middleware:skills.max_pinned_tokens", 0, pinned, True, False, GIVEN),
)
