"""The files that went with a session's prompts: those of a case, and those that are stored beside its file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.disk_paths import real_path
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import printable
from zeus_runtime.testing.cases.file_access import refusal
from zeus_runtime.tools.masked_text import masked_bytes
from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.tools.attachments import Reference
    from zeus_runtime.tools.workspace import WorkspaceFiles

_LONGEST_TEXT: Final = 20_000
"""In bytes; a longer text is stored beside the evaluation file, and so is a file that is no text."""


class KeptFiles:
    """The copies that Zeus kept of files when a prompt named or attached them.

    Args:
        workspace: of the agent, with the copies.
        target: the evaluation file; the folder beside it is ``NAME.files``.
        secrets: masked in what is stored.

    Attributes:
        left_out: why the tools may not read a file by now, by its path: no rule closes the evaluation file.
    """

    def __init__(self, workspace: WorkspaceFiles, target: Path, secrets: Redactor) -> None:
        self._workspace = workspace
        self._folder = target.with_name(f"{target.stem}.files")
        self._secrets = secrets
        self._stored: dict[Path, bytes] = {}
        self.left_out: dict[str, str] = {}

    def resources(self, references: Sequence[Reference]) -> Mapping[str, Any]:
        """Return the files of the workspace that prompts named with ``@``, as they were then, for the key ``files``.

        The access rules of the config hold, as they are now.

        Raises:
            UsageError: a copy is gone.
        """
        found: dict[str, Any] = {}
        for each in references:
            if each.kind != "resource" or each.problem or each.folder:
                continue
            if (why := self._refusal(each.handle)) is not None:
                self.left_out[each.handle] = why
                continue
            data, name = self._copy(each), each.handle.lstrip("/")
            try:
                text = data.decode() if len(data) <= _LONGEST_TEXT else None
            except UnicodeDecodeError:
                text = None
            found.setdefault(name, {"file": self._beside(name, data)} if text is None else text)
        return found

    def attachment(self, reference: Reference) -> str:
        """Return the path of an attached file for the key ``attachments``.

        Raises:
            UsageError: its copy is gone.
        """
        return self._beside(reference.path, self._copy(reference))

    def write(self) -> None:
        """Store the files beside the evaluation file.

        Raises:
            UsageError: they cannot be stored, or a link leads elsewhere.
        """
        for place, data in self._stored.items():
            if Path(real_path(place)) != Path(real_path(self._folder.parent), *place.parts[-3:]):
                raise UsageError(f"{place} is not written: a link leads elsewhere", remedy="Remove the link.")
            try:
                for folder in (self._folder, place.parent):
                    folder.mkdir(exist_ok=True)
                place.write_bytes(data)
            except OSError as error:
                raise UsageError(f"{place} cannot be written: {error.strerror}") from None

    def _refusal(self, path: str) -> str | None:
        try:
            return refusal(self._workspace, self._workspace.place(path))
        except WorkspaceError as error:
            return error.message

    def _beside(self, name: str, data: bytes) -> str:
        last = Path(name).name
        place = self._folder / hashlib.sha256(data).hexdigest()[:12] / last
        self._stored[place] = data
        return place.relative_to(self._folder.parent).as_posix()

    def _copy(self, reference: Reference) -> bytes:
        try:
            data = self._workspace.runtime.read(reference.copy, max_bytes=reference.size_bytes + 1)
        except WorkspaceError:
            data = None
        if data is None or hashlib.sha256(data).hexdigest() != reference.digest:
            raise UsageError(
                f"the session had the file {printable(reference.path)}, and its copy {reference.copy} is gone",
                remedy="Restore the copy, or write the case yourself, with the file under `attachments` or `files`.",
            )
        return masked_bytes(data, self._secrets)
