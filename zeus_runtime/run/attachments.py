"""Files attached to a user's message: ``@path`` in its text, and explicit attachments.

Each file is read once, when the user sends the message, and copied under a name made from its content. The message in
the log names the copy, so a resumed run sees the same bytes even if the file has changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import printable
from zeus_runtime.models.pictures import MOST_PICTURES, Picture, not_seen, picture_of, refused, too_large
from zeus_runtime.tools.attachments import GivenFile, Kind, Reference, keep
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.gate import kept_path
from zeus_runtime.tools.masked_text import masked_bytes
from zeus_runtime.tools.paths import WorkspaceError, split

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.tools.workspace import WorkspaceFiles

KEY: Final = "references"
"""Key of a logged message's references in ``additional_kwargs``."""

COMPONENT: Final = "resources"
"""Name of the middleware that shows attachments to the model."""

# Bytes of one attached file.
MAX_BYTES: Final = 50_000_000
MAX_MATCHES: Final = 50
"""The most files that one pattern with ``*`` or ``?`` attaches."""

# Takes `@a/b.py` and `(@"my file.txt"`; does not take `name@host`, whose @ is inside a word.
_MENTION: Final = re.compile(r"""(?<![^\s("'\[{<,;:])@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'@]+))""")
_TRAILING: Final = ".,;:!?)]}>'\""


def mentions(text: str) -> list[str]:
    """The paths that a text names with ``@``, each once, in order.

    ``@path`` begins at the start of a word and ends at a space; closing punctuation is left out. ``@"a path"`` may
    contain spaces. ``\\@`` is a plain @, and text within backticks is ignored as code.
    """
    # An unclosed fence reaches to the end of the text. `\@` becomes two backslashes, so that no @ is left to match.
    plain = re.sub(r"```.*?(?:```|\Z)|`[^`\n]*`", " ", text, flags=re.DOTALL).replace("\\@", "\\\\")
    found: dict[str, None] = {}
    for match in _MENTION.finditer(plain):
        path = match[1] or match[2] or match[3].rstrip(_TRAILING)
        if path:
            found[path] = None
    return list(found)


def gather(
    text: str,
    attachments: Sequence[Path | GivenFile],
    workspace: WorkspaceFiles,
    secrets: Redactor | None = None,
) -> list[Reference]:
    """The files that a message names or attaches, copied into the workspace with known secrets masked in text.

    A name after ``@`` without a slash or a dot that does not name a file is an ordinary word. A file that needs an
    approval is not opened for an ``@``, since a program or a client's model may have written the prompt; the
    model can call a tool that asks. Who attaches a file has chosen it.

    Raises:
        UsageError: an attachment is not a readable file, or it is larger than ``MAX_BYTES``.
        WorkspaceError: the copies cannot be written.
    """
    kept = secrets or Redactor()
    # Also at the opened file: a link can lead elsewhere since `_is_kept` looked.
    with calling(None):
        found = [each for path in mentions(text) for each in _mentioned(path, workspace, kept)]
    # A person chose these files one by one, which is the approval.
    with calling(None, approved=True):
        return found + [_attached(path, workspace, kept) for path in attachments]


async def brought_along(
    plan: Plan,
    prompt: str | None,
    attachments: Sequence[str | Path | GivenFile],
    secrets: Redactor | None = None,
) -> Sequence[Reference]:
    """The files of a prompt; none if no middleware of the plan shows attachments.

    Args:
        prompt: None for a resumed run.
        attachments: paths relative to the working directory, or files by their bytes.
        secrets: masked in the copies.

    Raises:
        UsageError: no middleware shows attachments, or one of them cannot be read.
    """
    if attachments:
        refuse_unshown(plan)
    elif not _shows(plan):
        return ()
    if prompt is None or not (attachments or "@" in prompt):
        return ()
    import asyncio

    files = [each if isinstance(each, GivenFile) else plan.context.directory / each for each in attachments]
    return await asyncio.to_thread(gather, prompt, files, plan.context.workspace, secrets)


def refuse_unshown(plan: Plan) -> None:
    """Check that the model sees what a message attaches.

    Raises:
        UsageError: no middleware shows attachments.
    """
    if not _shows(plan):
        raise UsageError(
            "nothing shows attachments to this agent's model",
            remedy=f"List the middleware `{COMPONENT}` in its config.",
        )


def _shows(plan: Plan) -> bool:
    return any(each.name == COMPONENT for each in plan.middlewares)


def pictures_shown(references: Sequence[Reference]) -> list[Picture]:
    """The pictures of a message that a vision model is shown, each once, at most ``MOST_PICTURES``."""
    found = {each.copy: each.picture for each in references if each.picture and not too_large(each.picture)}
    return list(found.values())[:MOST_PICTURES]


def pictures_left_out(
    references: Sequence[Reference], profile: ModelProfile
) -> Iterator[tuple[Picture, str]]:
    """The pictures that the model is not shown, each with the reason."""
    shown = {each.path for each in pictures_shown(references)}
    for each in references:
        if (picture := each.picture) is None:
            continue
        if why := not_seen(picture, profile):
            yield picture, why
        elif picture.path not in shown:
            yield picture, f"of one message {MOST_PICTURES} are shown"


