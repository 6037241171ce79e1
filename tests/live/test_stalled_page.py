"""A page that stops reading, on a real socket of the server."""

import asyncio
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from config.asgi import application
from runs.live.services import hub
from tests.factories import make_run
from tests.live_sockets import headers_of, in_database, read_clock
from tests.stalled_pages import lazy, rest_of, served
from web.live import parts
from web.live.announcements import announce
from web.live.websocket_protocol import NOT_READING, QUEUE_BYTES, QUEUE_FRAMES, Socket

pytestmark = pytest.mark.django_db(transaction=True)

PIECE = b64encode(Random(7).randbytes(90_000)).decode()


@pytest.fixture
def large_part() -> Any:
    """A large part of each run that always changes."""
    numbers = iter(range(1_000_000))
    parts.PARTS["test_large"] = lambda _: {"number": next(numbers), "text": PIECE}
    yield "test_large"
    parts.PARTS.pop("test_large")


async def test_a_page_that_stops_reading_is_disconnected_and_its_frames_discarded(
    large_part: str,
) -> None:
    run = await in_database(make_run)()
    headers = await in_database(headers_of)("read", run=run)
    async with (
        asyncio.timeout(60),
        served(application) as server,
        lazy(server, "/ws/live", headers) as page,
    ):
        await page.send('{"type": "subscribe", "topic": "run:alpha"}')
        while not hub(read_clock).is_watched:  # noqa: ASYNC110 the hub has no event for it
            await asyncio.sleep(0.01)

        while hub(read_clock).is_watched:
            await sync_to_async(announce)(run.pk, large_part)
            await asyncio.sleep(0.05)

        assert (await rest_of(page))[1] == NOT_READING


async def test_queued_frames_of_a_page_are_limited_and_others_dropped() -> None:
    page, large = Socket(), "x" * (QUEUE_BYTES // 4)
    offered = [page.offer(large) for _ in range(5)]

    assert offered == [True, True, True, False, False]
    assert not page.has_room
    assert page.waiting_bytes <= QUEUE_BYTES

    sent: list[str] = []

    async def send(frame: str) -> None:
        assert page.waiting_bytes > (2 - len(sent)) * len(large), "it counts until it is sent"
        sent.append(frame)

    for _ in range(3):
        await page.send_next(send)
    assert sent == [large] * 3
    assert page.waiting_bytes == 0
    assert page.has_room


async def test_a_frame_above_the_limit_is_sent_to_an_empty_queue() -> None:
    page, huge = Socket(), "x" * (2 * QUEUE_BYTES)

    assert page.offer(huge)
    assert not page.offer("{}")


async def test_small_frames_are_counted() -> None:
    page = Socket()

    assert [page.offer("{}") for _ in range(QUEUE_FRAMES + 1)] == [True] * QUEUE_FRAMES + [False]
