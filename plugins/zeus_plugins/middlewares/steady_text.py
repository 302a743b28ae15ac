"""A section's text that stays the same between compactions, when the cached prefix is broken anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import View


class SteadyText:
    """A text to be made when it is None: at a run's beginning, and after each compaction."""

    def __init__(self) -> None:
        self.text: str | None = None
        self._cut: tuple[int, object] | None = None

    def follow(self, view: View) -> None:
        """Forget the text if messages left the view since the last call."""
        cut = (view.first, view.summary)
        if self._cut is not None and cut != self._cut:
            self.text = None
        self._cut = cut
