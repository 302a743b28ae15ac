"""Text that tools show and files that they change: known secrets are masked, and the file itself keeps them."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.secrets.placeholders import PLACEHOLDER, START
from zeus_runtime.strict_json import texts_of
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.preview import Preview, masked

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.tools.tool import JSON, Category, Tool, ToolResult

OPEN_BYTES: Final = 2**15
"""A secret is shorter, however it is written."""
_WIDE: Final = ("utf-16-le", "utf-16-be")
_PASS_ON: Final[frozenset[Category]] = frozenset(("web", "mcp", "oauth", "browser", "desktop", "custom"))
"""The tools that give their arguments to others. Zeus's own write placeholders where a model reads them."""
_LIKE_PLACEHOLDER: Final = re.compile(rf"{START}[^\s<>]*>?")


def masked_result(result: ToolResult, secrets: Redactor, known: Redactor) -> ToolResult:
    """A tool's result with secrets masked in its text, its state, its artifact and its changes.

    Args:
        known: those of its changes, which only people see.
    """
    if result.changes:
        # Once: a second time, the placeholder of a secret would be a text that only looks like one.
        result = replace(result, changes=masked(Preview(result.changes), known).changes)
    if not secrets.forms:
        return result
    return replace(
        result,
        content=secrets.text(result.content),
        state=secrets.masked(result.state),
        artifact=secrets.masked(result.artifact),
    )


def masked_bytes(data: bytes, secrets: Redactor) -> bytes:
    """Text in UTF-8 or UTF-16 with known secrets masked; other bytes as they are."""
    if b"\0" in data:
        data = _masked_wide(data, secrets)
    text = _decoded(data)
    return data if (masked := secrets.text(text)) == text else _encoded(masked)


def open_bytes(data: bytes, secrets: Redactor, *, by_lines: bool = False) -> int:
    """How many bytes at the end of growing output wait, as ``Redactor.settled`` says; also in UTF-16.

    Only the last 32 KiB wait, and what a secret has before them.

    Args:
        by_lines: as of ``Redactor.settled``.
    """
    if not secrets.forms:
        return 0
    before, data = data[-2 * OPEN_BYTES : -OPEN_BYTES], data[-OPEN_BYTES:]
    if b"\0" not in data:
        waiting = _open_text(data, secrets, by_lines=by_lines)
        if before and waiting == len(data):
            text, at = _decoded(before + data), len(_decoded(before))
            waiting += len(_encoded(text[secrets.start(text, at) : at]))
        return waiting
    forms = [form.encode(each, "surrogatepass") for form in secrets.forms for each in _WIDE]
    # As many as a secret has, whether they agree with one or not.
    at = len(data) if by_lines else max(0, len(data) - max(map(len, forms)))
    while True:
        at -= _open_text(data[:at], secrets, by_lines=by_lines)
        found = ((data.rfind(each, 0, at + len(each) - 1), len(each)) for each in forms)
        torn = [start for start, length in found if 0 <= start < at < start + length]
        if not torn:
            return len(data) - at
        at = min(torn)


def _open_text(data: bytes, secrets: Redactor, *, by_lines: bool) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    _, rest = secrets.settled(decoder.decode(data), by_lines=by_lines)
    return len(_encoded(rest)) + len(decoder.getstate()[0])  # also a character that is not complete yet


def _masked_wide(data: bytes, secrets: Redactor) -> bytes:
    """The longest forms first; a placeholder is in the same encoding, so that every other character stays one."""
    for form in sorted(secrets.forms, key=len, reverse=True):
        for encoding in _WIDE:
            written = form.encode(encoding, "surrogatepass")
            if written in data:
                data = data.replace(written, secrets.text(form).encode(encoding, "surrogatepass"))
    return data


def edited_masked(data: bytes, change: Callable[[bytes, Sequence[str]], bytes], secrets: Redactor) -> bytes:
    """``change`` made in the file as the model sees it, its secrets masked, and then put back.

    So nothing is found by guessing at a secret, and a placeholder in ``change`` means the secret of this same file.

    Args:
        change: takes the file as the model sees it, and the placeholders in it that stand for a secret. It must not
            change a part of one: the placeholder could then stand for another secret, or for none.

    Raises:
        WorkspaceError: the file has a placeholder as text beside its secret, or the change tears a secret apart or
            renames a placeholder.
    """
    text = _decoded(data)
    shown = secrets.text(text)
    changed = change(data, ()) if shown == text else change(_encoded(shown), secrets.masks(text))
    if shown == text and Counter(_LIKE_PLACEHOLDER.findall(_decoded(changed))) <= Counter(
        _LIKE_PLACEHOLDER.findall(text)
    ):
        return changed
    return _put_back(changed, text, secrets.meant, shown)


