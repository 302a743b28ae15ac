"""``--otel``: set up OpenTelemetry's SDK for this process, as the ``OTEL_*`` variables say."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, cast

import click

from zeus_runtime.errors import MissingError, UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_LONGEST_WAIT_SECONDS: Final = 3.0
"""How long the end of a command waits for a collector that does not answer."""
_PARENT: Final = {"TRACEPARENT": "traceparent", "TRACESTATE": "tracestate", "BAGGAGE": "baggage"}


def otel_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--otel``, which is carried out when the command begins."""

    @wraps(command)
    def traced(*args: Any, otel: bool, **rest: Any) -> Any:
        if otel:
            turn_on(os.environ, click.get_current_context().obj.redact)
        return command(*args, **rest)

    option = click.option(
        "--otel",
        is_flag=True,
        help="Send spans and metrics by OpenTelemetry; the OTEL_* variables say where.",
    )
    return option(traced)


def turn_on(environ: Mapping[str, str], redact: Callable[[str], str]) -> None:
    """Set up the SDK, once per process; a program that has set it up already keeps its own.

    Args:
        environ: the process's variables. Those of a project's ``.env`` are not among them: they could send the spans
            elsewhere.
        redact: masks the SDK's own messages and the texts of all spans and metrics. Other libraries make some too: the
            MCP SDK writes a server's error into the status of a span.

    Raises:
        MissingError: the SDK or an exporter is not installed.
        UsageError: a variable names no exporter or protocol, or an address whose password ends its host.
    """
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise _missing("the OpenTelemetry SDK") from error
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    _refuse_misread(environ)
    resource = _resource()
    # Processors and readers start threads, so none is made before every exporter is known to work.
    traced, measured = list(_exporters("traces", environ)), list(_exporters("metrics", environ))
    spans = [BatchSpanProcessor(cast("SpanExporter", _Masking(each, redact))) for each in traced]
    readers = [PeriodicExportingMetricReader(_masking_metrics(each, redact)) for each in measured]
    _report_problems(redact)
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    for processor in spans:
        tracers.add_span_processor(processor)
    trace.set_tracer_provider(tracers)
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(meters)
    atexit.register(_send_rest, [tracers.shutdown, meters.shutdown])
    _join_parent(environ)


class _Masking:
    """A ``SpanExporter`` that masks the secrets in spans for another one."""

    def __init__(self, exporter: SpanExporter, redact: Callable[[str], str]) -> None:
        self._exporter = exporter
        self._redact = redact
        self.shutdown = exporter.shutdown
        self.force_flush = exporter.force_flush

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([self._masked(each) for each in spans])

    def _masked(self, span: ReadableSpan) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, Status

        status = span.status
        if status.description:
            status = Status(status.status_code, self._redact(status.description))
        return ReadableSpan(
            self._redact(span.name),
            span.context,
            span.parent,
            _masked(span.resource, self._redact),
            self._in(span.attributes),
            [
                Event(self._redact(each.name), self._in(each.attributes), each.timestamp)
                for each in span.events
            ],
            [Link(each.context, self._in(each.attributes)) for each in span.links],
            span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _in(self, value: Any) -> Any:
        return _masked(value, self._redact)


def _masking_metrics(exporter: MetricExporter, redact: Callable[[str], str]) -> MetricExporter:
    """The exporter, which masks from now on the secrets in what it exports."""
    export = exporter.export

    def masked(data: MetricsData, *args: Any, **named: Any) -> MetricExportResult:
        return export(_masked(data, redact), *args, **named)

    # Its reader also asks it for attributes that the SDK's interface does not name.
    exporter.export = masked  # type: ignore[method-assign,assignment]
    return exporter


def _masked(value: Any, redact: Callable[[str], str]) -> Any:
    """A value of the SDK with the secrets masked in its texts."""
    from opentelemetry.sdk.resources import Resource

    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Resource):
        return Resource(_masked(value.attributes, redact), value.schema_url)
    if isinstance(value, Mapping):
        return {redact(key): _masked(each, redact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(each, redact) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _masked(getattr(value, each.name), redact) for each in fields(value)}
        )
    return value


