"""What one caller writes: refused where it can be, embedded where that is quick, then decided in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.admission.decisions import Decision, Duplicate, Passed, Rejected
from zeus_runtime.memory.admission.gate import validate
from zeus_runtime.memory.checked_memory import CheckedMemory, to_the_millisecond
from zeus_runtime.memory.drafts import Draft, ends_before_it_begins
from zeus_runtime.memory.items import (
    VISIBILITIES,
    Caller,
    MemoryItem,
    MemoryType,
    Scope,
    Status,
    trust_of,
)
from zeus_runtime.memory.outcomes import Saved, known, refuse_shown, rejected, saved
from zeus_runtime.memory.writes import Elsewhere, MemoryEdit, NewMemory, PastMemory

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.admission.comparison import OfAKind
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.operations import AddedMemory

_log = logging.getLogger(__name__)

_CHANGEABLE: Final = frozenset(
    "memory_type confidence visibility status subject valid_from valid_until".split()
)


class Writing:
    """What is saved and changed on behalf of ``caller``.

    Args:
        opened: where the memories are.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._shared = opened
        self._caller = caller
        self._backend = CheckedMemory(opened, caller)

    async def save(
        self,
        draft: Draft,
        *,
        explicit: bool,
        replaces: Sequence[str] | None = None,
        answer: str | None = None,
        along: Callable[[Connection, AddedMemory], None] | None = None,
    ) -> Saved:
        """Keep a text, unless it is refused.

        Args:
            explicit: the user asked for it; it does not count against the limit of extractions.
            replaces: the ids that a model or a person named; None: the rules decide.
            answer: the model's answer that saves it; one answer's saves are one extraction.
            along: what the same transaction writes besides; not called for a text that may not be kept at all.
        """
        return await self._saved(draft, explicit=explicit, replaces=replaces, answer=answer, along=along)

    async def save_imported(self, draft: Draft, elsewhere: Elsewhere, *, beside: frozenset[str]) -> Saved:
        """Keep an active memory of an export, unless it is refused.

        Args:
            elsewhere: what it had.
            beside: ids of memories that it does not affect.
        """
        return await self._saved(draft, explicit=True, elsewhere=self.harmless(elsewhere), beside=beside)

    async def _saved(self, draft: Draft, **details: Any) -> Saved:
        passed = self.validated(draft)
        if isinstance(passed, Rejected):
            return rejected(passed)
        item = self._item(draft, passed, to_the_millisecond(self._shared.source.now()))
        written = await self._backend.save(replace(self._new(passed, item), **details))
        assert written.decision is not None
        return saved(written.decision, written.item, written.near)

    def _new(self, passed: Passed, item: MemoryItem) -> NewMemory:
        return NewMemory(
            self._caller,
            passed,
            item,
            self._shared.source.settings,
            of_a_kind=self._of_a_kind(),
            withheld=self._shared.withheld,
        )

    def _of_a_kind(self) -> OfAKind | None:
        make = self._shared.source.open_offline
        return None if make is None else make().of_a_kind

    async def decided(self, draft: Draft) -> Decision:
        """The result that saving a text would have; nothing is written."""
        passed = self.validated(draft)
        if isinstance(passed, Rejected):
            return passed
        item = self._item(draft, passed, to_the_millisecond(self._shared.source.now()))
        return await self._backend.decided(self._new(passed, item))

    async def change(
        self, memory_id: str, content: str | None, changes: Mapping[str, Any], *, version: int | None = None
    ) -> MemoryItem:
        """Write a memory's next version.

        Args:
            version: the version that is edited; None for any.

        Raises:
            ChangedError: the memory has another version.
            UnknownMemoryError: there is none that the caller may edit.
            UsageError: a change that cannot be made.
        """
        item = known(await self._backend.permitted(memory_id, "edit"), memory_id)
        if fixed := changes.keys() - _CHANGEABLE:
            raise UsageError(f"a memory's {', '.join(sorted(fixed))} cannot be changed")
        _refuse_wrong(changes, item)
        passed = self._revalidated(item, content, changes)
        wanted = dict(changes)
        if content is not None:
            wanted["content"] = passed.content
        if "subject" in wanted:
            wanted["subject"] = passed.subject
        if content is not None or "subject" in wanted:
            # A new text or subject may read like an instruction, or no longer.
            wanted["trust"] = passed.trust
        edited = replace(item, content=passed.content, trust=passed.trust)
        edit = MemoryEdit(self._caller, item, wanted, edited, self._shared.source.now, version)
        changed = known((await self._backend.save(edit)).item, memory_id)
        if changed.embedding is None:
            self._shared.backfill_soon(self._caller)
        return changed

    async def release(self, memory_id: str, *, version: int | None = None) -> MemoryItem:
        """Take a memory out of quarantine.

        Args:
            version: the version that a person read; None for the present one.

        Raises:
            UnknownMemoryError: there is none that the caller may edit.
            ChangedError: the memory has another version, or got one meanwhile.
            UsageError: it is not quarantined, or another check refuses it.
        """
        item = refuse_shown(known(await self._backend.permitted(memory_id, "edit"), memory_id))
        # A person says that it is not an order; how far it is trusted still follows from its source.
        passed = replace(self._revalidated(item, None, {}), trust=trust_of(item.source))
        now = to_the_millisecond(self._shared.source.now())
        released = replace(item, trust=passed.trust)
        decision = await self._backend.decided(self._new(passed, replace(released, updated_at=now)))
        if isinstance(decision, Duplicate):
            raise UsageError(
                f"{item.id} stays quarantined: {decision.of.id} already says it",
                remedy=f"Delete it: {zeus_command('memory', 'quarantine', 'delete', item.id)}",
            )
        # Of this version: a text that is written meanwhile was neither read by a person nor checked here.
        version = item.version if version is None else version
        changes = {"trust": passed.trust}
        edit = MemoryEdit(self._caller, item, changes, released, self._shared.source.now, version)
        changed = known((await self._backend.save(edit)).item, memory_id)
        if changed.embedding is None:
            self._shared.backfill_soon(self._caller)
        return changed

    def _revalidated(self, item: MemoryItem, content: str | None, changes: Mapping[str, Any]) -> Passed:
        """The item as it would be; how sure a person is of it is theirs to say.

        Raises:
            UsageError: it may not be kept so.
        """
        passed = validate(
            item.content if content is None else content,
            memory_type=changes.get("memory_type", item.memory_type),
            scope=item.scope,
            confidence=changes.get("confidence", item.confidence),
            source=item.source,
            caller=self._caller,
            settings=replace(self._shared.source.settings, min_confidence=0.0),
            subject=changes.get("subject", item.subject),
            secrets=self._shared.source.secrets,
        )
        if isinstance(passed, Rejected):
            raise UsageError(passed.message)
        return passed

    async def save_past(
        self,
        draft: Draft,
        status: Status,
        superseded_by: str | None,
        elsewhere: Elsewhere,
    ) -> Saved:
        """Keep a memory that was archived or superseded elsewhere, unless it may not be kept at all."""
        passed = self.validated(draft)
        if isinstance(passed, Rejected):
            return rejected(passed)
        now = to_the_millisecond(self._shared.source.now())
        item = replace(self._item(draft, passed, now), status=status, superseded_by=superseded_by)
        written = await self._backend.save(PastMemory(self._caller, item, self.harmless(elsewhere)))
        return Saved("stored", written.item, "Saved.")

    def harmless(self, elsewhere: Elsewhere) -> Elsewhere:
        """The same, without texts that hold a secret."""
        from zeus_runtime.memory.screening.sensitive import secret_rule

        secrets = self._shared.source.secrets
        history = tuple(
            each._replace(
                by=secrets.masked(each.by),
                content=""
                if secrets.masked(each.content) != each.content or secret_rule(each.content) is not None
                else each.content,
            )
            for each in elsewhere.history
        )
        return replace(elsewhere, history=history)

    def validated(self, draft: Draft) -> Passed | Rejected:
        """Whether a text may be kept at all; the rule that speaks against it is logged, the text never."""
        passed = validate(
            draft.content,
            memory_type=draft.memory_type,
            scope=draft.scope,
            confidence=draft.confidence,
            source=draft.source,
            caller=self._caller,
            settings=self._shared.source.settings,
            subject=draft.subject,
            secrets=self._shared.source.secrets,
        )
        if isinstance(passed, Passed):
            passed = _sourced(draft.source_id, self._shared.source.secrets) or passed
        rule = passed.rule
        if rule is not None:
            what = "refused" if isinstance(passed, Rejected) else "quarantined"
            _log.warning("a memory was %s by the rule %r", what, rule)
        return passed

    def _item(self, draft: Draft, passed: Passed, now: datetime) -> MemoryItem:
        scope = cast(Scope, draft.scope)
        scope_id = self._caller.scope_id(scope)
        assert scope_id is not None, "validated"
        return MemoryItem(
            id=self._shared.source.new_id(),
            content=passed.content,
            memory_type=cast(MemoryType, draft.memory_type),
            scope=scope,
            scope_id=scope_id,
            created_by=self._caller.user_id,
            source=draft.source,
            source_id=draft.source_id,
            confidence=float(draft.confidence),
            visibility=draft.visibility,
            subject=passed.subject,
            valid_from=draft.valid_from,
            valid_until=draft.valid_until,
            trust=passed.trust,
            # A time in the future, as a file may have, would make the memory newer than all that follow.
            created_at=min(draft.created_at or now, now),
            updated_at=now,
        )


def _sourced(source_id: str | None, secrets: Redactor) -> Rejected | None:
    """Why a text of this source is not kept; the address of a document may hold a key."""
    from zeus_runtime.memory.screening.sensitive import credential_rule

    if source_id is None:
        return None
    rule = "known_secret" if secrets.masked(source_id) != source_id else credential_rule(source_id)
    if rule is None:
        return None
    return Rejected(
        "sensitive",
        "The source_id holds what looks like a secret, which is never kept: name the source without it.",
        rule=rule,
    )


def _refuse_wrong(changes: Mapping[str, Any], item: MemoryItem) -> None:
    if item.status == "superseded":
        raise UsageError(f"{item.id} was superseded by {item.superseded_by}", remedy="Change that one.")
    if changes.get("status", "active") not in ("active", "archived"):
        raise UsageError("a memory's status can be set to active or archived")
    if changes.get("visibility", "members") not in VISIBILITIES:
        raise UsageError(f"the visibilities are {', '.join(VISIBILITIES)}")
    since, until = changes.get("valid_from", item.valid_from), changes.get("valid_until", item.valid_until)
    if ends_before_it_begins(since, until):
        raise UsageError("the memory's valid_until would not be after its valid_from")
