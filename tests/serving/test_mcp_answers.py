"""Each answer of an MCP server is masked and escaped, whatever its handler gives or raises."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, METHOD_NOT_FOUND
from pydantic import TypeAdapter, ValidationError

from zeus_runtime.config import Redactor
from zeus_runtime.serving.mcp_answers import visible_answers

SECRET = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
HIDING, SEEN = f"\u202e {SECRET}", "\\u202e <secret:S>"
MASK = Redactor({SECRET: "S"}).json


async def answered(found: Any, *, masks_results: bool = True) -> Any:
    async def handler(_ctx: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    return await visible_answers(MASK, MASK if masks_results else None)(None, handler)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (MCPError(METHOD_NOT_FOUND, HIDING, {"a": [HIDING]}), (METHOD_NOT_FOUND, SEEN, {"a": [SEEN]})),
        (
            MCPError(METHOD_NOT_FOUND, "Method not found", HIDING),
            (METHOD_NOT_FOUND, "Method not found", SEEN),
        ),
        (ValueError(f"Unknown prompt: {HIDING}"), (INTERNAL_ERROR, f"Unknown prompt: {SEEN}", None)),
    ],
)
async def test_an_error_of_any_kind_is_masked_and_escaped(raised: Exception, error: tuple[Any, ...]) -> None:
    with pytest.raises(MCPError) as caught:
        await answered(raised)
    assert (caught.value.code, caught.value.message, caught.value.data) == error


async def test_the_sdk_tells_of_wrong_parameters_without_their_text() -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(int).validate_python(HIDING)
    with pytest.raises(ValidationError):
        await answered(wrong.value)


async def test_a_result_is_escaped_and_masked_unless_its_handler_masks_it() -> None:
    result = {"content": [{"type": "text", "text": HIDING}], "structuredContent": {"answer": HIDING}}
    assert await answered(result) == {
        "content": [{"type": "text", "text": SEEN}],
        "structuredContent": {"answer": "\u202e <secret:S>"},
    }
    of_handler = await answered(result, masks_results=False)
    assert of_handler["content"][0]["text"] == f"\\u202e {SECRET}"
    assert await answered(None) is None
