"""Bodies are counted while they are read, and rejected early."""

import asyncio
import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
from pytest_django import Settings

from config.body_limits import BodyLimits

Message = dict[str, Any]
JSON = [(b"content-type", b"application/json")]


class Recorder:
    """An application that records what it receives, and a client that sends given pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = list(pieces)
        self.reads = 0
        self.seen: bytes | None = None
        self.headers: dict[bytes, bytes] = {}
        self.sent: list[Message] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += bytes(message["body"])
            if not message["more_body"]:
                break
        self.seen = body
        self.headers = dict(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive(self) -> Message:
        self.reads += 1
        if not self.pieces:
            await asyncio.Event().wait()
        body = self.pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.pieces)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def answer(self) -> dict[str, Any]:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent))


async def post(
    *pieces: bytes,
    headers: Iterable[tuple[bytes, bytes]] = (),
    length: int | None = -1,
    path: str = "/api/v1/runs",
    idle_seconds: float = 5.0,
) -> Recorder:
    recorder = Recorder(pieces)
    all_headers = [*JSON, *headers]
    if length is None:
        all_headers.append((b"transfer-encoding", b"chunked"))
    else:
        size = sum(map(len, pieces)) if length == -1 else length
        all_headers.append((b"content-length", str(size).encode()))
    scope = {"type": "http", "method": "POST", "path": path, "headers": all_headers}
    limits = BodyLimits(recorder.app, idle_seconds=idle_seconds)
    await limits(scope, recorder.receive, recorder.send)
    return recorder


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    settings.ROLLDECK_MAX_BODY_BYTES = 1000
    settings.ROLLDECK_MAX_WEIGHTS_BYTES = 5000


async def test_a_plain_body_passes_untouched() -> None:
    done = await post(b"a" * 600, b"b" * 400)

    assert done.seen == b"a" * 600 + b"b" * 400
    assert done.status == 200


async def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    done = await post(b"a", length=1001, headers=[(b"expect", b"100-continue")])

    assert (done.status, done.answer["code"], done.reads) == (413, "too_large", 0)
    assert dict(done.sent[0]["headers"])[b"content-type"] == b"application/problem+json"
    text = "the body is larger than 1000 bytes (max_body_bytes)"
    assert done.answer == {
        "type": "/docs/errors#too_large",
        "title": "Body too large",
        "status": 413,
        "code": "too_large",
        "detail": text,
        "errors": [{"field": "body", "message": text}],
    }
    assert done.seen is None


@pytest.mark.parametrize("length", [-1, None])
async def test_tokenizers_have_their_own_limit(
    length: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.body_limits.MOST_FILE_BYTES", 2000)
    path = "/api/v1/runs/demo/tokenizer"

    done = await post(b"a" * 2000, path=path, length=length)
    larger = await post(b"a" * 2001, path=path, length=length)

    assert (done.status, done.seen) == (200, b"a" * 2000)
    assert (larger.status, larger.seen) == (413, None)
    assert "larger than 2000 bytes" in larger.answer["detail"]


async def test_a_body_without_a_length_is_counted_while_it_is_received() -> None:
    done = await post(b"a" * 600, b"b" * 600, b"c" * 600, length=None)

    assert (done.status, done.answer["status"]) == (413, 413)
    assert done.seen is None


async def test_a_body_without_a_length_gets_one() -> None:
    done = await post(b"a" * 600, b"b" * 300, length=None)

    assert done.seen == b"a" * 600 + b"b" * 300
    assert done.headers[b"content-length"] == b"900"
    assert b"transfer-encoding" not in done.headers


async def test_a_body_longer_than_its_length_is_cut_at_the_limit() -> None:
    done = await post(b"a" * 600, b"b" * 600, length=600)

    assert done.status == 413
    assert done.seen is None


async def test_a_refused_client_may_finish_sending() -> None:
    done = await post(b"a" * 600, b"b" * 600, b"c" * 600)

    assert done.reads == 3
    assert done.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_weights_have_a_separate_limit() -> None:
    path = "/api/v1/runs/cartpole-1/weights"

    assert (await post(b"a" * 4000, path=path)).status == 200
    assert (await post(b"a" * 5001, path=path)).status == 413
    assert (await post(b"a" * 4000, path=path, length=None)).status == 411


@pytest.mark.parametrize("length", [-1, None])
async def test_a_packed_body_stays_packed(length: int | None) -> None:
    packed = gzip.compress(b'{"tokens": []}')
    headers = [(b"content-encoding", b"gzip")]
    done = await post(packed[:10], packed[10:], headers=headers, length=length)

    assert done.seen == packed
    assert done.headers[b"content-encoding"] == b"gzip"
    assert done.headers[b"content-length"] == str(len(packed)).encode()


async def test_an_unknown_encoding_is_named() -> None:
    done = await post(b"abc", headers=[(b"content-encoding", b"br")])

    assert (done.status, done.reads) == (415, 1)  # read only to be discarded
    assert "'br'" in done.answer["detail"]


@pytest.mark.parametrize(
    "path",
    ["/api/v1/session", "/api/v1/session/", "/admin/login/", "/login/once", "/", "/runs/7"],
)
async def test_forms_without_login_take_no_compressed_bodies(path: str) -> None:
    done = await post(gzip.compress(b"{}"), headers=[(b"content-encoding", b"gzip")], path=path)

    assert (done.status, done.answer["code"]) == (415, "unknown_encoding")
    assert path in done.answer["detail"]
    assert done.seen is None


@pytest.mark.parametrize(
    "path", ["/api/v1/runs", "/scored_data", "/atropos/alpha/scored_data_list"]
)
async def test_routes_of_machines_take_compressed_bodies(path: str) -> None:
    done = await post(gzip.compress(b"{}"), headers=[(b"content-encoding", b"gzip")], path=path)

    assert done.status == 200


async def test_a_non_numeric_length_is_a_bad_request() -> None:
    recorder = Recorder([b"a"])
    scope = {"type": "http", "path": "/", "headers": [(b"content-length", b"1_0")]}
    await BodyLimits(recorder.app)(scope, recorder.receive, recorder.send)

    assert recorder.status == 400


@pytest.mark.parametrize("length", [100, None])
async def test_a_stalled_body_does_not_hang(length: int | None) -> None:
    recorder = Recorder([])
    headers = [(b"content-length", b"100")] if length else [(b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "path": "/", "headers": headers}
    limits = BodyLimits(recorder.app, idle_seconds=0.05)
    await asyncio.wait_for(limits(scope, recorder.receive, recorder.send), 2)

    assert (recorder.status, recorder.answer["code"]) == (408, "too_slow")
    assert recorder.seen is None


async def drip(*, rate: float, first: int = 0, **limits: float) -> tuple[Recorder, float]:
    """Send a first piece at once, then single bytes without end; return the duration."""
    recorder = Recorder([])
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def receive() -> Message:
        if first and recorder.reads == 0:
            recorder.reads += 1
            return {"type": "http.request", "body": b"a" * first, "more_body": True}
        await asyncio.sleep(1 / rate)
        recorder.reads += 1
        return {"type": "http.request", "body": b"a", "more_body": recorder.reads < 500}

    headers = [(b"content-length", b"900")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await BodyLimits(recorder.app, **limits)(scope, receive, recorder.send)
    return recorder, loop.time() - began


async def test_a_body_below_the_minimum_rate_is_cut() -> None:
    done, seconds = await drip(rate=50, idle_seconds=0.4, min_bytes_per_second=1000)

    assert (done.status, done.answer["code"]) == (408, "too_slow")
    assert "less than 1000 bytes a second" in done.answer["detail"]
    assert done.seen is None
    assert done.reads < 50
    assert seconds < 5


async def test_early_bytes_allow_no_longer_pause() -> None:
    """A fast start gives no extra time for a slow end."""
    done, seconds = await drip(rate=50, first=400, idle_seconds=0.4, min_bytes_per_second=1000)

    assert done.status == 408
    assert done.reads < 50
    assert seconds < 5


async def test_a_slow_link_above_the_minimum_rate_may_take_its_time() -> None:
    done, seconds = await drip(rate=500, idle_seconds=0.5, min_bytes_per_second=20)

    assert done.status == 200
    assert done.seen == b"a" * 500
    assert seconds > 0.5


async def test_without_a_minimum_rate_only_pauses_count() -> None:
    done, _ = await drip(rate=500, idle_seconds=0.5, min_bytes_per_second=0)

    assert done.status == 200


async def test_time_of_the_server_does_not_count() -> None:
    """A slow application does not count as a slow client."""
    recorder = Recorder([b"a"] * 8)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        async def slowly() -> Message:
            await asyncio.sleep(0.05)
            message: Message = await receive()
            return message

        await recorder.app(scope, slowly, send)

    headers = [(b"content-length", b"8")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    limits = BodyLimits(slow, idle_seconds=0.2, min_bytes_per_second=1_000_000)
    await limits(scope, recorder.receive, recorder.send)

    assert recorder.seen == b"a" * 8
