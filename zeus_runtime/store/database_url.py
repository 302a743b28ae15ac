"""The URL of a database in a form that may be shown."""

from __future__ import annotations

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


def without_password(url: str) -> str:
    """``url`` without its password and other secrets."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "(unreadable URL)"
    if "@" in (parsed.host or ""):  # the part before the last @ belongs to a password that is not encoded
        parsed = parsed.set(host=f"***@{(parsed.host or '').rpartition('@')[2]}")
    hidden = {key: "***" for key in parsed.query if "password" in key.lower()}
    shown = parsed.update_query_dict(hidden) if hidden else parsed
    return shown.render_as_string(hide_password=True)
