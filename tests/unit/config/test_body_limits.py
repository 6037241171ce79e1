"""Bodies are counted while they are read, unpacked within bounds, and refused early."""

import asyncio
import gzip
import json
import os
from collections.abc import Iterable
from typing import Any

import pytest
import zstandard
from pytest_django import Settings

from config.body_limits import BodyLimits, Message

JSON = [(b"content-type", b"application/json")]


class Recorder:
    """An application that remembers what reached it, and a client that sends given pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = list(pieces)
        self.asked = 0
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
        self.asked += 1
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
    path: str = "/api/runs",
    idle_seconds: float = 5.0,
) -> Recorder:
    recorder = Recorder(pieces)
    told = [*JSON, *headers]
    if length is None:
        told.append((b"transfer-encoding", b"chunked"))
    else:
        size = sum(map(len, pieces)) if length == -1 else length
        told.append((b"content-length", str(size).encode()))
    scope = {"type": "http", "method": "POST", "path": path, "headers": told}
    limits = BodyLimits(recorder.app, idle_seconds=idle_seconds)
    await limits(scope, recorder.receive, recorder.send)
    return recorder


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    settings.ROLLDECK_MAX_BODY_BYTES = 1000
    settings.ROLLDECK_MAX_WEIGHTS_BYTES = 5000
    settings.ROLLDECK_MAX_DECOMPRESSED_BYTES = 8 * 1024 * 1024


async def test_a_plain_body_passes_untouched() -> None:
    done = await post(b"a" * 600, b"b" * 400)

    assert done.seen == b"a" * 600 + b"b" * 400
    assert done.status == 200


async def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    done = await post(b"a", length=1001, headers=[(b"expect", b"100-continue")])

    assert (done.status, done.answer["code"], done.asked) == (413, "too_large", 0)
    assert done.seen is None


async def test_a_body_without_a_length_is_counted_while_it_comes() -> None:
    done = await post(b"a" * 600, b"b" * 600, b"c" * 600, length=None)

    assert (done.status, done.answer["status"]) == (413, 413)
    assert done.seen is None


async def test_a_body_without_a_length_gets_one() -> None:
    done = await post(b"a" * 600, b"b" * 300, length=None)

    assert done.seen == b"a" * 600 + b"b" * 300
    assert done.headers[b"content-length"] == b"900"
    assert b"transfer-encoding" not in done.headers


async def test_a_body_longer_than_it_says_is_cut_at_the_limit() -> None:
    done = await post(b"a" * 600, b"b" * 600, length=600)

    assert done.status == 413
    assert done.seen is None


async def test_a_refused_client_may_finish_sending() -> None:
    done = await post(b"a" * 600, b"b" * 600, b"c" * 600)

    assert done.asked == 3
    assert done.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_weights_have_a_limit_of_their_own() -> None:
    path = "/api/runs/cartpole-1/weights"

    assert (await post(b"a" * 4000, path=path)).status == 200
    assert (await post(b"a" * 5001, path=path)).status == 413
    assert (await post(b"a" * 4000, path=path, length=None)).status == 411


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [(b"gzip", gzip.compress), (b"x-gzip", gzip.compress), (b"zstd", zstandard.compress)],
)
async def test_a_packed_body_arrives_unpacked(encoding: bytes, pack: Any) -> None:
    plain = json.dumps(list(range(500))).encode()
    packed = pack(plain)
    done = await post(packed[:100], packed[100:], headers=[(b"content-encoding", encoding)])

    assert done.seen == plain
    assert b"content-encoding" not in done.headers
    assert done.headers[b"content-length"] == str(len(plain)).encode()


@pytest.mark.parametrize(
    ("encoding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstandard.compress)]
)
async def test_every_member_of_a_packed_body_counts(encoding: bytes, pack: Any) -> None:
    done = await post(pack(b"one "), pack(b"two"), headers=[(b"content-encoding", encoding)])

    assert done.seen == b"one two"


@pytest.mark.parametrize(
    ("encoding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstandard.compress)]
)
async def test_a_bomb_is_refused(encoding: bytes, pack: Any) -> None:
    bomb = pack(bytes(900 * 1024 if encoding == b"gzip" else 8 * 1024 * 1024))
    assert len(bomb) <= 1000
    headers = [(b"content-encoding", encoding)]

    small = await post(pack(bytes(900 * 1024)), headers=headers)
    assert small.status == 200  # far too regular, but small
    layered = await post(bomb + bomb, headers=headers, length=len(bomb) * 2)
    assert layered.status == 413


async def test_a_packed_body_may_not_unpack_past_the_limit(settings: Settings) -> None:
    settings.ROLLDECK_MAX_DECOMPRESSED_BYTES = 2000
    done = await post(gzip.compress(b"a" * 2001), headers=[(b"content-encoding", b"gzip")])

    assert done.status == 413
    assert "2000 bytes" in done.answer["detail"]


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
@pytest.mark.parametrize("damage", ["cut short", "not packed", "garbage behind it"])
async def test_a_damaged_packed_body_is_a_bad_request(encoding: bytes, damage: str) -> None:
    pack = gzip.compress if encoding == b"gzip" else zstandard.compress
    body = {
        "cut short": pack(os.urandom(200))[:-20],
        "not packed": b'{"tokens": []}',
        "garbage behind it": pack(b"{}") + b"garbage garbage",
    }[damage]
    done = await post(body, headers=[(b"content-encoding", encoding)])

    assert (done.status, done.answer["code"]) == (400, "invalid")
    assert done.seen is None


async def test_an_unknown_encoding_is_named() -> None:
    done = await post(b"abc", headers=[(b"content-encoding", b"br")])

    assert done.status == 415
    assert "'br'" in done.answer["detail"]


async def test_a_length_that_is_no_number_is_a_bad_request() -> None:
    recorder = Recorder([b"a"])
    scope = {"type": "http", "path": "/", "headers": [(b"content-length", b"1_0")]}
    await BodyLimits(recorder.app)(scope, recorder.receive, recorder.send)

    assert recorder.status == 400


@pytest.mark.parametrize("length", [100, None])
async def test_a_body_that_stops_coming_does_not_hang(length: int | None) -> None:
    recorder = Recorder([])
    told = [(b"content-length", b"100")] if length else [(b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "path": "/", "headers": told}
    limits = BodyLimits(recorder.app, idle_seconds=0.05)
    await asyncio.wait_for(limits(scope, recorder.receive, recorder.send), 2)

    assert (recorder.status, recorder.answer["code"]) == (408, "too_slow")
    assert recorder.seen is None
