"""Pages of another port of the same host cannot open a socket."""

from pathlib import Path

import pytest
from channels.db import database_sync_to_async
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from tests.live_sockets import cookie_of
from tests.server import free_port
from tests.web_process import web_process

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_page_of_another_port_is_refused(tmp_path: Path) -> None:
    [(_, cookie)] = await database_sync_to_async(cookie_of)("viewer")
    headers = {"Cookie": cookie.decode()}
    with web_process(tmp_path / "web.log", DJANGO_SETTINGS_MODULE="config.settings.test") as web:
        address = f"ws://127.0.0.1:{web.port}/ws/live"
        async with connect(address, origin=Origin(web.url), additional_headers=headers) as page:
            await page.send('{"type": "resync", "topic": "runs"}')
            assert "not_subscribed" in str(await page.recv())
        for origin in (
            f"http://127.0.0.1:{free_port()}",
            f"http://localhost:{web.port}",
            f"https://127.0.0.1:{web.port}",
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(address, origin=Origin(origin), additional_headers=headers)
            assert refused.value.response.status_code == 403
