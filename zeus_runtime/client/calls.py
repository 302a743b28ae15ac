"""The requests to a service, apart from how they are sent: both clients send the same ones."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from zeus_runtime.client.results import (
    ServiceAgent,
    ServiceApproval,
    ServiceSession,
    ServiceTurn,
    result_of,
)

T = TypeVar("T")
Verdict: TypeAlias = Literal["approve", "reject"]


@dataclass(frozen=True)
class ServiceCall(Generic[T]):
    """One request.

    Args:
        read: makes the result of the answer's JSON.
        body: JSON to send; None for none.
        is_safe: whether it may be sent again after a lost connection, because the second time changes nothing.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_safe: bool = True


def new_key() -> str:
    """A new idempotency key."""
    return secrets.token_hex(16)


def agents() -> ServiceCall[list[ServiceAgent]]:
    return ServiceCall("GET", "/v1/agents", _list_of(ServiceAgent))


def begin_session(agent: str | None, title: str, key: str | None) -> ServiceCall[ServiceSession]:
    body = {"title": title, **({} if agent is None else {"agent": agent})}
    return ServiceCall("POST", "/v1/sessions", _one(ServiceSession), body, headers=_key(key))


def sessions(agent: str | None) -> ServiceCall[list[ServiceSession]]:
    return ServiceCall(
        "GET", "/v1/sessions", _list_of(ServiceSession), query={} if agent is None else {"agent": agent}
    )


def session(name: str) -> ServiceCall[ServiceSession]:
    return ServiceCall("GET", f"/v1/sessions/{_part(name)}", _one(ServiceSession))


def delete_session(name: str) -> ServiceCall[None]:
    return ServiceCall("DELETE", f"/v1/sessions/{_part(name)}", lambda _: None, is_safe=False)


def messages(name: str) -> ServiceCall[list[Mapping[str, Any]]]:
    return ServiceCall("GET", f"/v1/sessions/{_part(name)}/messages", list)


def begin_turn(name: str, prompt: str, queue: bool, key: str | None) -> ServiceCall[ServiceTurn]:
    return ServiceCall(
        "POST",
        f"/v1/sessions/{_part(name)}/runs",
        _one(ServiceTurn),
        {"prompt": prompt},
        {"queue": "true"} if queue else {},
        _key(key),
    )


def turns(name: str) -> ServiceCall[list[ServiceTurn]]:
    return ServiceCall("GET", f"/v1/sessions/{_part(name)}/runs", _list_of(ServiceTurn))


def turn(run: str) -> ServiceCall[ServiceTurn]:
    return ServiceCall("GET", f"/v1/runs/{_part(run)}", _one(ServiceTurn))


def cancel(run: str) -> ServiceCall[ServiceTurn]:
    return ServiceCall("POST", f"/v1/runs/{_part(run)}/cancel", _one(ServiceTurn))


def approvals() -> ServiceCall[list[ServiceApproval]]:
    return ServiceCall("GET", "/v1/approvals", _list_of(ServiceApproval))


def approval(name: str) -> ServiceCall[ServiceApproval]:
    return ServiceCall("GET", f"/v1/approvals/{_part(name)}", _one(ServiceApproval))


def decide(
    name: str,
    decision: Verdict,
    reason: str,
    changed: Mapping[str, Any] | None,
    instruction: str,
    always: bool,
    seen: str | None,
    automatic: bool,
) -> ServiceCall[None]:
    body = {
        **({} if seen is None else {"seen": seen}),
        **({"automatic": True} if automatic else {}),
        "decision": decision,
        "reason": reason,
        "changed": None if changed is None else dict(changed),
        "instruction": instruction,
        "always": always,
    }
    return ServiceCall("POST", f"/v1/approvals/{_part(name)}", lambda _: None, body, is_safe=False)


def _part(name: str) -> str:
    return quote(name, safe="")


def _key(key: str | None) -> Mapping[str, str]:
    return {_KEY: key or new_key()}


_KEY: Final = "Idempotency-Key"


def _one(kind: type[T]) -> Callable[[Any], T]:
    return lambda told: result_of(kind, told)


def _list_of(kind: type[T]) -> Callable[[Any], list[T]]:
    return lambda told: [result_of(kind, each) for each in told]
