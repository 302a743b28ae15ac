"""One answer: the part of a turn from the client's request to the turn's end, or to a call that waits.

It is made from stored events, so it can be made again: by another process, or from the middle. The change of a call
that waits is the one that it would make now.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zeus_plugins.protocols.openai.conversation import (
    APPROVAL,
    APPROVAL_TOOL,
    ASKED,
    LINES,
    Call,
    ClientConversation,
    ClientMessage,
    mark,
    transcript,
)
from zeus_plugins.protocols.openai.errors import BadRequestError
from zeus_runtime.plugin import printable
from zeus_runtime.plugin.approval import (
    Decision,
    PendingApproval,
    json_shown,
    persons_json,
    question_and_form,
)
from zeus_runtime.plugin.protocol import NotFoundError, client_arguments, is_clients

if TYPE_CHECKING:
    from zeus_runtime.plugin.protocol import (
        ClientTool,
        ProtocolCaller,
        ServedEvent,
        StoredTurn,
    )

T = TypeVar("T")


@dataclass(frozen=True)
class AnswerRequest:
    """A request for an answer.

    Args:
        agent: the agent's name.
        conversation: the messages.
        tools: the client's own.
        session: the session to continue; None to find it by the messages.
        follows: the turn that the messages follow, and whose session they continue; None without.
    """

    agent: str
    conversation: ClientConversation
    tools: Sequence[ClientTool] = ()
    session: str | None = None
    follows: StoredTurn | None = None


@dataclass
class TurnAnswer:
    """An answer as far as it has come.

    Args:
        caller: the caller who gets it.
        turn: its turn.
        after: the number of the last event before it.
        asked: the messages that it answers; empty if the request named the session instead.

    Attributes:
        calls: calls that the client answers: of its own tools, and those that wait for a decision.
        waiting: the calls that wait for a decision.
        ending: the event that ended it; None before.
        prompt_tokens, completion_tokens, cached_tokens: of all its model calls.
    """

    caller: ProtocolCaller
    turn: StoredTurn
    after: int
    asked: tuple[ClientMessage, ...] = ()
    agent: str = ""
    calls: list[Call] = field(default_factory=list)
    waiting: list[Mapping[str, Any]] = field(default_factory=list)
    ending: Mapping[str, Any] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    _pieces: list[tuple[int, str]] = field(default_factory=list)
    _brief: set[str] = field(default_factory=set)
    _call_began: int = 0
    _is_cut: bool = False
    _is_rest: bool = False

    @property
    def id(self) -> str:
        """Names the answer: the turn's run, and where the answer begins."""
        return f"{self.turn.run}_{self.after}"

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(text for _, text in self._pieces)

    @property
    def is_waiting(self) -> bool:
        """Whether it ended because a call waits."""
        return self.ending is not None and self.ending.get("code") == "approval_needed"

    @property
    def is_failed(self) -> bool:
        """Whether it ended with an error."""
        return self.ending is not None and self.ending["type"] == "error" and not self.is_waiting

    async def pieces(self, *, follow: bool = True) -> AsyncGenerator[str | None, None]:
        """Tell the answer: yield its text as it comes, and None while nothing comes; afterwards it is complete.

        Args:
            follow: whether to wait for the rest of an answer that is not complete.
        """
        events = self.caller.events(self.turn.run, self.after, follow=follow)
        async with aclosing(events):
            async for event in events:
                if event is None:
                    yield None
                elif text := self._take(event):
                    yield text
                if event is not None and event.ends:
                    self.ending = event.event
                    self._is_rest = event.number == self.after + 1
        # A turn that is cancelled while it waits has no event, only an ending in its row.
        if self.ending is None:
            self.turn = await self.caller.turn(self.turn.run)
            if self.turn.is_over:
                self.ending = self.turn.ending
        if self.is_waiting:
            await self._note_calls()
        for text in self._missing():
            yield text

    def _take(self, served: ServedEvent) -> str:
        event = served.event
        match event["type"]:
            case "text":
                text = str(event["text"])
                # Texts before and after a call are two messages: without a break their words would run together.
                if self._is_cut and self._pieces:
                    text = f"\n\n{text}"
                self._is_cut = False
                self._pieces.append((served.number, text))
                return text
            case "model_call" if event["purpose"] == "turn":
                self._call_began = served.number
            case "model_retry" | "model_changed":
                # The model is asked again, so what this call streamed is void. Text of the turn's earlier calls stays.
                self._drop_after(self._call_began)
            case "reset":
                # A step that runs again tells its text again.
                self._drop_after(int(event["after"]))
            case "tool_call":
                self._is_cut = True
            case "token_usage":
                self.prompt_tokens += event["prompt_tokens"]
                self.completion_tokens += event["completion_tokens"]
                self.cached_tokens += event["cached_tokens"]
        return ""

    def _drop_after(self, number: int) -> None:
        self._pieces = [each for each in self._pieces if each[0] <= number]

    def _missing(self) -> list[str]:
        """What the answer says besides its streamed text: an answer with a form is a call's argument."""
        if self.ending is None or self.ending["type"] != "complete":
            return []
        answer = str(self.ending["answer"])
        # The answer's text is what the last model call streamed; only its ends may differ, by white space.
        if self.text.rstrip().endswith(answer.strip()):
            return []
        text = f"\n\n{answer}" if self._pieces else answer
        # Greater than any event's number. Nothing is dropped after the ending, so the place only has to be the last.
        self._pieces.append((2**62, text))
        return [text]

    async def _note_calls(self) -> None:
        # From the event, for the calls of an earlier answer are decided by now.
        assert self.ending is not None
        pending = self.ending["details"]["pending"]
        if self._is_rest:
            left = {each.id for each in await self.caller.waiting(self.turn.session)}
            # All of them, if the rest is decided by now: a result of a decided call leads to what came after it.
            pending = [each for each in pending if each["id"] in left] or pending
        if all(map(self._is_clients, pending)):
            shown: Mapping[str, PendingApproval] = {}
        else:
            shown = {each.id: each for each in await self.caller.shown(self.turn.session)}
        for each in pending:
            if self._is_clients(each):
                # Not those of the event of the call: a person may have changed the model's.
                arguments = client_arguments(each["tool_name"], each["parameters"])
                self.calls.append(Call(each["call_id"], each["tool_name"], arguments))
            else:
                self.waiting.append({**each, **_change(shown.get(each["id"]))})
                if each["id"] not in shown or not _says_more(shown[each["id"]]):
                    self._brief.add(each["id"])

    def _is_clients(self, pending: Mapping[str, Any]) -> bool:
        names = {each["name"] for each in self.turn.request.get("tools", ())}
        is_own = pending["session"] == self.turn.session and pending["tool_name"] in names
        return is_own and "answer_schema" in pending

    def asks_by_call(self) -> None:
        """Show the waiting calls as calls of the client's ``APPROVAL_TOOL``: JSON that it may print."""
        self.calls += [
            Call(
                ASKED + _seal(each),
                APPROVAL_TOOL,
                json_shown(_question(each, brief=each["id"] in self._brief)),
            )
            for each in self.waiting
        ]

    def asks_by_request(self) -> None:
        """Show the calls that wait for a decision as approval requests: JSON that the client may print."""
        self.calls += [
            Call(APPROVAL + _seal(each), each["tool_name"], json_shown(_shown(each))) for each in self.waiting
        ]

    def asks_by_text(self) -> str:
        """Say that calls wait for a decision, at the end of the text, and return what was said."""
        if not self.waiting:
            return ""
        said = "\n".join(
            f"[{printable(each['tool_name'])} waits for a decision (approval {each['id']}):"
            f" {json_shown(_shown(each))}]"
            for each in self.waiting
        )
        text = f"\n\n{said}" if self._pieces else said
        self._pieces.append((2**62, text))
        return text

    async def remember(self, text: str) -> None:
        """Note the conversation that the client now has, to find it by the messages of its next request."""
        if self.asked and not self.is_failed:
            said = ClientMessage("assistant", text, tuple(self.calls))
            await self.caller.set_mark(self.turn, mark(self.agent, (*self.asked, said)))


