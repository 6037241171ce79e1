"""Requests of the client carry the span that the calling program has opened."""

from opentelemetry.sdk.trace import TracerProvider

from rolldeck.http import Call, Connection
from tests.unit.client.failing_server import Planned, Seen, serving


def answer(_: Seen) -> Planned:
    return Planned()


def test_calls_and_downloads_continue_the_current_span() -> None:
    tracer = TracerProvider().get_tracer("trainer")
    with serving(answer) as server, Connection(server.url) as connection:
        connection.json(Call(method="GET", path="/before"))
        with tracer.start_as_current_span("step") as step:
            connection.json(Call(method="POST", path="/within", json={}))
            with connection.opened("/download", {}) as response:
                response.read()
        connection.json(Call(method="GET", path="/after"))

    context = step.get_span_context()
    flags = f"{context.trace_flags:02x}"
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags}"
    assert [(request.path, request.headers.get("traceparent")) for request in server.seen] == [
        ("/before", None),
        ("/within", expected),
        ("/download", expected),
        ("/after", None),
    ]
