"""A worker offers one file to an inference server."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from rollouts.fleet.inference.contract import Unreachable
from rollouts.fleet.inference.transfers import OfferedFile


@pytest.fixture
def reader() -> Iterator[str]:
    """Address of a host that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_the_file_is_sent_at_its_address_only(reader: str) -> None:
    content = b"weights" * 100_000
    with OfferedFile(content, reader=reader) as offered:
        assert not offered.is_requested(0.01)
        other = httpx.get(offered.url[:-1])
        assert (other.status_code, offered.is_requested(0.01)) == (404, False)

        answer = httpx.get(offered.url)

        assert answer.content == content
        assert offered.is_requested(5)
        offered.wait_until_sent()
    with pytest.raises(httpx.ConnectError):
        httpx.get(offered.url)


def test_a_reader_that_cannot_be_reached_is_named() -> None:
    closed = "http://127.0.0.1:9"

    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9: .*refused"):
        OfferedFile(b"", reader=closed)
