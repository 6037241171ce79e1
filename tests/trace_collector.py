"""An OpenTelemetry collector on loopback."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rolldeck import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
Spans = Callable[[], list[Any]]


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Set a collector in the environment; yield a function that returns the received spans."""
    arrived: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest()
            sent.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in sent.resource_spans:
                for scope in resource.scope_spans:
                    arrived.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    yield lambda: list(arrived)
    server.shutdown()
    server.server_close()


@contextmanager
def traced_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Trace this process until the block ends, as a worker or a proxy does."""
    # The web application decides at its import whether it is traced: it is not.
    import config.asgi  # noqa: F401

    with collecting(monkeypatch) as spans:
        monkeypatch.setattr(tracing._Process, "tracer", None)
        tracing.begin("tests")
        tracer: Any = tracing._Process.tracer
        yield spans
        tracer.span_processor.shutdown()


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a received span."""
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in span.attributes
    }
