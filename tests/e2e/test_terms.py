"""Words of the product are explained in place by the glossary: by mouse, keyboard and touch."""

import re
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import pages
from tests.e2e.conftest import USERNAME, sign_in
from tests.server import ROOT, Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

FLEET: Final = "/runs/seed-cartpole-live"
LANGUAGE: Final = "/runs/seed-reverse-lessons"
SIZE: Final = """(word) => {
    const { width, height } = word.parentElement.getBoundingClientRect();
    return [width, height];
}"""
# The terms that each page explains where they first stand.
TERMS: Final = {
    FLEET: {"ledger", "policy version", "staleness", "fragment"},
    f"{FLEET}/queue": {"ledger", "batch", "lease", "share"},
    f"{FLEET}/pipeline": {"held back", "lease", "batch"},
    f"{FLEET}/trajectories": {"fragment", "behaviour version"},
    f"{FLEET}/weights": {"policy version", "staleness", "trainer"},
    f"{LANGUAGE}/trajectories": {"group", "behaviour version"},
    f"{LANGUAGE}/curriculum": {"lesson"},
    "/runs/new": {"staleness", "fragment"},
}


def meaning_of(term: str) -> str:
    """Return the definition of a term in the glossary, as plain text."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in glossary.splitlines() if line.startswith("| ")]
    found = next(cells[1] for cells in rows if term in cells[0].removeprefix("| ").split(", "))
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", found).replace("`", "")


@pytest.mark.parametrize("place", TERMS)
def test_a_page_explains_its_words(signed_in: Page, seeded_server: Server, place: str) -> None:
    page = signed_in
    page.goto(place)
    pages.settle(page)
    if place == "/runs/new":
        page.get_by_role("button", name="Open all").click()
    for term in sorted(TERMS[place]):
        word = page.locator(f"[data-term='{term}']").first
        word.scroll_into_view_if_needed()
        before = word.evaluate(SIZE)
        word.hover()
        card = page.locator(f"[data-meaning='{term}']:visible")
        expect(card).to_contain_text(meaning_of(term))
        assert word.evaluate(SIZE) == before, "the meaning takes room beside the word"
        assert pages.barriers(page, within="[data-meaning]") == []
        page.mouse.move(0, 0)
        expect(card).to_have_count(0)


def test_a_meaning_is_read_with_the_keyboard(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto(FLEET)
    word = page.get_by_role("button", name="Policy version")
    word.wait_for()
    page.get_by_role("link", name="Config", exact=True).focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if word.evaluate("(one) => one === document.activeElement"):
            break
    expect(word).to_be_focused()
    expect(word).to_have_accessible_description(meaning_of("policy version"), timeout=10_000)
    page.keyboard.press("Escape")
    expect(word).to_have_attribute("aria-expanded", "false")
    expect(word).to_be_focused()

    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Glossary")
    expect(link).to_be_focused()
    page.keyboard.press("Tab")
    expect(word).to_be_focused()
    expect(link).to_have_count(0)
    page.keyboard.press("Enter")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/guide/glossary#term-policy-version")
    expect(page.locator("#term-policy-version")).to_be_in_viewport()


def test_a_meaning_is_read_by_touch(chromium: Browser, seeded_server: Server) -> None:
    context = chromium.new_context(
        base_url=seeded_server.url, viewport={"width": 390, "height": 844}, has_touch=True
    )
    context.set_default_timeout(30_000)
    page = sign_in(context.new_page(), USERNAME)
    page.goto(FLEET)
    word = page.get_by_role("button", name="Policy version")
    word.tap()
    card = page.locator("[data-meaning]:visible")
    expect(card).to_contain_text(meaning_of("policy version"))
    box = card.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.url.endswith(FLEET)
    page.get_by_role("heading", level=1).tap()
    expect(card).to_have_count(0)
    word.tap()
    card.get_by_role("link", name="Glossary").tap()
    page.wait_for_url("**/guide/glossary#term-policy-version")
    context.close()


def test_a_tap_on_a_word_of_a_label_leaves_the_input_alone(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/new")
    page.get_by_role("button", name="Open all").click()
    word = page.locator("label [data-term=staleness]").first
    word.click()
    expect(page.locator("[data-meaning=staleness]:visible")).to_contain_text(
        meaning_of("staleness")
    )
    assert page.evaluate("document.activeElement.tagName") != "INPUT"
