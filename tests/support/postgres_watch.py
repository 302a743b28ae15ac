"""Ends a test's PostgreSQL server when its last test process has ended, however that ended.

Each test process starts one of these, and holds its standard input open: a killed process closes it too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def main(folder: Path) -> None:
    users = folder.with_suffix(".users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)  # shared by the watchers of all processes that use the server
    print("watching", flush=True)
    sys.stdin.read()
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another process still uses the server
    with suppress(OSError, ValueError, IndexError):
        server = int((folder / "postmaster.pid").read_text().split()[0])
        os.kill(server, signal.SIGQUIT)
        for _ in range(200):  # a server that is ending still writes into its folder
            os.kill(server, 0)
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    Path(users.name).unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
