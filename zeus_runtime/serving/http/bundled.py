"""The built files of the page. Without the extra ``serve`` too: ``zeus context --plot`` takes its chart from them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BUNDLE: Final = Path(__file__).parent / "bundle"
"""In a wheel, and in a checkout once ``make web`` has built it."""
