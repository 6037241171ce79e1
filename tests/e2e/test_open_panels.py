"""Accessibility of menus and dialogs: both themes, a phone, and closing by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.e2e import pages
from tests.e2e.conftest import USERNAME, sign_in
from tests.e2e.test_page_accessibility import in_the_light, on_a_phone
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

OPEN = "[role=dialog], [role=menu]"
LIVE = "/runs/seed-cartpole-live"
LANGUAGE = "/runs/seed-reverse-lessons"
MIX = "/runs/seed-atropos-mix"


def button(name: str) -> str:
    return f"role=button[name=/^{name}/] >> nth=0"


def entry(name: str) -> str:
    return f"role=menuitem[name=/^{name}/]"


# A narrower page moves a chart or row out of view, together with its open menu.
OF_A_PLACE = ("Options of", "Tag group")
ROW = "[data-row] [data-open] >> nth=0"
# Sequences of buttons to press on each page, each of which opens something.
WAYS: dict[str, list[list[str]]] = {
    "/": [[button("Menu of")]],
    "/runs": [
        [button("Columns")],
        [button("Projects")],
        [button("All matching"), entry("Pause")],
    ],
    "/runs/new": [[button("Save as preset")]],
    LIVE: [
        [button("More actions"), entry("Kill")],
        [button("More actions"), entry("(Edit|Add) tags")],
        [button("More actions"), entry("(Change|Add to) project")],
    ],
    f"{LIVE}/metrics": [
        [button("Views"), entry("Save as new view")],
        [button("Annotations")],
        [button("Options of"), entry("Show as table")],
        [button("Enlarge")],
        [button("Options of"), entry("Alert when")],
    ],
    f"{LIVE}/fleet?worker=0": [
        [button("Replace worker")],
        [button("Record")],
    ],
    f"{LIVE}/weights": [[button("Pin a version")]],
    f"{MIX}/queue": [["[data-batch] [data-open] >> nth=0"], [button("Change limits")]],
    f"{MIX}/environments": [[button("(Disc|Rec)onnect")]],
    f"{LANGUAGE}/curriculum": [["[data-lesson] [data-open] >> nth=0"]],
    f"{LANGUAGE}/trajectories": [[button("Columns")]],
    "/alerts": [[ROW, button("Snooze")]],
    "/alerts?view=rules": [[ROW], [button("Delete")]],
    "/alerts?view=snoozed": [[button("End the snooze")]],
    "/environments": [[ROW]],
    "/cluster": [[button("Notice")]],
    "/tokens": [[button("Create token")], [button("Revoke")]],
    "/settings": [[button("Test ")]],
}


@pytest.fixture(scope="module")
def reader(chromium: Browser, seeded_server: Server) -> Iterator[pages.Reader]:
    context: BrowserContext = chromium.new_context(
        base_url=seeded_server.url, viewport={"width": 1440, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(30_000)
    yield pages.Reader(sign_in(context.new_page(), USERNAME))
    context.close()


@pytest.mark.parametrize("place", WAYS)
def test_panels_that_open_are_accessible(reader: pages.Reader, place: str) -> None:
    page = reader.opens(place)
    for way in WAYS[place]:
        opener = page.locator(way[0])
        for depth, step in enumerate(way):
            pressed = page.locator(step)
            pressed.press("Enter")
            if "menuitem" not in step:
                opener = pressed
            expect(page.locator(OPEN).last).to_be_visible()
            wait_until(
                lambda: has_focus(page), seconds=30, what=f"{step} takes the focus ({depth})"
            )
        page.keyboard.press("Shift+Tab")
        assert has_focus(page), f"Tab leaves what {way} opened"
        assert pages.barriers(page, within=OPEN) == []
        with in_the_light(page):
            assert pages.barriers(page, rules=pages.COLOURS, within=OPEN) == []
        if not any(words in way[0] for words in OF_A_PLACE):
            with on_a_phone(page):
                pages.wait_for_width(page, 360)
        leave(page, opener, way)
    assert reader.complaints == []


def has_focus(page: Page) -> bool:
    return bool(page.evaluate(f"Boolean(document.activeElement?.closest({OPEN!r}))"))


def leave(page: Page, opener: Locator, way: list[str]) -> None:
    """Close all open layers with Escape, newest first; each returns the focus to its button."""
    layers = page.locator(OPEN).count()
    for left in range(layers - 1, -1, -1):
        page.keyboard.press("Escape")
        expect(page.locator(OPEN)).to_have_count(left)
        expect(opener).to_be_focused()
        opener = page.locator(way[0])
