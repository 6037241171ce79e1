"""Clients that only connect cannot keep others out."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from config import http_protocol
from config.connections import Connections, most_connections, raise_open_files
from tests.integration.config.test_http_protocol import answer_to, served

PING = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"


class Client:
    """A connection that notes whether the server closed it."""

    is_closed = False

    def close_silent(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("hard", [512, 1024, 100_000, resource.RLIM_INFINITY])
@pytest.mark.parametrize("soft", [256, 512])
def test_the_soft_limit_is_raised_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    wanted = 65_536 if hard in {resource.RLIM_INFINITY, 100_000} else hard
    assert raise_open_files() == wanted
    assert limits[-1] == (wanted, hard)
    assert most_connections() == int(0.8 * wanted)


@pytest.mark.parametrize(
    ("addresses", "sent", "admitted", "closed"),
    [
        ("aaaa", "", "1111", []),
        ("aaaaa", "", "11111", [0]),
        ("aaaaaa", "0", "111111", [1, 2]),
        ("aaaaa", "0123", "11110", []),
        ("aaaab", "0123", "11111", []),
        ("aaaabbbb", "", "11111111", []),
        ("aaaabbbbc", "", "111111111", [0]),
        ("aaaabbbbc", "01234567", "111111110", []),
        ("aaaabbbbc", "0123", "111111111", [4]),
    ],
)
def test_the_oldest_silent_connection_makes_way(
    addresses: str, sent: str, admitted: str, closed: list[int]
) -> None:
    open_ = Connections(8)
    clients: list[Client] = []
    results = ""
    for number, address in enumerate(addresses):
        clients.append(Client())
        count = sum(not client.is_closed for client in clients)
        results += str(int(open_.admit(clients[-1], address, open_count=count)))
        if str(number) in sent:
            open_.has_sent_request(clients[-1])
    assert results == admitted
    assert [number for number, client in enumerate(clients) if client.is_closed] == closed


def test_released_connections_are_forgotten() -> None:
    open_ = Connections(2)
    for _ in range(5):
        client = Client()
        assert open_.admit(client, "a", open_count=1)
        open_.release(client, "a")
        assert not client.is_closed


@pytest.fixture
def ten_of_an_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connections]:
    open_ = Connections(20)
    monkeypatch.setattr(http_protocol, "_CONNECTIONS", open_)
    yield open_
    assert not open_._by_address
    assert not open_._silent
    assert not open_._silent_of_address


@pytest.mark.usefixtures("ten_of_an_address")
async def test_requests_are_answered_during_a_flood_of_silent_connections() -> None:
    async with served() as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        for _ in range(15):
            assert b"HTTP/1.1 200" in await answer_to(port, PING)
        assert all([await reader.read() == b"" for reader, _ in silent[:20]])
        for _, writer in silent:
            writer.close()


async def test_too_many_requests_at_once_are_closed_immediately(
    ten_of_an_address: Connections,
) -> None:
    begun = PING.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n")
    answers = []
    async with served() as port:
        busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        for _, writer in busy:
            writer.write(begun)
        while ten_of_an_address._silent:  # noqa: ASYNC110 no event is set for it
            await asyncio.sleep(0)
        with suppress(ConnectionResetError):
            answers.append(await answer_to(port, PING))
        busy[0][1].write(b"x" * 9)
        answers.append(await busy[0][0].read())
        answers.append(await answer_to(port, PING))
        for _, writer in busy:
            writer.close()
    assert [answer[:12] for answer in answers if answer] == [b"HTTP/1.1 200"] * 2
