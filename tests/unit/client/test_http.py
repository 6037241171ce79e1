"""Calls survive outages, never run twice by accident, and always time out."""

import json
import logging
import socket
import time
from datetime import UTC, datetime
from email import message_from_bytes

import pytest

from rolldeck.errors import (
    InvalidAnswerError,
    InvalidRequestError,
    LeaseLostError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    RolldeckError,
    TooBusyError,
    UnreachableError,
)
from rolldeck.http import Backoff, Call, Connection, retry_after_seconds
from tests.unit.client.failing_server import Planned, in_turn, serving

FAST = Backoff(first_seconds=0.01, most_seconds=0.02)
BROKEN = Planned(status=0)
DONE = Planned(body=b'{"done": true}')


def connected(url: str, *, retry_for_seconds: float = 5.0) -> Connection:
    return Connection(
        url, "rd_test", backoff=FAST, timeout_seconds=2, retry_for_seconds=retry_for_seconds
    )


def problem(status: int, code: str, **more: object) -> Planned:
    body = {"type": f"/docs/errors#{code}", "title": "T", "status": status, "code": code, **more}
    return Planned(status, json.dumps(body).encode())


@pytest.mark.parametrize("status", [0, 429, 500, 502, 503, 504])
def test_a_call_is_sent_again_until_it_succeeds(status: int) -> None:
    failing = Planned(status=status)

    with serving(in_turn(failing, failing, failing, DONE)) as server, connected(server.url) as http:
        answer = http.json(Call(method="GET", path="/x"))

    assert answer == {"done": True}
    assert len(server.seen) == 4


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_response_that_ends_anywhere_within_its_headers_is_requested_again(method: str) -> None:
    whole = b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: x\r\nContent-Length: 14"
    for sent in (1, 9, 12, 15, 17, 40, len(whole)):
        cut = Planned(body=DONE.body, headers_sent=sent)

        with serving(in_turn(cut, DONE)) as server, connected(server.url) as http:
            answer = http.json(Call(method=method, path="/x"))

        assert (answer, len(server.seen)) == ({"done": True}, 2), sent


def test_the_idempotency_key_stays_the_same_over_all_attempts_of_a_call() -> None:
    with serving(in_turn(BROKEN, Planned(503), DONE)) as server, connected(server.url) as http:
        http.json(Call(method="POST", path="/x", json={"a": 1}))
        http.json(Call(method="POST", path="/x", json={"a": 1}))

    keys = [request.headers["Idempotency-Key"] for request in server.seen]
    assert len(keys) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]
    assert {request.body for request in server.seen} == {b'{"a":1}'}


def test_a_file_upload_is_complete_on_every_attempt() -> None:
    files = {"weights": ("w.safetensors", b"\x00" * 5000, "application/octet-stream")}

    with serving(in_turn(Planned(502), DONE)) as server, connected(server.url) as http:
        http.json(Call(method="POST", path="/x", files=files))

    assert len(server.seen) == 2
    assert server.seen[0].body == server.seen[1].body
    kind = server.seen[0].headers["Content-Type"]
    _, part = message_from_bytes(f"Content-Type: {kind}\n\n".encode() + server.seen[0].body).walk()
    assert part.get_filename() == "w.safetensors"
    assert part.get_payload(decode=True) == b"\x00" * 5000


def test_a_call_that_must_not_be_repeated_is_sent_once() -> None:
    call = Call(method="POST", path="/x", is_repeatable=False)

    with (
        serving(in_turn(BROKEN, DONE)) as server,
        connected(server.url) as http,
        pytest.raises(UnreachableError),
    ):
        http.send(call)

    assert len(server.seen) == 1
    assert "Idempotency-Key" not in server.seen[0].headers


def test_a_pending_answer_is_awaited() -> None:
    busy = problem(409, "in_flight")

    with serving(in_turn(busy, busy, DONE)) as server, connected(server.url) as http:
        assert http.json(Call(method="POST", path="/x")) == {"done": True}


def test_retry_after_is_respected() -> None:
    busy = Planned(429, headers={"Retry-After": "1"})
    started = time.monotonic()

    with serving(in_turn(busy, DONE)) as server, connected(server.url) as http:
        http.send(Call(method="GET", path="/x"))

    assert time.monotonic() - started >= 1


def test_retry_after_beyond_the_deadline_fails_at_once() -> None:
    busy = Planned(503, headers={"Retry-After": "600"})
    started = time.monotonic()

    with (
        serving(in_turn(busy)) as server,
        connected(server.url) as http,
        pytest.raises(TooBusyError),
    ):
        http.send(Call(method="GET", path="/x"))

    assert time.monotonic() - started < 10


