"""Compressed bodies are decompressed when they are read, with limits on the work."""

import contextlib
import gzip
import json
import os
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

import pytest
from pytest_django import Settings

from config.decompression import (
    ENCODINGS,
    MAX_MEMBERS,
    BodyBroken,
    BodyTooLarge,
    Bounds,
    CompressedRequest,
    UnknownEncoding,
    decompress,
)
from web import zstd
from web.http.push_answers import CLIENT_LEFT

MIB: Final = 1024 * 1024
Pack = Callable[[bytes], bytes]
PACKERS: Final = [("gzip", gzip.compress), ("zstd", zstd.compress)]
# A frame with a window of 8 MiB, up to its first block.
ZSTD_HEAD: Final = b"\x28\xb5\x2f\xfd\x00\x68"


def filled(unit: bytes, size: int, *, head: bytes = b"", tail: bytes = b"") -> bytes:
    """Return about `size` bytes of an empty unit, repeated."""
    return head + unit * (size // len(unit)) + tail


EMPTY: Final[dict[str, tuple[str, Callable[[int], bytes]]]] = {
    "gzip members": ("gzip", lambda size: filled(gzip.compress(b"", mtime=0), size)),
    "gzip members with one byte": ("gzip", lambda size: filled(gzip.compress(b"a", mtime=0), size)),
    "zstd frames": ("zstd", lambda size: filled(zstd.compress(b""), size)),
    "skippable zstd frames": ("zstd", lambda size: filled(b"\x50\x2a\x4d\x18" + bytes(4), size)),
    "zstd blocks": ("zstd", lambda size: filled(bytes(3), size, head=ZSTD_HEAD, tail=b"\1\0\0")),
    "deflate blocks": (
        "gzip",
        lambda size: filled(b"\0\0\0\xff\xff", size, head=gzip.compress(b"", mtime=0)[:10]),
    ),
    "a gzip file name": ("gzip", lambda size: b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * size),
}


def request(body: bytes, encoding: str, **scope: Any) -> CompressedRequest:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-encoding", encoding.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/runs", "headers": headers, **scope}
    return CompressedRequest(scope, BytesIO(body))


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    settings.ROLLDECK_MAX_DECOMPRESSED_BYTES = 8 * MIB


@pytest.mark.parametrize(("encoding", "pack"), [*PACKERS, ("x-gzip", gzip.compress)])
def test_a_packed_body_is_read_unpacked(encoding: str, pack: Pack) -> None:
    plain = json.dumps(list(range(500))).encode()
    given = request(pack(plain), encoding)

    assert given.body == plain
    assert given.META["CONTENT_LENGTH"] == str(len(plain))


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_a_packed_body_can_be_read_in_chunks(encoding: str, pack: Pack) -> None:
    given = request(pack(b"one\ntwo\n"), encoding)

    assert (given.readline(), given.read(2), given.read()) == (b"one\n", b"tw", b"o\n")


def test_a_plain_body_is_read_unchanged() -> None:
    assert request(b"{}", "identity").body == b"{}"


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@pytest.mark.parametrize("size", [0, 1, 20_000, 3 * MIB + 7])
def test_every_member_counts(encoding: str, pack: Pack, size: int) -> None:
    # Random bytes do not shrink, so members extend over several slices of the input.
    parts = [os.urandom(size), b"a" * size, b"end"]

    assert request(b"".join(map(pack, parts)), encoding).body == b"".join(parts)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_a_compression_bomb_is_refused_above_the_size_of_a_plain_body(
    encoding: str, pack: Pack, settings: Settings
) -> None:
    settings.ROLLDECK_MAX_BODY_BYTES = 6 * MIB
    bomb = pack(bytes(7 * MIB))
    assert len(bomb) * 100 < MIB

    assert request(pack(bytes(6 * MIB)), encoding).body == bytes(6 * MIB)
    with pytest.raises(BodyTooLarge, match="more than 100 times its size"):
        _ = request(bomb, encoding).body


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_a_packed_body_may_not_unpack_past_the_limit(
    encoding: str, pack: Pack, settings: Settings
) -> None:
    settings.ROLLDECK_MAX_DECOMPRESSED_BYTES = 2000
    assert len(request(pack(b"a" * 2000), encoding).body) == 2000
    with pytest.raises(BodyTooLarge, match="larger than 2000 bytes"):
        _ = request(pack(b"a" * 2001), encoding).body


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@pytest.mark.parametrize("damage", ["cut short", "not packed", "garbage behind it"])
def test_a_damaged_body_is_refused_each_time_it_is_read(
    encoding: str, pack: Pack, damage: str
) -> None:
    body = {
        "cut short": pack(os.urandom(200))[:-20],
        "not packed": b'{"tokens": []}',
        "garbage behind it": pack(b"{}") + b"garbage garbage",
    }[damage]
    given = request(body, encoding)
    for _ in range(2):
        with pytest.raises(BodyBroken):
            _ = given.body


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "gzip,zstd"])
def test_an_unknown_encoding_is_named(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match="is not supported"):
        _ = request(b"abc", encoding).body


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("size", [2 * MIB, 4 * MIB, 32 * MIB])
def test_empty_members_use_little_time(kind: str, size: int) -> None:
    encoding, make = EMPTY[kind]
    body = make(size)
    began = time.thread_time()
    with contextlib.suppress(BodyTooLarge, BodyBroken):
        assert len(request(body, encoding).body) == 0
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_members_are_counted(encoding: str, pack: Pack) -> None:
    assert request(pack(b"a") * MAX_MEMBERS, encoding).body == b"a" * MAX_MEMBERS
    with pytest.raises(BodyTooLarge, match=f"more than {MAX_MEMBERS} gzip members or zstd frames"):
        _ = request(pack(b"a") * (MAX_MEMBERS + 1), encoding).body


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_processor_time_is_bounded(encoding: str, pack: Pack) -> None:
    bounds = Bounds(decompressed_bytes=64 * MIB, ratio=10_000_000, cpu_seconds=0.002)
    with pytest.raises(BodyTooLarge, match=r"more than 0\.002 seconds of processor time"):
        decompress(pack(bytes(64 * MIB)), encoding=encoding, bounds=bounds)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_decompression_ends_when_the_client_disconnects(encoding: str, pack: Pack) -> None:
    checks = []

    def has_disconnected() -> bool:
        checks.append(True)
        return len(checks) == 3

    given = request(pack(os.urandom(6 * MIB)), encoding, **{CLIENT_LEFT: has_disconnected})
    with pytest.raises(BodyBroken, match="closed the connection"):
        _ = given.body
    assert len(checks) == 3


def test_every_encoding_is_covered() -> None:
    assert {encoding for encoding, _ in PACKERS} | {"x-gzip"} == ENCODINGS
