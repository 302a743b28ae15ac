"""One session's messages during a run: the log, and a copy in memory that grows with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.context import Edit, Pin, View, edit_from_json, edit_to_json, fold
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.models.content import calls_of, is_users, text_of
from zeus_runtime.models.masking import masked_message
from zeus_runtime.models.messages import from_payload, to_payload
from zeus_runtime.models.pictures import KEY as PICTURES
from zeus_runtime.models.pictures import Picture, kept_with, pictures_of
from zeus_runtime.run.attachments import KEY
from zeus_runtime.run.session_files import SessionFiles
from zeus_runtime.run.stored_thread import StoredThread
from zeus_runtime.store.file_references import SAVED
from zeus_runtime.strict_json import well_formed
from zeus_runtime.tools.attachments import Reference
from zeus_runtime.tools.calling_tool import kept_now

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolMessage

    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.store.thread_log import StepEntry, ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools.approval import PendingApproval

_NOTHING = Pin("", "unreadable or set aside", 0)
"""Replaces an edit that keeps its number and changes nothing."""

_FILES: Final = frozenset((KEY, PICTURES, SAVED))
"""The keys of ``additional_kwargs`` by which a message has files. Only the runtime may write them: a session may read
and send what its messages name."""

GIVEN: Final = "given."
"""Prefix of the ids of messages that a fork or slice inherits from its parent session."""

INTERRUPTED: Final = "This call was interrupted before it finished; whether it took effect is unknown."
"""The result of a call that began, or of which nobody knows whether it did."""


class Transcript:
    """The messages of one session, the first at ``seq`` 1.

    Rollbacks leave gaps in the log's sequence numbers, and ``SessionBranch`` hides them: here, in edits and in the
    ledger a ``seq`` is a place along the current branch, without gaps.

    A message is written to the log before anything refers to it. After a crash the log may be ahead of the last
    checkpoint. ``kept`` finds those messages, so that a resumed run repeats neither a paid answer nor a finished tool
    call.

    Args:
        log, thread: the stored session.
        stored: its content at the beginning.
        counter: counts tokens.
        replayable: names of tools whose results can be fetched again.
        secrets: masked in every message, new or stored; None masks nothing.

    Attributes:
        session_files: the files of the archive that the session's tools may read.
        problems: the stored edits that cannot be read; the messages that they removed are shown again.
        last_step: the ledger's last entry, if any.
        last_step_ms: when it was written (UTC milliseconds).
        has_waited: whether the run ended to wait for a decision, and is resumed now.
    """

    def __init__(
        self,
        log: ThreadLog,
        thread: Thread,
        stored: StoredThread,
        *,
        counter: Counter | None = None,
        replayable: Iterable[str] = (),
        secrets: Redactor | None = None,
    ) -> None:
        self._log = log
        self._thread = thread
        self._secrets = secrets or Redactor()
        self._places = stored.line
        self._line: list[BaseMessage] = []
        self._results_of_turn: list[tuple[str, str]] = []
        # Results of parallel calls that finished before an earlier one's; `_line` has no gap.
        self._ahead: dict[int, BaseMessage] = {}
        self._ids: dict[int, str] = {}
        self._written_ms: dict[int, int] = {}
        self._state: dict[str, Any] = {}
        self.problems: list[str] = []
        self.session_files = SessionFiles(kept_now(), thread.session)
        for text in stored.edits:
            self.session_files.note_edit(text)
        self._edits = [
            # Set aside and unreadable edits keep their places, because the next edit's number is the length of this
            # list.
            _NOTHING if number in stored.edits_aside else self._edit(number, text)
            for number, text in enumerate(stored.edits, 1)
        ]
        self._counter = counter
        self._replayable = frozenset(replayable)
        self._view: View | None = None
        self.has_waited = False
        self.last_step = stored.last_step
        self.last_step_ms = stored.last_step_ms
        self._texts: set[str] = set()
        for entry in stored.entries:
            # Also messages that were set aside: the edits and files of a session stay its own after a rollback.
            self.session_files.note_message(entry.payload, is_given=entry.id.startswith(GIVEN))
            if (place := self._places.place(entry.seq)) is not None:
                self._take(
                    place,
                    entry.id,
                    from_payload(self._secrets.masked(json.loads(entry.payload))),
                    entry.created_ms,
                )

    @property
    def thread(self) -> Thread:
        """The session's key in the log, and its id."""
        return self._thread

    @property
    def last(self) -> int:
        """The highest ``seq`` that is written; 0 for an empty session."""
        return max(len(self._line), max(self._ahead, default=0))

    @property
    def last_whole(self) -> int:
        """The last ``seq`` up to which every call has its result."""
        answer = self._last_answer()
        if answer is None or len(self._line) >= answer + len(calls_of(self[answer])):
            return len(self._line)
        return answer - 1

    @property
    def is_rolled_back(self) -> bool:
        """Whether nothing was written since the last rollback."""
        return self.last > 0 and self._places.seq(self.last) < self._places.start

    def now_ms(self) -> int:
        """The time on the log's clock, UTC milliseconds."""
        return self._log.now_ms()

    def holds_answer(self, step: StepRecord) -> bool:
        """Whether the answer of ``step`` is in the conversation, and not set aside by a rollback."""
        seq = step.cursor + 1
        return self._ids.get(seq) == self._id(seq, step.run_id)

    @property
    def run_of_last(self) -> str:
        """The id of the run that wrote the last message."""
        return self._ids[self.last].rpartition(".")[0]

    @property
    def is_told(self) -> bool:
        """Whether readers know what the resumed run stored earlier: it waited for a decision, or events are stored."""
        kept = self._log.events.get(self._thread.session)
        return self.has_waited or (kept is not None and kept.is_resumed)

    @property
    def unanswered(self) -> int | None:
        """The ``seq`` after which the conversation waits for the model, or None if the model has answered.

        If calls of the last answer are unfinished, this is the ``seq`` before that answer. A run that continues from
        there finds the written messages again (``kept``).
        """
        if self.last == 0:
            return None
        if self[self.last].type == "human":
            return self.last
        answer = self._last_answer()
        return answer - 1 if answer is not None and calls_of(self[answer]) else None

    @property
    def said(self) -> Sequence[BaseMessage]:
        """Every message before the first missing one."""
        return self._line

    @property
    def user_text(self) -> str:
        """The user's last message; empty if there is none."""
        last = next((message for message in reversed(self._line) if is_users(message)), None)
        return "" if last is None else text_of(last)

    @property
    def results_of_turn(self) -> Sequence[tuple[str, str]]:
        """The results since the user's last message: the tool's name and the text, oldest first."""
        return self._results_of_turn

    @property
    def references(self) -> list[Reference]:
        """The files of the user's messages, oldest first."""
        return [
            replace(reference, picture=pictures.get(reference.copy))
            for message in self._line
            if message.type == "human" and KEY in message.additional_kwargs
            for pictures in [{each.path: each for each in pictures_of(message)}]
            for reference in map(Reference.from_json, message.additional_kwargs[KEY])
        ]

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that tools store in the session: the last value under each name."""
        return self._state

    def __getitem__(self, seq: int) -> BaseMessage:
        return self._line[seq - 1] if seq <= len(self._line) else self._ahead[seq]

    def _edit(self, number: int, text: str) -> Edit:
        """The stored edit; an unreadable one keeps its number and changes nothing."""
        try:
            return edit_from_json(self._secrets.text(text))
        except (ValueError, KeyError, TypeError) as error:
            self.problems.append(f"edit {number} of {self._thread.session} cannot be read ({error})")
            return _NOTHING

    def view(self, seq: int) -> View:
        """The view of messages 1 to ``seq`` under the admitted edits; the cost grows only with the new messages."""
        # Going back folds the whole history; the steps of a run only go forward.
        if self._view is None or seq < self._view.upto:
            self._view = fold(
                self._line,
                self._edits,
                seq,
                counter=self._counter,
                replayable=self._replayable,
                written_ms=self._written_ms,
            )
        else:
            self._view = self._view.extended(seq)
        return self._view

    def recount(self, counter: Counter) -> None:
        """Count as another model's provider does, from the next view on; that view costs a scan of the history."""
        if counter is not self._counter:
            self._counter, self._view = counter, None

    async def admit(self, edits: Sequence[Edit], seq: int, view: View) -> None:
        """Admit ``edits`` from the model call after ``seq`` on: written to the log first, then applied here.

        Args:
            view: the result of the edits on ``view(seq)``.
        """
        number = len(self._edits) + 1
        payloads = [edit_to_json(edit) for edit in edits]
        # After a crash behind this line the edits hold, although no request has used them: they were admitted.
        await self._log.append_edits(self._thread, number, seq, payloads)
        for payload in payloads:
            self.session_files.note_edit(payload)
        self._edits.extend(edits)
        self._view = view

    async def give_files(self) -> None:
        """Let the session read the files that its user named, as far as they are of sessions of this user."""
        if self.session_files.asked_for:
            self.session_files.give(await self._log.own_files(self.session_files.asked_for))

    async def append_step(self, step: StepRecord, texts: Mapping[str, str]) -> None:
        """Write an entry of the ledger without a message.

        Args:
            texts: the texts that the entry refers to, by digest.
        """
        await self._log.append_step(self._thread, self._entry(step, texts))
        self._taken(step, texts)

    def _entry(self, step: StepRecord, texts: Mapping[str, str]) -> StepEntry:
        from zeus_runtime.store.thread_log import StepEntry

        masked = self._secrets.text
        # A known prompt brings nothing new: its digest covers all its parts, so they need not be looked through.
        new = {} if step.fixed in self._texts else {d: t for d, t in texts.items() if d not in self._texts}
        return StepEntry(
            step.number, step.cursor, masked(step.to_json()), texts={d: masked(t) for d, t in new.items()}
        )

    def _taken(self, step: StepRecord, texts: Mapping[str, str]) -> None:
        self.last_step, self.last_step_ms = step, self.now_ms()
        if step.fixed not in self._texts:
            # Only after the transaction: texts that were not stored must be sent with the next entry.
            self._texts.update(texts)

    def answer_of(self, place: int) -> int:
        """The ``seq`` of the answer whose call has its result at ``place``."""
        seq = place - 1
        # Results of parallel calls may be missing in between.
        while seq not in self._ids or self[seq].type == "tool":
            seq -= 1
        return seq

    def kept(self, seq: int, run_id: str) -> BaseMessage | None:
        """The message that this same run wrote at ``seq`` before it was interrupted, if any."""
        return self[seq] if self._ids.get(seq) == self._id(seq, run_id) else None

    def _id(self, seq: int, run_id: str) -> str:
        return f"{run_id}.{self._places.seq(seq)}"

    async def append(
        self,
        seq: int,
        run_id: str,
        message: BaseMessage,
        *,
        step: StepRecord | None = None,
        texts: Mapping[str, str] | None = None,
        begins_turn: bool = False,
        tell: Callable[[], None] | None = None,
    ) -> None:
        """Write ``message`` at ``seq``: first to the log, then here.

        Characters that UTF-8 cannot encode become U+FFFD, known secrets are masked, and an answer names no files.

        Args:
            step: the ledger's entry of the model call, written in the same transaction.
            texts: the texts that the entry refers to, by digest.
            begins_turn: whether a turn begins with this message.
            tell: emits the event that tells of the message.
        """
        message_id = self._id(seq, run_id)
        if message.type == "ai" and _FILES & message.additional_kwargs.keys():
            kept = {key: each for key, each in message.additional_kwargs.items() if key not in _FILES}
            message = message.model_copy(update={"additional_kwargs": kept})
        written = _written(message)
        # One search of the whole text is cheaper than one for each part, and most messages hold no secret. Where JSON
        # escapes a quote or a backslash, a secret may look different in the whole text, so its parts are searched.
        if "\\\\" in written or '\\"' in written or self._secrets.text(written) != written:
            message = masked_message(message, self._secrets)
            written = _written(message)
        payload = well_formed(written)
        if payload != written:
            # The rest of the run must see the text that a resume would read from the log.
            message = from_payload(json.loads(payload))
        entry = None if step is None else self._entry(step, texts or {})
        written_ms = await self._log.append(
            self._thread,
            self._places.seq(seq),
            message_id,
            payload,
            step=entry,
            begins=run_id if begins_turn else None,
            tell=tell,
        )
        self.session_files.note_message(payload, is_given=False)
        await self.give_files()
        self._take(seq, message_id, message, written_ms)
        if step is not None:
            self._taken(step, texts or {})

    async def close_open_calls(self) -> int:
        """Give a result to each call that an interrupted run left open, since providers refuse calls without results.

        Returns:
            the number of such calls.
        """
        from zeus_runtime.store.approvals import not_begun

        closed = 0
        seq = self._last_answer()
        if seq is None:
            return closed
        for offset, call in enumerate(calls_of(self[seq]), start=1):
            # Under the id of the interrupted run: if this process dies before the new prompt is stored, a resume finds
            # these results as its own.
            if seq + offset not in self._ids:
                run_id = self._ids[seq].rpartition(".")[0]
                asked = await not_begun(self._log, self._thread, run_id, seq + offset)
                text = INTERRUPTED if asked is None else _not_run(asked)
                await self.append(seq + offset, run_id, tool_message(call, text, is_error=True))
                closed += 1
        return closed

    def _last_answer(self) -> int | None:
        seq = self.last
        while seq > 0 and (seq not in self._ids or self[seq].type == "tool"):
            seq -= 1
        return seq if seq > 0 and self[seq].type == "ai" else None

    def _take(self, seq: int, message_id: str, message: BaseMessage, written_ms: int) -> None:
        self._ids[seq] = message_id
        self._written_ms[seq] = written_ms
        self._ahead[seq] = message
        # Each message moves once, so all appends together take time linear in the messages.
        while (following := self._ahead.pop(len(self._line) + 1, None)) is not None:
            self._line.append(following)
            if is_users(following):
                self._results_of_turn = []
            elif following.type == "tool":
                self._results_of_turn.append((str(following.name), text_of(following)))
            # In the log's order, not in the order of finishing: a resumed run must find the same values.
            if (
                following.type == "tool"
                and (kept := getattr(following, "artifact", None))
                and "state" in kept
            ):
                self._state.update(kept["state"])


def _not_run(asked: PendingApproval) -> str:
    """The result of a call that never began, by what was decided about it."""
    decision = asked.decision
    if decision is None:
        return "This call was not run: the user continued without deciding about it."
    if decision.answer == "approve":
        return "This call was approved, but it was not run: its turn ended before it began."
    said = (
        "The user did not approve this call in time" if decision.by == "timeout" else "This call was rejected"
    )
    return f"{said}{': ' if decision.reason else ''}{decision.reason}. It was not run."


def _written(message: BaseMessage) -> str:
    return json.dumps(to_payload(message), ensure_ascii=False, separators=(",", ":"))


def tool_message(
    call: Mapping[str, Any],
    content: str,
    *,
    is_error: bool = False,
    artifact: Mapping[str, Any] | None = None,
    pictures: Sequence[Picture] = (),
    files: Sequence[str] = (),
) -> ToolMessage:
    """The message with the result of ``call``."""
    from langchain_core.messages import ToolMessage

    return ToolMessage(
        content=content,
        tool_call_id=str(call["id"]),
        name=call["name"],
        status="error" if is_error else "success",
        artifact=artifact,
        additional_kwargs={**kept_with(pictures), **({SAVED: list(files)} if files else {})},
    )
