"""Memory items: their fields, the words they may hold, the caller, and the thresholds they must pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Calibration

MemoryType: TypeAlias = Literal[
    "preference", "fact", "skill", "habit", "event", "context", "constraint", "decision"
]
Scope: TypeAlias = Literal["user", "project", "session"]
Source: TypeAlias = Literal["user", "ai", "knowledge_base", "project_resource"]
Status: TypeAlias = Literal["active", "archived", "superseded"]
Visibility: TypeAlias = Literal["public", "members", "owner_only"]
Role: TypeAlias = Literal["owner", "admin", "editor", "viewer"]
Trust: TypeAlias = Literal["trusted", "untrusted", "quarantined"]
"""``trusted`` came from the user or the agent's own conclusion, ``untrusted`` from a document, and what is
``quarantined`` reads like an instruction: it is kept for a person to look at and is never shown to a model."""

MEMORY_TYPES: Final[tuple[MemoryType, ...]] = get_args(MemoryType)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
VISIBILITIES: Final[tuple[Visibility, ...]] = get_args(Visibility)
ROLES: Final[tuple[Role, ...]] = get_args(Role)

DOCUMENTS: Final[frozenset[Source]] = frozenset({"knowledge_base", "project_resource"})
"""Sources whose text does not come from the conversation."""


def trust_of(source: Source) -> Trust:
    """How far a text of this source is trusted, unless it reads like an instruction."""
    return "untrusted" if source in DOCUMENTS else "trusted"


@dataclass(frozen=True)
class Embedding:
    """What a memory's vector was made with; vectors of another model or dimension are never compared."""

    model: str
    dimension: int


@dataclass(frozen=True)
class MemoryItem:
    """One long-term memory (SPEC section 8).

    Args:
        id: of this item, never used again.
        content: normalised text.
        scope_id: the user, project or session that the scope names.
        created_by: the user on whose behalf it was saved; "own" in the permissions means this one.
        source_id: which message, document or resource it came from.
        confidence: 0 to 1.
        subject: its topic, if known; one subject has one value at a time.
        valid_from, valid_until: the time in which its content is true; None is open.
        superseded_by: the item that took its place.
        embedding: None until a vector exists.
        version: counts its changes, from 1.
        created_at, updated_at, last_used_at: UTC.

    Raises:
        ValueError: confidence outside 0 to 1, a version below 1, or a time that is not in UTC.
    """

    id: str
    content: str
    memory_type: MemoryType
    scope: Scope
    scope_id: str
    created_by: str
    source: Source
    confidence: float
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None = None
    source_id: str | None = None
    visibility: Visibility = "members"
    status: Status = "active"
    subject: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: str | None = None
    trust: Trust = "trusted"
    embedding: Embedding | None = None
    version: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence is {self.confidence}, not between 0 and 1")
        if self.version < 1:
            raise ValueError(f"version is {self.version}, and the first is 1")
        for name in _TIMES:
            time: datetime | None = getattr(self, name)
            if time is not None and time.utcoffset() != timedelta(0):
                raise ValueError(f"{name} is not in UTC: {time.isoformat()}")

    @property
    def is_searchable(self) -> bool:
        """Whether words and vectors find it and prompts show it: it is active and not quarantined."""
        return self.status == "active" and self.trust != "quarantined"

    @property
    def said_at(self) -> datetime:
        """When what it says was said: one that was imported changed here since, its words did not."""
        return self.created_at if self.version == 1 else self.updated_at

    def holds_at(self, time: datetime) -> bool:
        """Whether what it says holds at a time, by what is said of that."""
        begun = self.valid_from is None or self.valid_from <= time
        return begun and (self.valid_until is None or time < self.valid_until)


_TIMES: Final = ("created_at", "updated_at", "last_used_at", "valid_from", "valid_until")


class Holds(NamedTuple):
    """The time in which a text is true, None if open; and the current time."""

    since: datetime | None
    until: datetime | None
    now: datetime

    @property
    def already(self) -> bool:
        """Whether it holds now."""
        return (self.since is None or self.since <= self.now) and (
            self.until is None or self.now < self.until
        )

    def along_with(self, item: MemoryItem) -> bool:
        """Whether an item holds now as the text does, or at just the same time."""
        same = (self.since, self.until) == (item.valid_from, item.valid_until)
        return same or (self.already and item.holds_at(self.now))

    def outlasts(self, item: MemoryItem) -> bool:
        """Whether the text still holds when the item does not any more."""
        return item.valid_until is not None and (self.until is None or self.until > item.valid_until)


@dataclass(frozen=True)
class HiddenMemory:
    """The facts shown about a memory to a caller who may see that it exists, and delete it, but not read it."""

    id: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class Caller:
    """On whose behalf memory is used: from the run's config, never from the model.

    Args:
        role: in the project; None for a user who is not a member.
    """

    user_id: str
    project_id: str | None = None
    role: Role | None = None
    session_id: str | None = None

    def scope_id(self, scope: Scope) -> str | None:
        """The user, project or session that ``scope`` means for this caller; None where there is none."""
        return {"user": self.user_id, "project": self.project_id, "session": self.session_id}[scope] or None


class MemorySettingError(ZeusError):
    """A threshold of memory that cannot be meant (exit 3)."""

    exit_code = 3
    code = "memory-setting"


