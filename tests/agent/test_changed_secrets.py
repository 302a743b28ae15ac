"""A living agent masks the secrets of its config's files as they are now, from its next run on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.agents import PositionModel, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.config.secrets import changed_files
from zeus_runtime.config.secrets.changed_files import ChangedFiles
from zeus_runtime.plan.validated import check
from zeus_runtime.trust.decision import recorded_trust

OLD: Final = "sk-live-Old-11aa22bb"
NEW: Final = "sk-live-New-33cc44dd"
SERVER: Final = '{"mcpServers": {"s": {"command": "true", "disabled": true, "env": {"SHOP_TOKEN": "%s"}}}}'
CONFIG: Final = "mcpServers: {{t: {{command: 'true', disabled: true, env: {{SHOP_TOKEN: {}}}}}}}\n"


def written(folder: Path, file: str, secret: str) -> None:
    if file == "zeus.yaml":
        write_agent(folder, CONFIG.format(secret), tools="[probe, mcp: {files: [.mcp.json]}]")
    elif file == ".mcp.json":
        (folder / file).write_text(SERVER % secret)
    else:
        (folder / file).write_text(f"SHOP_API_KEY={secret}\n")


@pytest.mark.parametrize("before", [OLD, ""])
@pytest.mark.parametrize("file", [".env", ".mcp.json", "zeus.yaml"])
async def test_a_secret_that_was_changed_is_masked_from_the_next_run_on(
    tmp_path: Path, file: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("zeus.yaml", ".mcp.json"):
        written(tmp_path, each, "x")
    if before:
        written(tmp_path, file, before)
    model = PositionModel(lambda _request: "Done.")
    reads: list[str] = []
    read = changed_files.file_text

    def noted(path: Path) -> str | None:
        reads.append(path.name)
        return read(path)

    monkeypatch.setattr(changed_files, "file_text", noted)
    agent = Agent.from_config("zeus.yaml", directory=tmp_path, environ={}, trust="all", model=model)
    async with agent:
        session = (await agent.run("Hello.")).session
        reads.clear()
        await agent.run("Again.", session=session)
        assert reads == [], "an unchanged file is not read"
        written(tmp_path, file, NEW)
        await agent.run(f"Now it is {NEW}, and was {before or 'none'}.", session=session)
        assert reads == [file]
        told = str([each.content for each in model.requests[-1].messages])
        stored = str(await agent.history(session))
    for text in (told, stored):
        assert NEW not in text
        assert OLD not in text


async def test_a_service_that_keeps_a_former_config_masks_the_present_secrets(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    model: Any = PositionModel(lambda _request: "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "Hello.")
        await until(client, run, "complete")
        config.write_text(config.read_text() + "nope: 1\n")
        (tmp_path / ".env").write_text(f"SHOP_API_KEY={NEW}\n")
        _, run = await begun(client, f"Now it is {NEW}.", session)
        await until(client, run, "complete")
        assert NEW not in (await client.get(f"/v1/sessions/{session}/messages")).text
    assert NEW not in str([each.content for each in model.requests[-1].messages])


def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for its writer."""
    write_agent(tmp_path)
    (tmp_path / ".env").write_text(f"SHOP_API_KEY={OLD}\n")
    document = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")).document
    (tmp_path / ".env").unlink()
    os.mkfifo(tmp_path / ".env")
    reads: list[str] = []
    monkeypatch.setattr(changed_files, "file_text", lambda path: reads.append(path.name))
    ChangedFiles(document).learn(document.redactor)
    assert reads == ["zeus.yaml"]
