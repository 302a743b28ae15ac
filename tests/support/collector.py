"""A collector of OpenTelemetry on the loopback: it takes OTLP over HTTP, as exporters really send it."""

from __future__ import annotations

import gzip
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What a collector on the loopback received; ``texts`` has the whole of each request."""

    def __init__(self) -> None:
        self.address = ""
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.metrics: set[str] = set()
        self.texts: list[str] = []
        self._changed = Condition()

    def wait_for(self, name: str) -> None:
        """Wait until a span of this name has arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(each.name == name for each in self.spans), 60)

    def take(self, path: str, body: bytes) -> None:
        with self._changed:
            self._take(path, body)
            self._changed.notify_all()

    def _take(self, path: str, body: bytes) -> None:
        self.texts.append(body.decode("utf-8", "replace"))
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                self.services.add(named["service.name"])
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        else:
            for metered in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {each.name for scope in metered.scope_metrics for each in scope.metrics}


@contextmanager
def collecting() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            found.take(self.path, gzip.decompress(body) if is_packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def through_rotel(address: str) -> Iterator[str]:
    """Run rotel, a collector of other authors from PyPI, which passes on what it receives; yield its address.

    Args:
        address: where it passes spans on.
    """
    found = find_spec("rotel")
    program = found and found.origin and Path(found.origin).with_name("rotel-agent")
    if not program or not program.exists():
        pytest.skip("no collector of others here: pip install rotel (Linux on x86-64)")
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as grpc:
        ports = [each.getsockname()[1] for each in (http, grpc)]
    process = subprocess.Popen(
        [
            *(str(program), "start", "--exporter", "otlp", "--batch-timeout", "50ms"),
            *(
                "--otlp-http-endpoint",
                f"127.0.0.1:{ports[0]}",
                "--otlp-grpc-endpoint",
                f"127.0.0.1:{ports[1]}",
            ),
            *("--otlp-exporter-endpoint", address, "--otlp-exporter-protocol", "http"),
        ],
        env={},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", ports[0]), 1).close()
                break
            except OSError:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < until
                time.sleep(0.02)
        yield f"http://127.0.0.1:{ports[0]}"
        process.terminate()  # it passes on what it holds
        process.wait(timeout=20)
    finally:
        process.kill()
        process.communicate()
