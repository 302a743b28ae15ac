"""The profiles of one caller, the user's and the project's: read, written by hand, drawn from memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zeus_runtime.errors import ErrorsMasked, UsageError
from zeus_runtime.memory.database_memory import backend_of
from zeus_runtime.memory.items import Caller

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.operations import Operations
    from zeus_runtime.memory.profile.derivation import AskModel, CheckFields, ExportedProfile, Restored
    from zeus_runtime.memory.profile.fields import ProfileField, ProfileKind


class MemoryProfiles(ErrorsMasked):
    """What is known of the caller's user and project.

    Args:
        opened: the memories that profiles are drawn from, and where they are kept.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._opened = opened
        self._caller = caller

    def _error_mask(self) -> Redactor:
        return self._opened.source.secrets

    async def fields(self, kind: ProfileKind) -> tuple[ProfileField, ...]:
        """Every field of the user's or the project's profile, with who wrote it and the memories it comes from.

        Raises:
            UsageError: the caller belongs to no project.
        """
        from zeus_runtime.memory.profile import derivation as drawing

        return await drawing.shown(*await self._acting(), kind)

    async def edit(
        self, kind: ProfileKind, changes: Mapping[str, str], *, check: CheckFields | None = None
    ) -> None:
        """Write fields by hand; a field written by hand stays until it is changed by hand.

        Args:
            changes: field to text (``profiles.written_value``); an empty text gives the field back to the memories.
            check: gets the fields as they are now, in the transaction that writes; if it raises, nothing is written.

        Raises:
            UsageError: the caller may not edit it, or a field cannot hold this, or a text has a known secret.
        """
        from zeus_runtime.memory.profile import derivation as drawing

        if told := sorted(name for name, text in changes.items() if self._holds_secret(text)):
            raise UsageError(
                f"a known secret is in {', '.join(told)}; the database would keep it for anyone to read",
                remedy="Leave the secret out.",
            )
        await drawing.edit(*await self._acting(), kind, changes, check=check)

    def _holds_secret(self, *texts: str) -> bool:
        secrets = self._opened.source.secrets
        return any(secrets.masked(text) != text for text in texts)

    async def exported(self) -> list[ExportedProfile]:
        """The caller's profiles that are not empty, for a file."""
        from zeus_runtime.memory.profile import derivation as drawing

        operations, caller = await self._acting()
        kinds: list[ProfileKind] = ["user", "project"] if caller.project_id and caller.role else ["user"]
        found = [await drawing.exported(operations, caller, kind) for kind in kinds]
        return [each for each in found if each.fields or each.lines]

    async def restore(
        self, profile: ExportedProfile, versions: Mapping[str, tuple[str, int]], *, instructions: bool
    ) -> Restored:
        """Write what was exported, except fields that a hand wrote here; lines only where their memories are rows.

        Args:
            versions: of a memory's id where it was exported, its id and version here.
            instructions: also the fields that the model follows.
        """
        from zeus_runtime.memory.profile import derivation as drawing
        from zeus_runtime.memory.profile.fields import HAND_ONLY
        from zeus_runtime.memory.screening.sensitive import injection_rule, secret_rule

        notes = []
        fields = dict(profile.fields)
        if not instructions and (hand := sorted(HAND_ONLY & fields.keys())):
            notes.append(
                f"the {profile.kind} profile's {', '.join(hand)}: the model would follow it (--instructions)"
            )
        for name, text in profile.fields.items():
            if self._holds_secret(text):
                notes.append(f"the {profile.kind} profile's {name}: a known secret is in it")
        left = {name for name, text in fields.items() if self._holds_secret(text)}
        left |= set() if instructions else HAND_ONLY
        shown = [[line["value"], *(line.get("extra") or {}).values()] for line in profile.lines]
        lines = tuple(
            line
            for line, texts in zip(profile.lines, shown, strict=True)
            if backend_of(self._opened, self._caller).in_database
            and not self._holds_secret(*texts)
            and all(secret_rule(each) is None and injection_rule(each) is None for each in texts)
        )
        kept = profile._replace(fields={k: v for k, v in fields.items() if k not in left}, lines=lines)
        try:
            restored = await drawing.restore(*await self._acting(), kept, versions)
        except UsageError as error:
            return drawing.Restored((f"the {profile.kind} profile: {error.message}",), len(profile.lines))
        lost = len(profile.lines) - len(lines) + restored.lines
        return drawing.Restored((*notes, *restored.notes), lost)

    async def news(self, kind: ProfileKind) -> int:
        """Return how many memories changed since the profile was derived; 0 for a caller who may not derive it."""
        from zeus_runtime.memory.profile import derivation as drawing

        if not backend_of(self._opened, self._caller).in_database:
            return 0
        return await drawing.news(*await self._acting(), kind)

    async def is_drawn(self, kind: ProfileKind) -> bool:
        """Whether the profile was ever derived from memories."""
        from zeus_runtime.memory.profile import derivation as drawing

        return await drawing.is_drawn(*await self._acting(), kind)

    async def draw(self, kind: ProfileKind, ask: AskModel | None = None) -> int:
        """Derive the profile's lines again from the memories: by rules, and by a model for the rest.

        Text written by hand is not changed.

        Args:
            ask: gets (system, user), returns the model's answer; if it fails, only the rules are used.

        Returns:
            the number of lines.

        Raises:
            UsageError: the caller belongs to no project, or only reads it.
        """
        from zeus_runtime.memory.profile import derivation as drawing

        if not backend_of(self._opened, self._caller).in_database:
            raise UsageError(
                "a profile is drawn from memories in the agent's own database only",
                remedy="Write its fields by hand: zeus memory profile edit.",
            )
        return await drawing.draw(*await self._acting(), kind, ask)

    async def _acting(self) -> tuple[Operations, Caller]:
        return await self._opened.operations(), await self._opened.acting(self._caller)
