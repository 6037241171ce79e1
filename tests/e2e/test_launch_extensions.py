"""A faulty wrapper of the launch form is found by a check."""

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000
TIME_LIMIT = "module:gymnasium.wrappers:TimeLimit"


def open_environment(page: Page) -> None:
    page.get_by_role("button", name=re.compile(r"^Environment \d+ field")).click()


def add(page: Page, field: str, name: str, arguments: str) -> None:
    page.get_by_role("button", name=f"Add to {field.lower()}", exact=True).click()
    page.get_by_role("combobox", name=f"{field} 1", exact=True).click()
    page.get_by_role("option", name=name).click()
    page.get_by_label(f"Arguments of {field.lower()} 1", exact=True).fill(arguments)


def test_a_check_reports_a_faulty_wrapper_at_its_field(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    open_environment(page)
    add(page, "Wrappers", TIME_LIMIT, "")
    page.get_by_role("button", name="Check", exact=True).click()

    expect(page.locator("[data-result=refused]")).to_be_visible(timeout=CHECKED_WITHIN_MS)
    found = page.locator("[data-finding='environment.wrappers[0]']")
    expect(found).to_contain_text("missing 1 required positional argument")
    field = page.get_by_role("group", name="Wrappers", exact=True)
    expect(field).to_contain_text("missing 1 required positional argument")
