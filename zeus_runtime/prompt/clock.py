"""Section 7: the date, in the user's time zone, with the precision of the config."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from zeus_runtime.errors import ZeusError

if TYPE_CHECKING:
    from zeus_runtime.config.model import TimeSection

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class UnknownZoneError(ZeusError):
    """A time zone that this system does not know (exit 3)."""

    exit_code = 3
    code = "unknown-timezone"


def zone(name: str) -> tzinfo | None:
    """The time zone of a name; None for ``local``, the system's.

    Raises:
        UnknownZoneError: the zone is neither in the system's nor in the ``tzdata`` package's database.
    """
    if name == "local":
        return None
    if name == "UTC":
        return UTC
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    # A name that leads out of the database, such as "../x", is a ValueError.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
    from zeus_runtime.config.messages.diagnostics import suggestion

    raise UnknownZoneError(
        f"there is no time zone {name!r}{suggestion(name, sorted(known))}",
        remedy="use an IANA name such as Europe/Berlin, UTC or local"
        if known
        else "this system has no time zone database: install the tzdata package, or use UTC or local",
    )


def time_section(now: datetime, time: TimeSection) -> str:
    """Section 7 at ``now``: the date and zone, with hours and minutes if the config asks for them, or an empty text.

    A date keeps the provider's prompt cache valid for a day; minutes invalidate it every minute (SPEC section 2).

    Args:
        now: an aware time.
        time: the config's ``prompt.time``.

    Raises:
        ValueError: ``now`` has no time zone.
        UnknownZoneError: the config's zone does not exist here.
    """
    if now.tzinfo is None:
        raise ValueError("now must know its time zone")
    if time.precision == "none":
        return ""
    there = now.astimezone(zone(time.timezone))
    name = there.tzname() if time.timezone == "local" else time.timezone
    day = f"{_DAYS[there.weekday()]}, {there:%Y-%m-%d}"
    if time.precision == "date":
        return f"# Time\n\nToday is {day}; the time zone is {name}."
    offset = there.strftime("%z")
    return f"# Time\n\nIt is {day}, {there:%H:%M} ({name}, UTC{offset[:3]}:{offset[3:5]})."
