"""The URL of a database in a form that may be shown."""

from __future__ import annotations

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from zeus_runtime.config.secrets.masking import mask_passwords
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER
from zeus_runtime.cutting import cut_address


def without_password(url: str) -> str:
    """``url`` without its password and other secrets; if it is one as a whole, its placeholder."""
    whole = PLACEHOLDER.match(cut_address(url))
    return whole[0] if whole else bare_url(url)


def bare_url(url: str) -> str:
    """``url`` without its password, the same whatever secrets this process knows: to tell databases apart."""
    try:
        # SQLAlchemy takes the end of a password that is not encoded for a part of the host or of the name.
        parsed = make_url(mask_passwords(url, "***"))
    except (ArgumentError, ValueError):
        return "(unreadable URL)"
    hidden = {key: "***" for key in parsed.query if "password" in key.lower()}
    shown = parsed.update_query_dict(hidden) if hidden else parsed
    return shown.render_as_string(hide_password=True)
