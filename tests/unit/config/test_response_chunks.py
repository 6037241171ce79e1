"""A large response is sent in pieces, and other tasks run between them."""

import asyncio

from asgiref.typing import ASGISendEvent

from config.machines import PIECE_BYTES, send_pieces

PARTS = [b"{", bytes(3 * PIECE_BYTES), b",", bytes(PIECE_BYTES // 2), bytes(2 * PIECE_BYTES), b"}"]


async def sent_beside_others(parts: list[bytes]) -> tuple[list[bytes], int]:
    """Return the bytes received by a fast client, and the number of turns of another task."""
    sent: list[bytes] = []
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def send(message: ASGISendEvent) -> None:
        sent.append(bytes(message["body"]))

    busy = asyncio.ensure_future(others())
    await send_pieces(parts, send)
    busy.cancel()
    return sent, turns


def test_a_large_answer_yields_to_other_connections_after_each_megabyte() -> None:
    sent, turns = asyncio.run(sent_beside_others(PARTS))

    assert b"".join(sent) == b"".join(PARTS)
    assert max(map(len, sent)) <= PIECE_BYTES
    assert turns >= sum(map(len, PARTS)) // PIECE_BYTES


def test_a_small_answer_is_sent_at_once() -> None:
    sent, turns = asyncio.run(sent_beside_others([b"{", b"}"]))

    assert (sent, turns) == ([b"{}"], 0)
