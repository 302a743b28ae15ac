"""Compiles the modules of tests once for all workers, each of which would do it for itself, at the same time.

In a new clone that took each worker two thirds of the time of collecting. What is missing here, because pytest has
changed or a file cannot be compiled, a worker compiles and reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def compile_tests(config: pytest.Config) -> None:
    """Write the files that pytest reads in place of changed modules; as many processes as there are processors."""
    changed = [file for file in sorted(config.rootpath.glob("tests/**/test_*.py")) if not _is_kept(file)]
    count = os.cpu_count() or 1
    children = []
    for first in range(count):
        if part := changed[first::count]:
            child = os.fork()
            if not child:
                try:
                    _compile(part, config)
                finally:
                    os._exit(0)
            children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _is_kept(file: Path) -> bool:
    kept = _kept(file)
    return kept.exists() and kept.stat().st_mtime >= file.stat().st_mtime


def _kept(file: Path) -> Path:
    return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"


def _compile(files: Iterable[Path], config: pytest.Config) -> None:
    state = config.stash[rewrite.assertstate_key]
    for file in files:
        with suppress(SyntaxError, OSError):
            stat, code = rewrite._rewrite_test(file, config)
            _kept(file).parent.mkdir(exist_ok=True)
            rewrite._write_pyc(state, code, stat, _kept(file))
