"""The gate of memories: the checks that a text must pass, and its meaning beside the stored ones.

The order is: normalise, authorise, validate (length, type, scope, confidence, sensitive, injection); then, with the
vector and inside the transaction, nearest neighbours, decide, rate limit.

Whoever saves a text may name the memories that it replaces: the agent's model does, and a person can. Then the gate
only recognises duplicates. If nothing is named, as in an import, rules decide (``changed``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.admission.decisions import (
    Decision,
    Duplicate,
    Holds,
    Neighbour,
    Passed,
    Rejected,
    StoredAlone,
    Superseded,
)
from zeus_runtime.memory.items import (
    DOCUMENTS,
    MEMORY_TYPES,
    SCOPES,
    Caller,
    MemoryItem,
    MemorySettings,
    Source,
    Trust,
)
from zeus_runtime.memory.normalise import normalise
from zeus_runtime.memory.permissions import reach

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.admission.verdict import OfAKind, TextVerdict
    from zeus_runtime.memory.embedding import Calibration


REJECTIONS: Final = (
    "no_scope",
    "forbidden",
    "too_short",
    "too_long",
    "long_subject",
    "unknown_type",
    "unknown_scope",
    "bad_confidence",
    "low_confidence",
    "sensitive",
    "unknown_memory",
    "other_scope",
    "rate_limited",
    "outdated",
)
"""Every code that a rejection can have, in the order of the checks."""

MAX_SUBJECT_LENGTH: Final = 200
"""Of what a memory is about, in characters: some words, not a second text."""


def validate(
    text: str,
    *,
    memory_type: str,
    scope: str,
    confidence: float,
    source: Source,
    caller: Caller,
    settings: MemorySettings,
    subject: str | None = None,
    secrets: Redactor | None = None,
) -> Passed | Rejected:
    """Run the checks that need no database and no vector, in order; return the first failure.

    Args:
        memory_type, scope: as the model gave them.
        confidence: 0 to 1.
        subject: the text's topic; it is stored with it, so it passes the same checks.
        secrets: known ones, which are refused in any form.

    Raises:
        MissingError: detect-secrets is not installed, so no text can be checked for secrets.
    """
    content = normalise(text)
    about = " ".join(normalise(subject).split()) if subject else None
    return (
        _authorised(scope, caller)
        or _long_enough(content, settings)
        or _short_subject(about)
        or _known(memory_type, scope)
        or _sure(confidence, settings)
        or _unknown_to(secrets, [content, about])
        or _harmless(content, source, about or None)
    )


def _authorised(scope: str, caller: Caller) -> Rejected | None:
    if scope not in SCOPES or reach(caller, "create", scope):
        return None
    if caller.scope_id(scope) is None:
        others = " or ".join(each for each in SCOPES if reach(caller, "create", each))
        there = f"use the scope {others}" if others else "nothing can be saved here, go on without saving"
        return Rejected("no_scope", f"This run belongs to no {scope}: {there}.")
    return Rejected(
        "forbidden",
        f"You may not save memories of this {scope}: save it for the user, or go on without saving.",
    )


def _long_enough(content: str, settings: MemorySettings) -> Rejected | None:
    if len(content) < settings.min_length:
        return Rejected(
            "too_short",
            f"The text has {len(content)} characters and needs {settings.min_length}: "
            "write one whole sentence that can be understood on its own.",
        )
    if len(content) > settings.max_length:
        return Rejected(
            "too_long",
            f"The text has {len(content):,} characters and may have {settings.max_length:,}: "
            "save the one fact that matters, in a sentence or two.",
        )
    return None


def _short_subject(subject: str | None) -> Rejected | None:
    if subject is None or len(subject) <= MAX_SUBJECT_LENGTH:
        return None
    return Rejected(
        "long_subject",
        f"The subject has {len(subject):,} characters and may have {MAX_SUBJECT_LENGTH}: "
        "name what it is about in a few words, and save the rest as the text.",
    )


def _known(memory_type: str, scope: str) -> Rejected | None:
    if memory_type not in MEMORY_TYPES:
        return Rejected(
            "unknown_type", f"There is no such memory_type: use one of {', '.join(MEMORY_TYPES)}."
        )
    if scope not in SCOPES:
        return Rejected("unknown_scope", f"There is no such scope: use one of {', '.join(SCOPES)}.")
    return None


def _sure(confidence: float, settings: MemorySettings) -> Rejected | None:
    if not 0 <= confidence <= 1:
        return Rejected("bad_confidence", "The confidence is not a number from 0 to 1: give one.")
    if confidence < settings.min_confidence:
        return Rejected(
            "low_confidence",
            f"The confidence is {confidence:g} and must be at least {settings.min_confidence:g}: "
            "save it when it is certain, for example after asking the user.",
        )
    return None


def _unknown_to(secrets: Redactor | None, texts: Sequence[str | None]) -> Rejected | None:
    if secrets is None or secrets.masked(texts) == list(texts):
        return None
    return _sensitive("known_secret")


def _sensitive(rule: str) -> Rejected:
    return Rejected(
        "sensitive",
        "The text holds what looks like a secret or a personal number, which is never kept: "
        "leave it out and save the rest, or go on without saving.",
        rule=rule,
    )


def _harmless(content: str, source: Source, subject: str | None) -> Passed | Rejected:
    from zeus_runtime.memory.admission.sensitive import injection_rule, secret_rule

    secret = secret_rule(content)
    if secret is None and subject is not None:
        # "password" and "hunter2…" are harmless apart; kept beside each other they are not.
        secret = secret_rule(f"{subject}: {content}")
    if secret is not None:
        return _sensitive(secret)
    order = injection_rule(content) or (injection_rule(subject) if subject is not None else None)
    trust: Trust = "untrusted" if source in DOCUMENTS else "trusted"
    return Passed(content, "quarantined" if order else trust, order, subject)


def decide(
    content: str,
    neighbours: Sequence[Neighbour],
    *,
    extractions: int,
    explicit: bool,
    settings: MemorySettings,
    calibration: Calibration | None = None,
    trust: Trust = "trusted",
    subject: str | None = None,
    holds: Holds | None = None,
    of_a_kind: OfAKind | None = None,
    replaces: Sequence[MemoryItem] | None = None,
) -> Decision:
    """Decide what to do with a text that passed the checks, given the stored memories.

    A memory is never superseded by a caller who may not edit it, nor by a less trusted text. A more trusted text
    replaces its duplicate. Quarantined texts are stored separately from all this, and once.

    Args:
        content: from ``Passed``.
        neighbours: in any order; inactive and quarantined ones are ignored.
        extractions: memories extracted in this session within the window, not counting explicit saves.
        explicit: the user asked for it in words, which does not count against the limit.
        calibration: the calibration of the model of the cosines; None without cosines.
        trust: from ``Passed``.
        subject: the text's topic if it is known; memories with another subject are not affected.
        holds: the time in which the text is true; memories of another time are not affected. None: from now on.
        of_a_kind: decides whether values are of one kind; None: by their form only.
        replaces: the memories that a model or a person named, which the caller may edit; None: the rules decide.
    """
    decision = _about(
        content,
        neighbours,
        settings=settings,
        calibration=calibration,
        trust=trust,
        subject=subject,
        holds=holds,
        of_a_kind=of_a_kind,
        replaces=replaces,
    )
    if explicit or extractions < settings.max_extractions or isinstance(decision, Duplicate):
        return decision
    return Rejected(
        "rate_limited",
        f"This session has saved memories of its own accord {settings.max_extractions} times within "
        f"{settings.extraction_window_hours:g} hours, which is the limit: go on without saving, "
        "or save it when the user asks for it.",
    )


def _about(
    content: str,
    neighbours: Sequence[Neighbour],
    *,
    settings: MemorySettings,
    calibration: Calibration | None,
    trust: Trust,
    subject: str | None,
    holds: Holds | None,
    of_a_kind: OfAKind | None,
    replaces: Sequence[MemoryItem] | None,
) -> Decision:
    """``decide`` without the limit of extractions."""
    if trust == "quarantined":
        return _kept_apart(content, neighbours, subject)
    from zeus_runtime.memory.admission.near import nearest_first

    known = [
        each
        for each in neighbours
        if each.item.is_searchable and (holds is None or holds.along_with(each.item))
    ]
    newcomer = _Newcomer(content, trust, subject, settings, calibration, of_a_kind)
    decisions = newcomer.beside(sorted(known, key=nearest_first))
    if holds is not None:
        editable = {each.item.id for each in known if each.editable and each.item.trust == trust}
        decisions = list(_lasting(decisions, holds, editable))
    if replaces is not None:
        return _with_named(decisions, replaces)
    changes = [each for each in decisions if isinstance(each, Superseded)]
    if not changes:
        return decisions[0] if decisions else StoredAlone()
    first, *others = changes
    return replace(first, also=tuple(each.of for each in others))


def _with_named(decisions: Sequence[Duplicate | Superseded], named: Sequence[MemoryItem]) -> Decision:
    """Replace exactly the named memories and duplicates of lesser worth; a duplicate that is not named stays."""
    from zeus_runtime.memory.admission.changed import SAME_WORDS

    ids = {each.id for each in named}
    worse = [each for each in decisions if isinstance(each, Superseded) and each.reason in _SAYS_THE_SAME]
    same = [
        each
        for each in decisions
        if isinstance(each, Duplicate) and (each.of.id not in ids or each.reason == SAME_WORDS.reason)
    ]
    if same and not worse:
        of = same[0].of
        return replace(same[0], replaced=tuple(each for each in named if each.id != of.id))
    going = [*named, *(each.of for each in worse if each.of.id not in ids)]
    if not going:
        return StoredAlone()
    return Superseded(going[0], "as named" if named else worse[0].reason, tuple(going[1:]))


_SAYS_THE_SAME: Final = frozenset(("trusted more", "holds longer"))
"""Reasons for which a text replaces its own duplicate."""


def unless_outdated(decision: Decision, said_at: datetime) -> Decision:
    """Return the decision about an older text, such as one of an import: a later memory stays, unless both agree."""
    if not isinstance(decision, Superseded):
        return decision
    replaced = decision.also if decision.reason in _AGREES else decision.all
    later = max(replaced, key=lambda each: each.said_at, default=None)
    if later is None or later.said_at <= said_at:
        return decision
    return Rejected(
        "outdated",
        f"{later.id} says otherwise and was said later, on {later.said_at:%Y-%m-%d}: "
        "delete that one first, if this is what holds.",
    )


_AGREES: Final = frozenset(("trusted more",))
"""Reasons for which a text replaces another one without contradicting it."""


def _lasting(
    decisions: Iterable[Duplicate | Superseded], holds: Holds, editable: Collection[str]
) -> Iterator[Duplicate | Superseded]:
    """Replace a duplicate if the new text is true for a longer time, and if that is allowed."""
    for each in decisions:
        if isinstance(each, Superseded) or not holds.outlasts(each.of):
            yield each
        elif each.of.id in editable:
            yield Superseded(each.of, "holds longer")


def _kept_apart(
    content: str, neighbours: Sequence[Neighbour], subject: str | None
) -> Duplicate | StoredAlone:
    """Return the decision about a quarantined text: a duplicate if another has the same words, else no relation."""
    from zeus_runtime.memory.admission.changed import SAME_WORDS, same_words
    from zeus_runtime.memory.admission.near import nearest_first, of_others

    for each in sorted(neighbours, key=nearest_first):
        item = each.item
        apart = item.status == "active" and item.trust == "quarantined" and not of_others(subject, item)
        if apart and same_words(content, item.content):
            return Duplicate(item, SAME_WORDS.reason)
    return StoredAlone()


_TRUST: Final[dict[Trust, int]] = {"quarantined": 0, "untrusted": 1, "trusted": 2}


@dataclass(frozen=True)
class _Newcomer:
    """A text that may be stored, with the data to judge similarity; the fields are those of ``decide``."""

    content: str
    trust: Trust
    subject: str | None
    settings: MemorySettings
    calibration: Calibration | None
    of_a_kind: OfAKind | None

    def beside(self, known: Sequence[Neighbour]) -> list[Duplicate | Superseded]:
        """The verdict for each neighbour, those of the same words first; a duplicate is not stored.

        Comparing is expensive, so after a duplicate with the same words no further neighbours are compared.
        """
        if not known:
            return []
        from zeus_runtime.memory.admission.changed import same_words, tells_change

        content = self.content
        related_from = self.settings.related_from(self.calibration, told=tells_change(content))
        same = [same_words(content, each.item.content) if each.same is None else each.same for each in known]
        decisions: list[Duplicate | Superseded] = []
        for wanted in (True, False):
            for each, is_same in zip(known, same, strict=True):
                if is_same is not wanted or not (is_same or self._related(each, related_from)):
                    continue
                decision = self._decided(each, same=is_same)
                if decision is None:
                    continue
                if is_same and not decisions and isinstance(decision, Duplicate):
                    return [decision]
                decisions.append(decision)
        return decisions

    def _decided(self, neighbour: Neighbour, *, same: bool) -> Duplicate | Superseded | None:
        from zeus_runtime.memory.admission.changed import SAME_WORDS
        from zeus_runtime.memory.admission.near import of_others

        item = neighbour.item
        if of_others(self.subject, item):
            return None
        change = SAME_WORDS if same else self._change(neighbour)
        more = _TRUST[self.trust] - _TRUST[item.trust]
        if change.decision == "duplicate" and more <= 0:
            return Duplicate(item, change.reason)
        if change.decision == "different" or more < 0 or not neighbour.editable:
            return None
        return Superseded(item, change.reason if change.decision == "superseded" else "trusted more")

    def _change(self, neighbour: Neighbour) -> TextVerdict:
        from zeus_runtime.memory.admission.changed import compare_other

        cosine = neighbour.cosine
        near = cosine is not None and cosine >= self.settings.duplicate_from(self.calibration)
        return compare_other(self.content, neighbour.item.content, near=near, of_a_kind=self.of_a_kind)

    def _related(self, neighbour: Neighbour, related_from: float) -> bool:
        from zeus_runtime.memory.admission.held_once import held_once

        if neighbour.cosine is not None and neighbour.cosine >= related_from:
            return True
        if neighbour.lexical is not None and neighbour.lexical >= self.settings.related_words:
            return True
        held = held_once(self.content)
        return held is not None and held_once(neighbour.item.content) == held
