"""Skills: folders with a ``SKILL.md`` that a model loads when a task needs them. Discovery, parsing, listing,
resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.skills.discovery import Skill as Skill
    from zeus_runtime.skills.discovery import SkillRoot as SkillRoot
    from zeus_runtime.skills.discovery import Skills as Skills
    from zeus_runtime.skills.discovery import find_skills as find_skills
    from zeus_runtime.skills.discovery import has_skills as has_skills
    from zeus_runtime.skills.discovery import skill_roots as skill_roots
    from zeus_runtime.skills.front_matter import Warned as Warned
    from zeus_runtime.skills.front_matter import read_skill_text as read_skill_text
    from zeus_runtime.skills.listing import matching_skills as matching_skills
    from zeus_runtime.skills.listing import skill_listing as skill_listing
    from zeus_runtime.skills.resources import Resource as Resource
    from zeus_runtime.skills.resources import read_skill_resource as read_skill_resource
    from zeus_runtime.skills.resources import skill_resources as skill_resources

_ROOMS = {
    "Resource": "resources",
    "SkillRoot": "discovery",
    "Skill": "discovery",
    "Skills": "discovery",
    "Warned": "front_matter",
    "find_skills": "discovery",
    "has_skills": "discovery",
    "skill_listing": "listing",
    "matching_skills": "listing",
    "read_skill_resource": "resources",
    "read_skill_text": "front_matter",
    "skill_resources": "resources",
    "skill_roots": "discovery",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
