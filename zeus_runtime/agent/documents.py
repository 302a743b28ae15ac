"""The documents that a person names for an extraction of facts, read as text in parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.memory.document_facts import DocumentPart, parts_of

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.knowledge.files import FoundFile
    from zeus_runtime.knowledge.service import KnowledgeService
    from zeus_runtime.memory.extraction import Author
    from zeus_runtime.tools.workspace import WorkspaceFiles


async def document_parts(
    paths: Sequence[Path],
    bases: Sequence[str],
    knowledge: KnowledgeService | None,
    workspace: WorkspaceFiles,
    directory: Path,
    secrets: Redactor,
    *,
    unread: Callable[[str, str], None] = lambda _path, _why: None,
) -> list[DocumentPart]:
    """The parts of files, of the files below folders, and of the documents of knowledge bases.

    Args:
        bases: names of knowledge bases.
        workspace: the agent's; a file that its tools may not read is left out, and one whose reading needs an approval
            unless ``paths`` has the file itself.
        directory: what the names of files are relative to.
        secrets: masked in names and texts, before a text is cut into parts.
        unread: called with each file that is not read, and the reason.

    Raises:
        UsageError: there is no such path or base.
    """
    import asyncio

    from zeus_runtime.errors import UsageError
    from zeus_runtime.knowledge.files import files_of

    if missing := next((each for each in paths if not (directory / each).exists()), None):
        raise UsageError(f"there is no file {str(missing)!r}")
    if bases and knowledge is None:
        raise UsageError(
            "the config links no knowledge base", remedy="Add `knowledge: [NAME]`, or name files instead."
        )
    sources = [str((directory / each).absolute()) for each in paths]
    found = list(files_of(sources, unread))
    parts = await asyncio.to_thread(
        _read, found, sources, workspace, lambda each: _name(each, directory), "tool", secrets, unread
    )
    for base in bases:
        assert knowledge is not None, "refused above"
        files = await knowledge.files(base, unread)
        parts += await asyncio.to_thread(
            _read, files, (), workspace, _labelled(base), "knowledge_base", secrets, unread
        )
    return parts


def _labelled(base: str) -> Callable[[FoundFile], str]:
    return lambda each: f"{base}/{each.label}"


def _name(found: FoundFile, directory: Path) -> str:
    path = Path(found.path)
    return (
        str(path.relative_to(directory.absolute()))
        if path.is_relative_to(directory.absolute())
        else path.name
    )


def _read(
    files: Iterable[FoundFile],
    approved: Collection[str],
    workspace: WorkspaceFiles,
    name_of: Callable[[FoundFile], str],
    by: Author,
    secrets: Redactor,
    unread: Callable[[str, str], None],
) -> list[DocumentPart]:
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.knowledge.convert import convert_file
    from zeus_runtime.knowledge.files import read_allowed
    from zeus_runtime.tools.masked_text import masked_bytes
    from zeus_runtime.tools.worker_process import Apart

    parts: list[DocumentPart] = []
    with Apart() as apart:
        for each in files:
            try:
                # Who names a folder has not seen which of its files a question would be about.
                if each.path not in approved and workspace.needs_question(Path(each.real)):
                    unread(each.path, "a rule asks before it is read; name the file itself to read it")
                    continue
                # Before and after: a form may write a secret over several places, and hide it in an encoding.
                data = masked_bytes(read_allowed(each, workspace), secrets)
                text = secrets.text(convert_file(each.name, data, apart=apart).text)
            except ZeusError as error:
                unread(each.path, error.message)
                continue
            except OSError as error:
                unread(each.path, error.strerror or str(error))
                continue
            parts += parts_of(secrets.text(name_of(each)), text, by)
    return parts
