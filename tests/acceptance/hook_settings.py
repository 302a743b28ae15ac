"""The options of `hooks`, one by one, and what each changes."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from tests.acceptance.approval_settings import NOTE
from tests.acceptance.settings import Flip, Scene


class _Refusing(BaseHTTPRequestHandler):
    """Lets only those pass who bring a header."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204 if "X-Pass" in self.headers else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


async def at_an_address(scene: Scene) -> str:
    """How a run ends that makes one call, with a hook at an address that wants a header."""
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        scene.environ["PORT_OF_HOOK"] = str(server.server_port)
        return next(iter(scene.problems()), "") or await NOTE(scene)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_URL = "http://127.0.0.1:${PORT_OF_HOOK}/"


def _given(event: str, **hook: Any) -> dict[str, Any]:
    return {
        "tools": ["gauge"],
        "plugins": {"files": ["probe.py"]},
        "middlewares": [{"hooks": {event: [hook]}}],
    }


def _of(event: str, denied: str = "hook_denied") -> tuple[Flip, ...]:
    key = f"middleware:hooks.{event}.*."

    def line(text: str) -> dict[str, Any]:
        return _given(event, command=["sh", "-c", text])

    return (
        Flip(f"{key}command", ["false"], NOTE, "complete", denied, line("true")),
        Flip(f"{key}url", _URL, at_an_address, "misfit", denied, _given(event)),
        Flip(f"{key}headers", {"X-Pass": "1"}, at_an_address, denied, "complete", _given(event, url=_URL)),
        Flip(f"{key}timeout_seconds", 0.05, NOTE, "complete", denied, line("sleep 0.2")),
        Flip(f"{key}on_failure", "continue", NOTE, denied, "complete", line("exit 1")),
    )


def _of_tools(event: str) -> tuple[Flip, ...]:
    key, fails = f"middleware:hooks.{event}.*.match.", _given(event, command=["false"])
    return (
        *_of(event, "refused"),
        Flip(f"{key}tool", "speak", NOTE, "refused", "complete", fails),
        Flip(f"{key}path", "src/**", NOTE, "refused", "complete", fails),
    )


HOOKED = (
    *_of("before_run"),
    *_of("before_model_call"),
    *_of("after_model_call"),
    *_of_tools("before_tool_call"),
    *_of_tools("after_tool_call"),
    *_of("after_run"),
)