def written_masked(data: bytes, held: Callable[[], bytes], secrets: Redactor) -> bytes:
    """New content of a file, with each placeholder replaced whose secret the file holds now.

    Args:
        held: reads the file.

    Raises:
        WorkspaceError: the file has a placeholder as text beside its secret, or cannot be read, or the new content
            tears a secret apart or renames a placeholder.
    """
    if not secrets.meant.forms or START.encode() not in data:
        return data
    return _put_back(data, _decoded(held()), secrets.meant)


def placeholders_left(data: bytes, secrets: Redactor) -> str:
    """A note for the model about placeholders that were written as plain text; empty if there are none."""
    if START.encode() not in data or not secrets.meant.forms:
        return ""
    left = list(dict.fromkeys(PLACEHOLDER.findall(_decoded(data))))
    if not left:
        return ""
    return (
        f" Written as plain text: {', '.join(left)}. A placeholder becomes the secret only in a file that already"
        f" holds that secret.{_from_words(secrets)}"
    )


def placeholder_refusal(tool: Tool, arguments: Mapping[str, JSON], secrets: Redactor) -> str | None:
    """Why a call does not run that has the placeholder of a secret in a command or a program; None if none has.

    A shell would read ``<`` and ``>`` as redirections, and a program would write the placeholder over the secret.
    """
    found = secrets.meant.placeholders_in(
        "\n".join(_texts(arguments, lambda name: name in tool.commands or name in tool.programs))
    )
    if not found:
        return None
    return (
        f"{tool.name} was not run: {', '.join(found)} is a placeholder for a secret.{_from_words(secrets)}"
        " A command or a program would get the placeholder as text and not the secret, and a shell would read < and >"
        ' as redirections. Use a variable that has the secret there ("$NAME"), or let the command read it from its'
        " file. A file or folder with such a name is also reached by `cwd` or a pattern (`services/*/`). File tools"
        " find and keep a placeholder in a file that holds the secret. To only mention the secret, write its name"
        " without < and >."
    )


def passed_on_as_text(tool: Tool, arguments: Mapping[str, JSON], secrets: Redactor) -> str:
    """A note for the model about placeholders of secrets that a call gave to others; empty if there are none."""
    if tool.category not in _PASS_ON:
        return ""
    found = secrets.meant.placeholders_in("\n".join(_texts(arguments, lambda name: name not in tool.paths)))
    if not found:
        return ""
    return (
        f"\n\n[{tool.name} got {', '.join(found)} as text. A placeholder becomes the secret only in a file that"
        f" already holds that secret.{_from_words(secrets)}]"
    )


def _from_words(secrets: Redactor) -> str:
    """From where a placeholder in a call may be: the conversation keeps the same text for both, and no secret."""
    if secrets.unmasked is not None:
        return ""
    return " Where your own words are the value of a secret, Zeus puts its placeholder there."


def _texts(arguments: Mapping[str, JSON], is_meant: Callable[[str], bool]) -> Iterator[str]:
    return (text for name, value in arguments.items() if is_meant(name) for text in texts_of(value))


def _put_back(data: bytes, held: str, secrets: Redactor, shown: str = "") -> bytes:
    text = _decoded(data)
    _refuse_foreign(text, held, secrets, shown)
    try:
        real = secrets.restored(text, held)
    except ValueError as error:
        raise WorkspaceError(
            f"The file holds {error} as text and the secret that it stands for, so the two cannot be told apart.",
            remedy="Ask the user to make this change.",
        ) from None
    # A secret that is torn apart, or loses the one that overlaps it, is not found again and would be shown.
    if secrets.text(real) != secrets.text(text):
        raise WorkspaceError(
            "The change separates the parts of a secret, so the secret could not be masked any more.",
            remedy="Keep its placeholders together and in order, or ask the user to make this change.",
        )
    return _encoded(real)


def _refuse_foreign(text: str, held: str, secrets: Redactor, shown: str) -> None:
    """Refuse a placeholder for which the file has neither the secret nor the same text.

    The model may have read it where a secret of the file is now, under a name that it had in another process: the file
    would lose this secret.
    """
    if not held or not secrets.forms:
        return
    masks = secrets.masks(held)
    for match in (_LIKE_PLACEHOLDER if masks else PLACEHOLDER).finditer(text):
        if match[0] not in masks and match[0] not in held:
            raise WorkspaceError(
                f"{match[0]} stands for no secret that this file holds, so a secret of the file could be lost;"
                " nothing was changed.",
                remedy="Read the file again, and copy each placeholder exactly as the file shows it: a placeholder"
                " cannot be renamed or brought from another file. To write this as text, ask the user to make this"
                " change.",
            )
        # One that the file shows and an edit leaves where it is means the file's own secret.
        if secrets.has_changed(match[0]) and text.count(match[0]) > shown.count(match[0]):
            raise WorkspaceError(
                f"{match[0]} stood for another value earlier in this conversation; nothing was changed.",
                remedy="Change only other parts of the file with an edit, or ask the user to continue in a new session,"
                " where the file is read again.",
            )


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
