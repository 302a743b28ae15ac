"""Keeps a section's text the same until a compaction, which breaks the cached prefix anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import View


class SteadyText:
    """Holds a text. It is None, so the owner must make it, at the beginning of a run and after each compaction."""

    def __init__(self) -> None:
        self.text: str | None = None
        self._cut: tuple[int, object] | None = None

    def follow(self, view: View) -> None:
        """Forget the text if messages left the view since the last call."""
        cut = (view.first, view.summary)
        # Not at the first view: a resumed session may have been cut long before.
        if self._cut is not None and cut != self._cut:
            self.text = None
        self._cut = cut
