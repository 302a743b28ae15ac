"""One thread's messages while a run works on them: the log and its copy in memory, growing together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_runtime.context import Edit, View, edit_from_json, edit_to_json, fold
from zeus_runtime.models.messages import from_payload, to_payload

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

    from zeus_runtime.store.thread_log import LogEntry, Thread, ThreadLog

INTERRUPTED = "This call was interrupted before it finished; whether it took effect is unknown."


class Conversation:
    """The messages of one thread, ``seq`` 1 first.

    A message is written to the log before anything refers to it. What a crash left beyond the last checkpoint stays
    in the log; ``kept`` finds it again, so that a resumed run repeats neither a paid answer nor a finished tool call.
    """

    def __init__(
        self, log: ThreadLog, thread: Thread, entries: Sequence[LogEntry], edits: Sequence[str] = ()
    ) -> None:
        self._log = log
        self._thread = thread
        self._line: list[BaseMessage] = []
        self._ahead: dict[int, BaseMessage] = {}
        self._ids: dict[int, str] = {}
        self._state: dict[str, Any] = {}
        self._edits = [edit_from_json(edit) for edit in edits]
        for entry in entries:
            self._take(entry.seq, entry.id, from_payload(json.loads(entry.payload)))

    @property
    def thread(self) -> Thread:
        return self._thread

    @property
    def last(self) -> int:
        """The highest ``seq`` that is written; 0 for an empty thread."""
        return max(len(self._line), max(self._ahead, default=0))

    @property
    def run_of_last(self) -> str:
        """The run that wrote the last message."""
        return self._ids[self.last].rpartition(".")[0]

    @property
    def state(self) -> Mapping[str, Any]:
        """What tools keep with the thread: the last value under each name."""
        return self._state

    def __getitem__(self, seq: int) -> BaseMessage:
        return self._line[seq - 1] if seq <= len(self._line) else self._ahead[seq]

    def view(self, seq: int) -> View:
        """What the admitted edits leave of the messages 1 to ``seq``."""
        return fold(self._line, self._edits, seq)

    async def admit(self, edit: Edit, seq: int) -> None:
        """Let ``edit`` change the view from the model call after ``seq`` on."""
        await self._log.append_edit(self._thread, len(self._edits) + 1, seq, edit_to_json(edit))
        self._edits.append(edit)

    def kept(self, seq: int, run_id: str) -> BaseMessage | None:
        """What this same run already wrote at ``seq`` before it was cut off."""
        return self[seq] if self._ids.get(seq) == f"{run_id}.{seq}" else None

    async def append(self, seq: int, run_id: str, message: BaseMessage) -> None:
        """Write ``message`` at ``seq``: first to the log, then here."""
        message_id = f"{run_id}.{seq}"
        payload = json.dumps(to_payload(message), ensure_ascii=False, separators=(",", ":"))
        await self._log.append(self._thread, seq, message_id, payload)
        self._take(seq, message_id, message)

    async def close_open_calls(self) -> int:
        """Answer the calls that an interrupted run left open, so that no call is without its result.

        Returns:
            how many there were.
        """
        closed = 0
        seq = self._last_answer()
        if seq is None:
            return closed
        for offset, call in enumerate(calls_of(self[seq]), start=1):
            if seq + offset not in self._ids:
                run_id = self._ids[seq].rpartition(".")[0]
                await self.append(seq + offset, run_id, tool_message(call, INTERRUPTED, is_error=True))
                closed += 1
        return closed

    def _last_answer(self) -> int | None:
        seq = self.last
        while seq > 0 and (seq not in self._ids or self[seq].type == "tool"):
            seq -= 1
        return seq if seq > 0 and self[seq].type == "ai" else None

    def _take(self, seq: int, message_id: str, message: BaseMessage) -> None:
        self._ids[seq] = message_id
        self._ahead[seq] = message
        while (following := self._ahead.pop(len(self._line) + 1, None)) is not None:
            self._line.append(following)
            # In the log's order, not in that of finishing: a resumed run must find the same values.
            if (
                following.type == "tool"
                and (kept := getattr(following, "artifact", None))
                and "state" in kept
            ):
                self._state.update(kept["state"])


def calls_of(message: BaseMessage) -> Sequence[Mapping[str, Any]]:
    """The tool calls of an answer, valid ones first; an invalid one has an ``error`` and text arguments."""
    answer: AIMessage = message  # type: ignore[assignment]
    return [*answer.tool_calls, *answer.invalid_tool_calls] if message.type == "ai" else []


def tool_message(
    call: Mapping[str, Any],
    content: str,
    *,
    is_error: bool = False,
    artifact: Mapping[str, Any] | None = None,
) -> ToolMessage:
    """The result that answers ``call``."""
    from langchain_core.messages import ToolMessage

    return ToolMessage(
        content=content,
        tool_call_id=str(call["id"]),
        name=call["name"],
        status="error" if is_error else "success",
        artifact=artifact,
    )
