"""Facts from documents: a person names files or knowledge bases, and a model proposes statements from each part.

Only a person starts it: documents are many, each part costs a call, and a search of them (``search_knowledge_base``)
finds what they say without memories. Their facts are ``untrusted``: they enter no profile and replace nothing trusted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.cutting import cut_text
from zeus_runtime.memory.extraction import (
    MOST_SEARCHED,
    SYSTEM,
    Author,
    SourceMessage,
    answer_schema,
    proposals,
    question,
)

if TYPE_CHECKING:
    from zeus_runtime.memory.batches import AskForm
    from zeus_runtime.memory.service import MemoryService

_log = logging.getLogger(__name__)

MOST_CHARACTERS: Final = 12_000
"""Of one part: a call proposes at most ten facts."""
KNOWN: Final = 20
"""Memories near a part that a call shows."""

SYSTEM_OF_DOCUMENTS: Final = SYSTEM.replace(
    "You read the new part of a conversation and extract statements worth remembering in later conversations.",
    "You read a part of a document and extract statements worth remembering in later conversations about this project.",
).replace(
    "Extract lasting facts about the user, their work,",
    "Extract lasting facts about the project, its people,",
)


class DocumentPart(NamedTuple):
    """A part of a document.

    Args:
        name: of the document and the part, which becomes the source of its facts.
        by: ``knowledge_base``, or ``tool`` for a file.
    """

    name: str
    text: str
    by: Author

    @property
    def key(self) -> str:
        """Names the part as it is now; a part that was read once is not read again."""
        written = json.dumps([self.name, self.text]).encode()
        return f"document_{blake2b(written, digest_size=8).hexdigest()}"


def parts_of(name: str, text: str, by: Author) -> Iterator[DocumentPart]:
    """A document in parts that end with a paragraph or a line, where there is one."""
    number, left = 0, text.strip()
    several = len(left) > MOST_CHARACTERS
    while left:
        number += 1
        end = len(left)
        if end > MOST_CHARACTERS:
            half = MOST_CHARACTERS // 2
            # Not before the half, so that a document without line ends at good places has no tiny parts.
            end = max(left.rfind("\n\n", half, MOST_CHARACTERS), left.rfind("\n", half, MOST_CHARACTERS))
            end = MOST_CHARACTERS if end < 0 else end
        yield DocumentPart(f"{name}, part {number}" if several else name, left[:end], by)
        left = left[end:].strip()


async def extract_from(
    memory: MemoryService,
    parts: Sequence[DocumentPart],
    ask: AskForm,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[str]:
    """Extract the facts of documents; the batches, for `zeus memory undo`.

    It may be stopped at any time: a part whose answer is stored is not asked for again.

    Args:
        ask: asks the model.
        progress: called with (done, in all) after each part.

    Raises:
        ZeusError: the model or the database failed; the parts before it are done.
    """
    batches = memory.batches
    made = []
    scopes = [each for each in ("project", "user") if memory.caller.scope_id(each)]
    for done, part in enumerate(parts, 1):
        for batch in await batches.unfinished(part.key):
            await batches.apply(batch)
        if (await batches.cursor(part.key)).seq == 0:
            found = await memory.search_memories(cut_text(part.text, MOST_SEARCHED), k=KNOWN)
            message = SourceMessage(1, part.by, part.text)
            text = question([message], [each.item for each in found], datetime.now(UTC))
            answer = await ask(SYSTEM_OF_DOCUMENTS, text, answer_schema(scopes))
            facts = None if answer.value is None else proposals(answer.value, [message], part.key)
            if facts is None:
                _log.warning("%s: the answer with its facts cannot be read", part.name)
            named = None if facts is None else [replace(each, source_id=part.name) for each in facts]
            # Makes the row that `begin` moves on; without it the part would be asked for again.
            await batches.set_due(part.key, "")
            begun = await batches.begin("documents", named, answer.price, session=part.key, seqs=(1, 1))
            await batches.set_searched(part.key, 1)
            if begun is not None:
                made.append(begun.id)
                if begun.state == "open":
                    await batches.apply(begun)
        progress(done, len(parts))
    return made
