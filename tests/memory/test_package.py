"""The memory package from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import zeus_runtime.memory as memory

PURE = (
    "items normalise permissions ranking fusion sensitive values wording statement changed gate "
    "embedding vectors"
).split()


def test_every_public_name_is_there() -> None:
    for name in memory.__all__:
        assert getattr(memory, name) is not None
    assert dir(memory) == memory.__all__


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {path.stem for path in Path(memory.__file__).parent.glob("*.py")}
    assert not modules & set(memory.__all__)


def test_the_rules_import_nothing_heavy() -> None:
    heavy = "sqlmodel sqlalchemy pydantic numpy litellm chromadb tiktoken detect_secrets asyncio rich".split()
    code = (
        f"import sys\nfor each in {PURE!r}: __import__('zeus_runtime.memory.' + each)\n"
        f"print([each for each in {heavy!r} if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
