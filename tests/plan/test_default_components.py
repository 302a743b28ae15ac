"""A component that a config needs by default, when its plugin is not allowed to load."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.cli import main


@pytest.mark.parametrize(
    ("config", "told", "remedy"),
    [
        (
            "plugins: {only: [litellm]}",
            "zeus.yaml:3:17: missing: the default checkpointer 'sqlite' is not available:"
            " plugins.only in the YAML does not list it",
            "add 'sqlite' to plugins.only, or set `checkpointer`",
        ),
        (
            "plugins: {disable: [sqlite]}",
            "zeus.yaml:3:20: missing: the default checkpointer 'sqlite' is not available:"
            " plugins.disable in the YAML lists it",
            "remove 'sqlite' from plugins.disable, or set `checkpointer`",
        ),
        (
            "plugins: {only: [litellm, sqlite]}\nmemory: {user: ann}",
            "zeus.yaml:3:17: missing: the default embedding 'static' is not available:",
            "add 'static' to plugins.only, or set `memory.embeddings`",
        ),
        (
            "plugins: {only: [litellm, sqlite, static]}\nmemory: {user: ann}",
            "zeus.yaml:3:17: missing: the default vector store 'sqlite' is not available:",
            "add 'sqlite_vectors' to plugins.only, or set `memory.vector_store`",
        ),
    ],
)
def test_the_error_names_the_plugin_to_add_and_the_rule_that_blocks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, told: str, remedy: str
) -> None:
    file = tmp_path / "zeus.yaml"
    file.write_text(f"version: 1\nmodel: gpt-4o\n{config}\n", encoding="utf-8")
    assert main(["validate", str(file)]) == 4
    said = capsys.readouterr().out
    assert told in said
    assert remedy in said
