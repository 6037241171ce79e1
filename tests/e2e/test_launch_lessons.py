"""Errors of the lessons of a language run are at their field of the launch form."""

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

FOUR, EIGHT, SORT = "one-good", "two-goods", "larger-prices"
# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000


@pytest.fixture
def page(signed_in: Page) -> Page:
    signed_in.goto("/runs/new?preset=curriculum&view=config")
    expect(name_of(signed_in, 4)).to_have_value(SORT)
    return signed_in


def name_of(page: Page, position: int) -> Locator:
    return page.get_by_label(f"Name of lesson {position}", exact=True)


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()


def test_each_error_is_at_its_field_of_its_lesson(page: Page) -> None:
    page.get_by_label(f"Environment of {EIGHT}", exact=True).fill("task:nope")
    page.get_by_label(f"Arguments of {SORT}", exact=True).fill('{"size": 2}')
    press(page, "Check")
    expect(page.locator("[data-result=refused]")).to_be_visible(timeout=CHECKED_WITHIN_MS)
    for label in (f"Environment of {EIGHT}", f"Arguments of {SORT}"):
        field = page.get_by_label(label, exact=True)
        expect(field).to_have_attribute("aria-invalid", "true")
    right = page.get_by_label(f"Environment of {SORT}", exact=True)
    expect(right).not_to_have_attribute("aria-invalid", "true")

    press(page, f"More fields of {FOUR}")
    page.get_by_role("group", name=f"Lesson {FOUR}").get_by_label("Top-p").fill("2")
    press(page, f"More fields of {FOUR}")
    name_of(page, 4).fill(EIGHT)
    press(page, "Launch")
    expect(name_of(page, 4)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Another row has this name.").first).to_be_visible()
    top_p = page.get_by_role("group", name=f"Lesson {FOUR}").get_by_label("Top-p")
    expect(top_p).to_have_attribute("aria-invalid", "true")
