"""Extract memories from the new part of a stored session: ask the model, store its proposals, save them.

Each answer is stored before its first fact is saved, and each fact is saved together with its mark. So a process that
is killed loses no answer, and the next one goes on without saving a fact twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text
from zeus_runtime.memory.extraction import (
    MOST_OF_A_RESULT,
    MOST_SEARCHED,
    SYSTEM,
    SourceMessage,
    answer_schema,
    new_part,
    proposals,
    question,
)
from zeus_runtime.memory.provenance import source_of_tool
from zeus_runtime.models.content import is_users, text_of
from zeus_runtime.models.messages import from_payload
from zeus_runtime.store.branch import line_of
from zeus_runtime.store.rollbacks import rollbacks

if TYPE_CHECKING:
    from zeus_runtime.memory.batches import AskForm
    from zeus_runtime.memory.extraction import Author
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.store.thread_log import ThreadLog

_log = logging.getLogger(__name__)

KNOWN: Final = 5
"""Memories that are searched for each message of the user."""


async def new_messages(log: ThreadLog, session: str, after: int) -> list[SourceMessage]:
    """The messages of a session's conversation after ``after`` that facts can be in."""
    thread = await log.find(session)
    line = line_of(await rollbacks(log, thread))
    entries = [each for each in await log.read(thread, after=after) if line.place(each.seq) is not None]
    return list(_messages([(each.seq, from_payload(json.loads(each.payload))) for each in entries]))


def _messages(entries: Sequence[tuple[int, Any]]) -> Iterator[SourceMessage]:
    follows = False
    for seq, message in entries:
        text = text_of(message)
        if message.type == "human" and is_users(message):
            follows = False
            by: Author = "user"
        elif message.type == "ai":
            by = "agent"
        elif message.type == "tool" and (source := source_of_tool(str(message.name))) is not None:
            follows = True
            by = "knowledge_base" if source == "knowledge_base" else "tool"
            text = cut_text(text, MOST_OF_A_RESULT)
        else:
            continue
        if text.strip():
            yield SourceMessage(seq, by, text, follows_document=follows and by == "agent")


async def extract(memory: MemoryService, log: ThreadLog, session: str, ask: AskForm) -> int:
    """Extract the facts of a session's new messages; how many calls were made.

    It stops when the session's limit of extractions is reached; the messages left are searched another time.

    Args:
        memory: for the session.
        ask: asks the model.

    Raises:
        ZeusError: the model or the database failed; the messages are searched another time.
    """
    batches = memory.batches
    # Left by a killed process: paid for, and not applied to the memories yet.
    for batch in await batches.unfinished(session):
        await batches.apply(batch)
    calls = 0
    while True:
        # Read anew in each round: `begin` moves it, in the transaction that stores the answer.
        cursor = await batches.cursor(session)
        messages = await new_messages(log, session, cursor.seq)
        if not any(each.by == "user" for each in messages):
            # By the count that was read: a run that begins meanwhile raises it, and the session stays due.
            await batches.set_searched(session, cursor.due)
            return calls
        if (await memory.check_rate_limit()).remaining == 0:
            return calls
        part = new_part(messages)
        scopes = [each for each in ("user", "project") if memory.caller.scope_id(each)]
        text = question(part, await _known(memory, part), datetime.now(UTC))
        answer = await ask(SYSTEM, text, answer_schema(scopes))
        calls += 1
        found = None if answer.value is None else proposals(answer.value, part, session)
        if found is None:
            _log.warning(
                "%s: the answer with the facts of messages up to %d cannot be read", session, part[-1].seq
            )
        begun = await batches.begin(
            "extraction", found, answer.price, session=session, seqs=(part[0].seq, part[-1].seq)
        )
        # Another process has searched these messages first; its batch counts.
        if begun is None:
            return calls
        if begun.state == "open":
            await batches.apply(begun)


async def _known(memory: MemoryService, messages: Sequence[SourceMessage]) -> list[MemoryItem]:
    """The memories that are near the user's messages, then the others, last changed first."""
    found: dict[str, MemoryItem] = {}
    for each in messages:
        if each.by == "user":
            near = await memory.search_memories(cut_text(each.text, MOST_SEARCHED), k=KNOWN)
            found |= {one.item.id: one.item for one in near}
    listed = await memory.list_memories(limit=200)
    found |= {item.id: item for item in listed if item.id not in found}
    return [item for item in found.values() if memory.holds(item) and item.scope != "session"]
