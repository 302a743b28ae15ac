"""Reverse proxies that offer a service under a path: one that removes it, and nginx with ``deploy/nginx.conf``."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.support.ports import unused_port

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
_FILE = Path(__file__).parents[2] / "deploy" / "nginx.conf"


@contextmanager
def stripping(prefix: str, port: int) -> Iterator[str]:
    """The address of a proxy that removes ``prefix``; each request has a connection of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, rest = head.split(" ", 2)
            assert path.startswith(prefix + "/"), path
            rest = re.sub(r"\r\nconnection:[^\r]*", "", rest, flags=re.IGNORECASE)
            head = f"{method} {path.removeprefix(prefix)} {rest[:-2]}Connection: close\r\n\r\n"
            inner, outer = await asyncio.open_connection("127.0.0.1", port)
            outer.write(head.encode("latin-1"))
            sending = asyncio.create_task(pump(reader, outer))
            await pump(inner, writer)
            sending.cancel()
            outer.close()
        writer.close()

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(passed, "127.0.0.1", 0)

    async def end(server: asyncio.Server) -> None:
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[str]:
    """The address of an nginx with ``deploy/nginx.conf``, which leaves the path in.

    Args:
        folder: gets its files.
        port: the service's.
    """
    own = unused_port()
    location = _FILE.read_text().replace("127.0.0.1:8700", f"127.0.0.1:{port}")
    places = "".join(
        f"{each}_temp_path {folder}/{each};\n"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr;\nevents {{}}\n"
        f"http {{ access_log off;\n{places}server {{ listen 127.0.0.1:{own};\n{location}\n}} }}\n"
    )
    assert NGINX is not None
    process = subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf"])
    try:
        for _ in range(200):
            assert process.poll() is None
            with suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{own}/")
                break
            threading.Event().wait(0.05)
        yield f"http://127.0.0.1:{own}"
    finally:
        process.terminate()
        process.wait()
