"""A batch counts as delivered only if its client is connected before the last byte is sent."""

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial

import django.db
import psycopg
import pytest
from asgiref.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)

from buffer.batches.api import answers
from buffer.batches.api.answers import TrackedAnswer
from config.http_protocol import BoundedHttp
from config.machines import Machines, _Client

PARTS = [b"[", bytes(3_000_000), b", ", bytes(100), b"]}"]


async def no_app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    raise AssertionError


async def never() -> ASGIReceiveEvent:
    await asyncio.Event().wait()
    raise AssertionError


async def sent_to_client(*, client_left: Callable[[], bool]) -> tuple[list[bytes], list[str]]:
    """Send an answer; return the bodies of its messages and how sending ended."""
    machines = Machines(no_app)
    bodies: list[bytes] = []
    outcome: list[str] = []

    async def send(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body":
            bodies.append(bytes(message["body"]))

    answer = TrackedAnswer(
        PARTS, on_sent=lambda: outcome.append("sent"), on_cut=lambda: outcome.append("cut")
    )
    await machines._send(answer, send, _Client(never, client_left=client_left))
    machines._threads.shutdown()
    return bodies, outcome


@pytest.mark.parametrize(("is_gone", "outcome"), [(False, ["sent"]), (True, ["cut"])])
def test_the_client_is_checked_once_before_the_last_byte(is_gone: bool, outcome: list[str]) -> None:
    checks: list[int] = []
    bodies: list[bytes] = []

    def client_left() -> bool:
        checks.append(len(bodies))
        return is_gone

    bodies, noted = asyncio.run(sent_to_client(client_left=client_left))

    assert noted == outcome
    assert len(checks) == 1
    assert b"".join(bodies) == b"".join(PARTS)
    assert bodies[-2:] == [b"", b"}"]


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("kind", [django.db.OperationalError, psycopg.OperationalError])
def test_the_end_of_an_answer_is_recorded_after_an_outage_of_the_database(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], is_sent: bool
) -> None:
    monkeypatch.setattr(answers, "RETRY_SECONDS", 0.01)
    attempts: list[bool] = []
    recorded = threading.Event()

    def record(outcome: bool) -> None:
        attempts.append(outcome)
        if len(attempts) < 4:
            raise kind("the server terminated the connection")
        recorded.set()

    answer = TrackedAnswer(PARTS, on_sent=partial(record, True), on_cut=partial(record, False))
    answer.finish(is_sent=is_sent)
    answer.close()

    assert recorded.wait(10)
    assert attempts == [is_sent] * 4


def test_a_wrong_record_of_an_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def record() -> None:
        raise django.db.ProgrammingError("no such column")

    with pytest.raises(django.db.ProgrammingError):
        TrackedAnswer(PARTS, on_sent=record, on_cut=record).finish(is_sent=True)


@pytest.mark.parametrize("has_unread_bytes", [False, True])
def test_the_kernel_reports_a_hang_up_before_the_event_loop_runs(has_unread_bytes: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        connected, _ = listener.accept()

    class Transport:
        def is_closing(self) -> bool:
            return False

        def get_extra_info(self, _: str) -> socket.socket:
            return connected

    protocol = BoundedHttp.__new__(BoundedHttp)
    protocol.transport = Transport()  # type: ignore[assignment]
    with connected:
        assert not protocol.client_left()
        if has_unread_bytes:
            connected.send(b"unread")
        client.close()
        assert protocol.client_left()
