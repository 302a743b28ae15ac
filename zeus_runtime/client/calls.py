"""The requests to a service, apart from how they are sent: each is a method of both clients (``sending``)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from zeus_runtime.client.errors import ServiceRequestError
from zeus_runtime.client.results import (
    ServiceAgent,
    ServiceApproval,
    ServiceDecision,
    ServiceFile,
    ServiceFoundMessage,
    ServicePage,
    ServiceSession,
    ServiceTurn,
    result_of,
    shaped,
    under,
)
from zeus_runtime.strict_json import plain_mapping

T = TypeVar("T")
Verdict: TypeAlias = Literal["approve", "reject"]


@dataclass(frozen=True)
class ServiceAnswer:
    """What the service answered.

    Args:
        value: the JSON, or the bytes of a file.
        etag: of the content, for a later edit.
        next: the cursor of the next part of a list; None after the last.
    """

    value: Any
    etag: str = ""
    next: str | None = None


@dataclass(frozen=True)
class ServiceCall(Generic[T]):
    """One request.

    Args:
        read: makes the result of the answer.
        body: JSON to send; None for none.
        content: bytes to send instead.
        query: what is None is left out.
        is_safe: whether it may be sent again after a lost connection, because the second time changes nothing.
        is_file: whether the answer is bytes, and not JSON.

    Raises:
        ServiceRequestError: a value cannot be sent; ``where`` is its place, such as ``changed.rows[2]``.
    """

    method: str
    path: str
    read: Callable[[ServiceAnswer], T]
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    query: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_safe: bool = True
    is_file: bool = False

    def __post_init__(self) -> None:
        for words in (self.query, self.body or {}):
            for name, value in words.items():
                _require_sendable(value, name)
        for name, header in self.headers.items():
            if not (header.isascii() and header.isprintable()):
                raise _refused("a header takes printable characters of ASCII alone", name)


_MOST_LEVELS: Final = 100
"""Of nesting, as many as the service reads."""


def json_of(value: Any) -> bytes:
    """A value as the JSON that is sent.

    Raises:
        TypeError, ValueError: a part of it is not JSON.
    """
    return json.dumps(
        value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=plain_mapping
    ).encode()


def _require_sendable(value: Any, place: str, levels: int = _MOST_LEVELS) -> None:
    """Ensure that a value is JSON.

    Raises:
        ServiceRequestError: it is not.
    """
    own: Any = value
    inner: Iterable[tuple[Any, str]] = ()
    if isinstance(value, Mapping):
        own = dict.fromkeys(value)
        inner = ((each, f"{place}.{name}") for name, each in value.items())
    elif isinstance(value, list | tuple):
        own = None
        inner = ((each, f"{place}[{index}]") for index, each in enumerate(value))
    try:
        json_of(own)
    except UnicodeEncodeError:
        raise _refused("half of a surrogate pair is not a character", place) from None
    except (TypeError, ValueError) as error:
        raise _refused(str(error), place) from None
    for each, at in inner:
        if not levels:
            raise _refused(f"nested in more than {_MOST_LEVELS} levels", place)
        _require_sendable(each, at, levels - 1)


def _refused(why: str, place: str) -> ServiceRequestError:
    return ServiceRequestError(
        f"{why}, so nothing was sent",
        code="usage",
        where=place,
        remedy="Send whole characters, finite numbers, true, false, null, and lists and mappings of these.",
    )


def new_key() -> str:
    """A new idempotency key."""
    return secrets.token_hex(16)


def agents() -> ServiceCall[list[ServiceAgent]]:
    """The agents that the token may use."""
    return ServiceCall("GET", "/v1/agents", list_of(ServiceAgent))


def plan(agent: str) -> ServiceCall[Mapping[str, Any]]:
    """Exactly what a turn of an agent runs, with the place where each value was written."""
    return ServiceCall("GET", f"/v1/agents/{part(agent)}/plan", an_object)


def session_plan(session: str) -> ServiceCall[Mapping[str, Any]]:
    """As ``plan``, of a session; ``own`` if its ``middlewares`` are not those of its agent's config."""
    return ServiceCall("GET", of_session(session, "plan"), an_object)


def validate(agent: str, text: str) -> ServiceCall[Mapping[str, Any]]:
    """Check a text as the content of an agent's config: ``ok``, ``exit_code`` and ``diagnostics``."""
    return ServiceCall("POST", f"/v1/agents/{part(agent)}/validate", an_object, {"text": text})


def begin_session(
    agent: str | None = None, *, title: str = "", key: str | None = None
) -> ServiceCall[ServiceSession]:
    """Begin a session.

    Args:
        agent: the agent's name; None for the only agent.
        title: a text such as the prompt, whole: the service cuts it, once the secrets in it are masked.
        key: the same key gives the same session; a new one by default.
    """
    body = {"title": title, **({} if agent is None else {"agent": agent})}
    return ServiceCall("POST", "/v1/sessions", one(ServiceSession), body, headers=keyed(key))


