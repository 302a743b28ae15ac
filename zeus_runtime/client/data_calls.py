"""The requests about what agents remember and know, what they were sent, and files: methods of both clients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from zeus_runtime.client.calls import (
    ServiceAnswer,
    ServiceCall,
    an_object,
    as_it_is,
    keyed,
    list_of,
    nothing,
    objects,
    of_session,
    one,
    part,
)
from zeus_runtime.client.results import (
    ServiceArtifact,
    ServiceBacktest,
    ServiceBase,
    ServiceFile,
    ServiceHit,
    ServiceMemory,
    ServicePage,
    ServiceProfile,
    ServiceSaved,
    result_of,
    shaped,
    under,
)

T = TypeVar("T")
Kind: TypeAlias = Literal["user", "project"]


def memories(
    *,
    agent: str | None = None,
    session: str | None = None,
    scope: str | None = None,
    memory_type: str | None = None,
    status: str = "active",
    limit: int | None = None,
    cursor: str | None = None,
) -> ServiceCall[ServicePage[ServiceMemory]]:
    """The memories that the token's user may read, last changed first.

    Args:
        agent: whose memory; None for the only agent.
        session: those of this session too.
        scope: ``user``, ``project`` or ``session``.
        status: ``active``, ``superseded``, ``archived`` or ``all``.
        limit: the most memories; without it all.
        cursor: ``next`` of the part before.
    """
    query = {"scope": scope, "type": memory_type, "status": status, "limit": limit, "cursor": cursor}
    return ServiceCall("GET", "/v1/memories", _memories, query={"agent": agent, "session": session, **query})


def search_memories(
    query: str,
    *,
    agent: str | None = None,
    session: str | None = None,
    scope: str | None = None,
    memory_type: str | None = None,
    k: int = 5,
    past: bool = False,
) -> ServiceCall[list[ServiceMemory]]:
    """The memories that fit a text best, as the agent would find them.

    Args:
        agent, session, scope: as in ``memories``.
        k: the most memories, up to 100.
        past: instead what was true before.
    """
    wanted = {"scope": scope, "type": memory_type, "k": k, "past": past or None, "query": query}
    return ServiceCall(
        "GET",
        "/v1/memories/search",
        list_of(ServiceMemory),
        query={"agent": agent, "session": session, **wanted},
    )


def memory(name: str, *, agent: str | None = None, session: str | None = None) -> ServiceCall[ServiceMemory]:
    """One memory."""
    return ServiceCall("GET", _memory(name), one(ServiceMemory), query={"agent": agent, "session": session})


def add_memory(
    content: str,
    *,
    agent: str | None = None,
    session: str | None = None,
    memory_type: str = "fact",
    scope: str = "user",
    visibility: str = "members",
    subject: str | None = None,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    replaces: Sequence[str] | None = None,
) -> ServiceCall[ServiceSaved]:
    """Keep a text.

    Args:
        agent, session: as in ``memories``.
        visibility: who of the project may read it: ``public``, ``members`` or ``owner_only``.
        valid_from, valid_until: when it is true, with a time zone.
        replaces: memories that are no longer true; None: rules decide.

    Raises:
        ServiceRequestError: the gate refuses it.
    """
    body = {
        "content": content,
        "memory_type": memory_type,
        "scope": scope,
        "visibility": visibility,
        "subject": subject,
        "valid_from": _time(valid_from),
        "valid_until": _time(valid_until),
        "replaces": None if replaces is None else list(replaces),
    }
    query = {"agent": agent, "session": session}
    return ServiceCall("POST", "/v1/memories", _saved, body, query=query)


def change_memory(
    memory: ServiceMemory | str, *, agent: str | None = None, session: str | None = None, **changes: Any
) -> ServiceCall[ServiceMemory]:
    """Write a memory's next version.

    Args:
        memory: as it was read: refused if somebody changed it since. Of an id, any version.
        changes: any of content, memory_type, confidence, visibility, status, subject, valid_from, valid_until.

    Raises:
        ServiceChangedError: it was changed since it was read.
    """
    name, tag = (memory, "") if isinstance(memory, str) else (memory.id, memory.etag)
    body = {key: _time(value) if isinstance(value, datetime) else value for key, value in changes.items()}
    return ServiceCall(
        "PATCH",
        _memory(name),
        one(ServiceMemory),
        body,
        query={"agent": agent, "session": session},
        headers={"If-Match": tag} if tag else {},
        is_safe=False,
    )


def delete_memory(
    memory: ServiceMemory | str, *, agent: str | None = None, session: str | None = None
) -> ServiceCall[None]:
    """Delete a memory for good.

    Args:
        memory: as it was read: refused if somebody changed it since. Of an id, any version.

    Raises:
        ServiceChangedError: it was changed since it was read.
    """
    name, version = (memory, None) if isinstance(memory, str) else (memory.id, memory.version)
    query = {"agent": agent, "session": session, "version": version}
    return ServiceCall("DELETE", _memory(name), nothing, query=query, is_safe=False)


def memory_history(
    name: str, *, agent: str | None = None, session: str | None = None
) -> ServiceCall[list[Mapping[str, Any]]]:
    """What happened to a memory, in order."""
    query = {"agent": agent, "session": session}
    return ServiceCall("GET", f"{_memory(name)}/history", objects, query=query)


def memory_stats(*, agent: str | None = None) -> ServiceCall[Mapping[str, Any]]:
    """How many memories there are: ``active``, ``waiting`` for a vector, and ``by`` status, scope and more."""
    return ServiceCall("GET", "/v1/memories/stats", an_object, query={"agent": agent})


def quarantined_memories(*, agent: str | None = None) -> ServiceCall[list[ServiceMemory]]:
    """The memories that no model is shown, since they read like instructions."""
    return ServiceCall("GET", "/v1/memories/quarantine", list_of(ServiceMemory), query={"agent": agent})


def release_memory(memory: ServiceMemory | str, *, agent: str | None = None) -> ServiceCall[ServiceMemory]:
    """Show a quarantined memory to models from now on.

    Args:
        memory: as it was read: refused if somebody changed it since. Of an id, any version.

    Raises:
        ServiceChangedError: it was changed since it was read.
    """
    name, version = (memory, None) if isinstance(memory, str) else (memory.id, memory.version)
    query = {"agent": agent, "version": version}
    return ServiceCall("POST", f"{_memory(name)}/release", one(ServiceMemory), query=query, is_safe=False)


def memory_batches(*, agent: str | None = None) -> ServiceCall[list[Mapping[str, Any]]]:
    """The batches of changes that models made in the background, newest first."""
    return ServiceCall("GET", "/v1/memories/batches", objects, query={"agent": agent})


def memory_batch(batch: str, *, agent: str | None = None) -> ServiceCall[Mapping[str, Any]]:
    """What taking a batch back would do now: the memories ``removed`` and ``restored``."""
    return ServiceCall("GET", f"/v1/memories/batches/{part(batch)}", an_object, query={"agent": agent})


def undo_memory_batch(batch: str, *, agent: str | None = None) -> ServiceCall[Mapping[str, Any]]:
    """Take a batch back; the ids of the memories that were ``removed`` and ``restored``."""
    path = f"/v1/memories/batches/{part(batch)}/undo"
    return ServiceCall("POST", path, an_object, query={"agent": agent}, is_safe=False)


def profile(kind: Kind = "user", *, agent: str | None = None) -> ServiceCall[ServiceProfile]:
    """What is known of the user or of the project."""
    return ServiceCall("GET", f"/v1/profiles/{part(kind)}", one(ServiceProfile), query={"agent": agent})


def change_profile(
    profile: ServiceProfile | Kind, fields: Mapping[str, str | Sequence[str]], *, agent: str | None = None
) -> ServiceCall[ServiceProfile]:
    """Write fields of a profile by hand; an empty text gives a field back to the memories.

    Args:
        profile: as it was read: refused if it changed since. Of its kind, whatever it is.

    Raises:
        ServiceChangedError: it was changed since it was read.
    """
    kind, tag = (profile, "") if isinstance(profile, str) else (profile.profile, profile.etag)
    body = {name: value if isinstance(value, str) else list(value) for name, value in fields.items()}
    return ServiceCall(
        "PATCH",
        f"/v1/profiles/{part(kind)}",
        one(ServiceProfile),
        {"fields": body},
        query={"agent": agent},
        headers={"If-Match": tag} if tag else {},
        is_safe=False,
    )


def knowledge_bases(*, agent: str | None = None) -> ServiceCall[list[ServiceBase]]:
    """The knowledge bases of the token's user and project."""
    return ServiceCall("GET", "/v1/knowledge", list_of(ServiceBase), query={"agent": agent})


