"""The dashboard stays light: what it loads first, and what an idle tab asks for."""

import gzip
import time

import pytest
from playwright.sync_api import BrowserContext, Page, Response, expect

from tests.deck import Deck
from tests.e2e.conftest import USERNAME, sign_in, sign_in_anew

pytestmark = [pytest.mark.browser, pytest.mark.system]

FIRST_SCRIPT_BYTES = 300_000
IDLE_BYTES_PER_SECOND = 5_000
IDLE_SECONDS = 20.0


class Traffic:
    """Counts what a tab takes over HTTP and over its socket."""

    def __init__(self, page: Page) -> None:
        self.bytes = 0
        self.scripts: dict[str, int] = {}
        self.packed: set[str] = set()
        page.on("response", self._answered)
        page.on("websocket", lambda socket: socket.on("framereceived", self._heard))

    def _answered(self, response: Response) -> None:
        if response.request.resource_type == "script":
            # Whatever the server compressed it with, the budget is in gzip.
            self.scripts[response.url] = len(gzip.compress(response.body(), 9))
            if response.headers.get("content-encoding") == "gzip":
                self.packed.add(response.url)
        else:
            self.bytes += int(response.headers.get("content-length", 0) or 0)

    def _heard(self, frame: str | bytes) -> None:
        self.bytes += len(frame)


def test_the_first_page_loads_little_script_and_none_from_elsewhere(
    context: BrowserContext, deck: Deck
) -> None:
    page = context.new_page()
    traffic = Traffic(page)
    sign_in_anew(page, USERNAME)
    page.wait_for_load_state("networkidle")

    assert 50_000 < sum(traffic.scripts.values()) <= FIRST_SCRIPT_BYTES, traffic.scripts
    assert {url.startswith(deck.url) for url in traffic.scripts} == {True}
    large = {url for url, size in traffic.scripts.items() if size > 1_000}
    assert large, "no script was loaded"
    assert large <= traffic.packed, "a script came unpacked over the network"


def test_an_idle_tab_takes_next_to_nothing(context: BrowserContext, deck: Deck) -> None:
    run = deck.new_run("idle")
    page = context.new_page()
    sign_in(page, USERNAME)
    page.goto(f"/runs/{run}")
    expect(page.locator("[data-live=live]")).to_be_visible()
    page.wait_for_load_state("networkidle")
    traffic = Traffic(page)
    page.reload()
    expect(page.locator("[data-live=live]")).to_be_visible()
    page.wait_for_timeout(2_000)

    before, began = traffic.bytes, time.monotonic()
    page.wait_for_timeout(1000 * IDLE_SECONDS)
    per_second = (traffic.bytes - before) / (time.monotonic() - began)

    assert before > 0, "nothing was counted, so nothing was measured"
    assert per_second <= IDLE_BYTES_PER_SECOND
