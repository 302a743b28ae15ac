"""An answer as a table or as JSON, without secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.streams import answer, as_json

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked


def tell(checked: Checked | None, form: str, value: Any, text: Callable[[], str]) -> None:
    redact = None if checked is None else checked.document.redactor
    if form == "json":
        answer(as_json(value if redact is None else redact.json(_jsonable(value))))
        return
    answer(text() if redact is None else redact(text()))


def _jsonable(value: Any) -> Any:
    import json

    return json.loads(as_json(value, indent=None))