def knowledge_base(name: str, *, agent: str | None = None) -> ServiceCall[ServiceBase]:
    """A knowledge base, with its documents in ``files``."""
    return ServiceCall("GET", f"/v1/knowledge/{part(name)}", one(ServiceBase), query={"agent": agent})


def search_knowledge(
    name: str, query: str, *, agent: str | None = None, k: int = 5
) -> ServiceCall[list[ServiceHit]]:
    """The passages of a knowledge base that fit a text best, each with its citation.

    Args:
        k: the most passages, up to 100.
    """
    path = f"/v1/knowledge/{part(name)}/search"
    return ServiceCall("GET", path, _hits, query={"query": query, "agent": agent, "k": k})


def upload(data: bytes, name: str = "file") -> ServiceCall[ServiceFile]:
    """Upload a file, to attach it to prompts.

    Args:
        name: its name for the model.
    """
    digest = hashlib.sha256(data).hexdigest()
    made = ServiceFile(digest, name, len(data))
    return ServiceCall("PUT", f"/v1/files/{digest}", lambda _: made, content=data)


def artifacts(session: str) -> ServiceCall[list[ServiceArtifact]]:
    """The files that tools wrote in a session and that are still there, the last changed first."""
    return ServiceCall("GET", of_session(session, "artifacts"), list_of(ServiceArtifact))


