"""Traces with OpenTelemetry: spans of this process, and `traceparent` in its requests.

OpenTelemetry's standard variables configure the collector (``OTEL_EXPORTER_OTLP_ENDPOINT``,
``OTEL_TRACES_SAMPLER`` …). Without a collector nothing is imported. Requests of the client carry
the span that the calling program has opened with its own OpenTelemetry, whatever its collector.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger("rolldeck")

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
GENAI: Final = "gen_ai_latest_experimental"
"""Entry of OPT_IN that adds GenAI attributes to spans of inference calls, without contents."""
INSTALL: Final = "traces need pip install 'rolldeck[tracing]'"

Attributes = Mapping[str, str | int | float | bool]
Kind = Literal["internal", "client"]


class TracingMissingError(Exception):
    """A collector is configured, but OpenTelemetry's packages are not installed."""


class _Process:
    """The tracer of this process, if `begin` found a collector."""

    tracer: "Tracer | None" = None


def tracer(service: str) -> "Tracer | None":
    """Return a tracer that sends to the collector; None without a collector.

    Args:
        service: Name of the process for the collector, unless ``OTEL_SERVICE_NAME`` gives one.

    Raises:
        TracingMissingError: If a collector is configured and the packages are missing.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", service)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingMissingError(f"{ENDPOINTS[0]} is set: {INSTALL}") from error
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("rolldeck")


def begin(service: str) -> None:
    """Trace this process if a collector is configured; without the packages, only warn."""
    if _Process.tracer is not None:
        return
    try:
        _Process.tracer = tracer(service)
    except TracingMissingError as error:
        logger.warning("%s", error)


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: Kind = "internal",
    parent: Mapping[str, str] | None = None,
    ends: bool = True,
) -> "Iterator[Span | None]":
    """Open a span around the block; yield None in a process that is not traced.

    Args:
        name: Name of the span.
        attributes: Attributes of the span.
        kind: ``client`` for a request to another process.
        parent: Headers of a request whose trace the span continues, instead of the current span.
        ends: Whether the span ends with the block. Otherwise the caller ends it.
    """
    if _Process.tracer is None:
        yield None
        return
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    with _Process.tracer.start_as_current_span(
        name,
        context=None if parent is None else extract(parent),
        kind=SpanKind.CLIENT if kind == "client" else SpanKind.INTERNAL,
        attributes=attributes,
        end_on_exit=ends,
    ) as opened:
        yield opened


def headers() -> dict[str, str]:
    """Return the headers that continue the current span, such as ``traceparent``; {} without one.

    A program that has not imported OpenTelemetry has no span.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.propagate import inject

    found: dict[str, str] = {}
    inject(found)
    return found


def add_genai(
    opened: "Span | None",
    *,
    operation: str,
    provider: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
) -> None:
    """Add the attributes of GenAI semantic conventions to the span of an inference call.

    Nothing is added without a span, or unless ``OTEL_SEMCONV_STABILITY_OPT_IN`` contains
    ``gen_ai_latest_experimental``.

    Args:
        opened: Span of the call.
        operation: ``chat`` or ``text_completion``.
        provider: Kind of the inference server.
        model: Requested model.
        input_tokens: Number of prompt tokens.
        output_tokens: Number of sampled tokens, of all answers.
    """
    if opened is None or GENAI not in os.environ.get(OPT_IN, "").split(","):
        return
    opened.set_attributes(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": input_tokens,
            "gen_ai.usage.output_tokens": output_tokens,
        }
    )
