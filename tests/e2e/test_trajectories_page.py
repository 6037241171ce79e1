"""The list of samples of a run: filter, address, new groups, and the link to one."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pages import wait_for_width
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


@pytest.fixture(scope="module")
def groups(server: Server) -> list[int]:
    outside_run(server, "looked-for")
    return push(
        server,
        "looked-for",
        conversation("Name the planets", "Mars", "Venus", scores=[0.0, 1.0], lesson="space"),
        conversation("Sort 3 1 2", "1 2 3", "1 2 3", scores=[1.0, 1.0], lesson="sorting"),
        conversation("Sort 9 8 7", "7 8 9", "9 8 7", scores=[1.0, 0.5], lesson="sorting"),
    )


def test_groups_are_found_by_a_filter_that_is_part_of_the_address(
    groups: list[int], signed_in: Page
) -> None:
    page = signed_in
    page.goto("/runs/looked-for/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(3)
    heights = rows.evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
    assert max(heights) <= 36, heights

    box = page.get_by_role("combobox", name="Filter samples")
    box.fill("env:sort")
    page.get_by_role("option", name="sorting").click()
    expect(rows).to_have_count(2)
    box.fill("env:sorting is:zero_variance")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Sort 3 1 2")
    expect(rows).to_contain_text("1 2 3")

    page.reload()
    expect(rows).to_have_count(1)
    box.fill("planets")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Name the planets")
    expect(page).to_have_url(re.compile("q=planets"))
    box.fill("colour:red")
    expect(page.get_by_text("unknown qualifier 'colour'; known: run, project, env")).to_be_visible()
    box.fill("nothing like it")
    expect(page.get_by_role("heading", name="No matching groups")).to_be_visible()


def test_a_new_group_is_announced_and_inserted_on_a_click(server: Server, signed_in: Page) -> None:
    outside_run(server, "growing")
    push(server, "growing", conversation("First", "a", "b", scores=[0.0, 1.0]))
    page = signed_in
    page.goto("/runs/growing/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(1)

    push(server, "growing", conversation("Second", "a", "b", scores=[0.0, 1.0]))
    button = page.get_by_role("button", name="1 new", exact=True)
    expect(button).to_be_visible()
    expect(rows).to_have_count(1)
    button.click()
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Second")


def test_the_list_of_groups_has_keyboard_navigation(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/looked-for/trajectories?sort=score")
    expect(page.locator("[data-sample]")).to_have_count(3)

    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name=f"Group {groups[2]}")).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_enabled()
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name=f"Group {groups[1]}")).to_be_visible()
    expect(page.get_by_role("button", name="Previous")).to_be_enabled()
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name=f"Group {groups[2]}")).to_be_visible()
    page.get_by_role("link", name="sorting", exact=True).click()
    expect(page.locator("[data-sample]")).to_have_count(2)


def test_a_run_without_groups_shows_the_first_steps(server: Server, signed_in: Page) -> None:
    page, run = signed_in, server.new_run("nothing-yet")
    page.goto(f"/runs/{run}/trajectories")

    expect(page.get_by_role("heading", name="No samples yet")).to_be_visible()
    expect(page.get_by_text(f"{server.url}/atropos/{run}/scored_data")).to_be_visible()


def test_the_page_fits_a_small_screen(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/runs/looked-for/trajectories")
    expect(page.locator("[data-sample]")).to_have_count(3)

    page.get_by_role("combobox", name="Filter samples").fill("env:space")
    expect(page.locator("[data-sample]")).to_have_count(1)
    wait_for_width(page, 360)
