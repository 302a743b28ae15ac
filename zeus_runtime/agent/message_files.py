"""The files and pictures of a message: their bytes, as they were when the message was written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_runtime.agent.artifacts import MAX_BYTES
from zeus_runtime.errors import NotFoundError
from zeus_runtime.models.pictures import KEY as PICTURES
from zeus_runtime.models.pictures import picture_of
from zeus_runtime.run.attachments import KEY as REFERENCES
from zeus_runtime.run.stored_thread import message_at
from zeus_runtime.tools.calling_tool import calling, reading_kept
from zeus_runtime.tools.masked_text import masked_bytes
from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.store.thread_log import ThreadLog


class MessageFile(NamedTuple):
    """A file of a message.

    Args:
        name: what its user or tool calls it.
        data: its bytes, with known secrets masked in text.
    """

    name: str
    data: bytes


async def message_file(
    log: ThreadLog, plan: Plan, secrets: Redactor, session: str, number: int, path: str
) -> MessageFile:
    """A file of a message; ``Agent.message_file`` has the arguments and the errors."""
    payload = json.loads((await message_at(log, await log.find(session), number)).payload)
    name = dict(_named(payload)).get(path)
    if name is None:
        raise NotFoundError(f"message {number} of {session} brought no file {path!r} along")

    def read() -> bytes:
        # This file alone: a program may have put a link to another one there.
        with calling(None, of_session=True), reading_kept(path.__eq__):
            data = plan.context.workspace.read(path, max_bytes=MAX_BYTES)
        masked = masked_bytes(data, secrets)
        if masked != data and picture_of(data, "") is not None:
            # It was kept before its secret was known, or a model may see it; to mask it would damage it.
            raise WorkspaceError("the picture holds a secret")
        return masked

    try:
        return MessageFile(secrets.text(name), await asyncio.to_thread(read))
    except WorkspaceError as error:
        raise NotFoundError(str(error)) from None


def _named(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The path of each file, and its name. Only the runtime writes these keys: a model cannot name a file here."""
    about = payload.get("additional_kwargs", {})
    for each in about.get(REFERENCES, ()):
        if each.get("copy"):
            yield each["copy"], each["path"]
    for each in about.get(PICTURES, ()):
        yield each["path"], each.get("name") or each["path"]
