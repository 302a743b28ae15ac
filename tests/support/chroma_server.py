"""A ChromaDB server, as its package has it, on a port of the loopback."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import unused_port


@contextmanager
def chroma_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """The URL of a server that keeps its collections in ``folder``; it is killed afterwards."""
    port = port or unused_port()
    program = Path(sys.executable).with_name("chroma")
    command = [str(program), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await(f"{url}/api/v2/heartbeat", process)
            yield url
        finally:
            process.kill()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
