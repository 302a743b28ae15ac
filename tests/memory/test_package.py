"""The memory package from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import zeus_runtime.memory as memory

PURE = (
    "items normalise permissions embedding vectors retrieval.ranking retrieval.fusion screening.sensitive "
    "data_files admission.values admission.grammar admission.statement admission.comparison admission.gate"
).split()


def test_every_public_name_is_there() -> None:
    for name in memory.__all__:
        assert getattr(memory, name) is not None
    assert dir(memory) == memory.__all__


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {path.stem for path in Path(memory.__file__).parent.glob("*.py")}
    assert not modules & set(memory.__all__)


HEAVY = "sqlmodel sqlalchemy pydantic numpy litellm chromadb tiktoken detect_secrets asyncio rich".split()


def heavy_after(program: str) -> list[str]:
    """What of ``HEAVY`` is loaded after ``program``, in a process of its own."""
    code = f"import sys\n{program}\nprint(*(each for each in {HEAVY!r} if each in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_rules_import_nothing_heavy() -> None:
    assert heavy_after("\n".join(f"import zeus_runtime.memory.{each}" for each in PURE)) == []


def test_a_service_that_is_not_used_yet_loads_neither_database_nor_event_loop() -> None:
    made = """
from pathlib import Path
from zeus_runtime.memory.embedding_choice import create_embeddings
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.service import MemoryService
create_embeddings("ann", choices={}, configured=None)
MemoryService(MemorySource("sqlite:///memory.db", Path(), lambda: None), Caller("ann")).for_session("s1")
"""
    assert heavy_after(made) == []


def test_a_plan_with_memory_loads_neither_database_nor_event_loop(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\nmemory: {embeddings: static}\n")
    planned = f"""
from pathlib import Path
from zeus_runtime.plan.validated import check
from zeus_runtime.plan.plan import make_plan
assert make_plan(check(None, directory=Path({str(tmp_path)!r}), environ={{}})).context.memory is not None
"""
    assert heavy_after(planned) == []
