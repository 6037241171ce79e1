"""Send traces to a collector, if configured: a span for each request and background job.

OpenTelemetry's standard variables configure it (``OTEL_EXPORTER_OTLP_ENDPOINT``,
``OTEL_TRACES_SAMPLER`` …). A request with a ``traceparent`` continues its trace, so a trainer's
step and the batch it waited for appear in one trace. Without a collector nothing is imported, and
requests have no overhead.
"""

import re
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import ImproperlyConfigured

from rolldeck import tracing

if TYPE_CHECKING:
    from asgiref.typing import (
        ASGI3Application,
        ASGIReceiveCallable,
        ASGISendCallable,
        ASGISendEvent,
        Scope,
    )
    from opentelemetry.trace import Span, Tracer

_RUN: Final = re.compile(r"^/(?:api/v1/runs|atropos|runs|ws/runs)/(?P<run>[^/]+)")
_NUMBERED: Final = re.compile(r"/(?:\d+|[0-9a-f]{8}-[0-9a-f-]{27})(?=/|$)")


def tracer(service: str) -> "Tracer | None":
    """Return the tracer of this process; None without a collector.

    Args:
        service: Name of the process for the collector, unless ``OTEL_SERVICE_NAME`` gives one.

    Raises:
        ImproperlyConfigured: If a collector is configured and the packages are missing.
    """
    try:
        return tracing.tracer(service)
    except tracing.TracingMissingError as error:
        raise ImproperlyConfigured(str(error)) from error


def traced(app: "ASGI3Application") -> "ASGI3Application":
    """Wrap an application with a span for each HTTP request; unchanged without a collector."""
    made = tracer("rolldeck-web")
    return app if made is None else _TracedRequests(app, made)


class _TracedRequests:
    """ASGI middleware that opens a span for each HTTP request."""

    def __init__(self, app: "ASGI3Application", tracer: "Tracer") -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(
        self, scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable"
    ) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        path = str(scope["path"])
        with self._tracer.start_as_current_span(
            f"{scope['method']} {route_of(path)}", context=extract(headers), kind=SpanKind.SERVER
        ) as span:
            span.set_attributes({"http.request.method": scope["method"], "url.path": path})
            if run := run_of(path):
                span.set_attribute("rolldeck.run", run)

            async def note(message: "ASGISendEvent") -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, note)


def run_of(path: str) -> str | None:
    """Return the name of the run in a path, if any."""
    found = _RUN.match(path)
    return found["run"] if found else None


def route_of(path: str) -> str:
    """Replace the run and the ids in a path by placeholders, which keeps span names few."""
    if found := _RUN.match(path):
        path = f"{path[: found.start('run')]}{{run}}{path[found.end('run') :]}"
    return _NUMBERED.sub("/{id}", path)


def trace_jobs() -> None:
    """Open a span for each job of this Celery pool process."""
    made = tracer("rolldeck-jobs")
    if made is None:
        return
    from celery.signals import task_failure, task_postrun, task_prerun

    spans: dict[str, Span] = {}

    def begin(task_id: str, task: Any, kwargs: dict[str, Any], **_: Any) -> None:
        attributes = {"rolldeck.run_id": kwargs["run_id"]} if "run_id" in kwargs else {}
        spans[task_id] = made.start_span(task.name, attributes=attributes)

    def fail(task_id: str, exception: BaseException, **_: Any) -> None:
        if span := spans.get(task_id):
            span.record_exception(exception)

    def end(task_id: str, **_: Any) -> None:
        if span := spans.pop(task_id, None):
            span.end()

    task_prerun.connect(begin, weak=False)
    task_failure.connect(fail, weak=False)
    task_postrun.connect(end, weak=False)
