"""Tools of clients."""

from __future__ import annotations

import pytest

from zeus_runtime.tools.client_tool import client_arguments


@pytest.mark.parametrize(
    ("shown", "arguments"),
    [
        ('{"item": "caf\\u00e9\\u202e"}', '{"item": "café\u202e"}'),
        ('{"pin": <secret:PIN>}', '{"pin": <secret:PIN>}'),
    ],
)
def test_the_arguments_are_those_of_the_question(shown: str, arguments: str) -> None:
    assert client_arguments("buy", {"question": f"The client runs buy with {shown}"}) == arguments
