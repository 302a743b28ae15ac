"""The gate of memories: the checks that a text must pass, and its meaning beside the stored ones.

The agent's model or a person may name the memories that a text replaces; then the gate only recognises duplicates. If
nothing is named, as in an import, rules decide (``comparison``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeus_runtime.memory.admission.decisions import (
    SAME_WORDS,
    Duplicate,
    Passed,
    Rejected,
    StoredAlone,
    Superseded,
)
from zeus_runtime.memory.items import DOCUMENTS, MEMORY_TYPES, SCOPES
from zeus_runtime.memory.normalise import inked, normalise, same_words
from zeus_runtime.memory.permissions import creation_refused

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.admission.comparison import OfAKind, TextVerdict
    from zeus_runtime.memory.admission.decisions import Decision, Neighbour
    from zeus_runtime.memory.embedding import Calibration
    from zeus_runtime.memory.items import Caller, Holds, MemoryItem, MemorySettings, Source, Trust

REJECTIONS: Final = tuple(
    "no_scope forbidden too_short too_long long_subject unknown_type unknown_scope bad_confidence low_confidence "
    "sensitive unknown_memory other_scope rate_limited outdated".split()
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
    if refused := creation_refused(caller, scope):
        return Rejected(*refused)
    size, subject_size, least = len(content), len(about or ""), settings.min_confidence
    checks = (
        (
            size < settings.min_length,
            "too_short",
            f"The text has {size} characters and needs {settings.min_length}: "
            "write one whole sentence that can be understood on its own.",
        ),
        (
            size > settings.max_length,
            "too_long",
            f"The text has {size:,} characters and may have {settings.max_length:,}: "
            "save the one fact that matters, in a sentence or two.",
        ),
        (
            subject_size > MAX_SUBJECT_LENGTH,
            "long_subject",
            f"The subject has {subject_size:,} characters and may have {MAX_SUBJECT_LENGTH}: "
            "name what it is about in a few words, and save the rest as the text.",
        ),
        (
            memory_type not in MEMORY_TYPES,
            "unknown_type",
            f"There is no such memory_type: use one of {', '.join(MEMORY_TYPES)}.",
        ),
        (scope not in SCOPES, "unknown_scope", f"There is no such scope: use one of {', '.join(SCOPES)}."),
        (not 0 <= confidence <= 1, "bad_confidence", "The confidence is not a number from 0 to 1: give one."),
        (
            confidence < least,
            "low_confidence",
            f"The confidence is {confidence:g} and must be at least {least:g}: "
            "save it when it is certain, for example after asking the user.",
        ),
    )
    failed = (Rejected(code, message) for fails, code, message in checks if fails)
    return next(failed, None) or _harmless(content, source, about or None, secrets)


def _harmless(
    content: str, source: Source, subject: str | None, secrets: Redactor | None
) -> Passed | Rejected:
    from zeus_runtime.memory.screening.sensitive import injection_rule, secret_rule

    texts = [content, inked(content), subject, inked(subject or "")]
    known = secrets is not None and secrets.masked(texts) != texts
    secret = "known_secret" if known else secret_rule(content)
    if secret is None and subject is not None:
        # "password" and "hunter2…" are harmless apart; kept beside each other they are not.
        secret = secret_rule(f"{subject}: {content}")
    if secret is not None:
        return Rejected(
            "sensitive",
            "The text holds what looks like a secret or a personal number, which is never kept: "
            "leave it out and save the rest, or continue without saving.",
            rule=secret,
        )
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
        content, trust: from ``Passed``.
        neighbours: in any order; inactive and quarantined ones are ignored.
        extractions: memories extracted in this session within the window, not counting explicit saves.
        explicit: the user asked for it in words, which does not count against the limit.
        calibration: of the model of the cosines; None without cosines.
        subject: the text's topic if it is known; memories with another subject are not affected.
        holds: the time in which the text is true; memories of another time are not affected. None: from now on.
        of_a_kind: decides whether values are of one kind; None: by their form only.
        replaces: the memories that a model or a person named, which the caller may edit; None: the rules decide.
    """
    # Sorted, so that the decision does not depend on the order in which a backend found them.
    known = [each for each in sorted(neighbours, key=_nearest_first) if not of_others(subject, each.item)]
    decision: Decision
    if trust == "quarantined":
        decision = _kept_apart(content, known)
    else:
        known = [each for each in known if each.item.is_searchable]
        now = [each for each in known if holds is None or holds.along_with(each.item)]
        verdicts = _compared(content, now, settings, calibration, of_a_kind, subject)
        found = [each for one, verdict in verdicts if (each := _allowed(one, verdict, trust, holds))]
        decision = _together(found) if replaces is None else _with_named(content, found, replaces)
    # The limit comes last: a duplicate is answered as one, and writes nothing that could count.
    if explicit or extractions < settings.max_extractions or isinstance(decision, Duplicate):
        return decision
    return Rejected(
        "rate_limited",
        f"This session has saved memories of its own accord {settings.max_extractions} times within "
        f"{settings.extraction_window_hours:g} hours, which is the limit: continue without saving, "
        "or save it when the user asks for it.",
    )


