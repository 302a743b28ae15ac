"""A session as it is stored, as a document and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import unwrapped
from zeus_runtime.escaping import json_text, printable
from zeus_runtime.sessions.decisions import approvals_in, decided_beside, decision_text
from zeus_runtime.strict_json import plain_json
from zeus_runtime.tools.question import tool_label

if TYPE_CHECKING:
    from markdown_it.token import Token

    from zeus_runtime.store.branch import Rollback
    from zeus_runtime.store.listing import SessionInfo
    from zeus_runtime.store.snapshots import Snapshot
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import PendingApproval

FORMAT: Final = 1
"""The version of the exported document."""

_WHO: Final = {"user": "You", "assistant": "Agent", "tool": "Tool", "system": "System"}


@dataclass(frozen=True)
class Message:
    """A message as it is stored; ``set_aside`` by a rollback it is part of the conversation no more."""

    seq: int
    id: str
    created_ms: int
    set_aside: bool
    payload: dict[str, Any]


@dataclass(frozen=True)
class StoredSession:
    """All that a database has of a session but its ledger, which ``zeus context`` shows."""

    info: SessionInfo
    messages: Sequence[Message]
    edits: Sequence[tuple[int, int, str]]
    rollbacks: Sequence[Rollback]
    snapshots: Sequence[Snapshot]
    approvals: Sequence[PendingApproval] = ()
    children: Sequence[SessionInfo] = ()
    sub_agents: Sequence[StoredSession] = ()


async def read(log: ThreadLog, session: str, *, whole: bool = False) -> StoredSession:
    """The session ``session``.

    Args:
        whole: its sub-agents' sessions too, and theirs.

    Raises:
        UsageError: there is no such session, or it is archived.
    """
    from zeus_runtime.store.branch import line_of
    from zeus_runtime.store.rollbacks import rollbacks
    from zeus_runtime.store.snapshots import snapshots

    thread = await log.find(session)
    made = await rollbacks(log, thread)
    line = line_of(made)
    messages = [
        Message(each.seq, each.id, each.created_ms, line.place(each.seq) is None, json.loads(each.payload))
        for each in await log.read(thread)
    ]
    children = await log.children(session)
    return StoredSession(
        info=await log.info(thread),
        messages=messages,
        edits=await log.edit_entries(thread),
        rollbacks=made,
        snapshots=await snapshots(log, thread),
        approvals=await approvals_in(log, session),
        children=children,
        sub_agents=[await read(log, each.session, whole=True) for each in children] if whole else (),
    )


def decisions_as_json(approvals: Sequence[PendingApproval]) -> list[dict[str, Any]]:
    """Every question with what was decided."""
    return [
        {
            **each.as_json(),
            "decision": each.decision,
            "decided_ms": each.decided_ms,
            "withdrawn": each.withdrawn,
        }
        for each in approvals
    ]


def as_document(stored: StoredSession) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "format": FORMAT,
        **asdict(stored.info),
        "messages": stored.messages,
        "edits": [{"number": number, "at": at, "edit": _json(text)} for number, at, text in stored.edits],
        "rollbacks": stored.rollbacks,
        "snapshots": stored.snapshots,
        "approvals": decisions_as_json(stored.approvals),
        "sub_agents": [as_document(each) for each in stored.sub_agents],
    }


def as_markdown(stored: StoredSession) -> str:
    """The conversation to read: a heading for each message; results, calls, decisions and what was set aside."""
    title = printable(unwrapped(stored.info.title))
    parts = [f"# {_in_line(title or stored.info.session)}"]
    parts.append(f"Session `{stored.info.session}` of the agent {_in_line(printable(stored.info.agent))}.")
    beside = decided_beside(stored.approvals, stored.rollbacks)
    for each in stored.messages:
        parts.extend(_written(each, beside(each.seq, each.id, each.payload)))
    return "\n\n".join([*parts, *map(as_markdown, stored.sub_agents)])


def _written(message: Message, decided: Sequence[PendingApproval]) -> list[str]:
    from datetime import UTC, datetime

    from zeus_runtime.models.content import FROM_RUNTIME, text_of
    from zeus_runtime.models.messages import from_payload
    from zeus_runtime.models.pictures import pictures_of

    payload = message.payload
    at = datetime.fromtimestamp(message.created_ms / 1000, UTC)
    name = f" {_code(tool_label(payload.get('name')))}" if payload["role"] == "tool" else ""
    aside = " · set aside" if message.set_aside else ""
    shown = from_payload(payload)
    who = "Zeus" if FROM_RUNTIME in shown.additional_kwargs else _WHO.get(payload["role"], payload["role"])
    parts = [f"## {message.seq} · {who}{name} · {at:%Y-%m-%d %H:%M} UTC{aside}"]
    if decided:
        parts.append("Decided:\n\n" + _fenced("\n".join(map(decision_text, decided))))
    if text := text_of(shown).strip("\n"):
        is_quoted = payload["role"] != "tool" and _is_drawn_whole(text)
        parts.append(_quoted(text) if is_quoted else _fenced(text))
    parts += [_in_line(picture.label) for picture in pictures_of(shown)]
    for call in [*getattr(shown, "tool_calls", ()), *getattr(shown, "invalid_tool_calls", ())]:
        parts.append(f"Calls {_code(tool_label(call['name']))}:\n\n{_fenced(_shown(call['args']), 'json')}")
    return parts


def _shown(arguments: Any) -> str:
    return json_text(json.dumps(plain_json(arguments), ensure_ascii=False, indent=2))


_NOT_DRAWN: Final = re.compile(r"[&<\[\\|]")
_NOTE: Final = re.compile(r"^\[[^\]\n]+\]:", re.MULTILINE)
"""The definition of a link or of a footnote, which is drawn only where it is used."""
_INFO: Final = re.compile(r"[ \t]*[\w+#.-]{0,20}[ \t]*")
"""The language of a fence; other words there are not drawn."""


def _is_drawn_whole(text: str) -> bool:
    """Whether a program that renders Markdown shows all of ``text``, but for its marks and the addresses of links."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    defined: dict[str, Any] = {}
    # Without the last rule, characters that an entity wrote are told apart.
    parser = MarkdownIt("commonmark").enable("table").disable("text_join")
    tokens = parser.parse(text, defined)
    lines = _lines(text)
    bars = 0
    for before, token in pairwise([Token("", "", 0), *tokens]):
        if token.type == "tr_open" and token.map:
            count = lines[token.map[0]].count("|")
            bars = count if before.type == "thead_open" else bars
            if count > bars:
                return False  # a cell for which the table has no column
        elif not _shows(token):
            return False
    return not defined.get("references")


