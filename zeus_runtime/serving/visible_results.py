"""Results and errors of MCP in a form that a client may show. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from zeus_runtime.escaping import json_text, utf8_text

_TEXTS: Final = frozenset({"text", "title", "description", "instructions", "message"})


def visible_result(result: Any) -> Any:
    """A result as plain JSON, with visible escapes for the unseen characters of its texts.

    The values of ``structuredContent`` are for programs and stay exact. A text that is JSON keeps its value.
    """
    if isinstance(result, list):
        return [visible_result(each) for each in result]
    if not isinstance(result, Mapping):
        return result
    return {
        key: visible_text(each)
        if key in _TEXTS and isinstance(each, str)
        else each
        if key == "structuredContent"
        else visible_result(each)
        for key, each in result.items()
    }


def visible_data(value: Any) -> Any:
    """Plain JSON, with visible escapes for the unseen characters of all its texts."""
    if isinstance(value, str):
        return visible_text(value)
    if isinstance(value, list):
        return [visible_data(each) for each in value]
    if isinstance(value, Mapping):
        return {visible_text(key): visible_data(each) for key, each in value.items()}
    return value


def visible_text(text: str) -> str:
    """A text with visible escapes for its unseen characters; those of JSON if it is JSON."""
    shown = utf8_text(text)
    return json_text(text) if shown != text and _is_json(text) else shown


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
