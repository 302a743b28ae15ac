"""What the conformance suite does not ask of the SQLite saver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver


@dataclass
class Anything:
    word: str


async def test_a_tampered_checkpoint_makes_no_object_wherever_langgraph_was_imported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", False)
    file = tmp_path / "checkpoints.db"
    tampered = {**empty_checkpoint(), "channel_values": {"cursor": Anything("run me")}}
    forger = SqliteSaver(file, serde=JsonPlusSerializer(allowed_msgpack_modules=True))
    place = {"configurable": {"thread_id": "session_1", "checkpoint_ns": ""}}
    try:
        await forger.aput(place, tampered, CheckpointMetadata(), {})  # type: ignore[arg-type]
    finally:
        await forger.aclose()
    saver = SqliteSaver(file)
    try:
        found = await saver.aget_tuple(place)  # type: ignore[arg-type]
    finally:
        await saver.aclose()
    assert found is not None
    assert found.checkpoint["channel_values"]["cursor"] == {"word": "run me"}
