"""What was decided before about a call that a run makes now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection

from zeus_runtime.store.approval_rows import all_of, requests
from zeus_runtime.store.interrupted_calls import IS_SPENT
from zeus_runtime.store.tables import APPROVAL, IS_REJECTED
from zeus_runtime.tools.changed_arguments import is_same

if TYPE_CHECKING:
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools.approval import ApprovalRequest, PendingApproval


@dataclass(frozen=True)
class AskedCall:
    """A call, or a question during one, about which decisions are looked up.

    An answer of the model has one call at a place of a run. So after a resume a decision at the place is about this
    call, whatever makes another one of it than the person saw: a secret that is masked by now, a middleware, its tool.

    Args:
        thread, run_id: the session and the run.
        request: the call as it would run.
        known: masks the secrets that are known now.
        is_resumed: whether the run asked at the place before it was resumed.
        is_beside: whether this process made another call at the place first: a middleware makes several there, and each
            has its own decision.
    """

    thread: Thread
    run_id: str
    request: ApprovalRequest
    known: Callable[[Any], Any]
    is_resumed: bool
    is_beside: bool = False

    @property
    def in_run(self) -> tuple[ColumnElement[bool], ...]:
        """The condition that a row is of the run."""
        return APPROVAL.c.thread == self.thread.key, APPROVAL.c.run_id == self.run_id

    @property
    def at_place(self) -> tuple[ColumnElement[bool], ...]:
        """The condition that a row is of the run, and about the call or the question at its place."""
        return *self.in_run, APPROVAL.c.place == self.request.place

    @property
    def exact(self) -> tuple[ColumnElement[bool], ...]:
        """The condition that an approval may hold for it: with this setting and these arguments.

        The id does not say so: it is short, and a model chooses calls.
        """
        return *self.at_place, APPROVAL.c.digest == self.request.digest

    @property
    def is_question(self) -> bool:
        """Whether its tool asks it. "7" is the place of a call, and "7.2" that of the second question of its tool."""
        return "." in self.request.place

    @property
    def counts_by_place(self) -> bool:
        """Whether each decision at its place is about it. A tool that runs anew may ask something else."""
        return self.is_resumed and not self.is_beside and not self.is_question

    @cached_property
    def _forms(self) -> Sequence[Any]:
        request = self.request
        return [self.known(each) for each in (request.arguments, request.written) if each is not None]

    def is_same(self, other: PendingApproval) -> bool:
        """Whether a request has the same arguments, as they run or as the model wrote them, whatever its setting."""
        if other.tool != self.request.tool or other.is_question != self.is_question:
            return False
        if other.digest == self.request.digest:
            return True
        # An answer uses the form's defaults, and a server may send another form when its call is repeated.
        if self.is_question and not is_same(self.known(other.schema), self.known(self.request.schema)):
            return False
        # Masked again: a secret may be known only since the request was stored.
        stored = [self.known(each) for each in (other.arguments, other.written) if each is not None]
        return any(is_same(one, each) for one in self._forms for each in stored)


def rejection(connection: Connection, call: AskedCall, *, with_files: bool = False) -> PendingApproval | None:
    """The rejection of the call, or of the question, at its place.

    Args:
        with_files: also that of a file that the call reached.
    """
    place = APPROVAL.c.place == call.request.place
    if with_files:
        place |= APPROVAL.c.place.startswith(f"{call.request.place}:")
    found = all_of(connection, requests().where(*call.in_run, IS_REJECTED, place))
    exact = next(filter(call.is_same, found), None)
    found = [each for each in found if not each.made_beside]
    if exact is not None or not found or not call.counts_by_place:
        return exact
    last = max(found, key=_decided_ms)
    # The call that a middleware made beside the rejected one may be the first one now. An approval from before is
    # overruled: the call had those arguments first, then others, and has the first ones again.
    approved = all_of(connection, requests().where(*call.at_place, APPROVAL.c.verdict == "approve"))
    later = [each for each in approved if _decided_ms(each) >= _decided_ms(last)]
    return None if any(map(call.is_same, later)) else last


def rejection_elsewhere(connection: Connection, call: AskedCall) -> PendingApproval | None:
    """The rejection of the same call, or of the same question, at another place of the run."""
    found = all_of(connection, requests().where(*call.in_run, IS_REJECTED))
    return next(filter(call.is_same, found), None)


def was_approved(connection: Connection, call: AskedCall) -> bool:
    """Whether the same call was approved at its place, whatever setting its tool had, and was not interrupted since."""
    approved = (APPROVAL.c.verdict == "approve", ~IS_SPENT)
    return any(map(call.is_same, all_of(connection, requests().where(*call.at_place, *approved))))


def changed_approval(connection: Connection, call: AskedCall) -> PendingApproval | None:
    """The last approval of the call, if a person changed its arguments, and it does not hold for the call as it is now.

    Returns:
        None as well if the call has the arguments that the person wrote.
    """
    # The answer to a question is no change, and a question about a file takes none.
    if call.is_question or ":" in call.request.place:
        return None
    last = _last_approval(connection, call)
    said = last and changed_by(last)
    if last is None or said is None or last.digest == call.request.digest:
        return None
    if is_same(call.known(said), call.known(call.request.arguments)):
        return None
    own = all_of(connection, requests().where(*call.exact, APPROVAL.c.verdict == "approve"))
    return None if holding(connection, call, own) else last


def holding(
    connection: Connection, call: AskedCall, exact: Sequence[PendingApproval]
) -> list[PendingApproval]:
    """Those of the requests with the digest of this one that a later approval did not overrule.

    The last approval says which arguments run. One with another setting does not hold itself, and an older one that
    runs the same does.
    """
    last = _last_approval(connection, call)
    said = last and changed_by(last)
    return [each for each in exact if each.decision is None or is_same(changed_by(each), said)]


def changed_by(pending: PendingApproval) -> Mapping[str, Any] | None:
    """The arguments that a person wrote in place of those of the call, or that answer a question; else None."""
    given = None if pending.decision is None else pending.decision.arguments
    return None if given is None or is_same(given, pending.arguments) else given


def _decided_ms(pending: PendingApproval) -> int:
    return pending.decided_ms or 0


def _last_approval(connection: Connection, call: AskedCall) -> PendingApproval | None:
    """The approval of the call that was given last, whatever setting its tool had."""
    approved = requests().where(*call.at_place, APPROVAL.c.verdict == "approve").order_by(None)
    last = approved.order_by(APPROVAL.c.decided_ms.desc(), APPROVAL.c.created_ms.desc())
    found = all_of(connection, last)
    counts = call.counts_by_place
    return next((each for each in found if (counts and not each.made_beside) or call.is_same(each)), None)
