"""JSON responses are compressed unless that is slower."""

import gzip
import json
from typing import Any

import pytest

from config.compression import CompressedAnswers
from config.http_protocol import Parts

SMALL = b'{"a": 1}'
MIDDLE = json.dumps(list(range(5000))).encode()
LARGE = json.dumps(list(range(50_000))).encode()
NETWORK = "192.0.2.7"


async def send_request(
    content: bytes,
    *,
    accept: bytes = b"gzip, deflate",
    kind: bytes = b"application/json",
    client: str = "127.0.0.1",
    extra: tuple[tuple[bytes, bytes], ...] = (),
    in_parts: bool = False,
) -> tuple[dict[bytes, bytes], bytes]:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"Content-Type", kind), (b"Content-Length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, *extra]})
        pieces = [content[at : at + 65536] for at in range(0, len(content), 65536)]
        for piece in pieces:
            more = piece is not pieces[-1]
            body = Parts([piece[:7], piece[7:]]) if in_parts else piece
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"accept-encoding", accept)], "client": (client, 1)}
    await CompressedAnswers(app)(scope, None, send)  # type: ignore[arg-type]
    headers = {name.lower(): value for name, value in sent[0]["headers"]}
    return headers, b"".join(message.get("body", b"") for message in sent[1:])


async def test_an_answer_over_a_kilobyte_is_compressed() -> None:
    headers, body = await send_request(MIDDLE)

    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"content-length"] == str(len(body)).encode()
    assert gzip.decompress(body) == MIDDLE


@pytest.mark.parametrize("in_parts", [False, True])
async def test_a_large_answer_is_compressed_in_chunks(in_parts: bool) -> None:
    headers, body = await send_request(LARGE, client=NETWORK, in_parts=in_parts)

    assert headers[b"content-encoding"] == b"gzip"
    assert b"content-length" not in headers
    assert gzip.decompress(body) == LARGE


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        (SMALL, {}),
        (LARGE, {}),  # on loopback, sending is faster than compressing
        (MIDDLE, {"accept": b"identity"}),
        (MIDDLE, {"accept": b"gzip;q=0"}),
        (MIDDLE, {"accept": b"gzip;q=0.0, br"}),
        (MIDDLE, {"kind": b"application/octet-stream"}),
        (MIDDLE, {"kind": b"application/vnd.rolldeck.batch+msgpack"}),
        (MIDDLE, {"extra": ((b"Content-Encoding", b"br"),)}),
    ],
)
async def test_other_answers_are_unchanged(content: bytes, changes: dict[str, Any]) -> None:
    headers, body = await send_request(content, **changes)

    assert headers.get(b"content-encoding") != b"gzip"
    assert body == content


async def test_a_quality_above_zero_accepts() -> None:
    headers, _ = await send_request(MIDDLE, accept=b"br, gzip;q=0.5")

    assert headers[b"content-encoding"] == b"gzip"
