"""Large pieces are written directly to the socket, and arrive complete and in order."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import uvloop

from config.http_protocol import LARGE_BYTES, LargeWrites, Parts

DEADLINE_SECONDS = 60


class Holder(asyncio.Protocol):
    """A protocol that stores its transport and is notified when the buffer is empty."""

    def __init__(self) -> None:
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = LargeWrites(cast("asyncio.Transport", transport))

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.may_write.set()
        self.is_lost.set()


def with_connection(act: Callable[[Holder, socket.socket], Awaitable[None]]) -> None:
    """Run `act` with a connection of uvloop and the plain socket at its other end."""

    async def run() -> None:
        local, remote = socket.socketpair()
        remote.setblocking(False)
        holder = Holder()
        await asyncio.get_running_loop().create_unix_connection(lambda: holder, sock=local)
        with remote:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await act(holder, remote)
        holder.transport.close()

    uvloop.run(run())


async def read_all(remote: socket.socket, *, size: int, at_most: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        received += await asyncio.get_running_loop().sock_recv(remote, at_most)
    return bytes(received)


@pytest.mark.parametrize("seed", range(5))
def test_small_and_large_pieces_arrive_in_the_order_in_which_they_were_written(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice((1, 100, LARGE_BYTES - 1, LARGE_BYTES, 1 << 20)) for _ in range(40)]
    pieces = [rng.randbytes(size) for size in sizes]

    async def act(holder: Holder, remote: socket.socket) -> None:
        reading = asyncio.create_task(read_all(remote, size=sum(sizes), at_most=200_000))
        for piece in pieces:
            await holder.may_write.wait()
            holder.transport.write(memoryview(piece))
            if rng.random() < 0.5:
                await asyncio.sleep(0)
        assert await reading == b"".join(pieces)

    with_connection(act)


@pytest.mark.parametrize("seed", range(5))
def test_pieces_in_parts_arrive_in_order_also_when_the_kernel_accepts_only_some(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [
        [rng.randbytes(rng.choice((0, 1, 2, 100, 70_000, 600_000))) for _ in range(6)]
        for _ in range(20)
    ]
    whole = b"".join(part for piece in pieces for part in piece)

    async def act(holder: Holder, remote: socket.socket) -> None:
        reading = asyncio.create_task(read_all(remote, size=len(whole), at_most=150_000))
        for piece in pieces:
            await holder.may_write.wait()
            holder.transport.write(Parts(piece))
            if rng.random() < 0.5:
                await asyncio.sleep(0)
        assert await reading == whole

    with_connection(act)


def test_unread_bytes_wait_in_the_buffer_of_the_transport() -> None:
    piece = random.Random(1).randbytes(8 << 20)

    async def act(holder: Holder, remote: socket.socket) -> None:
        holder.transport.write(piece)
        waiting = holder.transport.get_write_buffer_size()
        assert 0 < waiting < len(piece)  # the kernel accepted a part at once
        assert not holder.may_write.is_set()
        assert await read_all(remote, size=len(piece), at_most=1 << 20) == piece

    with_connection(act)


def test_a_disconnected_reader_is_detected() -> None:
    async def act(holder: Holder, remote: socket.socket) -> None:
        remote.close()
        holder.transport.write(bytes(1 << 20))
        await holder.is_lost.wait()
        # A closed connection is never written to: another one may have its descriptor.
        with pytest.raises(RuntimeError, match="closed"):
            holder.transport.write(bytes(1 << 20))

    with_connection(act)