def _send_rest(endings: Sequence[Callable[[], object]]) -> None:
    """Send what is left, but not at any price: the SDK tries for 10 seconds or more if the collector is away."""
    # Daemons: one that still waits for the collector does not keep the process.
    threads = [threading.Thread(target=each, daemon=True) for each in endings]
    for each in threads:
        each.start()
    until = time.monotonic() + _LONGEST_WAIT_SECONDS
    for each in threads:
        each.join(max(0.0, until - time.monotonic()))
    if any(each.is_alive() for each in threads):
        from zeus_runtime.cli.streams import complain

        complain(
            f"note: OpenTelemetry: the collector did not answer within {_LONGEST_WAIT_SECONDS:g} seconds, so the last"
            " spans or metrics may be missing there",
            "yellow",
        )


def _refuse_misread(environ: Mapping[str, str]) -> None:
    """Raise for an address that the exporters read otherwise than it is meant."""
    from zeus_runtime.config.secrets.connection_strings import is_misread

    for name, value in environ.items():
        if name.startswith("OTEL_EXPORTER_") and name.endswith("_ENDPOINT") and is_misread(value):
            raise UsageError(
                f"the password in {name} has a / ? or # that ends the host",
                remedy="Write it percent-encoded: %2F is /, %3F is ?, %23 is #.",
            )


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    from zeus_runtime.version import __version__

    said = Resource.create()
    if not str(said.attributes.get("service.name", "")).startswith("unknown_service"):
        return said
    return said.merge(Resource({"service.name": "zeus", "service.version": __version__}))


def _exporters(signal: str, environ: Mapping[str, str]) -> Iterator[Any]:
    from importlib.metadata import entry_points

    variable = f"OTEL_{signal.upper()}_EXPORTER"
    found = {each.name: each for each in entry_points(group=f"opentelemetry_{signal}_exporter")}
    for name in filter(None, map(str.strip, environ.get(variable, "otlp").split(","))):
        if name == "none":
            continue
        key = _by_protocol(signal, environ) if name == "otlp" else name
        if key not in found:
            if name == "otlp":
                raise _missing("the exporter for OTEL_EXPORTER_OTLP_PROTOCOL")
            known = ", ".join(sorted({"otlp", "none", *found}))
            raise UsageError(f"{variable} = {name!r} names no exporter", remedy=f"Installed are: {known}.")
        try:
            made = found[key].load()
        except ImportError as error:
            raise _missing(f"the exporter {name!r}") from error
        # Standard output is the answer.
        yield made(out=sys.stderr) if name == "console" else made()


def _by_protocol(signal: str, environ: Mapping[str, str]) -> str:
    of_all = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or of_all
    if protocol not in _PROTOCOLS:
        raise UsageError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL = {protocol!r} is not supported",
            remedy=f"Use {' or '.join(_PROTOCOLS)}.",
        )
    return _PROTOCOLS[protocol]


def _join_parent(environ: Mapping[str, str]) -> None:
    """Make the spans children of the one that the process was started in, if the starting program names it."""
    from opentelemetry.context import attach
    from opentelemetry.propagate import extract

    named = {header: environ[name] for name, header in _PARENT.items() if environ.get(name)}
    if named:
        attach(extract(named))


def _report_problems(redact: Callable[[str], str]) -> None:
    """Print the SDK's warnings as one note each: a collector that is away must not fill the terminal."""
    log = logging.getLogger("opentelemetry")
    if not any(isinstance(each, _Notes) for each in log.handlers):
        log.addHandler(_Notes(redact))
        log.propagate = False


class _Notes(logging.Handler):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        from zeus_runtime.cli.streams import complain
        from zeus_runtime.cutting import cut_text, unwrapped

        if record.name in self._printed:
            return
        self._printed.add(record.name)
        text = cut_text(unwrapped(record.getMessage()), 300)
        complain(self._redact(f"note: OpenTelemetry: {text}"), "yellow")


def _missing(what: str) -> MissingError:
    return MissingError(f"{what} is not installed", remedy="Install it: pip install 'zeus-runtime[otel]'.")
