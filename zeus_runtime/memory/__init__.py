"""Long-term memory's rules, without database, clock or network: what is kept, what replaces what, what is shown to whom.

Each name is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy
