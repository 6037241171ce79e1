"""Requests and jobs yield spans with the run's name for a collector, if one is configured."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from celery import signals
from django.core.exceptions import ImproperlyConfigured

from config.celery import app as celery
from config.tracing import route_of, run_of, trace_jobs, traced
from tests.server import wait_until
from tests.trace_collector import PARENT, TRACE, Spans, attributes, collecting


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with collecting(monkeypatch) as received:
        yield received


def answering(status: int) -> Any:
    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})

    return app


def send_request(app: Any, path: str, *headers: tuple[bytes, bytes]) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": path, "headers": list(headers)}
    asyncio.run(app(scope, receive, send))
    return sent


def test_without_a_collector_the_application_is_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    app = answering(200)

    assert traced(app) is app


def test_a_request_is_a_span_of_its_callers_trace_and_names_the_run(spans: Spans) -> None:
    app = traced(answering(200))

    header = (b"traceparent", PARENT.encode())
    messages = send_request(app, "/api/v1/runs/demo/batches/next", header)
    [span] = wait_until(spans, seconds=20, what="the span arrives")

    assert messages[1]["body"] == b"answer"
    assert span.name == "GET /api/v1/runs/{run}/batches/next"
    assert span.trace_id.hex() == TRACE
    assert attributes(span) == {
        "http.request.method": "GET",
        "url.path": "/api/v1/runs/demo/batches/next",
        "rolldeck.run": "demo",
        "http.response.status_code": 200,
    }


def test_a_server_error_is_marked_in_its_span(spans: Spans) -> None:
    app = traced(answering(503))

    send_request(app, "/healthz/ready")
    [span] = wait_until(spans, seconds=20, what="the span arrives")

    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert "rolldeck.run" not in attributes(span)


def test_a_job_is_a_span_with_its_run_and_its_error(spans: Spans) -> None:
    @celery.task(name="tests.counted")
    def counted(*, run_id: int) -> None:
        raise ValueError(f"run {run_id} is odd")

    watched = (signals.task_prerun, signals.task_failure, signals.task_postrun)
    before = [list(topic.receivers) for topic in watched]
    trace_jobs()
    try:
        counted.apply(kwargs={"run_id": 7})
        [span] = wait_until(spans, seconds=20, what="the span arrives")
    finally:
        for topic, receivers in zip(watched, before, strict=True):
            topic.receivers = receivers
            if topic.use_caching:
                topic.sender_receivers_cache.clear()

    assert span.name == "tests.counted"
    assert attributes(span) == {"rolldeck.run_id": 7}
    assert [event.name for event in span.events] == ["exception"]


def test_a_collector_without_its_packages_is_reported_at_the_start(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(ImproperlyConfigured, match=r"rolldeck\[tracing\]"):
        traced(answering(200))


@pytest.mark.parametrize(
    ("path", "run", "route"),
    [
        ("/api/v1/runs/demo", "demo", "/api/v1/runs/{run}"),
        ("/api/v1/runs/api/groups/12", "api", "/api/v1/runs/{run}/groups/{id}"),
        ("/atropos/demo/scored_data", "demo", "/atropos/{run}/scored_data"),
        ("/api/v1/alerts/7/acknowledge", None, "/api/v1/alerts/{id}/acknowledge"),
        ("/batch", None, "/batch"),
    ],
)
def test_addresses_are_named_by_their_route(path: str, run: str | None, route: str) -> None:
    assert (run_of(path), route_of(path)) == (run, route)
