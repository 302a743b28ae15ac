"""The bundled tool components."""

from __future__ import annotations

from typing import Final

PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""The variables of Zeus's process that the programs of tools get: none with secrets."""
