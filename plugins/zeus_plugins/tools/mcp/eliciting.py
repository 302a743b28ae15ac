"""Elicitation: questions that a server asks the user during a call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.schemas import schema_problem
from zeus_runtime.plugin import cut_text

if TYPE_CHECKING:
    from zeus_runtime.plugin.tool import Tell, ToolRun

_OPENED = {
    "type": "object",
    "properties": {"done": {"type": "boolean", "description": "Whether you have done what the page asks."}},
    "required": ["done"],
}

_MOST_REPEATED: Final = 1_000
_PAGE: Final = re.compile(
    r"""https?://
    (?: [A-Za-z0-9._-]+ | \[[0-9A-Fa-f:.]+\] ) (?: :[0-9]+ )?
    (?: [/?#][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]* )?""",
    re.VERBOSE,
)
"""The address of a page that every program reads alike (RFC 3986), without a user before the host."""


def repeated(question: str) -> str:
    """A question as a note names it: its beginning, and how long it was."""
    return cut_text(question, _MOST_REPEATED)


async def elicited(server: str, params: Any, run: ToolRun | None, tell: Tell, *, may_wait: bool) -> Any:
    """The answer to an elicitation: the user's, or a refusal if no user can be asked.

    Args:
        params: the question, with the schema of the answer or the address of a page.
        run: the call that the question belongs to; None if that is unknown.
        may_wait: whether the call may be repeated once the user has answered later.
    """
    from mcp.types import ElicitResult

    if run is None:
        # The notice leaves the question out: its reader may not be the user that it is meant for.
        tell(
            "mcp_declined",
            f"The MCP server {server!r} asked the user a question, but not for which call, so it was declined.",
        )
        return ElicitResult(action="decline")
    page: str | None = getattr(params, "url", None)
    if page is not None and not _PAGE.fullmatch(page):
        tell(
            "mcp_declined",
            f"The MCP server {server!r} asked the user to open {cut_text(page, _MOST_REPEATED)!r}, which is no plain"
            " http:// or https:// address, so it was declined.",
        )
        return ElicitResult(action="decline")
    schema = _plain(params.requested_schema) if page is None else _OPENED
    if (broken := schema_problem(schema, "the fields of its form")) is not None:
        tell(
            "mcp_declined",
            f"The MCP server {server!r} asked the user a question that nobody can answer, so it was declined: {broken}",
        )
        return ElicitResult(action="decline")
    # The address comes first: a long message cannot push it out of sight, or show another one above it. No address has
    # a `>`, so its end is seen.
    asks = "asks" if page is None else f"asks you to open <{page}>"
    question = f"The MCP server {server!r} {asks}: {params.message}"
    answer = await run.ask(question, schema, may_wait=may_wait)
    if answer is None or (page and not answer.get("done")):
        if question in run.unanswered:
            tell(
                "mcp_unanswered",
                f"{repeated(question)} No user was there to answer, so the question was cancelled.",
            )
            return ElicitResult(action="cancel")
        if run.waits is not None:  # not answered yet: the call is repeated once the user has answered
            return ElicitResult(action="cancel")
        tell("mcp_declined", f"{repeated(question)} It was declined.")
        return ElicitResult(action="decline")
    from pydantic import ValidationError

    try:
        return ElicitResult(action="accept", content=None if page else dict(answer))
    except ValidationError as error:
        # The server's form may ask for an object, and the answer was checked against that form only.
        field = error.errors(include_url=False)[0]["loc"][1]
        tell(
            "mcp_declined",
            f"{repeated(question)} It was declined and got none of your answer: the value of {field!r} is not one that"
            " MCP can send (text, number, true, false, null or a list of texts).",
        )
        return ElicitResult(action="decline")


def _plain(schema: Any) -> dict[str, Any]:
    dump = getattr(schema, "model_dump", None)
    plain: dict[str, Any] = schema if dump is None else dump(by_alias=True, exclude_none=True)
    return plain
