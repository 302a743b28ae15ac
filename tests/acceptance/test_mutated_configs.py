"""Damaged configs of our own: each is valid or refused with a place for every problem, soon, by an error of ours.

``ZEUS_MUTANTS=3000`` tries more than the suite does, ``ZEUS_MUTANTS_SEED=7`` others.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.yaml_mutants import mutants
from zeus_runtime.config import ConfigError, Diagnostic, render
from zeus_runtime.errors import ZeusError
from zeus_runtime.escaping import is_unseen
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check

ROOT: Final = Path(__file__).parents[2]
COUNT: Final = int(os.environ.get("ZEUS_MUTANTS", "300"))
SEED: Final = int(os.environ.get("ZEUS_MUTANTS_SEED", "17"))
FOLDERS: Final = ("configs", "examples", "tests/config/broken")


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folders that hold configs, so that a mutant finds the files it names."""
    folder = tmp_path_factory.mktemp("mutants")
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".venv", ".zeus")
        )
    return folder


def shipped() -> list[Path]:
    """Every YAML file of ours, relative to the project."""
    return sorted(path.relative_to(ROOT) for name in FOLDERS for path in _yaml_below(ROOT / name))


def _yaml_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.yaml") if not {".venv", ".zeus"} & set(path.parts))


def problems_of(path: Path, environ: dict[str, str]) -> Sequence[Diagnostic | ZeusError]:
    """The diagnostics or the error that a config gives; none where it is valid."""
    try:
        make_plan(check(path.name, directory=path.parent, environ=environ))
    except ConfigError as error:
        return error.diagnostics
    except ZeusError as error:
        return [error]
    return []


def shown(problems: Sequence[Diagnostic | ZeusError]) -> str:
    """The problems as text and as workflow commands."""
    told = [each for each in problems if not isinstance(each, ZeusError)]
    json.loads(render(told, "json"))
    return f"{render(told)}\n{render(told, 'github')}"


def test_each_mutant_is_valid_or_refused_with_a_place(copies: Path) -> None:
    paths = shipped()
    sources = [(ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths]
    environ = {"OPENAI_API_KEY": "sk-mutant", "HOME": str(copies)}
    refused = 0
    for number, (index, raw) in enumerate(mutants(SEED, COUNT, sources)):
        path = copies / paths[index]
        kept = path.read_bytes()
        path.write_bytes(raw)
        try:
            problems = problems_of(path, environ)
            text = shown(problems)
        except Exception as error:
            raise AssertionError(
                f"mutant {number} of {paths[index]} ends in a traceback:\n{raw[:2000]!r}"
            ) from error
        finally:
            path.write_bytes(kept)
        told = f"mutant {number} of {paths[index]}:\n{raw[:2000]!r}\n"
        assert not [each for each in problems if not _has_place(each)], f"{told}{problems}"
        assert not [char for char in text if is_unseen(char)], told
        refused += bool(problems)
    assert COUNT / 3 < refused < COUNT


def test_mutants_come_again_with_their_seed() -> None:
    texts = ["version: 1\nmodel: gpt-5.2\n"]
    assert list(mutants(3, 40, texts)) == list(mutants(3, 40, texts))
    assert len({raw for _, raw in mutants(3, 40, texts)}) > 30


def _has_place(problem: Diagnostic | ZeusError) -> bool:
    return bool(problem.where) if isinstance(problem, ZeusError) else problem.position is not None
