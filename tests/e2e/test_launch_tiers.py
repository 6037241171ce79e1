"""The whole launch form: errors of every field, accessibility and width."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import pages
from tests.e2e.test_page_accessibility import in_the_light

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def section(page: Page, title: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"^{title} \\d+ field"))


def open_all(page: Page) -> None:
    page.get_by_role("button", name="Open all").click()
    expect(page.get_by_role("button", name="Close all")).to_be_visible()


@pytest.mark.parametrize("preset", ["cartpole", "curriculum"])
def test_a_form_with_every_field_wrong_shows_each_error_at_its_field(
    signed_in: Page, preset: str
) -> None:
    page = signed_in
    page.goto(f"/runs/new?preset={preset}")
    open_all(page)
    # Choices and switches have no wrong value, and the server checks names.
    paths = page.locator(
        "#launch-tiers :is(input[inputmode=decimal], textarea)[data-field]"
    ).evaluate_all("fields => fields.map((field) => field.dataset.field)")
    for path in paths:
        page.locator(f"[data-field='{path}']").fill("wrong")
    page.get_by_role("button", name="Close all").click()
    page.get_by_role("button", name="Launch", exact=True).click()

    expect(page.get_by_role("alert").filter(has_text="fields with errors")).to_contain_text(
        f"{len(paths) + 1} fields"
    )
    for path in ["name", *paths]:
        field = page.locator(f"[data-field='{path}']")
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(section(page, "Fleet")).to_contain_text("errors")
    assert len(paths) >= 20


@pytest.mark.parametrize("preset", ["cartpole", "curriculum"])
def test_the_open_form_is_accessible_and_fits_every_screen(signed_in: Page, preset: str) -> None:
    page = signed_in
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/runs/new?preset={preset}")
    open_all(page)
    if preset == "curriculum":
        page.get_by_role("button", name="More fields of sort-2-digits").click()

    assert pages.barriers(page) == []
    with in_the_light(page):
        assert pages.barriers(page, rules=pages.COLOURS) == []
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        pages.wait_for_width(page, width)
        launch = page.get_by_role("button", name="Launch", exact=True)
        expect(launch).to_be_in_viewport()