def _change(shown: PendingApproval | None) -> Mapping[str, Any]:
    """The text of a question and the name of its change: its arguments alone lack the reason, and who calls."""
    if shown is None:
        return {}
    seen = shown.seal.removeprefix(shown.id).removeprefix("@")
    return {"lines": question_and_form(shown)[0].split("\n"), **({"seen": seen} if seen else {})}


def _says_more(shown: PendingApproval) -> bool:
    """Whether a question says more than its tool, arguments and reason, and in whose session it is asked.

    Only then a call of the client's tool has the lines: its function may have no such parameter.
    """
    bare = PendingApproval(
        shown.id,
        shown.session,
        shown.run_id,
        shown.place,
        shown.digest,
        shown.tool,
        shown.arguments,
        reason=shown.reason,
        schema=shown.schema,
        session_agent=shown.session_agent,
        user=shown.user,
        project=shown.project,
    )
    return question_and_form(shown)[0] != question_and_form(bare)[0]


def _seal(pending: Mapping[str, Any]) -> str:
    """The id of a waiting call, and the name of the change that the client is shown."""
    return f"{pending['id']}_{pending['seen']}" if "seen" in pending else str(pending["id"])


def _question(pending: Mapping[str, Any], *, brief: bool) -> Mapping[str, Any]:
    names = {"id": "approval_id", "tool_name": "tool", "parameters": "arguments"}
    kept = ("id", "tool_name", "parameters", "reason", "lines", "answer_schema")
    return {
        names.get(name, name): pending[name]
        for name in kept
        if name in pending and not (brief and name == "lines")
    }