def test_an_unreachable_server_is_an_error_after_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    started = time.monotonic()

    with (
        connected(f"http://127.0.0.1:{port}", retry_for_seconds=0.3) as http,
        caplog.at_level(logging.WARNING, "rolldeck"),
        pytest.raises(UnreachableError),
    ):
        http.send(Call(method="GET", path="/x"))

    assert 0.2 < time.monotonic() - started < 10
    assert "retry in" in caplog.text
    assert "failed, attempt" in caplog.text


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401, "not_authenticated"), NotAuthenticatedError),
        (problem(403, "forbidden"), NotAllowedError),
        (problem(404, "not_found"), NotFoundError),
        (problem(409, "lease_lost"), LeaseLostError),
        (problem(400, "invalid"), InvalidRequestError),
        (Planned(501, b"<h1>oops"), RolldeckError),
        (Planned(302, b"", {"Location": "/login"}), RolldeckError),
    ],
    ids=["401", "403", "404", "lease", "400", "501", "302"],
)
def test_a_refusal_is_raised_at_once_as_its_own_class(
    answer: Planned, error: type[RolldeckError]
) -> None:
    with (
        serving(in_turn(answer)) as server,
        connected(server.url) as http,
        pytest.raises(error) as raised,
    ):
        http.send(Call(method="GET", path="/x"))

    assert raised.value.status == answer.status
    assert len(server.seen) == 1


def test_a_refused_field_is_named() -> None:
    refusal = problem(
        400,
        "invalid",
        detail="No.",
        errors=[{"field": "config.buffer.batch_size", "message": "at least 1"}],
    )

    with (
        serving(in_turn(refusal)) as server,
        connected(server.url) as http,
        pytest.raises(
            InvalidRequestError, match=r"config\.buffer\.batch_size: at least 1"
        ) as raised,
    ):
        http.send(Call(method="POST", path="/x"))

    assert raised.value.errors[0].field == "config.buffer.batch_size"
    assert raised.value.code == "invalid"


def test_an_atropos_refusal_names_its_field_too() -> None:
    row = {"loc": ["body", "tokens", 0], "msg": "not a list", "type": "list_type"}
    refusal = Planned(422, json.dumps({"detail": [row]}).encode())

    with (
        serving(in_turn(refusal)) as server,
        connected(server.url) as http,
        pytest.raises(InvalidRequestError, match=r"body\.tokens\.0: not a list"),
    ):
        http.send(Call(method="POST", path="/x"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"<html>", "GET /x returned no JSON"), (b'{"done": 3}', "GET /x: Expected `bool`")],
)
def test_an_answer_of_another_form_is_an_error(content: bytes, message: str) -> None:
    with (
        serving(in_turn(Planned(200, content))) as server,
        connected(server.url) as http,
        pytest.raises(InvalidAnswerError, match=message),
    ):
        http.decoded(Call(method="GET", path="/x"), dict[str, bool])


def test_the_token_is_sent_as_bearer_and_credentials_of_the_url_as_basic() -> None:
    with serving(in_turn(DONE)) as server, connected(server.url) as http:
        http.send(Call(method="GET", path="/x"))
        with Connection(server.url.replace("http://", "http://run:secret@")) as basic:
            basic.send(Call(method="GET", path="/x"))

    sent = [request.headers["Authorization"] for request in server.seen]
    assert sent == ["Bearer rd_test", "Basic cnVuOnNlY3JldA=="]


def test_a_prefix_in_the_url_stays_in_front_of_every_path() -> None:
    with serving(in_turn(DONE)) as server, connected(f"{server.url}/atropos/demo/") as http:
        http.send(Call(method="GET", path="/status"))

    assert server.seen[0].path == "/atropos/demo/status"


def test_waits_double_up_to_a_limit_and_are_spread() -> None:
    backoff = Backoff(first_seconds=1, most_seconds=8)

    assert [backoff.wait_seconds(n, 1.0) for n in (1, 2, 3, 4, 5, 999)] == [1, 2, 4, 8, 8, 8]
    assert backoff.wait_seconds(3, 0.0) == 2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("soon", None),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    header: str | None, seconds: float | None
) -> None:
    assert retry_after_seconds(header, datetime(2026, 11, 21, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    "url", ["localhost:8000", "deck.example", "ftp://server:8000", "http://", "", "http://a:b"]
)
def test_a_url_without_scheme_or_host_is_refused_at_once_with_an_example(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="use the form http://") as refused:
        Connection(url)

    assert repr(url) in str(refused.value)


def test_the_error_of_a_missing_token_names_the_option() -> None:
    detail = "Authentication credentials were not provided."
    with (
        serving(in_turn(problem(401, "not_authenticated", detail=detail))) as server,
        Connection(server.url) as http,
        pytest.raises(NotAuthenticatedError, match=r"not provided: .*ROLLDECK_TOKEN.*--token"),
    ):
        http.send(Call(method="GET", path="/x"))
