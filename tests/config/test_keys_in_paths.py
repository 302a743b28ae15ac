"""Keys in the path of an address, as of webhooks and MCP servers, and paths without one."""

from __future__ import annotations

import pytest

from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.secrets.written_secrets import written_secrets
from zeus_runtime.trust.masking import PartMask

KEY = "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
WITH_KEY = """
https://mcp.example/api/mcp/s/***/mcp
https://hooks.example/services/T01ABCDEF/B02GHIJKL/***
https://api.example/bot123456789:***/sendMessage
https://hooks.example/api/webhooks/123456789012345678/***?wait=true
wss://ann@chain.example:8546/v2/***#x
https://one.example/v2,https://two.example/v2/***
HOOK=https://hooks.example/v1/***
""".split()
WITHOUT = """
https://raw.example/o/r/3efa53e6aa0b4c1d2e3f405162738495a6b7c8d9/README.md
https://login.example/550e8400-e29b-41d4-a716-446655440000/v2.0
https://login.example/550E8400-E29B-41D4-A716-446655440000/v2.0
https://gateway.example/v1/d3b07384d113edec49eaa6238ad5ff00/openai
https://x.example/sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
https://x.example/Main-Ab12cd34Ef56Gh78.js
https://x.example/GoogleChromeStandaloneEnterprise64
https://x.example/openai/deployments/gpt-4o-2024-08-06-Prod
https://x.example/backup/20240517T101112Z-full-backup-of-Db
https://x.example/Report-3f2c9ab41c7d-of-the-Week
https://x.example/WebShop2024Release-3f2c9ab41c7d
https://x.example/01HZX3J8Q5N6W7V8Y9ABCDEFGH
https://x.example/My-Org-2024/projects/WebShop2024Release
https://x.example/Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int4
https://x.example/items/{itemId2024aB1cD5eF7gH}
https://x.example/aB3dE5fG7hI9jK1lM3n
file:///tmp/AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/x
sqlite:////data/AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw
""".split()


@pytest.mark.parametrize("form", WITH_KEY)
def test_a_key_in_a_path_is_a_secret(form: str) -> None:
    address = form.replace("***", KEY)
    assert secrets_of_environment({"ANY": address}).text(f"POST {address} 200") == (
        f"POST {form.replace('***', '<secret:ANY>')} 200"
    )
    for written in (
        {"url": address},
        {"args": ["-y", "mcp-remote", address]},
        {"command": f"npx remote '{address}'"},
    ):
        assert KEY in written_secrets({"mcpServers": {"x": written}})


@pytest.mark.parametrize("address", WITHOUT)
def test_what_is_no_key_in_a_path_is_none(address: str) -> None:
    assert list(secrets_in("ANY", address)) == []


def test_an_address_in_prose_gives_no_secret() -> None:
    assert list(secrets_in("ANY", f"Look at https://docs.example/d/{KEY}/edit first.")) == []


def test_a_question_shows_the_host_and_the_path_of_an_address() -> None:
    address = f"https://mcp.example/api/mcp/s/{KEY}/mcp"
    known = secrets_of_environment({"MCP_URL": address})
    assert PartMask.of({}, known).address(address) == address
    assert known(address) == "https://mcp.example/api/mcp/s/<secret:MCP_URL>/mcp"
