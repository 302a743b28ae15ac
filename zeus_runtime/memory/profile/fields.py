"""What is known of a user and of a project (SPEC section 8): their fields, written by hand or drawn from memories.

A field that a hand wrote is the hand's whole; the others hold lines drawn from memories, by rules first and by a model
where one is configured. Each line knows the memories it comes from, in which version, and goes when they go or change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import field as made_by_default
from typing import Any, Final, Literal, TypeAlias

from zeus_runtime.cutting import cut_words, unwrapped
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.normalise import duplicate_key, normalise
from zeus_runtime.memory.screening.sensitive import secret_rule

ProfileKind: TypeAlias = Literal["user", "project"]
Maker: TypeAlias = Literal["hand", "rule", "model"]


@dataclass(frozen=True)
class KeyDecision:
    """A decision of a project: what, why, and when (a date)."""

    decision: str
    reason: str = ""
    time: str = ""

    def __str__(self) -> str:
        why = f", because {self.reason}" if self.reason else ""
        return f"{self.decision}{why}{f' ({self.time})' if self.time else ''}"


@dataclass(frozen=True)
class UserProfile:
    """What is known of a user.

    Args:
        communication_style: concise, detailed or technical.
        response_format: markdown, plain or code.
        content: instructions that the user wrote; never drawn from memories.
    """

    username: str = ""
    background: str = ""
    profession: str = ""
    communication_style: str = ""
    response_format: str = ""
    language_preference: str = ""
    characteristics: tuple[str, ...] = ()
    content: str = ""
    expertise_areas: tuple[str, ...] = ()
    programming_languages: tuple[str, ...] = ()
    frequently_used_tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProjectProfile:
    """What is known of a project."""

    project_goal: str = ""
    tech_stack: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    key_decisions: tuple[KeyDecision, ...] = ()
    team_conventions: tuple[str, ...] = ()
    current_phase: str = ""


PROFILES: Final[Mapping[ProfileKind, type[UserProfile] | type[ProjectProfile]]] = {
    "user": UserProfile,
    "project": ProjectProfile,
}
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "communication_style": ("concise", "detailed", "technical"),
    "response_format": ("markdown", "plain", "code"),
}
HAND_ONLY: Final = frozenset({"content"})
"""Fields that are instructions: only a hand writes them."""

MOST_LINES: Final = 20
"""Entries of one list."""
MOST_CHARACTERS: Final = 2_000
"""Of one field that a hand writes."""
_LINE_CHARACTERS: Final = 300


def field_names(kind: ProfileKind) -> tuple[str, ...]:
    """The fields of such a profile, in order."""
    return tuple(each.name for each in fields(PROFILES[kind]))


def is_list(name: str) -> bool:
    """Whether a field holds several entries."""
    return name in _LISTS


_LISTS: Final = frozenset(
    each.name for profile in PROFILES.values() for each in fields(profile) if each.default == ()
)


@dataclass(frozen=True)
class ProfileValue:
    """One value drawn from memories.

    Args:
        field: of the profile.
        value: an entry of a list, or the whole field.
        sources: memory id to its version when the line was drawn.
        made_by: a rule's line stands while one of its sources does, each says it alone; a model's while all do.
        extra: of a key decision, its reason and time.
    """

    field: str
    value: str
    sources: Mapping[str, int]
    made_by: Maker = "rule"
    extra: Mapping[str, str] = made_by_default(default_factory=dict)

    def stands(self, versions: Mapping[str, int]) -> bool:
        """Whether it still holds.

        Args:
            versions: of the memories that are there, hold, and may be used.
        """
        same = [versions.get(each) == version for each, version in self.sources.items()]
        return any(same) if self.made_by == "rule" else bool(same) and all(same)

    def without(self, gone: Iterable[str]) -> ProfileValue | None:
        """The rest of the line when memories are deleted; None if nothing is left."""
        lost = set(gone) & self.sources.keys()
        if not lost:
            return self
        left = {each: version for each, version in self.sources.items() if each not in lost}
        # A model may have drawn the line from all its sources together; a rule found it in each of them.
        if not left or self.made_by == "model":
            return None
        return ProfileValue(self.field, self.value, left, self.made_by, self.extra)

    def moved(self, versions: Mapping[str, tuple[str, int]]) -> ProfileValue | None:
        """The line over the memories that took the place of its own; None if it does not stand on them.

        Args:
            versions: of a memory's id, the id and version of the one in its place.
        """
        sources = dict(versions[each] for each in self.sources if each in versions)
        whole = len(sources) == len(self.sources)
        if not sources or (self.made_by == "model" and not whole) or self.field in HAND_ONLY:
            return None
        return ProfileValue(self.field, self.value, sources, self.made_by, self.extra)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "sources": dict(self.sources), "extra": dict(self.extra)}


def line_of(value: Mapping[str, Any]) -> ProfileValue:
    """The line that ``Line.as_json`` wrote."""
    return ProfileValue(
        value["field"], value["value"], value["sources"], value["made_by"], value.get("extra") or {}
    )


@dataclass(frozen=True)
class ProfileField:
    """A field as it is now.

    Args:
        value: a text, or a list's entries.
        by: who wrote it; None while it is empty.
        sources: ids of the memories it comes from.
    """

    name: str
    value: str | tuple[str, ...] | tuple[KeyDecision, ...]
    by: Maker | None = None
    sources: tuple[str, ...] = ()


def profile_fields(
    kind: ProfileKind, written: Mapping[str, str], lines: Sequence[ProfileValue], versions: Mapping[str, int]
) -> tuple[ProfileField, ...]:
    """Every field as it is now, in order; a list shows its newest entry first.

    Args:
        written: by hand, as stored; empty for fields that no hand wrote.
        lines: drawn, the newest last.
        versions: as ``Line.stands`` takes them.
    """
    standing = [line for line in lines if line.stands(versions)]
    return tuple(
        _field(name, written.get(name, ""), [line for line in standing if line.field == name])
        for name in field_names(kind)
    )


def _field(name: str, written: str, lines: Sequence[ProfileValue]) -> ProfileField:
    if written:
        return ProfileField(name, _listed(name, json.loads(written)) if is_list(name) else written, "hand")
    if not lines or name in HAND_ONLY:
        return ProfileField(name, () if is_list(name) else "")
    if not is_list(name):
        last = lines[-1]
        return ProfileField(name, last.value, last.made_by, tuple(last.sources))
    # Of equal values the newest line, in the place of the oldest; then the newest first.
    kept = list({duplicate_key(line.value): line for line in lines[-MOST_LINES:]}.values())[::-1]
    by: Maker = "model" if any(line.made_by == "model" for line in kept) else "rule"
    sources = tuple(dict.fromkeys(each for line in kept for each in line.sources))
    entries = [{"decision": line.value, **line.extra} if line.extra else line.value for line in kept]
    return ProfileField(name, _listed(name, entries), by, sources)


def _listed(name: str, entries: Sequence[Any]) -> tuple[str, ...] | tuple[KeyDecision, ...]:
    if name != "key_decisions":
        return tuple(entries)
    return tuple(KeyDecision(**each) if isinstance(each, Mapping) else KeyDecision(each) for each in entries)


def written_value(kind: ProfileKind, name: str, text: str) -> str:
    """What a hand wrote for a field, as it is stored; an empty text gives the field back to the memories.

    Args:
        text: of a list, a JSON list or entries between commas (between semicolons where there is one); entries of
            ``key_decisions`` may be objects with decision, reason and time.

    Raises:
        UsageError: there is no such field, or it cannot hold this.
    """
    if name not in field_names(kind):
        raise UsageError(
            f"a {kind} profile has no field {name!r}", remedy=f"Its fields: {', '.join(field_names(kind))}."
        )
    value = _clean(text)
    if len(value) > MOST_CHARACTERS:
        raise UsageError(f"{name} has {len(value):,} characters and may have {MOST_CHARACTERS:,}")
    if (rule := secret_rule(value)) is not None:
        raise UsageError(
            f"{name} holds what looks like a secret ({rule}), which is never kept", remedy="Leave it out."
        )
    if not value:
        return ""
    if name in CHOICES and value not in CHOICES[name]:
        raise UsageError(f"{name} cannot be {value!r}", remedy=f"It is one of {', '.join(CHOICES[name])}.")
    return json.dumps(_entries(name, value), ensure_ascii=False) if is_list(name) else value


def _clean(text: str) -> str:
    return "\n".join(normalise(line) for line in text.splitlines()).strip()


def _entries(name: str, text: str) -> list[Any]:
    if not text.startswith("["):
        return [
            each.strip()
            for each in re.split(r"[;；]" if re.search(r"[;；]", text) else r"[,，、]", text)
            if each.strip()
        ]
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not a JSON list: {error}") from None
    for each in found:
        known = (
            isinstance(each, Mapping) and set(each) <= {"decision", "reason", "time"} and "decision" in each
        )
        texts = all(isinstance(value, str) for value in each.values()) if known else isinstance(each, str)
        if not texts or (known and name != "key_decisions"):
            raise UsageError(
                f"{name} holds an entry that is not text",
                remedy='Write ["one", "two"]; in key_decisions also {"decision": ..., "reason": ..., "time": ...}.',
            )
    return list(found)


def drawable(item: MemoryItem, kind: ProfileKind) -> bool:
    """Whether a profile may be drawn from this memory: trusted, active, and readable by all who see the profile."""
    if item.status != "active" or item.trust != "trusted" or item.scope != kind:
        return False
    return kind == "user" or item.visibility != "owner_only"


def short_value(text: str) -> str:
    """A drawn value in one line of at most 300 characters."""
    return cut_words(unwrapped(normalise(unwrapped(text))).strip(" .。,，;；"), _LINE_CHARACTERS)
