"""Edit a profile in the user's editor: the edited text is written, or kept in its file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.asking import agreed
from zeus_runtime.cli.memory.opening import with_memory
from zeus_runtime.cli.streams import complain
from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import ChangedError, MissingError, UsageError, ZeusError
from zeus_runtime.process_path import given_environ

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.profile.fields import ProfileField, ProfileKind
    from zeus_runtime.plan.validated import Checked


def edited_profile(process: Process, checked: Checked, kind: ProfileKind) -> None:
    """Let the user edit the profile and write what was changed; a problem is shown and the editor opened again.

    Raises:
        ChangedError: a field that the user changed was written meanwhile; the edited text stays in its file.
        MissingError: no editor was found.
        ZeusError: the edited text cannot be written; it stays in the file that the error names.
    """
    from zeus_runtime.memory.profile.document import profile_changes, profile_document, seals_of
    from zeus_runtime.memory.profile.fields import profile_fields

    found = with_memory(process, checked, lambda memory: memory.profiles.fields(kind), looks=True)
    before = profile_document(kind, profile_fields(kind, {}, (), {}) if found is None else found)
    read = seals_of(before)
    file = _private_file(f"zeus-{kind}-profile-", before)
    while True:
        try:
            typed = _edited(file)
            changes = {} if typed.strip() == "" else profile_changes(kind, typed, str(file), read)
            if changes:
                write_profile(process, checked, kind, changes, read=read)
        except ChangedError as error:
            remedy = f"Your text is in {file}: take it over in a new `{_edit_command(kind)}`."
            raise ChangedError(error.message, remedy=remedy) from None
        except ZeusError as error:
            if not _is_kept(file, before):
                raise
            complain(str(error), "red")
            if isinstance(error, MissingError) or not _again():
                remedy = f"Mend it and run `{_edit_command(kind, '--file', str(file))}`."
                raise UsageError(f"nothing was written; your text is in {file}", remedy=remedy) from None
            continue
        # Only once the changes are stored: until then it has the only copy of the typed text.
        file.unlink()
        complain(f"wrote {', '.join(changes)}" if changes else "nothing was changed")
        return


def write_profile(
    process: Process,
    checked: Checked,
    kind: ProfileKind,
    changes: Mapping[str, str],
    *,
    read: Mapping[str, str] | None = None,
) -> None:
    """Write fields by hand.

    Args:
        read: ``seals_of`` what the user was shown, if anything was.

    Raises:
        ChangedError: a hand has written to a field that would be written, since the user was shown it.
        ZeusError: they cannot be written.
    """
    from zeus_runtime.memory.profile.document import profile_document, seals_of
    from zeus_runtime.memory.profile.fields import profile_fields, written_value

    def refuse_changed(present: Sequence[ProfileField]) -> None:
        if read is None:
            return
        values = {name: written_value(kind, name, text) for name, text in changes.items()}
        meant = seals_of(profile_document(kind, profile_fields(kind, values, (), {})))
        now = seals_of(profile_document(kind, present))
        # Who writes what is there already overwrites nothing.
        if others := [name for name in changes if now.get(name) not in (read.get(name), meant.get(name))]:
            raise ChangedError(
                f"{', '.join(others)} was written by somebody else meanwhile: nothing is written"
            )

    with_memory(process, checked, lambda memory: memory.profiles.edit(kind, changes, check=refuse_changed))


def write_profile_of_file(process: Process, checked: Checked, kind: ProfileKind, name: str) -> dict[str, str]:
    """Write the fields of a profile's YAML file, as the editor's were if an edit left it, and return them.

    Raises:
        ChangedError: a field that was changed in a text that an edit left was written meanwhile.
        ConfigError: it cannot be read or holds what a profile cannot; with every problem and its line.
    """
    from zeus_runtime.config.yaml.reader import decode
    from zeus_runtime.memory.profile.document import READ, profile_changes, seals_in

    try:
        text = decode((process.directory / name).read_bytes(), name)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    read = seals_in(text)
    changes = profile_changes(kind, text, name, read)
    try:
        if changes:
            write_profile(process, checked, kind, changes, read=read)
    except ChangedError as error:
        remedy = (
            f"Take the text over in a new `{_edit_command(kind)}`, or delete the line `{READ} …` of {name}."
        )
        raise ChangedError(error.message, remedy=remedy) from None
    return changes


def _edit_command(kind: ProfileKind, *more: str) -> str:
    options = ["--project"] if kind == "project" else []
    return zeus_command("memory", "profile", "edit", *options, *more)


def _private_file(prefix: str, text: str) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".yaml")
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
    return Path(name)


def _edited(file: Path) -> str:
    """The content of the file after the editor is closed."""
    from zeus_runtime.config.yaml.reader import decode

    try:
        # Only a name that the user wrote is looked up on the whole PATH; click tries names of its own without one.
        chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        click.edit(filename=str(file), env=given_environ() if chosen else None)
    except click.ClickException as error:
        if isinstance(error.__cause__, OSError):
            raise MissingError(
                f"the editor cannot be started: {error.__cause__.strerror}",
                remedy="Set VISUAL or EDITOR, or give the fields with --set FIELD=VALUE.",
            ) from None
        raise UsageError("the editor ended with an error, so nothing is written") from None
    return decode(file.read_bytes(), str(file))


def _is_kept(file: Path, before: str) -> bool:
    """Whether the file holds anything that was typed; one that holds nothing of it is removed."""
    if file.read_bytes() != before.encode():
        return True
    file.unlink()
    return False


def _again() -> bool:
    try:
        return agreed("Edit it again?", default=True)
    except click.Abort:
        return False