def artifact(session: str, path: str) -> ServiceCall[bytes]:
    """The content of one of them."""
    return ServiceCall(
        "GET", of_session(session, "artifacts", "content"), as_it_is, query={"path": path}, is_file=True
    )


def message_changes(session: str, number: int) -> ServiceCall[Mapping[str, Any]]:
    """The changes that a call made: ``changes``, and ``lines`` to show them.

    Args:
        number: the place of its result's message in the conversation, from 1.
    """
    return ServiceCall("GET", of_session(session, "messages", str(number), "changes"), an_object)


def message_file(session: str, number: int, path: str) -> ServiceCall[bytes]:
    """A file or picture that a message brought along.

    Args:
        number: the message's place in the conversation, from 1.
        path: ``copy`` of one of its references, or ``path`` of one of its pictures.
    """
    return ServiceCall(
        "GET",
        of_session(session, "messages", str(number), "files"),
        as_it_is,
        query={"path": path},
        is_file=True,
    )


def context_steps(session: str) -> ServiceCall[Mapping[str, Any]]:
    """Every step of a session in short: tokens by source, policies' decisions, cache, cost; and a forecast."""
    return ServiceCall("GET", of_session(session, "context", "steps"), an_object)


def context(session: str, step: int | None = None) -> ServiceCall[Mapping[str, Any]]:
    """What one step sent, part by part; the last one by default."""
    return ServiceCall("GET", of_session(session, "context"), an_object, query={"step": step})


def context_diff(session: str, a: int, b: int) -> ServiceCall[Mapping[str, Any]]:
    """The changes between two steps, and the edits that made them."""
    return ServiceCall("GET", of_session(session, "context", "diff"), an_object, query={"a": a, "b": b})


def context_why(
    session: str, *, text: str | None = None, item: str | None = None, step: int | None = None
) -> ServiceCall[Mapping[str, Any]]:
    """Why a text or an item (a message's number, a section, a tool) is, or is not, part of what a step sent."""
    query = {"text": text, "item": item, "step": step}
    return ServiceCall("GET", of_session(session, "context", "why"), an_object, query=query)


def begin_backtest(
    sessions: Sequence[str],
    policies: Mapping[str, str],
    *,
    needles: Sequence[str] = (),
    key: str | None = None,
) -> ServiceCall[ServiceBacktest]:
    """Recompute sessions in the background under their present policies and under others.

    Args:
        policies: a name to the value of ``middlewares``, in YAML.
        needles: texts that the last request should still contain.
        key: the same key gives the same backtest; a new one by default.
    """
    body = {"sessions": list(sessions), "policies": dict(policies), "needles": list(needles)}
    return ServiceCall("POST", "/v1/backtests", one(ServiceBacktest), body, headers=keyed(key))


def backtest(name: str) -> ServiceCall[ServiceBacktest]:
    """A backtest and its outcomes so far."""
    return ServiceCall("GET", f"/v1/backtests/{part(name)}", one(ServiceBacktest))


def cancel_backtest(name: str) -> ServiceCall[ServiceBacktest]:
    """End a backtest that runs."""
    return ServiceCall("POST", f"/v1/backtests/{part(name)}/cancel", one(ServiceBacktest))


def _memory(name: str) -> str:
    return f"/v1/memories/{part(name)}"


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _memories(answer: ServiceAnswer) -> ServicePage[ServiceMemory]:
    return ServicePage(_under("memories", ServiceMemory, answer), answer.next)


def _saved(answer: ServiceAnswer) -> ServiceSaved:
    memory = result_of(ServiceMemory, under("memory", answer.value))
    return result_of(ServiceSaved, {**answer.value, "memory": memory})


def _hits(answer: ServiceAnswer) -> list[ServiceHit]:
    return _under("hits", ServiceHit, answer)


def _under(name: str, kind: type[T], answer: ServiceAnswer) -> list[T]:
    """The results in the list under a name."""
    return [result_of(kind, each) for each in shaped(list[Any], under(name, answer.value), name)]
