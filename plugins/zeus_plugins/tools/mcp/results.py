"""Conversion of a server's answers to results for the model."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.plugin.files import WorkspaceError, masked_bytes
from zeus_runtime.plugin.model import keep_picture, picture_of
from zeus_runtime.plugin.tool import ToolResult

if TYPE_CHECKING:
    from zeus_runtime.plugin import Redactor
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.model import Picture

FOLDER: Final = "/large_tool_results"
_SHORT: Final = 2**15
"""Characters of text that are converted about as fast as a thread begins."""


def is_short(parts: Iterable[Any]) -> bool:
    """Whether an answer's blocks or contents are short texts; others, up to 64 MB, are for a thread.

    To decode, mask and save a megabyte of binary data takes a tenth of a second and more.
    """
    held = [getattr(each, "resource", each) for each in parts]
    if any(hasattr(each, "data") or hasattr(each, "blob") for each in held):
        return False
    # Without any text there may be structured content of any size.
    return 0 < sum(len(getattr(each, "text", "")) for each in held) < _SHORT


def tool_result(answer: Any, files: WorkspaceFiles, secrets: Redactor) -> ToolResult:
    """A ``CallToolResult`` as a ToolResult.

    Text is not changed. Images, audio and other binary data are saved in the workspace, and the result has their
    paths; a model with vision also gets the pictures. Structured content is added as JSON unless the text has the same
    content.

    Args:
        files: the workspace, where binary data is saved.
        secrets: masked in the data that is saved.
    """
    kept = _SavedData(files, secrets)
    parts = [_block(block, kept) for block in answer.content]
    structured = answer.structured_content
    if structured is not None and not _says(parts, structured):
        parts.append(json.dumps(structured, ensure_ascii=False))
    text = "\n\n".join(part for part in parts if part)
    return kept.result(text or "(no output)", is_error=bool(answer.is_error))


def resource_result(contents: Iterable[Any], files: WorkspaceFiles, secrets: Redactor) -> ToolResult:
    """The contents of a resource."""
    kept = _SavedData(files, secrets)
    text = "\n\n".join(_resource(each, kept) for each in contents)
    return kept.result(text or "(empty)")


class _SavedData:
    """The binary data of an answer, saved in the workspace."""

    def __init__(self, files: WorkspaceFiles, secrets: Redactor) -> None:
        self._files = files
        self._secrets = secrets
        self._pictures: list[Picture] = []
        self._paths: list[str] = []

    def result(self, text: str, *, is_error: bool = False) -> ToolResult:
        """The result with the saved files, which its session may read."""
        return ToolResult(text, is_error=is_error, pictures=tuple(self._pictures), files=tuple(self._paths))

    def save(self, content: bytes, suffix: str) -> str:
        """Save the data and return its path.

        Raises:
            WorkspaceError: it cannot be written, or a picture contains a known secret.
        """
        # Masking would damage a picture; `keep_picture` refuses one with a known secret instead.
        content = content if picture_of(content, "") else masked_bytes(content, self._secrets)
        # Named by its content: a repeated call writes the same file again.
        path = f"{FOLDER}/mcp_{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
        picture = keep_picture(content, path.rpartition("/")[2], self._files, self._secrets)
        if picture is None:
            self._files.runtime.write(path, content)
            self._paths.append(path)
            return path
        self._pictures.append(picture)
        return picture.path


def _block(block: Any, kept: _SavedData) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return _saved(block.data, block.mime_type, block.type, kept)
        case "resource":
            return _resource(block.resource, kept)
        case "resource_link":
            facts = ", ".join(str(fact) for fact in (block.mime_type, block.description) if fact)
            return f"[resource {block.uri}: {block.title or block.name}{f' ({facts})' if facts else ''}]"
        case other:
            return f"[{other}]"


def _resource(resource: Any, kept: _SavedData) -> str:
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return f"[resource {resource.uri}]\n{text}"
    saved = _saved(resource.blob, resource.mime_type or "", "data", kept)
    return f"[resource {resource.uri}] {saved}"


def _saved(data: str, mime_type: str, kind: str, kept: _SavedData) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} {mime_type}: not readable]"
    suffix = mimetypes.guess_extension(mime_type) or ".bin"
    try:
        path = kept.save(content, suffix)
    except WorkspaceError as error:
        return f"[{kind} {mime_type}, {len(content):,} bytes; it could not be saved: {error.message}]"
    return f"[{kind} {mime_type}, {len(content):,} bytes, saved as {path}]"


def _says(parts: list[str], structured: Any) -> bool:
    """Whether a text block has the structured content already: the protocol asks servers to send both."""
    for part in parts:
        try:
            said = json.loads(part)
            if said == structured or structured == {"result": said}:
                return True
        except (ValueError, RecursionError):
            continue
    # A plain value is wrapped, such as {"result": 3}, and its text is beside it.
    if not isinstance(structured, dict) or len(structured) != 1:
        return False
    (value,) = structured.values()
    return isinstance(value, str | int | float) and [str(value)] == parts
