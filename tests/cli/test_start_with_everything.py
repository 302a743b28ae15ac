"""`zeus plan` of an agent with skills, knowledge bases and referenced files imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.skills import write_skill

HEAVY = {
    "asyncio",
    "pydantic",
    "rich",
    "langchain_core",
    "langgraph",
    "litellm",
    "sqlmodel",
    "sqlalchemy",
    "numpy",
    "pypdf",
}
PROGRAM = """
import os, sys
from pathlib import Path
from zeus_runtime.plan.validated import check
from zeus_runtime.plan.plan import make_plan
plan = make_plan(check("zeus.yaml", directory=Path.cwd(), environ=os.environ))
names = {each.tool.name for each in plan.tools}
assert {"load_skill", "read_skill_resource", "search_knowledge_base"} <= names, names
print(" ".join(sys.modules))
"""


def test_planning_it_imports_nothing_heavy(tmp_path: Path) -> None:
    write_skill(tmp_path / "home/skills", "tables")
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: gpt-4o\nhomes: [home]\nknowledge: [handbook]\n"
        "tools: [knowledge]\nmiddlewares: [skills, resources]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert HEAVY.isdisjoint(done.stdout.split())
