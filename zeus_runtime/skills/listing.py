"""Section 8 of the prompt within a budget: names and descriptions, then names only, then a count. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zeus_runtime.skills.discovery import Skill

HEAD: Final = (
    "# Skills\n\n"
    "A skill is a set of instructions for one kind of task. When a task fits one, call load_skill with its name before"
    " you begin, and follow what it says; do not guess its content from its description.\n"
)


def skill_listing(skills: Sequence[Skill], *, max_tokens: int, count: Callable[[str], int]) -> str:
    """The section that lists ``skills`` for the model; empty when there are none. The same skills give the same bytes.

    Names come before descriptions: over budget, the last descriptions are dropped first, then the last names. Dropped
    names are counted.

    Args:
        skills: the nearest first.
        max_tokens: of the whole section.
        count: tokens of a text.
    """
    if not skills:
        return ""
    full = [_line(each) for each in skills]
    if count(text := _block(full, "")) <= max_tokens:
        return text
    names = [f"- {_safe(each.name)}" for each in skills]
    room = max_tokens - count(_block([], _note(len(skills), len(skills))))
    name_tokens = [count(line + "\n") for line in names]
    named = _fitting(name_tokens, room)
    room -= sum(name_tokens[:named])
    more = [count(line + "\n") - name for line, name in zip(full[:named], name_tokens, strict=False)]
    described = _fitting(more, room) if named == len(skills) else 0
    lines = [*full[:described], *names[described:named]]
    return _block(lines, _note(named - described, len(skills) - named))


def matching_skills(skills: Sequence[Skill], query: str) -> Sequence[Skill]:
    """The skills whose name or description has a word of ``query``: most words first, names before descriptions.

    An empty query finds all, in their order.
    """
    words = list(dict.fromkeys(query.casefold().split()))
    if not words:
        return skills
    scored = []
    for place, each in enumerate(skills):
        name, text = each.name.casefold(), each.description.casefold()
        score = sum(2 if word in name else 1 if word in text else 0 for word in words)
        if score:
            scored.append((-score, place, each))
    return [each for _, _, each in sorted(scored, key=lambda entry: entry[:2])]


def _fitting(sizes: Sequence[int], room: int) -> int:
    taken = 0
    for place, size in enumerate(sizes):
        taken += size
        if taken > room:
            return place
    return len(sizes)


def _block(lines: Sequence[str], note: str) -> str:
    listed = "".join(f"{line}\n" for line in lines)
    return f"{HEAD}\n<available_skills>\n{listed}</available_skills>{note}"


def _note(names_only: int, left_out: int) -> str:
    said = []
    if names_only:
        said.append(f"{names_only} are listed by name only")
    if left_out:
        said.append(f"{left_out} more are not listed")
    return f"\n\n{'; '.join(said)}: load_skill with a query finds skills by words." if said else ""


def _line(skill: Skill) -> str:
    return f"- {_safe(skill.name)}: {_safe(skill.description)}"


def _safe(text: str) -> str:
    return text.replace("<", "&lt;")
