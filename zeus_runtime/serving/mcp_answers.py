"""The one way on which all answers and errors of an MCP server go to its client. Imported only to serve."""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR
from pydantic import BaseModel, ValidationError

from zeus_runtime.serving.visible_results import visible_data, visible_result, visible_text

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

_log = logging.getLogger(__name__)


def visible_answers(
    errors: Callable[[Any], Any], results: Callable[[Any], Any] | None = None
) -> ServerMiddleware[Any]:
    """A middleware that masks and escapes here, for also an error that the SDK makes repeats the client's own words.

    Args:
        errors: masks the text or JSON of an error.
        results: masks the JSON of a result; None if the handlers give masked ones.
    """

    async def shown(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            found = await call_next(ctx)
        except ValidationError:
            raise  # the SDK tells the client nothing of its text
        except Exception as error:  # noqa: BLE001 - each is told to the client
            if not isinstance(error, MCPError):
                # The SDK would log and send its text as it is.
                _log.error("a request failed: %s", visible_text(errors("".join(format_exception(error)))))
                error = MCPError(INTERNAL_ERROR, str(error))
            message, data = visible_text(errors(error.message)), visible_data(errors(error.data))
            raise MCPError(error.code, message, data) from None
        # The middleware sees the SDK's model, or what a later middleware made of it; masking takes plain JSON.
        if isinstance(found, BaseModel):
            found = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        result: dict[str, Any] | None = visible_result(found if results is None else results(found))
        return result

    return shown