def sessions(
    agent: str | None = None, *, archived: bool = False, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[ServicePage[ServiceSession]]:
    """The sessions, last used first.

    Args:
        archived: the archived ones instead of the others.
        limit: the most sessions; without it all.
        cursor: ``next`` of the part before.
    """
    query = {"agent": agent, "archived": archived or None, "limit": limit, "cursor": cursor}
    return ServiceCall("GET", "/v1/sessions", page_of(ServiceSession), query=query)


def session(name: str) -> ServiceCall[ServiceSession]:
    """One session."""
    return ServiceCall("GET", of_session(name), one(ServiceSession))


def search_sessions(
    query: str, *, agent: str | None = None, k: int = 20
) -> ServiceCall[list[ServiceFoundMessage]]:
    """The messages of sessions that contain a text, in any case of its letters, the newest first.

    Args:
        k: the most messages, up to 100.
    """
    wanted = {"query": query, "agent": agent, "k": k}
    return ServiceCall("GET", "/v1/sessions/search", list_of(ServiceFoundMessage), query=wanted)


def delete_session(session: ServiceSession | str) -> ServiceCall[None]:
    """Delete a session with all its messages.

    Args:
        session: as it was read: refused if it changed since. Of an id, however it is.

    Raises:
        ServiceChangedError: it changed since it was read.
    """
    read = None if isinstance(session, str) else session
    name = session if isinstance(session, str) else session.session
    query = {} if read is None else {"messages": read.messages, "updated_ms": read.updated_ms}
    # Sent once: the second time, there is no such session.
    return ServiceCall("DELETE", of_session(name), nothing, query=query, is_safe=False)


def roll_back(session: str, to: int, *, before: bool = False) -> ServiceCall[int]:
    """Go back to an earlier message of the user; how many messages were set aside.

    Args:
        to: the message's place in the conversation, from 1.
        before: whether to set the message itself aside too.
    """
    body = {"to": to, "before": before}
    return ServiceCall(
        "POST",
        of_session(session, "rollback"),
        lambda answer: shaped(int, under("set_aside", answer.value), "set_aside"),
        body,
        is_safe=False,
    )


def fork_session(
    session: str, step: int, *, middlewares: str | None = None, key: str | None = None
) -> ServiceCall[ServiceSession]:
    """Begin a session as this one was when a step was asked; ``resume_turn`` there asks it again.

    Args:
        middlewares: the new session's own, in YAML; None for those of this session.
        key: the same key gives the same fork; a new one by default.
    """
    body = {"step": step, **({} if middlewares is None else {"middlewares": middlewares})}
    return ServiceCall("POST", of_session(session, "fork"), one(ServiceSession), body, headers=keyed(key))


def archive_session(session: str) -> ServiceCall[ServiceSession]:
    """Pack a session away: out of the lists, a fraction of the room."""
    return ServiceCall("POST", of_session(session, "archive"), one(ServiceSession))


def restore_session(session: str) -> ServiceCall[ServiceSession]:
    """Bring an archived session back as it was."""
    return ServiceCall("POST", of_session(session, "restore"), one(ServiceSession))


def export_session(session: str, *, form: Literal["json", "markdown"] = "json") -> ServiceCall[bytes]:
    """Everything that is stored of a session, as a file."""
    return ServiceCall("GET", of_session(session, "export"), as_it_is, query={"format": form}, is_file=True)


def messages(
    session: str, *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[ServicePage[Mapping[str, Any]]]:
    """Every message of a session as JSON; ``number`` is its place.

    Args:
        limit: the most messages; without it all.
        cursor: ``next`` of the part before.
    """
    query = {"limit": limit, "cursor": cursor}
    return ServiceCall("GET", of_session(session, "messages"), page_of(None), query=query)


def begin_turn(
    session: str,
    prompt: str,
    *,
    attachments: Sequence[ServiceFile] = (),
    queue: bool = False,
    key: str | None = None,
) -> ServiceCall[ServiceTurn]:
    """Begin a turn; it continues without this client.

    Args:
        attachments: files that were uploaded.
        queue: whether it may wait for the session's other turns.
        key: the same key gives the same turn; a new one by default.

    Raises:
        ServiceBusyError: the session has a turn that is not over.
    """
    return _turn(session, _asked(prompt, attachments), queue, key)


def begin_in_new_session(
    prompt: str,
    *,
    agent: str | None = None,
    title: str = "",
    attachments: Sequence[ServiceFile] = (),
    key: str | None = None,
) -> ServiceCall[ServiceTurn]:
    """Begin a turn in a session that is made for it; a turn that is refused leaves no session.

    Args:
        agent: the agent's name; None for the only agent.
        title: the session's.
        attachments: files that were uploaded.
        key: the same key gives the same turn; a new one by default.
    """
    body = {"title": title, **_asked(prompt, attachments), **({} if agent is None else {"agent": agent})}
    return ServiceCall("POST", "/v1/runs", one(ServiceTurn), body, headers=keyed(key))


def resume_turn(session: str, *, key: str | None = None) -> ServiceCall[ServiceTurn]:
    """Answer the last message of a session again, after a rollback or in a fork.

    Args:
        key: the same key gives the same turn; a new one by default.
    """
    return _turn(session, {"resume": True}, False, key)


def _asked(prompt: str, attachments: Sequence[ServiceFile]) -> Mapping[str, Any]:
    files = [{"sha256": each.sha256, "name": each.name} for each in attachments]
    return {"prompt": prompt, **({"attachments": files} if files else {})}


def _turn(session: str, body: Mapping[str, Any], queue: bool, key: str | None) -> ServiceCall[ServiceTurn]:
    query = {"queue": True} if queue else {}
    return ServiceCall("POST", of_session(session, "runs"), one(ServiceTurn), body, None, query, keyed(key))


def turns(
    session: str, *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[ServicePage[ServiceTurn]]:
    """The turns of a session, in order.

    Args:
        limit: the most turns; without it all.
        cursor: ``next`` of the part before.
    """
    query = {"limit": limit, "cursor": cursor}
    return ServiceCall("GET", of_session(session, "runs"), page_of(ServiceTurn), query=query)


def turn(run: str) -> ServiceCall[ServiceTurn]:
    """One turn."""
    return ServiceCall("GET", f"/v1/runs/{part(run)}", one(ServiceTurn))


def cancel(run: str) -> ServiceCall[ServiceTurn]:
    """Cancel a turn."""
    return ServiceCall("POST", f"/v1/runs/{part(run)}/cancel", one(ServiceTurn))


def approvals(
    *, limit: int | None = None, cursor: str | None = None
) -> ServiceCall[ServicePage[ServiceApproval]]:
    """The calls that wait for a decision, oldest first.

    Args:
        limit: the most calls; without it all.
        cursor: ``next`` of the part before.
    """
    query = {"limit": limit, "cursor": cursor}
    return ServiceCall("GET", "/v1/approvals", page_of(ServiceApproval), query=query)


def approval(name: str) -> ServiceCall[ServiceApproval]:
    """One waiting call, with the change that it would make now."""
    return ServiceCall("GET", f"/v1/approvals/{part(name)}", one(ServiceApproval))


def decide(
    approval: str,
    decision: Verdict,
    *,
    reason: str = "",
    changed: Mapping[str, Any] | None = None,
    instruction: str = "",
    always: bool = False,
    seen: str | None = None,
    automatic: bool = False,
) -> ServiceCall[ServiceDecision]:
    """Decide a waiting call; its turn continues once nothing else waits.

    Args:
        reason: why it is rejected, for the model.
        changed: arguments to run instead, or the answer to a question.
        instruction: a further text for the model.
        always: do not ask again about this tool with its present options.
        seen: ``ServiceApproval.seen`` of the call as the user saw it: an approval of another change is refused.
            Without it the approval counts for the change that was shown last, to whomever.
        automatic: no person looked at the call: it is not approved if only a person may (``needs_person``).
    """
    body = {
        **({} if seen is None else {"seen": seen}),
        **({"automatic": True} if automatic else {}),
        "decision": decision,
        "reason": reason,
        "changed": None if changed is None else dict(changed),
        "instruction": instruction,
        "always": always,
    }
    # Sent once: a second decision is refused, although the first one counts.
    return ServiceCall("POST", f"/v1/approvals/{part(approval)}", one(ServiceDecision), body, is_safe=False)


def part(name: str) -> str:
    """A name as a part of a path.

    Raises:
        ServiceRequestError: it cannot be sent.
    """
    _require_sendable(name, "a name in the path")
    # Also a slash: a name must not become another path.
    return quote(name, safe="")


def of_session(name: str, *more: str) -> str:
    """The path of a session, or of something of it."""
    return "/".join(("/v1/sessions", part(name), *more))


def keyed(key: str | None) -> Mapping[str, str]:
    """The header of an idempotency key, by default of a new one."""
    return {_KEY: key or new_key()}


_KEY: Final = "Idempotency-Key"


def nothing(_: ServiceAnswer) -> None:
    """No result."""


def as_it_is(answer: ServiceAnswer) -> Any:
    """The bytes of a file."""
    return answer.value


def an_object(answer: ServiceAnswer) -> Mapping[str, Any]:
    """A JSON object."""
    told: Mapping[str, Any] = shaped(dict[str, Any], answer.value)
    return told


def objects(answer: ServiceAnswer) -> list[Mapping[str, Any]]:
    """A list of JSON objects."""
    told: list[Mapping[str, Any]] = shaped(list[dict[str, Any]], answer.value)
    return told


def one(kind: type[T]) -> Callable[[ServiceAnswer], T]:
    """A result."""
    return lambda answer: result_of(kind, answer.value, etag=answer.etag)


def list_of(kind: type[T]) -> Callable[[ServiceAnswer], list[T]]:
    """A list of results."""
    return lambda answer: [result_of(kind, each) for each in shaped(list[Any], answer.value)]


def page_of(kind: type[Any] | None) -> Callable[[ServiceAnswer], ServicePage[Any]]:
    """A part of a list of results; None: of JSON."""

    def read(answer: ServiceAnswer) -> ServicePage[Any]:
        if kind is None:
            return ServicePage(shaped(list[dict[str, Any]], answer.value), answer.next)
        return ServicePage(list_of(kind)(answer), answer.next)

    return read
