"""Memories with their histories and links, and profiles, as JSON objects: exported, and imported through the gate."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_runtime.errors import UsageError
from zeus_runtime.memory import drafts
from zeus_runtime.memory.drafts import Draft
from zeus_runtime.memory.normalise import duplicate_key, normalise
from zeus_runtime.memory.outcomes import Imported, Lost, Outcome, Saved
from zeus_runtime.memory.writes import Elsewhere

if TYPE_CHECKING:
    from zeus_runtime.memory.checked_memory import CheckedMemory
    from zeus_runtime.memory.items import MemoryItem, Status
    from zeus_runtime.memory.profile.derivation import ExportedProfile
    from zeus_runtime.memory.profile.profiles import MemoryProfiles
    from zeus_runtime.memory.records import HistoryEntry
    from zeus_runtime.memory.writing import Writing

    Progress = Callable[[int, int], None]


class ExportedMemory(NamedTuple):
    """A memory of a file.

    Args:
        number: among the entries, from 1.
        id: that it had; None if a person wrote the entry.
        near: the ids of the memories that it was linked with.
        superseded_by: the id of the memory that replaced it.
    """

    number: int
    draft: Draft
    status: Status
    id: str | None
    history: tuple[HistoryEntry, ...]
    near: tuple[str, ...]
    superseded_by: str | None


async def exported(
    memory: CheckedMemory, profiles: MemoryProfiles, status: Status | None
) -> AsyncIterator[dict[str, Any]]:
    """The memories that the caller may read, last changed first, each with history and links; then the profiles."""
    from zeus_runtime.memory.records import as_json

    items = await memory.listed(status=status)
    ids = [item.id for item in items]
    linked, histories = await memory.linked(set(ids)), await memory.histories(ids)
    for item in items:
        near = [each.id for each in linked.get(item.id, ())]
        history = [_change_json(each) for each in histories.get(item.id, ())]
        yield {**as_json(item), "near": near, "history": history}
    for profile in await profiles.exported():
        yield {"profile": profile.kind, "fields": dict(profile.fields), "lines": list(profile.lines)}


def _change_json(change: HistoryEntry) -> dict[str, Any]:
    times = {name: getattr(change, name) for name in ("at", "valid_from", "valid_until")}
    iso = {name: time and time.isoformat() for name, time in times.items()}
    return {
        "version": change.version,
        "action": change.action,
        "by": change.by,
        "content": change.content,
        **iso,
    }


def checked_entry(entry: Mapping[str, Any], where: str) -> None:
    """Refuse what no import can read.

    Args:
        where: the entry is, for the error.

    Raises:
        UsageError: it is neither a memory nor a profile; the error names the wrong part.
    """
    if "profile" in entry:
        profile_of(entry, where)
    else:
        memory_of(entry, where, 0)


def memory_of(entry: Mapping[str, Any], where: str, number: int) -> ExportedMemory:
    """The memory of an entry.

    Raises:
        UsageError: it is none.
    """
    draft, status = drafts.draft_of(entry, where), drafts.status_of(entry, where)
    with drafts.named(where, "memory"):
        near = entry.get("near", [])
        if not isinstance(near, list) or not all(isinstance(each, str) for each in near):
            raise ValueError("its near is not a list of ids")
        for name in ("id", "superseded_by"):
            if not isinstance(entry.get(name), str | None):
                raise ValueError(f"its {name} is not text")
        changes = entry.get("history", [])
        if not isinstance(changes, list):
            raise ValueError("its history is not a list")
        history = tuple(drafts.change_of(each) for each in changes)
    return ExportedMemory(
        number, draft, status, entry.get("id"), history, tuple(near), entry.get("superseded_by")
    )


def profile_of(entry: Mapping[str, Any], where: str) -> ExportedProfile:
    """The profile of an entry.

    Raises:
        UsageError: it is none.
    """
    from zeus_runtime.memory.profile.derivation import ExportedProfile
    from zeus_runtime.memory.profile.fields import PROFILES, field_names, line_of, written_value

    kind, fields, lines = entry["profile"], entry.get("fields", {}), entry.get("lines", [])
    with drafts.named(where, "profile"):
        if kind not in PROFILES:
            raise ValueError(f"its kind is none of {', '.join(PROFILES)}")
        if not isinstance(fields, dict) or not all(isinstance(each, str) for each in fields.values()):
            raise ValueError("its fields are not texts")
        if not isinstance(lines, list) or not all(map(_is_line, lines)):
            raise ValueError("its lines are not as an export writes them")
        if unknown := [each["field"] for each in lines if each["field"] not in field_names(kind)]:
            raise ValueError(f"it has no field {unknown[0]!r}")
        try:
            for name, text in fields.items():
                written_value(kind, name, text)
        except UsageError as error:
            raise ValueError(error.message) from None
        for each in lines:
            line_of(each)
    return ExportedProfile(kind, fields, tuple(lines))


def _is_line(line: Any) -> bool:
    if not isinstance(line, dict):
        return False
    sources, extra = line.get("sources"), line.get("extra") or {}
    return (
        isinstance(line.get("field"), str)
        and isinstance(line.get("value"), str)
        and line.get("made_by") in ("rule", "model")
        and isinstance(sources, dict)
        and all(type(version) is int for version in sources.values())
        and isinstance(extra, dict)
        and extra.keys() <= {"reason", "time"}
        and all(isinstance(value, str) for value in extra.values())
    )


class Import:
    """One import.

    Args:
        writing, memory, profiles: on the caller's behalf.
        progress: called with (done, in all) after each memory.
    """

    def __init__(
        self, writing: Writing, memory: CheckedMemory, profiles: MemoryProfiles, progress: Progress | None
    ) -> None:
        self._writing, self._memory, self._profiles = writing, memory, profiles
        self._progress = progress
        self._there: dict[str, MemoryItem] = {}
        """Of an id in the file the memory that has its text now."""
        self._stored: set[str] = set()
        """The ids that memories of this file got."""
        self._outcomes: dict[Outcome, int] = dict.fromkeys(
            ("stored", "duplicate", "superseded", "rejected"), 0
        )
        self._refused: list[tuple[int, Saved]] = []
        self._lost: Counter[Lost] = Counter()
        self._past = self._left_out = self._done = self._all = 0

    async def run(self, entries: Iterable[Mapping[str, Any]], *, instructions: bool) -> Imported:
        """Save the entries.

        Args:
            instructions: the instructions of the user's profile too.

        Raises:
            UsageError: an entry is neither a memory nor a profile; nothing was saved.
        """
        # All entries are read before the first is saved, so that a wrong one leaves nothing half imported.
        memories, profiles = [], []
        for number, entry in enumerate(entries, 1):
            where = f"entry {number}"
            if "profile" in entry:
                profiles.append(profile_of(entry, where))
            else:
                memories.append(memory_of(entry, where, number))
        self._all = len(memories)
        seen: set[str] = set()
        for each in memories:
            if each.status == "active":
                # Active memories before the past ones, which name those that replaced them.
                await self._keep(each, new=each.id is not None and each.id not in seen)
                seen |= {each.id} if each.id is not None else set()
        await self._keep_past([each for each in memories if each.status != "active"])
        versions = {old: (item.id, item.version) for old, item in self._there.items()}
        left: list[str] = []
        for profile in profiles:
            restored = await self._profiles.restore(profile, versions, instructions=instructions)
            left += restored.notes
            self._lost["profile lines"] += restored.lines
        return Imported(
            self._outcomes, tuple(self._refused), self._left_out, self._past, +self._lost, tuple(left)
        )

    async def _keep(self, entry: ExportedMemory, *, new: bool) -> None:
        """Save a memory that was active.

        Args:
            new: the file has it once so far. Memories of one export were decided about each other already.
        """
        elsewhere, beside = self._elsewhere(entry), frozenset(self._stored) if new else frozenset()
        saved = await self._writing.save_imported(entry.draft, elsewhere, beside=beside)
        await self._note(entry, saved, elsewhere)

    async def _keep_past(self, entries: Sequence[ExportedMemory]) -> None:
        """Save memories that were archived or superseded: those that were replaced after those that replaced them."""
        if not entries:
            return
        listed = await self._memory.listed(status=None)
        here: dict[tuple[str, str, str], MemoryItem]
        here = {(each.scope, each.status, duplicate_key(each.content)): each for each in listed}
        ready: deque[ExportedMemory] = deque()
        # By the id of the successor, which is saved first; what is left in the end has no successor here.
        waiting: dict[str | None, list[ExportedMemory]] = {}
        for each in entries:
            if each.status == "archived" or each.superseded_by in self._there:
                ready.append(each)
            else:
                waiting.setdefault(each.superseded_by, []).append(each)
        while ready:
            each = ready.popleft()
            old = here.get((each.draft.scope, each.status, duplicate_key(normalise(each.draft.content))))
            if old is not None:
                await self._note(each, Saved("duplicate", old, ""))
            else:
                by = self._there.get(each.superseded_by or "")
                elsewhere = self._elsewhere(each)
                saved = await self._writing.save_past(
                    each.draft, each.status, None if by is None else by.id, elsewhere
                )
                self._past += saved.item is not None
                await self._note(each, saved, elsewhere)
            if each.id in self._there:
                ready += waiting.pop(each.id, ())
        self._left_out = sum(map(len, waiting.values()))

    def _elsewhere(self, entry: ExportedMemory) -> Elsewhere:
        near = tuple(self._there[each].id for each in entry.near if each in self._there)
        return Elsewhere(entry.history, near)

    async def _note(self, entry: ExportedMemory, saved: Saved, elsewhere: Elsewhere | None = None) -> None:
        if saved.item is not None and saved.outcome != "duplicate" and elsewhere is not None:
            self._lost.update(await self._memory.lost(saved.item.id, elsewhere))
        self._outcomes[saved.outcome] += 1
        if saved.item is not None:
            if entry.id is not None:
                # Also of a duplicate: links and profiles of the file mean the memory that says it here.
                self._there[entry.id] = saved.item
            if saved.outcome != "duplicate":
                self._stored.add(saved.item.id)
        if saved.code is not None:
            self._refused.append((entry.number, saved))
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._all)