def _nearest_first(neighbour: Neighbour) -> tuple[float, float, str]:
    return -(neighbour.cosine or 0.0), -(neighbour.lexical or 0.0), neighbour.item.id


def of_others(subject: str | None, item: MemoryItem) -> bool:
    """Whether both subjects are known and differ."""
    return bool(subject and item.subject) and not same_words(subject or "", item.subject or "")


def _kept_apart(content: str, known: Sequence[Neighbour]) -> Duplicate | StoredAlone:
    """Return the decision about a quarantined text: a duplicate if another has the same words, else no relation."""
    same = (
        each.item for each in known if each.item.status == "active" and same_words(content, each.item.content)
    )
    return next((Duplicate(item, SAME_WORDS) for item in same if item.trust == "quarantined"), StoredAlone())


def _compared(
    content: str,
    known: Sequence[Neighbour],
    settings: MemorySettings,
    calibration: Calibration | None,
    of_a_kind: OfAKind | None,
    subject: str | None,
) -> Iterator[tuple[Neighbour, TextVerdict]]:
    """The verdict for each neighbour that is related to the text, those of the same words first."""
    if not known:
        return
    from zeus_runtime.memory.admission.comparison import TextVerdict, compare, tells_change
    from zeus_runtime.memory.admission.statement import parse

    same = [same_words(content, each.item.content) if each.same is None else each.same for each in known]
    for each in (each for each, is_same in zip(known, same, strict=True) if is_same):
        yield each, TextVerdict("duplicate", SAME_WORDS)
    related = settings.related_from(calibration, told=tells_change(content))
    nearly, held = settings.duplicate_from(calibration), parse(content).held
    for each, is_same in zip(known, same, strict=True):
        # -1 is near to nothing, so without a vector only words and what is held can relate the two.
        text, cosine = each.item.content, -1.0 if each.cosine is None else each.cosine
        by_words = each.lexical is not None and each.lexical >= settings.related_words
        if not is_same and (cosine >= related or by_words or (held is not None and parse(text).held == held)):
            of_one = bool(subject and each.item.subject)  # memories of other subjects are left out before
            yield each, compare(content, text, near=cosine >= nearly, of_a_kind=of_a_kind, of_one=of_one)


_TRUST: Final[dict[Trust, int]] = {"quarantined": 0, "untrusted": 1, "trusted": 2}


def _allowed(
    known: Neighbour, verdict: TextVerdict, trust: Trust, holds: Holds | None
) -> Duplicate | Superseded | None:
    """What the verdict comes to, as far as trust and permissions allow it."""
    item, more = known.item, _TRUST[trust] - _TRUST[known.item.trust]
    decision, reason = verdict
    if decision == "duplicate" and more <= 0:
        if holds is None or not holds.outlasts(item):
            return Duplicate(item, reason)
        decision, reason = "superseded", "holds longer"
    elif decision == "duplicate":
        reason = "trusted more"
    if decision == "different" or more < 0 or not known.editable:
        return None
    return Superseded(item, reason)


def _together(found: Sequence[Duplicate | Superseded]) -> Decision:
    """A duplicate of the same words, else all that the text takes the place of, else another duplicate."""
    changes = [each for each in found if isinstance(each, Superseded)]
    # `_compared` yields those of the same words first, so the first one tells.
    if not changes or (isinstance(found[0], Duplicate) and found[0].reason == SAME_WORDS):
        return found[0] if found else StoredAlone()
    return replace(changes[0], also=tuple(each.of for each in changes[1:]))


def _with_named(
    content: str, decisions: Sequence[Duplicate | Superseded], named: Sequence[MemoryItem]
) -> Decision:
    """Replace exactly the named memories, and worse ones of the same words; no other duplicate is replaced.

    A person may have allowed the save, and saw its text and the named memories. So nothing of other words is replaced
    beside them, and no stored text of other words replaces them instead.
    """
    ids = {each.id for each in named}
    worse = [
        each
        for each in decisions
        if isinstance(each, Superseded)
        and each.reason in _SAYS_THE_SAME
        and same_words(content, each.of.content)
    ]
    repeated = [each for each in decisions if isinstance(each, Duplicate)]
    same = [each for each in repeated if not named or each.reason == SAME_WORDS]
    if same and not worse:
        of = same[0].of
        return replace(same[0], replaced=tuple(each for each in named if each.id != of.id))
    going = [*named, *(each.of for each in worse if each.of.id not in ids)]
    if not going:
        return StoredAlone()
    return Superseded(going[0], "as named" if named else worse[0].reason, tuple(going[1:]))


_SAYS_THE_SAME: Final = frozenset(("trusted more", "holds longer"))
"""Reasons for which a text replaces its own duplicate."""
