"""Published MCP servers and clients for tests, from npm and PyPI: installed once, in a folder beside the checkout.

The browser that tests drive is the system's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".servers"
NODE_SERVERS = FOLDER / "npm" / "node_modules"
PYTHON_SERVERS = FOLDER / "python" / "bin"
_BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _BROWSERS)), None)
"""The shell is the same Chromium without windows, and takes half of the processor time."""
_NPM = (
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-filesystem",
    "@playwright/mcp",
)
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
_PYPI = ("mcp-server-time", "mcp-server-git", "mcp-server-fetch")
"""They want an older SDK than ours, hence an environment of their own."""


def package_folder(package: str) -> Path:
    """Where npm puts a package, which may name its version."""
    return NODE_SERVERS / (package if package.rfind("@") == 0 else package.rpartition("@")[0])


def install() -> None:
    """Install what is missing; a few megabytes from the registries that npm and pip are configured for."""
    wanted = (*_NPM, CONFORMANCE, INSPECTOR)
    if shutil.which("npm") and not all(package_folder(each).exists() for each in wanted):
        folder = NODE_SERVERS.parent
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted],
            check=True,
        )
    if not (PYTHON_SERVERS / _PYPI[0]).exists():
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON_SERVERS.parent)], check=True)
        subprocess.run([PYTHON_SERVERS / "python", "-m", "pip", "install", "--quiet", *_PYPI], check=True)


if __name__ == "__main__":
    install()
