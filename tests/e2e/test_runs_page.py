"""A user finds runs among many and acts on several at once."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import VIEWER, sign_in
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


def names(page: Page) -> list[str]:
    return page.locator("tbody [data-open]").all_inner_texts()


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


def test_the_filter_has_completions_and_marks_errors(signed_in: Page, many_runs: None) -> None:
    page = signed_in
    page.goto("/runs")
    box = page.get_by_label(FILTER)
    box.click()
    box.press_sequentially("tag:seed-3")
    page.get_by_role("option", name=re.compile("^seed-3")).click()
    expect(page.get_by_text("1 run match")).to_be_visible()
    assert names(page) == ["sweep-3"]

    enter_filter(page, "stat:running")
    expect(page.get_by_text("at character 1: unknown qualifier 'stat'")).to_be_visible()
    enter_filter(page, "name:nothing-is-called-so")
    expect(page.get_by_role("heading", name="No matching runs")).to_be_visible()


def test_a_half_typed_filter_keeps_the_rows_of_the_last_valid_one(
    signed_in: Page, many_runs: None
) -> None:
    page = signed_in
    page.goto("/runs?q=tag:one-of-six")
    expect(page.get_by_text("6 runs match")).to_be_visible()
    box = page.get_by_label(FILTER)
    box.click()
    box.press_sequentially(" state:")

    expect(page.get_by_text("at character 16: ")).to_be_visible()
    assert len(names(page)) == 6
    expect(page.get_by_text("6 runs match the last valid filter")).to_be_visible()
    expect(page.get_by_role("button", name="All matching")).to_have_count(0)

    box.press_sequentially("draft")
    expect(page.get_by_text("3 runs match", exact=True)).to_be_visible()
    assert names(page) == ["sweep-5", "sweep-3", "sweep-1"]


def test_a_bulk_action_is_confirmed_and_lists_failures(
    signed_in: Page, server: Server, many_runs: None
) -> None:
    page = signed_in
    page.goto("/runs?q=tag:one-of-six")
    expect(page.get_by_text("6 runs match")).to_be_visible()
    page.get_by_role("button", name="All matching").click()
    page.get_by_role("menuitem", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause: 6 runs")
    dialog.get_by_label("Reason").fill("the cluster moves")
    dialog.get_by_role("button", name="Pause").click()

    expect(dialog.get_by_text("Done for 3 runs; failed for 3 runs:")).to_be_visible()
    expect(dialog.get_by_text("sweep-1 is draft: pause is not allowed")).to_be_visible()
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator("tbody [data-state=paused]:visible")).to_have_count(3)
    (event, *_) = server.get("/api/v1/runs/sweep-0/events")["results"]
    assert (event["actor"], event["reason"]) == ("user:ada", "the cluster moves")

    page.get_by_label("Select sweep-1").check()
    page.get_by_role("button", name="1 selected").click()
    page.get_by_role("menuitem", name="Archive", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Done for 1 run.")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
    expect(page.get_by_text("5 runs match")).to_be_visible()


def test_a_viewer_finds_runs_and_has_no_actions(page: Page, many_runs: None) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto("/runs?q=tag:one-of-six&dense=true")

    expect(page.get_by_text("runs match")).to_be_visible()
    expect(page.get_by_role("button", name="All matching")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_view_is_stored_under_a_name(signed_in: Page, seeded_server: Server) -> None:
    page, view = signed_in, f"the sweep {uuid4().hex[:6]}"
    page.goto("/runs?q=tag:sweep&dense=true")
    page.get_by_role("link", name="seed-cartpole-sweep-0").wait_for()
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Save this view…").click()
    page.get_by_role("dialog", name="Save view").get_by_label("Name").fill(view)
    page.keyboard.press("Enter")

    page.goto("/runs")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name=view).click()
    expect(page).to_have_url(re.compile(r"q=tag(:|%3A)sweep.*dense=true"))
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menu").get_by_label(f"Delete view {view}").click()
    expect(page.get_by_role("menuitem", name=view)).to_have_count(0)


def test_rate_and_staleness_are_columns_with_units(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs?q=name:seed-reverse-lessons")
    page.get_by_role("button", name="Columns").click()
    for column in ("Rate", "Staleness p50"):
        page.get_by_role("menuitemcheckbox", name=column).click()

    expect(page).to_have_url(re.compile("rate.*staleness"))
    row = page.locator("tbody tr[data-row]")
    expect(row).to_have_count(1)
    expect(row.locator("[data-state=completed]:visible")).to_contain_text("simulated")
    expect(page.get_by_role("columnheader", name="Staleness p50")).to_be_visible()
    lines = seeded_server.http.get("/api/v1/runs.csv?q=name:seed-reverse-lessons").text.splitlines()
    assert lines[0].endswith("accepted_per_second,staleness_p50_versions")


def test_all_default_columns_fit_a_desktop(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/runs?q=seed-cartpole")
    expect(page.locator("tbody tr[data-row]").first).to_be_visible()

    widths = page.locator("[aria-label='List of runs'] .table-scroll").evaluate(
        "(table) => [table.scrollWidth, table.clientWidth]"
    )
    assert widths[0] <= widths[1]
