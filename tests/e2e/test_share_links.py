"""A copied link shows the same view in the browser of another user."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import VIEWER, complaints_of, sign_in
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.e2e.simulated_manager import simulated_manager
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
STEPS = 2000
CHARTS = 90


@pytest.fixture(scope="module")
def measured(server: Server) -> Server:
    """Two runs with a loss and with more charts than one page of the list has."""
    for run in ("shared-a", "shared-b"):
        server.post("/api/v1/runs", {"name": server.free_name(run), "kind": "outside"})
        samples: list[dict[str, Any]] = [
            {"name": "train/loss", "step": step, "value": 1 / (1 + step)} for step in range(STEPS)
        ]
        for first in range(0, STEPS, 1000):
            body = {"samples": samples[first : first + 1000]}
            server.post(f"/api/v1/runs/{run}/metrics", body)
        names = [{"name": f"layer/{i:02}/norm", "step": 1, "value": 0.1} for i in range(CHARTS)]
        server.post(f"/api/v1/runs/{run}/metrics", {"samples": names})
    return server


@pytest.fixture
def colleague(chromium: Browser, server: Server) -> Iterator[Page]:
    """The browser of another user, with a smaller window."""
    context = chromium.new_context(
        base_url=server.url, viewport={"width": 1200, "height": 700}, color_scheme="light"
    )
    context.set_default_timeout(30_000)
    page = context.new_page()
    complaints = complaints_of(page)
    yield sign_in(page, VIEWER)
    context.close()
    assert complaints == []


def copied(page: Page, server: Server) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    return str(page.evaluate("navigator.clipboard.readText()"))


def is_on_screen(page: Page, selector: str) -> bool:
    return bool(
        page.evaluate(
            """(selector) => {
                const box = document.querySelector(selector)?.getBoundingClientRect();
                return Boolean(box) && box.top < innerHeight && box.bottom > 0;
            }""",
            selector,
        )
    )


def test_a_link_to_a_chart_opens_its_range_smoothing_and_lines(
    signed_in: Page, colleague: Page, measured: Server
) -> None:
    page = signed_in
    page.goto(
        "/runs/shared-a/metrics?pin=train/loss&from=100&to=400&smooth=0.9&with=shared-b&secret=rd_abc"
    )
    chart = page.locator("[data-panel='train/loss']")
    chart.scroll_into_view_if_needed()
    chart.locator("canvas").wait_for()
    page.get_by_role("button", name="Show shared-b").click()
    chart.get_by_role("button", name="Options of train/loss").click()
    page.get_by_role("menuitem", name="Copy link").click()
    link = copied(page, measured)

    query = parse_qs(urlsplit(link).query)
    assert (query["from"], query["to"], query["smooth"]) == (["100"], ["400"], ["0.9"])
    assert query["focus"] == ["chart:train/loss"]
    assert "secret" not in link
    assert "rd_" not in link

    colleague.goto(link)
    shown = colleague.locator("[data-panel='train/loss']")
    expect(shown).to_have_attribute("data-highlighted", "")
    wait_until(
        lambda: is_on_screen(colleague, "[data-panel='train/loss']"),
        seconds=30,
        what="the chart is on screen",
    )
    smoothing = colleague.get_by_role("slider", name="Smoothing")
    expect(smoothing).to_have_attribute("aria-valuenow", "0.9")
    expect(colleague.get_by_role("button", name="Show shared-b")).to_have_attribute(
        "aria-pressed", "false"
    )
    expect(colleague.get_by_role("button", name="Show shared-a")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(colleague.get_by_role("button", name="Reset zoom")).to_be_visible()


def test_a_link_to_a_chart_of_a_later_page_scrolls_to_it(colleague: Page, measured: Server) -> None:
    name = f"layer/{CHARTS - 1:02}/norm"
    colleague.goto(f"/runs/shared-a/metrics?focus=chart:{name}")

    expect(colleague.locator(f"[data-panel='{name}']")).to_have_attribute("data-highlighted", "")
    wait_until(
        lambda: is_on_screen(colleague, f"[data-panel='{name}']"),
        seconds=30,
        what="the chart is on screen",
    )
    expect(colleague.locator("[data-highlighted]")).to_have_count(0)


def test_a_moving_range_becomes_a_fixed_one(
    signed_in: Page, colleague: Page, measured: Server
) -> None:
    page = signed_in
    page.goto("/runs/shared-a?last=3600")
    page.get_by_role("combobox", name="Time range").wait_for()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Copy link").click()
    link = copied(page, measured)

    query = parse_qs(urlsplit(link).query)
    assert int(query["to"][0]) - int(query["from"][0]) == 3600
    assert "last" not in query
    colleague.goto(link)
    expect(colleague.get_by_role("button", name="Reset zoom")).to_be_visible()


def test_a_link_to_a_token_opens_its_sequence_at_the_token(
    signed_in: Page, colleague: Page, server: Server
) -> None:
    outside_run(server, "shared-tokens")
    (group,) = push(
        server,
        "shared-tokens",
        conversation("Which one?", "this", "that", "these", scores=[0.0, 1.0, 0.5]),
    )
    page = signed_in
    page.goto(f"/runs/shared-tokens/groups/{group}?view=tokens&seq=2&color=logprob")
    page.locator("[data-token='3']").click()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Copy link").click()
    link = copied(page, server)

    colleague.goto(link)
    expect(colleague.locator("[data-selected]")).to_have_attribute("data-token", "3")
    expect(colleague.get_by_label(re.compile("^Tokens of sequence 2"))).to_be_in_viewport()
    query = parse_qs(urlsplit(colleague.url).query)
    assert (query["seq"], query["token"], query["color"]) == (["2"], ["3"], ["logprob"])


def test_a_link_to_a_worker_opens_its_row(signed_in: Page, colleague: Page, server: Server) -> None:
    with simulated_manager(server, server.free_name("shared-fleet")) as fleet:
        page = signed_in
        page.goto(f"/runs/{fleet.name}/fleet")
        page.get_by_role("button", name="Slots of worker 1").click()
        expect(page).to_have_url(re.compile("worker=1"))
        page.get_by_role("button", name="More actions").click()
        page.get_by_role("menuitem", name="Copy link").click()
        link = copied(page, server)

        colleague.goto(link)
        expect(colleague.get_by_role("button", name="Slots of worker 1")).to_have_attribute(
            "aria-expanded", "true"
        )
        row = colleague.locator("[data-worker='1']")
        expect(row).to_have_attribute("aria-current", "true")
        expect(row).to_be_in_viewport()
