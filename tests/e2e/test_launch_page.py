"""A run is checked and launched from the form, also with the keyboard."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.launch_form import check, editor, write
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def findings(page: Page, field: str) -> Locator:
    return page.locator(f"[data-finding='{field}']")


def test_a_preset_with_a_secret_is_refused_with_its_field(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    write(page, "environment:\n  kwargs:\n    api_key: abc\n")
    page.get_by_role("button", name="Save as preset").click()
    dialog = page.get_by_role("dialog", name="Save as preset")
    dialog.get_by_label("Name").fill("launch-secret")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("environment.kwargs.api_key")


def test_a_check_lists_the_problems_of_a_launch(signed_in: Page, server: Server) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    write(page, "environment:\n  kwargs:\n    nonsense: 1\n")
    check(page, "refused")
    bad = findings(page, "environment.spec")
    expect(bad).to_contain_text("nonsense")
    expect(page.get_by_label("Environment", exact=True)).to_have_attribute("aria-invalid", "true")

    page.goto("/runs/new?preset=curriculum")
    page.get_by_label("Batch size · fragments").fill("100")
    check(page, "refused")
    uneven = findings(page, "buffer.batch_size")
    expect(uneven).to_contain_text("not a multiple of the group size 8")
    expect(uneven).to_contain_text("Use 96 or 104")
    uneven.get_by_role("button", name="buffer.batch_size").click()
    expect(editor(page)).to_be_focused()


def test_a_run_is_launched_with_the_keyboard_alone(at_home: Page, server: Server) -> None:
    page = at_home
    server.free_name("typed-only")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Launch a run")).to_be_visible()
    name = page.get_by_label("Name", exact=True)
    for _ in range(60):
        if name.evaluate("field => field === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(name).to_have_value(re.compile(r"cartpole-\d+"))
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("typed-only")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="typed-only")).to_be_visible()
    server.post("/api/v1/runs/typed-only/kill")