def _mentioned(path: str, workspace: WorkspaceFiles, secrets: Redactor) -> Iterator[Reference]:
    try:
        if set(path) & set("*?"):
            yield from _matching(path, workspace, secrets)
            return
        if _is_kept(path, workspace):
            raise WorkspaceError(
                f"{printable(path)} belongs to a session; only that session's tools may read it.",
                remedy="Attach the file itself.",
            )
        if workspace.entry(path).kind == "directory":
            names = [
                f"{each.name}/" if each.kind == "directory" else each.name for each in workspace.entries(path)
            ]
            listed = "\n".join(map(printable, names)).encode()
            yield _kept("resource", path, path, listed, workspace, secrets, folder=True)
            return
        data = workspace.read(path, max_bytes=MAX_BYTES)
        yield _kept("resource", path, path, data, workspace, secrets)
    except WorkspaceError as error:
        # Without a slash or a dot it may be an ordinary word, such as a name in a sentence: not a problem.
        if set(path) & set("/."):
            yield Reference("resource", path, problem=str(error))


def _is_kept(path: str, workspace: WorkspaceFiles) -> bool:
    """Whether Zeus keeps the file or folder for sessions: those of all users of a service share these folders."""
    try:
        names = (path, workspace.real(path))
        return any(kept_path((*split(each), "")) is not None for each in names)
    except WorkspaceError:
        return False  # reading it tells why


def _matching(pattern: str, workspace: WorkspaceFiles, secrets: Redactor) -> Iterator[Reference]:
    from fnmatch import fnmatchcase

    wanted = "/" + pattern.removeprefix("./").lstrip("/")
    found = [
        each.path
        for each in workspace.walk(
            "/", skip=lambda each: each.name.startswith("."), on_error=lambda _error: None
        )
        if each.kind == "file" and fnmatchcase(each.path, wanted) and not _is_kept(each.path, workspace)
    ]
    if not found:
        yield Reference("resource", pattern, problem="no file fits this pattern")
    # One file after another, each up to `MAX_BYTES`: only one is in memory.
    for path in found[:MAX_MATCHES]:
        try:
            data = workspace.read(path, max_bytes=MAX_BYTES)
            yield _kept("resource", path, path, data, workspace, secrets)
        except WorkspaceError as error:
            yield Reference("resource", path, problem=str(error))
    if len(found) > MAX_MATCHES:
        yield Reference(
            "resource", pattern, problem=f"{len(found):,} files fit; the first {MAX_MATCHES} were taken"
        )


def _attached(path: Path | GivenFile, workspace: WorkspaceFiles, secrets: Redactor) -> Reference:
    if isinstance(path, GivenFile):
        return _given(path.name, path.data, workspace, secrets)
    if why := workspace.refusal_of(path):
        raise UsageError(
            f"{path} cannot be attached: {why}",
            remedy="Attach another file, or allow it in workspace.access or workspace.hard_links.",
        )
    try:
        if not path.is_file():
            other = "it is not a regular file" if path.exists() else "there is no such file"
            reason = "it is a folder" if path.is_dir() else other
            raise UsageError(f"{path} cannot be attached: {reason}", remedy="Name a file that is there.")
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} cannot be attached: it is larger than {MAX_BYTES:,} bytes")
        # Not by the path alone: a program may have put a link there since.
        data = workspace.read_host(path, max_bytes=MAX_BYTES)
    except WorkspaceError as error:
        raise UsageError(
            f"{path} cannot be attached: {error.message}", remedy="Attach another file."
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be attached: {error.strerror}") from None
    name = path.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _given(name, data, workspace, secrets)


def _given(name: str, data: bytes, workspace: WorkspaceFiles, secrets: Redactor) -> Reference:
    found = _kept("attachment", name, "", data, workspace, secrets)
    if found.problem:
        raise _unmaskable(name, found.problem)
    return found


def _unmaskable(name: str, problem: str) -> UsageError:
    return UsageError(
        f"{name} cannot be attached: {problem}", remedy="Remove the picture's metadata, or attach another."
    )


def masked_file(name: str, data: bytes, secrets: Redactor) -> bytes:
    """The bytes of an attached file as its copy has them: with known secrets masked in text.

    Raises:
        UsageError: it is a picture that has one.
    """
    picture = picture_of(data, "", name=name)
    if picture is None:
        return masked_bytes(data, secrets)
    if why := refused(picture, data, secrets):
        raise _unmaskable(name, why)
    return data


def _kept(
    kind: Kind,
    path: str,
    handle: str,
    data: bytes,
    workspace: WorkspaceFiles,
    secrets: Redactor,
    *,
    folder: bool = False,
) -> Reference:
    picture = None if folder else picture_of(data, "", name=path)
    if picture is None:
        data = masked_bytes(data, secrets)
    elif why := refused(picture, data, secrets):
        return Reference(kind, path, problem=why)
    # Of the masked bytes, so that neither name nor digest says anything about the secret.
    digest = hashlib.sha256(data).hexdigest()
    copy = keep(data, secrets.text(path), workspace)
    own = handle if handle.startswith("/") or not handle else f"/{handle.removeprefix('./')}"
    picture = picture and replace(picture, path=copy)
    return Reference(kind, path, own or copy, copy, digest, len(data), folder=folder, picture=picture)