def _shown(pending: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a call with its change; for a question its form, whose defaults an approval answers with."""
    form = {"answer_schema": pending["answer_schema"]} if "answer_schema" in pending else {}
    # These lines have all arguments, also one that a model calls so.
    change = {LINES: pending["lines"]} if "lines" in pending else {}
    return {**pending["parameters"], **form, **change}


MOST_DIGITS: Final = 20
"""Of a number that a client names; Python refuses to read a very long one."""

_INSTRUCTIONS: Final = "<client_instructions>\n", "\n</client_instructions>\n\n"
_EARLIER: Final = "<earlier_conversation>\n", "\n</earlier_conversation>\n\n"


async def begun(caller: ProtocolCaller, request: AnswerRequest) -> TurnAnswer:
    """The answer to a request, whose turn begins or continues.

    Raises:
        ZeusError: the request does not fit the conversation, or the caller may not do that.
    """
    conversation = request.conversation
    if not conversation.new:
        raise BadRequestError("the last message must be from the user, or the result of a call")
    # Only a turn that ends its session can be followed: an earlier one is a branch, and gets a new session.
    turn = await _turn_before(caller, request)
    if conversation.new[0].role == "tool":
        if turn is None:
            raise BadRequestError("no call waits for these results", reason="unknown_call")
        return await _continued(caller, request, turn)
    if any(each.role == "tool" for each in conversation.new):
        raise BadRequestError("results of calls come before further messages of the user")
    return await _begun_turn(caller, request, turn)


async def _turn_before(caller: ProtocolCaller, request: AnswerRequest) -> StoredTurn | None:
    """The turn that the new messages follow, if it ends its session."""
    if request.follows is not None:
        turns = await caller.turns(request.follows.session)
        return request.follows if turns and turns[-1].run == request.follows.run else None
    if request.session is not None:
        turns = await caller.turns(request.session)
        return turns[-1] if turns else None
    answered = request.conversation.answered
    if not answered:
        return None
    found = await caller.marked(request.agent, mark(request.agent, answered))
    # Of two conversations that are equal so far, an unfinished one may belong to another client. An approval's id is
    # in one alone, whose turn runs again if somebody else has just decided.
    is_one = any(each.call.startswith(ASKED) for each in request.conversation.new)
    return next((each for each in found if is_one or each.state not in ("queued", "running")), None)


async def _begun_turn(caller: ProtocolCaller, request: AnswerRequest, turn: StoredTurn | None) -> TurnAnswer:
    conversation = request.conversation
    prompt = "\n\n".join(each.text for each in conversation.new)
    session = request.session or (None if turn is None else turn.session)
    if session is None:
        earlier = await _earlier(caller, request)
        prompt = _EARLIER[0] + earlier + _EARLIER[1] + prompt if earlier else prompt
    known = "" if session is None else await _instructions(caller, session)
    if conversation.instructions and conversation.instructions != known:
        prompt = _INSTRUCTIONS[0] + conversation.instructions + _INSTRUCTIONS[1] + prompt
    # A refused request leaves no empty session behind, and withdraws no call.
    caller.check_turn(request.agent, prompt, request.tools)
    if session is None:
        session = await caller.begin_session(request.agent, title=conversation.new[0].text)
    # Before the turn begins: the answer's id names this number, and its events come after it.
    after = await caller.last_number(session)
    if turn is not None and turn.state == "waiting":
        # As on a terminal: whoever says something else withdraws the call.
        await caller.cancel(turn.run)
    made = await caller.begin_turn(session, prompt, tools=request.tools)
    return _answer(caller, request, made, after)


async def _earlier(caller: ProtocolCaller, request: AnswerRequest) -> str:
    """What was said before, for a new session: another branch of a session, or a conversation from elsewhere."""
    said = transcript(request.conversation.answered)
    if request.follows is None:
        return said
    before: list[ClientMessage] = []
    for each in await caller.turns(request.follows.session):
        before.append(ClientMessage("user", each.request["prompt"]))
        before.append(ClientMessage("assistant", str((each.ending or {}).get("answer", ""))))
        if each.run == request.follows.run:
            break
    return "\n\n".join(filter(None, (transcript(before), said)))


async def _instructions(caller: ProtocolCaller, session: str) -> str:
    """The instructions that the session's last turn with instructions had; empty without."""
    begin, end = _INSTRUCTIONS
    # Instructions are part of a prompt, so they are sent again only if they differ from the last ones.
    for each in reversed(await caller.turns(session)):
        prompt = each.request["prompt"]
        if (start := prompt.find(begin)) >= 0 and end in prompt:
            return str(prompt[start + len(begin) : prompt.index(end, start)])
    return ""


async def _continued(caller: ProtocolCaller, request: AnswerRequest, turn: StoredTurn) -> TurnAnswer:
    results = _once((each.call, each.text) for each in request.conversation.new if each.role == "tool")
    if further := "\n\n".join(each.text for each in request.conversation.new if each.role == "user"):
        last = list(results)[-1]
        results[last] = f"{results[last]}\n\nThe user adds: {further}"
    waiting = await caller.waiting(turn.session) if turn.state == "waiting" else ()
    own = [each.call_id for each in waiting if is_clients(turn, each)]
    missing = [each for each in own if each not in results]
    decisions = _decisions(turn, waiting, results)
    asked: list[int] = []
    if len(decisions) + len(own) - len(missing) < len(results):
        waits = await _waits(caller, turn)
        # A decided call runs once nothing waits beside it. Until then another decision must not seem to count.
        known = {each.id: each for each in (*(each for _, calls in waits for each in calls), *waiting)}
        await _require_known(caller, turn, known.values(), results)
        asked = [
            number
            for number, calls in waits
            if any(_is_about(turn, each, name) for each in calls for name in results)
        ]
        if asked and not decisions and missing == own:
            if further:
                raise BadRequestError(
                    "the call was decided elsewhere: send its result without a further message, to get what came"
                    " since",
                    reason="decided_elsewhere",
                )
            if asked[-1] < waits[-1][0] or not waiting:
                return _answer(caller, request, turn, asked[-1])
        decisions = _decisions(turn, known.values(), results)
    if missing:
        raise BadRequestError(f"the result of the call {missing[0]!r} is missing", reason="missing_result")
    if not own and not decisions and not asked:
        raise BadRequestError("no call waits for these results", reason="unknown_call")
    # Before the decisions, which let the turn continue: its next event may be stored at once.
    after = await caller.last_number(turn.session)
    # First, since one that is refused must leave nothing of the request behind.
    if decisions:
        # A call may have been shown elsewhere since, with another change.
        seen = [each for _, each in decisions.values() if each.shown]
        await caller.decide({name: each for name, (each, _) in decisions.items()}, seen=seen)
    if own:
        await caller.answer_tools(turn, {each: (results[each], False) for each in own})
    names = {each.id for each in waiting}
    is_left = any(each.id in names for each in await caller.waiting(turn.session))
    return _answer(caller, request, turn, after - 1 if is_left else after)


def _once(given: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The results by what each is about.

    Raises:
        BadRequestError: two are about the same: the first decision counts, but a list does not say which was first.
    """
    found: dict[str, T] = {}
    for name, each in given:
        if name in found:
            raise BadRequestError(f"there are two results for {name!r}: send one", reason="second_result")
        found[name] = each
    return found


def _decisions(
    turn: StoredTurn, asked: Iterable[PendingApproval], results: Mapping[str, str]
) -> dict[str, tuple[Decision, PendingApproval]]:
    """The decisions among the results, by the approval's id, each with the call as its client was shown it."""
    return _once(
        (each.id, (_decision(each, results[name]), seen))
        for each in asked
        if not is_clients(turn, each)
        # One approval may have several names: each names the change that was shown.
        for name, seen in _named(each, results)
    )


async def _waits(caller: ProtocolCaller, turn: StoredTurn) -> Sequence[tuple[int, Sequence[PendingApproval]]]:
    """The numbers of the events with which the turn waited, and the calls that waited then, as far as those say."""
    found: list[tuple[int, Sequence[PendingApproval]]] = []
    while True:
        ending = None
        async with aclosing(caller.events(turn.run, found[-1][0] if found else 0, follow=False)) as events:
            async for each in events:
                if each is not None and each.ends:
                    ending = each
        if ending is None or ending.event.get("code") != "approval_needed":
            return found
        found.append((ending.number, [_as_asked(each) for each in ending.event["details"]["pending"]]))


def _as_asked(pending: Mapping[str, Any]) -> PendingApproval:
    """A call as far as a decision needs it: the call itself may not wait any more."""
    place = "." if "answer_schema" in pending else ""
    call, tool = pending["call_id"], pending["tool_name"]
    return PendingApproval(pending["id"], pending["session"], "", place, "", tool, {}, call_id=call)


async def _require_known(
    caller: ProtocolCaller, turn: StoredTurn, asked: Iterable[PendingApproval], results: Iterable[str]
) -> None:
    """Refuse a result that is about no call of the conversation; a client may repeat those of earlier turns.

    Args:
        asked: the calls with which ``turn`` waits, or waited.

    Raises:
        BadRequestError: there is such a result.
    """
    unknown = [name for name in results if not any(_is_about(turn, each, name) for each in asked)]
    for other in await caller.turns(turn.session) if unknown else ():
        if not unknown:
            return
        calls = [each for _, waited in await _waits(caller, other) for each in waited]
        unknown = [name for name in unknown if not any(_is_about(other, each, name) for each in calls)]
    if unknown:
        raise BadRequestError(
            f"no call of this conversation has the id {unknown[0]!r}: the request decides nothing",
            reason="unknown_call",
        )


def _is_about(turn: StoredTurn, pending: PendingApproval, name: str) -> bool:
    """Whether a client calls this call of a turn so: one of its own tools by its id, another by the approval's."""
    if is_clients(turn, pending):
        return name == pending.call_id
    return _seal_in(name, pending.id) is not None


def _named(pending: PendingApproval, names: Iterable[str]) -> Iterator[tuple[str, PendingApproval]]:
    """The ids of calls that mean a waiting one, each with the call as its client was shown it (``_seal``)."""
    for name in names:
        if (seal := _seal_in(name, pending.id)) is not None:
            yield name, replace(pending, shown=seal.removeprefix(pending.id).removeprefix("_") or None)


def _seal_in(name: str, approval: str) -> str | None:
    """The ``_seal`` in the id of a client's call or item; None if that is not about this approval."""
    for begin in (ASKED, APPROVAL):
        seal = name.removeprefix(begin)
        # With the `_`, the id `ab1` does not take what was said of `ab12`.
        if seal != name and (seal == approval or seal.startswith(f"{approval}_")):
            return seal
    return None


def _answer(caller: ProtocolCaller, request: AnswerRequest, turn: StoredTurn, after: int) -> TurnAnswer:
    # A request that names its session sends only its new messages, which mark no conversation.
    named = request.session is not None or request.follows is not None
    asked = () if named else request.conversation.messages
    return TurnAnswer(caller, turn, after, asked, request.agent)


def _decision(pending: PendingApproval, text: str) -> Decision:
    """The decision that a client wrote: JSON, or a word."""
    problem = ""
    try:
        given = persons_json(text)
    except ValueError as error:
        given, problem = text.strip().strip('"').lower(), f" ({error})"
    if isinstance(given, bool):
        given = "approve" if given else "reject"
    if isinstance(given, str):
        given = {"decision": given}
    said = given.get("decision") if isinstance(given, Mapping) else None
    if said not in ("approve", "reject"):
        raise BadRequestError(
            f"the decision on {pending.tool} must be `approve` or `reject`, or JSON such as"
            f' {{"decision": "reject", "reason": "not today"}}{problem}',
            reason="bad_decision",
        )
    # The service's own API calls the arguments of a call so, and the answer to a question too.
    own = "answer" if pending.is_question else "changed"
    # A member that is ignored would be a decision that nobody made: on the arguments of the model, say.
    if unknown := sorted(map(repr, given.keys() - {"decision", "reason", "instruction", own})):
        raise BadRequestError(
            f"the decision on {pending.tool} has no {unknown[0]}: it has `decision`, `reason`, `instruction` and"
            f" `{own}`",
            reason="bad_decision",
        )
    reason, instruction, arguments = given.get("reason", ""), given.get("instruction", ""), given.get(own)
    if not (
        isinstance(reason, str) and isinstance(instruction, str) and isinstance(arguments, Mapping | None)
    ):
        raise BadRequestError(
            f"`reason` and `instruction` are texts, and `{own}` is an object", reason="bad_decision"
        )
    return Decision(said, reason=reason, instruction=instruction, arguments=arguments)


async def found(caller: ProtocolCaller, name: str) -> TurnAnswer:
    """The answer with that ``id``.

    Raises:
        NotFoundError: there is none.
    """
    run, _, after = name.partition("_")
    if not run or not after.isascii() or not after.isdigit() or len(after) > MOST_DIGITS:
        raise NotFoundError(f"there is no response with the id {name!r}")
    turn = await caller.turn(run)
    return TurnAnswer(caller, turn, int(after), agent=await caller.agent_of(turn.session))
