"""A person sets how pages look here, and signs out elsewhere."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.deck import Deck
from tests.e2e.conftest import OPERATOR, VIEWER, sign_in, sign_in_anew

pytestmark = [pytest.mark.browser, pytest.mark.system]


def pick(page: Page, group: str, choice: str) -> None:
    page.get_by_role("radiogroup", name=group).get_by_text(choice, exact=True).click()


def test_what_is_chosen_holds_on_every_page_and_after_a_reload(page: Page, deck: Deck) -> None:
    sign_in(page, OPERATOR)
    page.goto("/settings")
    pick(page, "Theme", "Light")
    pick(page, "Density", "Dense")
    pick(page, "Times of day", "UTC")
    pick(page, "Rows", "25")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "light")
    hour = page.evaluate("new Date().getUTCHours()")
    assert int(page.locator("[data-clock]").inner_text()[:2]) in {hour, (hour + 1) % 24}

    with page.expect_request(lambda asked: "/api/audit?" in asked.url) as asked:
        page.goto("/audit")
    assert "limit=25" in asked.value.url
    expect(page.locator("html")).to_have_attribute("data-density", "dense")
    page.goto("/settings")
    for group, choice in (("Density", "Dense"), ("Times of day", "UTC"), ("Rows", "25")):
        chosen = page.get_by_role("radiogroup", name=group).get_by_role("radio", name=choice)
        expect(chosen).to_be_checked()
    pick(page, "Density", "Comfortable")
    expect(page.locator("html")).to_have_attribute("data-density", "comfortable")


def test_a_person_signs_out_on_another_browser(page: Page, chromium: Browser, deck: Deck) -> None:
    sign_in_anew(page, VIEWER)
    elsewhere = chromium.new_context(
        base_url=deck.url,
        user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    )
    other = sign_in_anew(elsewhere.new_page(), VIEWER)

    page.goto("/settings")
    expect(page.locator("[data-browser=this]").first).to_contain_text("Chrome")
    page.get_by_role("button", name="Sign out Firefox 140 on Linux").click()
    dialog = page.get_by_role("dialog", name="Sign out: Firefox 140 on Linux?")
    dialog.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign out Firefox 140 on Linux")).to_have_count(0)
    expect(page.locator("[data-browser=this]")).to_have_count(1)

    other.goto("/runs")
    expect(other).to_have_url(f"{deck.url}/login?next=%2Fruns")
    elsewhere.close()
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_everybody_sees_who_they_are_and_which_deck_this_is(page: Page, deck: Deck) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/settings")
    you = page.get_by_role("region", name="You")
    expect(you).to_contain_text("You may look at everything")
    expect(you).to_contain_text("An administrator changes your password")
    expect(page.get_by_role("region", name="This deck")).to_contain_text(deck.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
