"""A user finds runs among many and acts on several at once."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pages import wait_for_width
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
FILTER = re.compile("^Filter runs")


@pytest.fixture(scope="module")
def many_runs(server: Server) -> None:
    for number in range(6):
        server.post(
            "/api/v1/runs",
            {
                "name": server.free_name(f"sweep-{number}"),
                "kind": "outside",
                "start": number % 2 == 0,
                "tags": ["one-of-six", f"seed-{number}"],
            },
        )


def enter_filter(page: Page, text: str) -> None:
    page.get_by_label(FILTER).fill(text)
    page.keyboard.press("Enter")


def test_search_and_order_of_runs_are_part_of_the_address(signed_in: Page, many_runs: None) -> None:
    page = signed_in
    page.goto("/runs")
    enter_filter(page, "tag:one-of-six state:running")
    expect(page.get_by_text("3 runs match")).to_be_visible()
    page.get_by_role("button", name="Name").click()
    page.get_by_role("button", name="Name").click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(page.locator("tbody [data-open]")).to_have_text(["sweep-0", "sweep-2", "sweep-4"])

    page.reload()
    expect(page.get_by_label(FILTER)).to_have_value("tag:one-of-six state:running")
    expect(page.locator("tbody [data-open]")).to_have_text(["sweep-0", "sweep-2", "sweep-4"])

    # The keyboard moves from row to row and opens one.
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="sweep-2")).to_be_visible()


def test_a_viewer_finds_runs_and_has_no_actions(page: Page, many_runs: None) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto("/runs?q=tag:one-of-six")

    expect(page.get_by_text("runs match")).to_be_visible()
    expect(page.get_by_role("button", name="All matching")).to_have_count(0)
    wait_for_width(page, 360)


def test_rate_and_staleness_are_columns_with_units(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs?q=name:seed-reverse-lessons")
    page.get_by_role("button", name="Columns").click()
    for column in ("Rate", "Staleness p50"):
        page.get_by_role("checkbox", name=re.compile(rf"^\s*{column}\s*$")).click()

    expect(page).to_have_url(re.compile("rate.*staleness"))
    row = page.locator("tbody tr[data-row]")
    expect(row).to_have_count(1)
    expect(row.locator("[data-state=completed]:visible")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Staleness p50")).to_be_visible()
    lines = seeded_server.http.get("/api/v1/runs.csv?q=name:seed-reverse-lessons").text.splitlines()
    assert lines[0].endswith("accepted_per_second,staleness_p50_versions")


def test_all_default_columns_fit_a_desktop(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/runs?q=seed-cartpole")
    expect(page.locator("tbody tr[data-row]").first).to_be_visible()

    widths = page.locator("[aria-label='List of runs'] [data-scroll]").evaluate(
        "(table) => [table.scrollWidth, table.clientWidth]"
    )
    assert widths[0] <= widths[1]
