"""Skills: folders of instructions that are found, listed within a budget and read.

A skill's files are read through the workspace's access rules, never outside its folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.skills.discovery import Skill as Skill
    from zeus_runtime.skills.discovery import Skills as Skills
    from zeus_runtime.skills.discovery import find_skills as find_skills
    from zeus_runtime.skills.discovery import has_skills as has_skills
    from zeus_runtime.skills.discovery import skill_roots as skill_roots
    from zeus_runtime.skills.front_matter import read_skill_text as read_skill_text
    from zeus_runtime.skills.listing import matching_skills as matching_skills
    from zeus_runtime.skills.listing import skill_listing as skill_listing
    from zeus_runtime.skills.resources import read_skill_resource as read_skill_resource
    from zeus_runtime.skills.resources import skill_resources as skill_resources

_ROOMS = {
    "Skill": "skills.discovery",
    "Skills": "skills.discovery",
    "find_skills": "skills.discovery",
    "has_skills": "skills.discovery",
    "matching_skills": "skills.listing",
    "read_skill_resource": "skills.resources",
    "read_skill_text": "skills.front_matter",
    "skill_listing": "skills.listing",
    "skill_resources": "skills.resources",
    "skill_roots": "skills.discovery",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
