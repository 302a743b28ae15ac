"""The benchmarks run as their users start them; `make bench-install` counts the files of distributions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.install import Installed, brought_alone, megabytes, reachable, read, report


def lay_out(site: Path, name: str, size: int, *requires: str) -> None:
    """A distribution of one file of ``size`` bytes."""
    (site / f"{name}.bin").write_bytes(b"x" * size)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (info / "RECORD").write_text(f"{name}.bin,,\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    lay_out(
        tmp_path,
        "zeus_runtime",
        1_000_000,
        "store",
        "web[fast]; python_version > '3'",
        "plots; extra == 'plot'",
    )
    lay_out(tmp_path, "store", 5_000_000, "shared>=1", "never; python_version < '3'")
    lay_out(tmp_path, "web", 1_000_000, "shared", "Quick_Loop; extra == 'fast'")
    lay_out(tmp_path, "shared", 2_000_000)
    lay_out(tmp_path, "quick-loop", 3_000_000)
    lay_out(tmp_path, "plots", 7_000_000)
    lay_out(tmp_path, "never", 1)
    return tmp_path


def test_sizes_are_those_of_the_files_and_requirements_those_of_this_environment(site: Path) -> None:
    found = read(site, ())
    assert found["quick-loop"].bytes == 3_000_000
    assert found["zeus-runtime"].requires == {"store", "web"}
    assert found["web"].requires == {"shared", "quick-loop"}, "the extra that Zeus asks for counts"
    assert found["store"].requires == {"shared"}
    assert read(site, ["plot"])["zeus-runtime"].requires == {"store", "web", "plots"}


def test_a_direct_dependency_brings_what_no_other_one_does(site: Path) -> None:
    found = read(site, ())
    assert brought_alone(found, "zeus-runtime") == {"store": {"store"}, "web": {"web", "quick-loop"}}


def test_the_report_is_sorted_by_size_and_says_who_requires_what(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(read(site, ()), least=2.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["plots", "store", "quick-loop", "shared"]
    assert lines[4].endswith("2.0  store, web")
    assert lines[-1] == "7 distributions, 19 MB"


GRAPHS = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef")), min_size=1)


@given(GRAPHS)
def test_what_direct_dependencies_bring_alone_never_overlaps(graph: dict[str, frozenset[str]]) -> None:
    found = {name: Installed(name, "1", 1, requires) for name, requires in graph.items()}
    top = min(found)
    alone = brought_alone(found, top)
    parts = [name for only in alone.values() for name in only]
    assert len(parts) == len(set(parts))
    assert set(parts) <= reachable(found, found[top].requires)
    assert megabytes(found, found) == pytest.approx(len(found) / 1e6)


@pytest.mark.parametrize(
    "words",
    [
        ("peers", "policies", "3", "work"),
        ("context_peers", "zeus", "200", "32000", "gpt-5"),
        ("streamed", "--steps=2", "--runs=1", "--runtimes=native"),
        ("concurrent", "--sessions=2", "--steps=2", "--answer-seconds=0", "--runs=1"),
    ],
    ids=str,
)
def test_a_benchmark_runs_for_a_user_who_has_allowed_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    if last.startswith("{"):
        assert json.loads(last)
        return
    # Not the sign of the others: two steps cost less than one start differs from the next.
    first, *_ = (float(figure) for figure in last.split()[1:])
    assert first > 0
