"""What a service answers, as frozen values. Keys that this version does not know are in ``data``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_type_hints

from annotated_types import Interval
from typing_extensions import TypedDict

from zeus_runtime.events import Event, RunFailed, SubAgentEvent
from zeus_runtime.notice import EventOrigin

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

Milliseconds: TypeAlias = Annotated[int, Interval(ge=0, lt=253_370_764_800_000)]
"""UTC milliseconds since 1970, before the last year that Python can show in any time zone."""


class InvalidAnswerError(ValueError):
    """The service's JSON does not have the shape of a result.

    Args:
        why: the fault.
        place: the keys that lead to it.
    """

    def __init__(self, why: str, place: Iterable[str] = ()) -> None:
        super().__init__(": ".join(filter(None, (".".join(place), why))))


@dataclass(frozen=True)
class ServiceAgent:
    """An agent of the service.

    Args:
        digest: SHA-256 of everything that decides what its model sees and what may run.
    """

    name: str
    description: str = ""
    model: str = ""
    digest: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceSession:
    """A session; times in UTC milliseconds.

    Args:
        state: the outcome of its last turn.
    """

    session: str
    agent: str
    title: str = ""
    messages: int = 0
    created_ms: Milliseconds = 0
    updated_ms: Milliseconds = 0
    state: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceTurn:
    """A turn; times in UTC milliseconds.

    Args:
        run: its run's id.
        number: its place among the turns of its session.
        state: ``queued``, ``running``, ``waiting`` (for a decision), ``complete``, ``failed`` or ``cancelled``.
        ending: its terminal event as JSON; None before it.
    """

    run: str
    session: str
    state: str
    number: int = 0
    prompt: str = ""
    created_ms: Milliseconds = 0
    started_ms: Milliseconds | None = None
    ended_ms: Milliseconds | None = None
    ending: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.state not in ("queued", "running", "waiting")

    @property
    def answer(self) -> str:
        """The text of its answer; empty without one."""
        return str((self.ending or {}).get("answer", ""))


class ServiceChange(TypedDict):
    """A change of a file or memory; ``before`` is None if it does not exist yet."""

    path: str
    before: str | None
    after: str


@dataclass(frozen=True)
class ServiceApproval:
    """A call that waits for a decision.

    Args:
        parameters: the exact arguments, with known secrets masked.
        parameters_told: the same for a person: text that only looks like the placeholder of a secret says so; None
            without such text.
        answer_schema: the form of the answer to a question; None for a call.
        interrupted: whether the call was begun before and did not finish, so that whether it took effect is unknown.
        begun_with: the arguments with which it was begun, once each, if any of them are not ``parameters``.
        outdated: the tool has other settings now, or its agent another workspace: an approval will not hold.
        approved_before: the same call was approved when its tool had other settings; that approval does not hold.
        approved_with: the arguments with which a person approved it then, if they were others.
        kind: ``call``, ``file`` (a call that runs reached a file that needs an approval of its own) or ``question``.
        changes: the change that the call would make: ``path``, ``before``, ``after``; only of one that was asked for.
        stands_for: the names of the parameters that ``changes`` shows in full.
        facts: further lines for the person, such as whose memory it is.
        tool_facts: the same about the tool, such as the MCP server that it is of.
        seen: names that change; ``decide`` with it approves no other.
        agent: the agent of the session.
        subagent: the sub-agent that calls; empty for the session's own agent.
        user, project: whose session it is; empty if it was begun without a user of the service.
        needs_person: whether only a person may approve it, and no program.
        on_timeout: the decision after ``expires_ms``.
    """

    id: str
    session: str
    tool_name: str
    parameters: Mapping[str, Any]
    call_id: str = ""
    reason: str = ""
    agent: str = ""
    answer_schema: Mapping[str, Any] | None = None
    created_ms: Milliseconds = 0
    expires_ms: Milliseconds | None = None
    may_remember: bool = False
    may_change: bool = False
    changes: tuple[ServiceChange, ...] = ()
    problem: str = ""
    seen: str | None = None
    subagent: str = ""
    needs_person: bool = False
    on_timeout: Literal["approve", "reject"] = "reject"
    parameters_told: Mapping[str, Any] | None = None
    kind: Literal["call", "file", "question"] = "call"
    interrupted: bool = False
    begun_with: tuple[Mapping[str, Any], ...] = ()
    user: str = ""
    project: str = ""
    outdated: bool = False
    stands_for: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    approved_before: bool = False
    tool_facts: tuple[str, ...] = ()
    approved_with: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceDecision:
    """What became of a decision about a call.

    Args:
        decision: ``approve`` or ``reject``.
        allowlist_of: the user on whose allowlist the tool goes with ``always``: that of the session; else empty.
        outdated: the call was asked under other settings of its tool, or in another workspace: its approval will not
            hold, and the turn asks again.
    """

    session: str
    decision: str
    allowlist_of: str = ""
    outdated: bool = False
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


class ServicePage(list[T]):
    """A list, or a part of one.

    Attributes:
        next: the ``cursor`` of the next part; None after the last.
    """

    def __init__(self, items: Iterable[T], next_part: str | None = None) -> None:
        super().__init__(items)
        self.next = next_part


@dataclass(frozen=True)
class ServiceFoundMessage:
    """A message that contains a text.

    Args:
        title: its session's.
        number: its place in the conversation, from 1.
        role: ``user``, ``assistant`` or ``tool``.
        excerpt: the text around the place.
        created_ms: when it was written, UTC milliseconds.
    """

    session: str
    number: int
    role: str
    excerpt: str
    title: str = ""
    created_ms: Milliseconds = 0
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceMemory:
    """A memory; times in ISO 8601.

    Args:
        near: the ids of memories that were near it and were kept beside it.
        final_score: how well it fits, of one that was searched.
        etag: names this content, for an edit.
    """

    id: str
    content: str
    memory_type: str = "fact"
    scope: str = "user"
    status: str = "active"
    trust: str = "trusted"
    subject: str | None = None
    created_by: str = ""
    created_at: str = ""
    updated_at: str = ""
    valid_from: str | None = None
    valid_until: str | None = None
    version: int = 1
    near: tuple[str, ...] = ()
    final_score: float | None = None
    etag: str = field(default="", compare=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceSaved:
    """What became of a text.

    Args:
        outcome: ``stored``, ``duplicate`` or ``superseded``.
        message: one sentence.
        memory: the memory that holds it now.
        replaced: the ids of the memories that it took the place of.
    """

    outcome: str
    memory: ServiceMemory
    message: str = ""
    replaced: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceProfile:
    """What is known of the user or of the project.

    Args:
        profile: ``user`` or ``project``.
        fields: a name to ``value``, ``by`` (hand, rule or model) and ``sources``.
        etag: names this content, for an edit.
    """

    profile: Literal["user", "project"]
    fields: Mapping[str, Mapping[str, Any]]
    etag: str = field(default="", compare=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceBase:
    """A knowledge base.

    Args:
        scope: ``user`` or ``project``.
        linked: whether the agent itself searches it.
        files: its documents, of one that was asked for: ``path``, ``chunks``, ``size_bytes``, ``ready``.
    """

    name: str
    scope: str = "user"
    documents: int = 0
    chunks: int = 0
    linked: bool = False
    updated_ms: Milliseconds = 0
    files: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceHit:
    """A passage of a knowledge base.

    Args:
        citation: its place, for a person.
        source: the document.
        heading: the headings above it.
        position: lines or page.
    """

    content: str
    citation: str = ""
    source: str = ""
    heading: str = ""
    position: str = ""
    score: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceFile:
    """A file that was uploaded.

    Args:
        name: its name for the model.
    """

    sha256: str
    name: str
    size_bytes: int = 0


@dataclass(frozen=True)
class ServiceArtifact:
    """A file that a session wrote.

    Args:
        path: in the workspace.
        modified_ms: when it was changed last, UTC milliseconds.
    """

    path: str
    size_bytes: int = 0
    modified_ms: Milliseconds = 0
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceBacktest:
    """A backtest.

    Args:
        state: ``running``, ``complete``, ``failed`` or ``cancelled``.
        done, total: replays.
        outcomes: of each replay: ``session``, ``policy``, ``outcome`` and ``steps``.
        problem: why it failed.
    """

    id: str
    state: str
    done: int = 0
    total: int = 0
    outcomes: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ServiceEvent:
    """A stored event.

    Args:
        number: counts within its session, without gap.
        run: the run that emitted it, or whose sub-agent did.
        event: the event, as ``agent.stream`` yields it; None for a kind that this version does not know.
        data: the event as JSON.
    """

    number: int
    run: str
    event: Event | None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def ends(self) -> bool:
        """Whether the run is over with it."""
        return self.data.get("type") in _ENDS and self.data.get("code") != "approval_needed"

    @property
    def waits(self) -> bool:
        """Whether the run waits for a decision since it."""
        return self.data.get("type") == RunFailed.type and self.data.get("code") == "approval_needed"


_ENDS: Final = frozenset({"complete", "error"})
_EVENTS: Final[Mapping[str, Any]] = {each.type: each for each in get_args(Event)}


def result_of(kind: type[T], told: Any, *, etag: str = "") -> T:
    """A result from the service's JSON.

    Args:
        etag: of its content.

    Raises:
        InvalidAnswerError: the JSON lacks a value, or has one of another type.
    """
    told = shaped(dict[str, Any], told)
    given = {name: _frozen(value) for name, value in told.items()} | {"data": told}
    if "etag" in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        given["etag"] = etag
    if name := _missing(kind, given):
        raise InvalidAnswerError(_MISSING, (name,))
    return kind(**_values(kind, given))


def shaped(kind: Any, told: Any, *place: str) -> Any:
    """A value of the service's JSON, if it has the type ``kind``.

    Args:
        place: the keys that lead to it, for the error.

    Raises:
        InvalidAnswerError: it has another one.
    """
    from pydantic import ValidationError

    try:
        # Strict, because `told` itself is returned: otherwise the text "5" would pass for a number, and stay a text.
        _adapter(kind).validate_python(told, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidAnswerError(first["msg"], (*place, *map(str, first["loc"]))) from None
    return told


def under(name: str, told: Any) -> Any:
    """The value under a name of the service's JSON.

    Raises:
        InvalidAnswerError: there is none.
    """
    found = shaped(dict[str, Any], told)
    if name not in found:
        raise InvalidAnswerError(_MISSING, (name,))
    return found[name]


_MISSING: Final = "it is missing"


def _values(kind: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields that ``told`` has, each of its type.

    Raises:
        InvalidAnswerError: one has another type.
    """
    hints = _hints(kind)
    return {
        each.name: shaped(hints[each.name], told[each.name], each.name)
        for each in fields(kind)
        if each.name in told
    }