def _shows(token: Token) -> bool:
    """Whether all that a token says is drawn."""
    if token.type == "inline":
        return not _NOTE.search(token.content) and all(map(_shows, token.children or ()))
    if token.type == "text_special":
        return token.info != "entity"
    is_drawn = token.type not in ("html_block", "html_inline", "image") and not token.attrGet("title")
    return is_drawn and _INFO.fullmatch(token.info) is not None


def _in_line(line: str) -> str:
    return line if _NOT_DRAWN.search(line) is None else _code(line)


def _quoted(text: str) -> str:
    """``text`` as a quotation, which no comment, fence or heading in it can leave."""
    return "\n".join(f"> {line}".rstrip(" ") for line in _lines(text))


def _lines(text: str) -> Sequence[str]:
    return re.split(r"\r\n|\r|\n", text)


def _fenced(text: str, language: str = "") -> str:
    """``text`` in a fence that nothing in it can close."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(line: str) -> str:
    """``line`` as a code span that nothing in it can close."""
    ticks = "`" * (_longest_run(line) + 1)
    # Markdown takes a space from both ends.
    return f"{ticks} {line} {ticks}" if len(ticks) > 1 else f"`{line}`"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def family(log: ThreadLog, session: SessionInfo) -> list[SessionInfo]:
    """A session, and after it those of its sub-agents, each with its own after it."""
    children = await log.children(session.session, archived=session.archived_ms is not None)
    return [session, *[each for child in children for each in await family(log, child)]]
