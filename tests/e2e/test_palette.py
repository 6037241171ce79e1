"""The command palette finds everything in a few letters and confirms every action."""

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e import pages
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def opened(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search pages")
    expect(box).to_be_focused()
    return box


def chosen(page: Page) -> Locator:
    """Return the active option, once the box announces it to screen readers."""
    box = page.get_by_role("combobox", name="Search pages")
    expect(box).to_have_attribute("aria-activedescendant", re.compile("."))
    return page.locator(f"[id='{box.get_attribute('aria-activedescendant')}']")


def test_letters_typed_while_the_palette_loads_are_kept(signed_in: Page, server: Server) -> None:
    page, held = signed_in, list[Route]()
    # Its code arrives after the letters, as on a slow connection.
    page.route("**/Palette-*.js", lambda route: held.append(route))
    page.goto("/runs")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()

    with page.expect_request("**/Palette-*.js"):
        page.keyboard.press("Control+k")
    page.keyboard.type("weights")
    expect(page.get_by_role("combobox", name="Search pages")).to_have_count(0)
    (route,) = held
    route.continue_()

    expect(page.get_by_role("combobox", name="Search pages")).to_have_value("weights")


def test_the_palette_is_accessible_and_names_a_search_without_results(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.get_by_role("button", name="Search or command").click()
    expect(page.get_by_role("combobox", name="Search pages")).to_be_focused()
    assert pages.barriers(page) == []
    page.keyboard.type("no such thing")
    expect(page.get_by_text("No matches for “no such thing”.")).to_be_visible()


def test_the_palette_fits_a_phone(at_home: Page) -> None:
    page = at_home
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name="Search or command").click()
    expect(page.get_by_role("combobox", name="Search pages")).to_be_focused()
    page.keyboard.type("settin")
    expect(chosen(page)).to_contain_text("Settings")
    pages.wait_for_width(page, 360)
    chosen(page).click()
    expect(page.get_by_role("heading", name="Settings", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("typed", "title", "place"),
    [
        ("launch", "Launch", "/runs/new"),
        ("api ref", "API reference", "/docs"),
        ("admin", "Admin", "/admin/"),
        ("audit", "Audit", "/admin/runs/runevent/"),
    ],
)
def test_the_palette_opens_pages_in_and_beside_the_dashboard(
    signed_in: Page, typed: str, title: str, place: str
) -> None:
    page = signed_in
    page.goto("/settings")
    page.get_by_role("heading", level=1).first.wait_for()
    opened(page)
    page.keyboard.type(typed)
    expect(chosen(page)).to_contain_text(title)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{place}")
