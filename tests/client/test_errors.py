"""What the client tells of an answer that is not the service's."""

from __future__ import annotations

import pytest

from zeus_runtime.client.errors import error_of

TOKEN = "zk_q7Zk3Jq9LmT2vXw8RbN5cYd7HfPs4Ga6Ue"


@pytest.mark.parametrize("shown", [1, 4, 20, len(TOKEN) - 1, len(TOKEN)])
def test_no_part_of_a_key_remains_where_an_echo_of_it_is_cut(shown: int) -> None:
    """The terminal masks a whole key only, and the cut left most of it."""
    body = f"{'p' * (199 - shown)} {TOKEN}\nand more".encode()
    told = str(error_of(401, body))
    assert TOKEN in told or TOKEN[:3] not in told
    assert "401" in told
