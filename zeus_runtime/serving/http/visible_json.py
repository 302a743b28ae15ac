"""JSON that a terminal may show."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse

from zeus_runtime.escaping import json_text


class VisibleJSON(JSONResponse):
    """A JSON response whose unseen characters are escapes: ``curl`` prints what it gets."""

    def render(self, content: Any) -> bytes:
        """The same value as any JSON of it."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return json_text(text).encode()
