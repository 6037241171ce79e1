"""Pages keep their layout while data arrives: the cumulative layout shift stays below 0.05."""

from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

SHIFTED: Final = 0.05
SETTLED_MS: Final = 3_000
RUN: Final = "/runs/seed-cartpole-live"
COMPARED: Final = "/compare?runs=seed-cartpole-live,seed-cartpole-paused,seed-cartpole-failed"
# Sums the shifts without user input from the first frame on, and keeps their largest sources.
OBSERVE: Final = """
window.shifted = 0;
window.shifts = [];
new PerformanceObserver((list) => {
    for (const one of list.getEntries()) {
        if (one.hadRecentInput) continue;
        window.shifted += one.value;
        const names = one.sources.map(({ node }) => (node?.outerHTML ?? "text").slice(0, 120));
        window.shifts.push([one.value, names]);
    }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(
    "place", ["/", RUN, f"{RUN}/metrics", f"{RUN}/queue", "/runs/seed-atropos-mix/queue", COMPARED]
)
def test_a_page_does_not_shift_while_it_loads(
    signed_in: Page, seeded_server: Server, place: str, width: int
) -> None:
    page = signed_in
    page.set_viewport_size({"width": width, "height": 900})
    # The server fires this alert a few seconds after its start; a new row moves the rows below.
    page.goto("/alerts")
    expect(page.get_by_text("is quarantined").first).to_be_visible(timeout=30_000)
    page.wait_for_timeout(SETTLED_MS)
    page.add_init_script(OBSERVE)
    page.goto(place)
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    page.wait_for_timeout(SETTLED_MS)

    shifts = page.evaluate("window.shifts")
    assert page.evaluate("window.shifted") < SHIFTED, sorted(shifts, reverse=True)[:5]
