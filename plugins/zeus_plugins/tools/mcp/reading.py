"""Parsing of a server's messages, including those that break the protocol's rules for text.

The SDK drops a message that it cannot read, and then the call waits for its answer until its time limit.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import why_unreadable
from zeus_plugins.tools.mcp.json_repair import mended

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_PARSE_ERROR: Final = -32700
_OUTCOMES: Final = ("result", "error")
_VERSION: Final = r'"jsonrpc"\s*:\s*"2.0"'
_TEXT: Final = r'"(?:[^"\\]++|\\.)*+"'
"""The quantifiers are possessive, because backtracking takes memory for each character of a long string."""
_ID: Final = rf'"id"\s*:\s*({_TEXT}|\d+)'
_OUTCOME: Final = r'"(?:result|error)"\s*:'
_ID_FIRST: Final = re.compile(
    rf"\s*\{{\s*(?:{_VERSION}\s*,\s*)?{_ID}\s*,\s*(?:{_VERSION}\s*,\s*)?{_OUTCOME}".encode()
)
_OUTCOME_FIRST: Final = re.compile(rf"\s*\{{\s*(?:{_VERSION}\s*,\s*)?{_OUTCOME}".encode())
_ID_LAST: Final = re.compile(rf",\s*{_ID}\s*(?:,\s*{_VERSION}\s*)?\}}\s*\Z".encode())
_END_BYTES: Final = 1_000
_LATIN_1: Final = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
_STRING: Final = re.compile(_TEXT.encode())


def _text(line: bytes) -> str:
    """UTF-8; a byte that is not, by itself as Latin-1: a replaced one would hide a known secret from masking."""
    return line.decode("utf-8", "surrogateescape").translate(_LATIN_1)


def messages(line: bytes) -> list[SessionMessage]:
    """The messages in a line: one, several in an older protocol, or none.

    If the line is an answer that cannot be read, the message is an error for the call that it answers. If it is not
    certain which call that is, there is no message: an error for the wrong call would end a call that is still running.
    """
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    read = None
    try:
        return [SessionMessage(jsonrpc_message_adapter.validate_json(_text(line), by_name=False))]
    except ValueError as error:
        why = why_unreadable(str(error))
    try:
        read = json.loads(_text(mended(line)), strict=False)
        if isinstance(read, list):
            # A batch: revisions before 2025-06-18 allow it, and the SDK reads none.
            parts = [json.dumps(each).encode() for each in read if isinstance(each, dict)]
            return [message for part in parts for message in messages(part)]
        return [SessionMessage(jsonrpc_message_adapter.validate_json(json.dumps(read), by_name=False))]
    except (ValueError, RecursionError):
        name = _answered(line) if read is None else _answered_by(read)
        return [] if name is None else [_failed(name, why)]


def read_again(heard: SessionMessage | Exception) -> list[SessionMessage]:
    """A message unchanged; an error of the SDK's parser becomes the messages of the text that the parser refused."""
    from pydantic import ValidationError

    if not isinstance(heard, Exception):
        return [heard]
    if not isinstance(heard, ValidationError):
        return []
    for each in heard.errors(include_url=False, include_context=False):
        said = each["input"]
        if each["type"] == "json_invalid" and isinstance(said, str):
            return messages(said.encode(errors="replace"))
        if each["type"] == "missing" and isinstance(said, dict) and "jsonrpc" in said:
            return messages(json.dumps(said).encode())
    return []


def _answered_by(read: Any) -> int | str | None:
    """The id of the call that this JSON answers; None if it is not an answer. A log line may also have an id and an
    error."""
    if not isinstance(read, dict) or not any(key in read for key in _OUTCOMES):
        return None
    if "jsonrpc" not in read and read.keys() - {"id", *_OUTCOMES}:
        return None
    name = read.get("id")
    return name if isinstance(name, int | str) and not isinstance(name, bool) else None


def _answered(line: bytes) -> int | str | None:
    """The id of the call that a line of invalid JSON seems to answer; None if it does not seem to be an answer.

    Only the answer's own id counts. An id inside the answer's content, such as at the end of a cut line, does not.
    """
    found = _ID_FIRST.match(line)
    if found is None and _OUTCOME_FIRST.match(line):
        # An id at the end of a whole object only: in a cut line, the last id may be one of the content.
        found = _ID_LAST.search(line[-_END_BYTES:])
        found = found if found and _is_closed(line) else None
    if found is None:
        return None
    try:
        name: int | str = json.loads(found[1])
    except ValueError:
        return None
    return name


def _is_closed(line: bytes) -> bool:
    """Whether all brackets outside of strings are closed."""
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") == bare.count(b"}") and bare.count(b"[") == bare.count(b"]")


def _failed(name: int | str, why: str) -> SessionMessage:
    from mcp.shared.message import SessionMessage
    from mcp.types import ErrorData, JSONRPCError

    said = ErrorData(code=_PARSE_ERROR, message=why)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=name, error=said))
