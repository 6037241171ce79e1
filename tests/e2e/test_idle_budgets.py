"""Traffic budgets of idle tabs."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e import figures
from tests.e2e.conftest import USERNAME, sign_in
from tests.e2e.traffic import Traffic
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.alone("measures the traffic of a minute"),
]

IDLE_BYTES_PER_MINUTE = 50_000
IDLE_REQUESTS_PER_MINUTE = 6
IDLE_SECONDS = 60.0
IDLE_PLACES = [
    *("/runs", "/trajectories", "/compare?runs={run}", "/cluster", "/alerts", "/runs/{run}"),
    *("/runs/{run}/queue", "/runs/{run}/weights", "/runs/{run}/trajectories"),
    *("/runs/{run}/environments", "/runs/{run}/config", "/runs/{run}/metrics"),
    "/runs/{run}/fleet",
]


def test_idle_tabs_use_almost_no_resources(context: BrowserContext, server: Server) -> None:
    run = server.new_run("idle")
    sign_in(context.new_page(), USERNAME)
    used = idle_traffic(context, [place.format(run=run) for place in IDLE_PLACES])

    requests, received = (max(column) for column in zip(*used.values(), strict=True))
    figures.show(
        f"idle page, the highest of {len(used)}",
        f"{requests} requests, {received / 1000:.0f} kB a minute",
        f"{IDLE_REQUESTS_PER_MINUTE} requests, {IDLE_BYTES_PER_MINUTE / 1000:.0f} kB",
    )
    assert {
        place: found
        for place, found in used.items()
        if found[0] > IDLE_REQUESTS_PER_MINUTE or found[1] > IDLE_BYTES_PER_MINUTE
    } == {}


def idle_traffic(context: BrowserContext, places: list[str]) -> dict[str, tuple[int, int]]:
    """Return the requests and bytes of each idle tab in a minute."""
    tabs: dict[str, tuple[Page, Traffic]] = {}
    for place in places:
        page = context.new_page()
        tabs[place] = page, Traffic(page)
        page.goto(place)
        expect(page.locator("[data-live=live]")).to_be_visible()
        page.wait_for_load_state("networkidle")
    page.wait_for_timeout(3_000)

    before = {place: (traffic.requests, traffic.bytes) for place, (_, traffic) in tabs.items()}
    for tab, _ in tabs.values():
        # Playwright delivers pending events only while it waits.
        tab.wait_for_timeout(1000 * IDLE_SECONDS / len(tabs))
    assert min(received for _, received in before.values()) > 0, "nothing was counted"
    return {
        place: (traffic.requests - before[place][0], traffic.bytes - before[place][1])
        for place, (_, traffic) in tabs.items()
    }
