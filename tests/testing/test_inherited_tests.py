"""What an author reads when a test that they inherited fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MINE = """
from contextlib import contextmanager
from zeus_runtime.testing import ModelConformance, ScriptedModel

class TestMine(ModelConformance):
    @contextmanager
    def answering(self, answer):
        yield ScriptedModel(["something else"])
"""


def test_a_failed_one_shows_the_values_that_it_compared(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(MINE)
    words = ["-q", "-p", "no:cacheprovider", "-k", "a_text_streams"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert "'something else' == 'Hello, world!'" in done.stdout
