"""The YAML editor of the launch form: errors at lines, completion, keyboard, accessibility."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import pages
from tests.e2e.launch_form import check, editor, error_at, write
from tests.e2e.test_page_accessibility import in_the_light

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

WRONG = """\
fleet:
  num_workers: 0
  surprise: 1
environment:
  spec: 7
policy:
  hidden_sizes: [64, many]
seed: -1
"""
FIELDS = {
    "fleet.num_workers": 2,
    "fleet.surprise": 3,
    "environment.spec": 5,
    "policy.hidden_sizes[1]": 7,
    "seed": 8,
}


def test_every_error_of_the_server_is_at_its_line(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    write(page, WRONG)
    for field, line in FIELDS.items():
        expect(error_at(page, field)).to_contain_text(f"Line {line}")
    for label in ("Workers", "Environment", "Seed"):
        field = page.get_by_label(label, exact=True)
        expect(field).to_have_attribute("aria-invalid", "true")

    page.get_by_label("Workers", exact=True).fill("2")
    expect(error_at(page, "fleet.num_workers")).to_have_count(0)
    write(page, "seed: 1\nfleet: &again\n  num_workers: 2\n")
    expect(page.get_by_role("list", name="Errors")).to_contain_text("Line 2 Anchors and aliases")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(editor(page)).to_be_focused()


def accept(page: Page, option: str) -> None:
    """Accept a completion with Enter, which the editor ignores for 75 ms after the list opened."""
    expect(page.get_by_role("option", name=option)).to_be_visible()
    shown = page.evaluate("performance.now()")
    page.wait_for_function("shown => performance.now() > shown + 80", arg=shown)
    page.keyboard.press("Enter")


def test_keys_and_values_are_completed_with_the_keyboard(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    write(page, "policy:\n  ")
    page.keyboard.type("ki")
    accept(page, "kind")
    page.keyboard.type("g")
    accept(page, "gru")
    expect(page.get_by_role("combobox", name="Policy")).to_have_value("gru")

    page.keyboard.press("Tab")
    expect(editor(page)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor(page)).not_to_be_focused()


def test_a_check_reports_a_faulty_wrapper_at_its_line(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    wrapper = "module:gymnasium.wrappers:TimeLimit"
    write(page, f"environment:\n  wrappers:\n    - kind: {wrapper}\n")
    check(page, "refused")
    message = "missing 1 required positional argument"
    found = page.locator("[data-finding='environment.wrappers[0]']")
    expect(found).to_contain_text(message)
    expect(error_at(page, "environment.wrappers[0]")).to_contain_text("Line 3")


def test_each_error_is_at_the_line_of_its_lesson(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=curriculum")
    write(
        page,
        "language:\n  lessons:\n"
        "    good:\n      spec: task:sort\n"
        "    bad.spec:\n      spec: task:nope\n"
        "    bad-top-p:\n      spec: task:sort\n      sampling:\n        top_p: 2\n",
    )
    expect(error_at(page, "language.lessons.bad-top-p.sampling.top_p")).to_contain_text("Line 10")
    write(page, "language:\n  lessons:\n    bad.spec:\n      spec: task:nope\n")
    expect(error_at(page, "language.lessons.bad.spec.spec")).to_contain_text("Line 4")


@pytest.mark.parametrize("preset", ["cartpole", "curriculum"])
def test_the_form_is_accessible_and_fits_every_screen(signed_in: Page, preset: str) -> None:
    page = signed_in
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/runs/new?preset={preset}")
    editor(page).click()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.insert_text("surprise: 1\n")
    expect(error_at(page, "surprise")).to_be_visible()

    assert pages.barriers(page) == []
    with in_the_light(page):
        assert pages.barriers(page, rules=pages.COLOURS) == []
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        pages.wait_for_width(page, width)
        launch = page.get_by_role("button", name="Launch", exact=True)
        expect(launch).to_be_in_viewport()