def _missing(kind: type[Any], told: Mapping[str, Any]) -> str | None:
    """The first field that ``told`` must have and has not."""
    needed = (
        each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING
    )
    return next((each for each in needed if each not in told), None)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _frozen(value: Any) -> Any:
    # The fields of results are tuples, and a strict check takes no list for one.
    return tuple(value) if isinstance(value, list) else value


def event_of(number: int, told: Any) -> ServiceEvent:
    """An event from the service's JSON; of a newer service, without what this version does not know.

    Raises:
        InvalidAnswerError: a value of the event has another type.
    """
    told = shaped(dict[str, Any], told)
    event = _event(told)
    run = shaped(str, told.get("run", ""), "run")
    if event is not None:
        session = shaped(str, told.get("session", ""), "session")
        parent = shaped(str | None, told.get("parent"), "parent")
        time_ms = shaped(Milliseconds, told.get("time_ms", 0), "time_ms")
        event = event.coming_from(EventOrigin(session, run, parent, time_ms))
    return ServiceEvent(number, run, event, told)


def _event(told: Mapping[str, Any]) -> Event | None:
    """The event that an object is; None if this version does not know its kind, or misses a value of it.

    Raises:
        InvalidAnswerError: a value has another type.
    """
    kind = _EVENTS.get(shaped(str, under("type", told), "type"))
    if kind is None or _missing(kind, told):
        return None
    event: Event = kind(**_values(kind, told))
    # A line about a sub-agent's event reads its fields.
    if (
        isinstance(event, SubAgentEvent)
        and event.event.get("type") in _EVENTS
        and _event(event.event) is None
    ):
        return None
    return event
