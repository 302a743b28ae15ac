"""Runs on the other machine: answers questions one after the other, and stops when the other side is gone.

It is sent there as source (``parcel``) and needs only that machine's Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from zeus_plugins.sandboxes.ssh import plain
from zeus_plugins.sandboxes.ssh.framing import (
    ALIVE,
    ALIVE_SECONDS,
    ASKED,
    DONE,
    FAILED,
    OUTPUT,
    frame,
    next_frame,
    said,
)
from zeus_runtime.plugin import ZeusError
from zeus_runtime.plugin.files import own_path
from zeus_runtime.plugin.sandbox import (
    Outcome,
    Program,
    SandboxError,
    SandboxLimits,
    SandboxUnavailableError,
    make_session_folder,
    remove_folder,
    remove_older,
    session_folder,
)

_WALLED: Final = "bubblewrap"


def main() -> None:
    """Answer the questions from the standard input until it ends."""
    asyncio.run(_main())


async def _main() -> None:
    loop = asyncio.get_running_loop()
    source = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(source), os.fdopen(0, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(1, "wb", 0)
    )
    # With this limit, drained means sent: nothing is in a buffer when this process ends.
    transport.set_write_buffer_limits(high=0)
    sink = asyncio.StreamWriter(transport, protocol, None, loop)
    inbox: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
    heard = asyncio.ensure_future(_read(source, inbox))
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, heard.cancel)
    alive = asyncio.ensure_future(_tell(sink))
    while not heard.done():
        serving = asyncio.ensure_future(_serve(inbox, sink))
        await asyncio.wait([serving, heard], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
    alive.cancel()


async def _serve(inbox: asyncio.Queue[tuple[bytes, bytes]], sink: asyncio.StreamWriter) -> None:
    kind, data = await inbox.get()
    assert kind == ASKED
    question = json.loads(data)
    files = {name: (await inbox.get())[1] for name in question["files"]}
    sink.write(await _answer(question, files, sink))
    with suppress(OSError):
        await sink.drain()


async def _read(source: asyncio.StreamReader, inbox: asyncio.Queue[tuple[bytes, bytes]]) -> None:
    """Read frames until the other side is gone."""
    with suppress(EOFError):
        while True:
            inbox.put_nowait(await next_frame(source))


async def _tell(sink: asyncio.StreamWriter) -> None:
    while True:
        sink.write(frame(ALIVE))
        await asyncio.sleep(ALIVE_SECONDS)


async def _answer(
    question: Mapping[str, Any], files: Mapping[str, bytes], sink: asyncio.StreamWriter
) -> bytes:
    try:
        return said(DONE, await _done(question, files, sink))
    except ZeusError as error:
        unavailable = isinstance(error, SandboxUnavailableError)
        told = {"message": error.message, "remedy": error.remedy, "unavailable": unavailable}
        return said(FAILED, told)
    except OSError as error:
        return said(FAILED, {"message": str(error), "remedy": None, "unavailable": False})
    except Exception as error:  # noqa: BLE001 - without an answer the caller would wait for minutes, because the signs of life continue
        why = f"{type(error).__name__}: {error}"
        return said(FAILED, {"message": why, "remedy": None, "unavailable": False})


async def _done(question: Mapping[str, Any], files: Mapping[str, bytes], sink: asyncio.StreamWriter) -> Any:
    root = Path.home() / question["folder"]
    match question["do"]:
        case "look":
            return _look(question, root)
        case "run":
            folder = session_folder(root, question["session"])
            make_session_folder(folder)
            os.utime(folder)
            program = Program(tuple(question["arguments"]), files, question["environ"])
            limits = SandboxLimits(**question["limits"])
            outcome = await _run(question, folder, program, limits, sink)
            return [outcome.exit_code, outcome.killed_by, outcome.seconds, outcome.lost]
        case "make":
            make_session_folder(session_folder(root, question["session"]))
            return None
        case "remove":
            await asyncio.to_thread(remove_folder, root, question["session"])
            return None
        case "remove_older":
            await asyncio.to_thread(
                remove_older, root, max_age_days=question["days"], spare=question["session"]
            )
            return None
        case other:
            raise SandboxError(f"unknown question {other}")


async def _run(
    question: Mapping[str, Any],
    folder: Path,
    program: Program,
    limits: SandboxLimits,
    sink: asyncio.StreamWriter,
) -> Outcome:
    def hear(data: bytes) -> None:
        sink.write(frame(OUTPUT, data))

    if question["wrap"] != _WALLED:
        return await plain.run(folder, program, limits, hear)
    from zeus_plugins.sandboxes.bubblewrap.host import host_root
    from zeus_plugins.sandboxes.bubblewrap.running import run

    return await run(_bwrap(question), host_root(None), folder, program, limits, hear)


def _look(question: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    """Return what this machine offers.

    Raises:
        SandboxUnavailableError: this machine lacks something that is needed.
    """
    if sys.platform != "linux":
        raise SandboxUnavailableError("it does not run Linux", remedy="Use a Linux machine.")
    own_path(root).mkdir(mode=0o700, parents=True, exist_ok=True)
    if question["wrap"] != _WALLED:
        python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") is not None
        return {"root": str(root), "python": python}
    from zeus_plugins.sandboxes.bubblewrap.host import check_system, host_root, probe

    check_system()
    probe(_bwrap(question))
    return {"root": str(root), "python": host_root(None).python is not None}


def _bwrap(question: Mapping[str, Any]) -> str:
    found = shutil.which(str(question["bwrap"]))
    if found is None:
        raise SandboxUnavailableError(
            f"the program {question['bwrap']} is not installed there",
            remedy="Install bubblewrap there: apt-get install bubblewrap, or dnf install bubblewrap.",
        )
    return found