@dataclass(frozen=True)
class MemorySettings:
    """The thresholds of the gate and the limits of what is shown (SPEC section 8).

    Args:
        min_confidence: 0 to 1; a text with less confidence is not stored (``MEMORY_MIN_CONFIDENCE``).
        duplicate_threshold: cosine above 0 and up to 1, from which on two texts say the same unless their values
            differ (``MEMORY_DUPLICATE_THRESHOLD``). None is the embedding model's own, and ``DUPLICATE_THRESHOLD``
            for a model that has none.
        related_threshold: cosine from which on a text may replace another, though never count as its duplicate. None
            follows from the duplicate threshold.
        related_words: share of the new text's words, weighed by rarity, from which on the same holds.
        max_extractions: per session in ``extraction_window_hours``; 0 forbids (``MEMORY_MAX_EXTRACTIONS``).
        min_length, max_length: of the content in characters (``MEMORY_MIN_LENGTH``, ``MEMORY_MAX_LENGTH``).
        top_k: memories in a prompt.
        max_prompt_characters: of all memories in a prompt together.

    Raises:
        MemorySettingError: a value out of its range, or two that leave nothing between them.
    """

    min_confidence: float = 0.7
    duplicate_threshold: float | None = None
    related_threshold: float | None = None
    related_words: float = 0.45
    max_extractions: int = 3
    extraction_window_hours: float = 24
    min_length: int = 5
    max_length: int = 2_000
    top_k: int = 5
    max_prompt_characters: int = 2_000

    def __post_init__(self) -> None:
        for name, (low, high, meaning) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise MemorySettingError(f"{name} is {value}", remedy=f"give {meaning}", where=name)
        if self.min_length > self.max_length:
            raise MemorySettingError(
                f"min_length is {self.min_length}, more than max_length, which is {self.max_length}",
                remedy="no text has such a length: lower min_length or raise max_length",
                where="min_length",
            )

    def duplicate_from(self, calibration: Calibration | None) -> float:
        """The cosine of this embedding model from which on two texts say the same."""
        own = calibration.duplicate if calibration is not None else None
        return _first(self.duplicate_threshold, own, DUPLICATE_THRESHOLD)

    def related_from(self, calibration: Calibration | None, *, told: bool = False) -> float:
        """The cosine of this embedding model from which on a text may replace another.

        Args:
            told: whether the text itself tells a change.
        """
        zero = calibration.cosine_zero if calibration is not None else _COSINE_ZERO
        duplicate = self.duplicate_from(calibration)
        share = _RELATED_AND_TOLD if told else _RELATED
        return _first(self.related_threshold, min(duplicate, zero + (duplicate - zero) * share))

    def overridden(self, environment: Mapping[str, str]) -> MemorySettings:
        """These settings, overridden by the environment; unset and empty variables are ignored.

        Args:
            environment: variable to value, such as ``os.environ``.

        Raises:
            MemorySettingError: a value that is not a number, is out of range or conflicts with another; ``where`` names
                the
                variable.
        """
        values: dict[str, float] = {}
        for variable, name in VARIABLES.items():
            text = environment.get(variable, "").strip()
            if text:
                values[name] = _number(variable, name, text)
        try:
            return replace(self, **values)  # type: ignore[arg-type]
        except MemorySettingError as error:
            lengths = [
                variable for variable, name in VARIABLES.items() if name in values and "length" in name
            ]
            raise MemorySettingError(
                error.message, remedy=error.remedy, where=" and ".join(lengths) or error.where
            ) from None


VARIABLES: Final[Mapping[str, str]] = {
    "MEMORY_MIN_CONFIDENCE": "min_confidence",
    "MEMORY_DUPLICATE_THRESHOLD": "duplicate_threshold",
    "MEMORY_MAX_EXTRACTIONS": "max_extractions",
    "MEMORY_MIN_LENGTH": "min_length",
    "MEMORY_MAX_LENGTH": "max_length",
}
"""Environment variable to the setting that it overrides (SPEC section 8)."""

DUPLICATE_THRESHOLD: Final = 0.85
"""Meant for text-embedding-3-small (SPEC section 8)."""

_COSINE_ZERO: Final = 0.2
_RELATED: Final = 0.6
"""Of the way from unrelated to the same."""
_RELATED_AND_TOLD: Final = 0.45
"""The same for a text that tells a change: words of what happened take part in its vector and in no older text's."""
_MOST: Final = 1_000_000
_RANGES: Final[Mapping[str, tuple[float, float, str]]] = {
    "min_confidence": (0, 1, "a number from 0 to 1"),
    "duplicate_threshold": (0.01, 1, "a number above 0 and at most 1, such as 0.85"),
    "related_threshold": (0, 1, "a number from 0 to 1"),
    "related_words": (0, 1, "a number from 0 to 1"),
    "max_extractions": (0, _MOST, "a whole number, 0 to forbid extractions"),
    "extraction_window_hours": (0.001, _MOST, "a number of hours above 0"),
    "min_length": (1, _MOST, "a whole number of characters from 1"),
    "max_length": (1, _MOST, "a whole number of characters from 1"),
    "top_k": (0, _MOST, "a whole number, 0 to show none"),
    "max_prompt_characters": (0, _MOST, "a whole number of characters, 0 to show none"),
}


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _number(variable: str, name: str, text: str) -> float:
    low, high, meaning = _RANGES[name]
    whole = isinstance(getattr(MemorySettings, name), int)
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        # NaN is in no range, so the next check refuses it.
        value = math.nan
    if not low <= value <= high:
        raise MemorySettingError(f"{variable} is {text!r}", remedy=f"give {meaning}", where=variable)
    return value
