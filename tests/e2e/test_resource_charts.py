"""Resources of a fleet and of a machine over time, with the events of the run."""

import math
import re
import time
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pages import barriers, wait_for_width
from tests.e2e.simulated_manager import SimulatedManager, simulated_manager
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

REQUESTS_AT_MOST: Final = 25
GIB: Final = 1 << 30


def usage_of(index: int) -> dict[str, Any]:
    swing = math.sin(time.monotonic() / 5)
    return {
        "cpu_percent": 150.0 + 50 * index + 20 * swing,
        "memory_bytes": (2 + index) * GIB,
        "gpu_percent": 40.0 + 10 * swing,
        "gpu_memory_bytes": 3 * GIB,
    }


@pytest.fixture(scope="module")
def fleet(server: Server) -> Iterator[SimulatedManager]:
    """A fleet of two workers on GPUs, whose resources were sampled three times."""
    with simulated_manager(server, f"used-{uuid4().hex[:6]}") as fleet:
        fleet.usage = usage_of
        wait_until(lambda: _samples(server, fleet) >= 3, seconds=120, what="resources are sampled")
        yield fleet


def _samples(server: Server, fleet: SimulatedManager) -> int:
    names = server.get(f"/api/v1/runs/{fleet.name}/metrics/names")["results"]
    if "rolldeck/resources/workers" not in names:
        return 0
    query = "metrics/samples?name=rolldeck/resources/workers"
    return len(server.get(f"/api/v1/runs/{fleet.name}/{query}")["value"])


def test_the_fleet_page_charts_resources_with_the_events_of_the_run(
    signed_in: Page, fleet: SimulatedManager
) -> None:
    page = signed_in
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_viewport_size({"width": 1440, "height": 300})
    page.goto(f"/runs/{fleet.name}/fleet")
    page.locator("[data-worker='1']").wait_for()
    page.wait_for_load_state("networkidle")
    # Charts below the screen request nothing.
    assert not [url for url in requests if "metrics/lines" in url and "resources" in url]

    page.set_viewport_size({"width": 1440, "height": 900})
    section = page.get_by_role("region", name="Resources")
    section.get_by_role("heading", name="Resources").scroll_into_view_if_needed()
    cpu = section.get_by_role("region", name="CPU", exact=True)
    expect(cpu.locator("[data-points]")).to_have_attribute("data-points", re.compile(r"[3-9]|\d\d"))
    for title in ("Memory", "GPU utilization", "GPU memory"):
        part = section.get_by_role("region", name=title, exact=True)
        part.scroll_into_view_if_needed()
        expect(part.locator("[data-points] canvas")).to_be_visible()
    memory = section.get_by_role("region", name="Memory", exact=True)
    expect(memory.locator("[data-newest]")).to_have_text("5.37 GB")
    # The launch of the run and the start of its fleet.
    assert int(memory.locator("[data-points]").get_attribute("data-marks") or 0) >= 2

    api = [url for url in requests if "/api/" in url]
    assert len(api) <= REQUESTS_AT_MOST, api
    assert all("events=fleet" in url for url in api if "annotations" in url)
    assert barriers(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_charts_fit_a_phone_in_both_themes(
    signed_in: Page, fleet: SimulatedManager, scheme: Any
) -> None:
    page = signed_in
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{fleet.name}/fleet")
    memory = page.get_by_role("region", name="Memory", exact=True)
    memory.scroll_into_view_if_needed()
    expect(memory.locator("[data-points] canvas")).to_be_visible()

    wait_for_width(page, 390)
    assert barriers(page) == []


def test_a_chart_of_resources_offers_an_alert_rule(
    signed_in: Page, fleet: SimulatedManager
) -> None:
    page = signed_in
    page.goto(f"/runs/{fleet.name}/fleet")
    memory = page.get_by_role("region", name="Memory", exact=True)
    memory.scroll_into_view_if_needed()
    expect(memory.locator("[data-points] canvas")).to_be_visible()
    memory.get_by_role("button", name="Options of").click()
    page.get_by_role("menuitem", name="Alert when…").click()

    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Metric")).to_have_value("rolldeck/resources/memory_bytes")
