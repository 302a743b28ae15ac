"""Size of an installation: ``python -m benchmarks.install [--extra mcp]``.

Builds the wheel, installs it with pip into an empty virtual environment in a temporary folder, and prints the
megabytes of every distribution, who requires it, and how much each direct dependency brings that nothing else does. A
distribution's size is that of the files in its RECORD, bytecode included, in millions of bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

import click
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OWN = "zeus-runtime"


@dataclass(frozen=True)
class Installed:
    """One distribution.

    Args:
        name: normalized as PEP 503 says.
        version: its version.
        bytes: of its files.
        requires: what it requires in this environment.
    """

    name: str
    version: str
    bytes: int
    requires: frozenset[str]


def reachable(found: Mapping[str, Installed], roots: Iterable[str]) -> Set[str]:
    """The distributions that ``roots`` bring along, themselves included."""
    reached: set[str] = set()
    waiting = [root for root in roots if root in found]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each for each in found[name].requires if each in found]
    return reached


def brought_alone(found: Mapping[str, Installed], top: str) -> dict[str, Set[str]]:
    """For each direct dependency of ``top``, what would not be installed without it."""
    direct = [name for name in found[top].requires if name in found]
    return {
        name: reachable(found, [name]) - reachable(found, [other for other in direct if other != name])
        for name in direct
    }


def megabytes(found: Mapping[str, Installed], names: Iterable[str]) -> float:
    """Their size together."""
    return sum(found[name].bytes for name in names) / 1e6


def read(folder: Path, extras: Iterable[str]) -> dict[str, Installed]:
    """The distributions in a site-packages folder, by name.

    Args:
        folder: the site-packages folder.
        extras: of Zeus, that were installed; those of others follow from the requirements (``uvicorn[standard]``).
    """
    there = {_normal(each.name): each for each in distributions(path=[str(folder)])}
    wanted: dict[str, set[str]] = {name: set() for name in there}
    wanted.get(OWN, set()).update(extras)
    waiting = list(there)
    while waiting:
        for each in _required(there[name := waiting.pop()], wanted[name]):
            asked = wanted.get(_normal(each.name))
            if asked is not None and not each.extras <= asked:
                asked |= each.extras
                waiting.append(_normal(each.name))
    return {name: _installed(name, each, wanted[name]) for name, each in there.items()}


def _installed(name: str, distribution: Distribution, extras: Set[str]) -> Installed:
    files = (Path(str(file.locate())) for file in distribution.files or ())
    return Installed(
        name,
        distribution.version,
        sum(path.stat().st_size for path in files if path.is_file()),
        frozenset(_normal(each.name) for each in _required(distribution, extras)),
    )


def _required(distribution: Distribution, extras: Set[str]) -> Iterator[Requirement]:
    for line in distribution.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def install(folder: Path, extras: Iterable[str]) -> Path:
    """Build and install the checkout; the environment's site-packages."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    chosen = f"[{','.join(extras)}]" if extras else ""
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", f"{wheel}{chosen}"],
        check=True,
    )
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    shown = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return Path(shown.stdout.strip())


@click.command()
@click.option("--extra", "extras", multiple=True, help="Install this extra too; may be repeated.")
@click.option("--least", default=1.0, show_default=True, help="Megabytes below which a row is left out.")
@click.option(
    "--site",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Measure this site-packages folder instead of a new environment.",
)
def main(extras: tuple[str, ...], least: float, site: Path | None) -> None:
    """Print what an installation takes, and why."""
    if site is not None:
        report(read(site, extras), least)
        return
    with tempfile.TemporaryDirectory(prefix="zeus-install-") as folder:
        report(read(install(Path(folder), extras), extras), least)


def report(found: Mapping[str, Installed], least: float) -> None:
    """Print the three tables: all, by size; the direct dependencies; the totals."""
    requirers = {
        name: sorted(other.name for other in found.values() if name in other.requires) for name in found
    }
    print(f"{'distribution':<44}{'MB':>8}  required by")
    for each in sorted(found.values(), key=lambda each: -each.bytes):
        if each.bytes / 1e6 >= least:
            by = ", ".join(requirers[each.name]) or "-"
            print(f"{each.name + ' ' + each.version:<44}{each.bytes / 1e6:>8.1f}  {by}")
    small = [each.name for each in found.values() if each.bytes / 1e6 < least]
    print(f"{f'{len(small)} smaller ones':<44}{megabytes(found, small):>8.1f}\n")
    print(f"{'direct dependency':<30}{'MB alone':>10}{'MB in all':>11}  what nothing else requires")
    alone = brought_alone(found, OWN)
    for name, only in sorted(alone.items(), key=lambda item: -megabytes(found, item[1])):
        heavy = sorted(only - {name}, key=lambda each: -found[each].bytes)[:4]
        whole = megabytes(found, reachable(found, [name]))
        print(f"{name:<30}{megabytes(found, only):>10.1f}{whole:>11.1f}  {', '.join(heavy)}")
    print(f"\n{len(found)} distributions, {megabytes(found, found):.0f} MB")


if __name__ == "__main__":
    main()
