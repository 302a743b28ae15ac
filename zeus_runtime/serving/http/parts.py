"""Parts of lists: opaque cursors, and the address of the next part in the header `Link` (RFC 8288)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from fastapi import Query

from zeus_runtime.errors import UsageError
from zeus_runtime.strict_json import well_formed

if TYPE_CHECKING:
    from fastapi import Request, Response

T = TypeVar("T")
Place: TypeAlias = tuple[Any, ...]
"""Where an item stands in its list: values that sort as the list does."""

UNREAD: Final = "Zeus-Unread-Agents"
"""The header that names agents whose items a list lacks, each percent-encoded."""

MOST: Final = 1000
"""Items in one part."""

Limit = Annotated[
    int | None,
    Query(ge=1, le=MOST, description="The most items; without it the whole list. `Link` has the next."),
]
Cursor = Annotated[
    str | None, Query(max_length=500, description="Where to continue: from `Link` of the part before.")
]


def cursor_of(place: Place) -> str:
    """The cursor after the item at a place."""
    text = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str | None, *kinds: type) -> Place | None:
    """The place that a cursor names; None for the beginning.

    Args:
        kinds: the types of its values.

    Raises:
        UsageError: the service did not make that cursor for such a list.
    """
    if cursor is None:
        return None
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except ValueError:
        place = None
    # A cursor is the client's: `true` counts as an int in Python, so types are compared and not checked by isinstance.
    if (
        not isinstance(place, list)
        or [type(each) for each in place] != list(kinds)
        or not all(map(_is_storable, place))
    ):
        raise UsageError("there is no such cursor", remedy="Take it from the header `Link` of this list.")
    return tuple(place)


def _is_storable(value: int | str) -> bool:
    """Whether a database may have the value: a number of 64 bits, or a text without a lone surrogate or NUL."""
    if isinstance(value, int):
        # Without the smallest: a list that is sorted downwards negates it.
        return -(2**63) < value < 2**63
    return "\0" not in value and well_formed(value) == value


def tell_next(request: Request, response: Response, place: Place) -> None:
    """Tell the address of the part after a place, relative to the request's: a proxy may have changed the rest."""
    query = request.url.include_query_params(cursor=cursor_of(place)).query
    response.headers["Link"] = f'<?{query}>; rel="next"'


def tell_unread(response: Response, agents: Collection[str]) -> None:
    """Tell that a list lacks the items of these agents, which could not be planned or read."""
    if agents:
        # A header has neither line breaks nor letters of every script, and names may be of any.
        response.headers[UNREAD] = ", ".join(map(quote, agents))


def part_of(
    request: Request,
    response: Response,
    items: Sequence[T],
    place: Callable[[T], Place],
    *,
    after: Place | None,
    limit: int | None,
) -> Sequence[T]:
    """The part of a sorted list after a place, and in ``response`` where the next one is.

    Args:
        place: of an item; places ascend along the list.
        limit: the most items; None for all.
    """
    # By place and not by number: items that came or went meanwhile neither repeat others nor hide them.
    rest = items if after is None else [each for each in items if place(each) > after]
    if limit is None or len(rest) <= limit:
        return rest
    tell_next(request, response, place(rest[limit - 1]))
    return rest[:limit]
