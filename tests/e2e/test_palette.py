"""The command palette finds everything in a few letters and confirms every action."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import pages
from tests.server import ADMIN_TOKEN, Server

pytestmark = [pytest.mark.browser, pytest.mark.system]


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
    page = signed_in
    # Its code arrives late, as on a slow connection.
    page.route("**/Palette-*.js", lambda route: (time.sleep(1), route.continue_()))
    page.goto("/runs")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()

    page.keyboard.press("Control+k")
    page.keyboard.type("pipeline")

    expect(page.get_by_role("combobox", name="Search pages")).to_have_value("pipeline")


def test_a_run_and_its_tabs_are_found_by_a_few_letters(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs")
    page.get_by_label("List of runs").wait_for()
    page.keyboard.press("/")
    opened(page)
    assert pages.barriers(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("[data-filter]")).to_be_focused()

    opened(page)
    page.keyboard.type("lesrev")
    expect(page.get_by_role("option")).to_have_count(0)
    page.keyboard.press("Control+a")
    page.keyboard.type("reverse-les")
    expect(chosen(page)).to_contain_text("seed-reverse-lessons")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="seed-reverse-lessons")).to_be_visible()

    opened(page)
    page.keyboard.type("curr")
    expect(chosen(page)).to_contain_text("Curriculum")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/seed-reverse-lessons/curriculum")

    opened(page)
    expect(page.get_by_role("group", name="Recent")).to_contain_text("Curriculum")
    expect(page.get_by_role("group", name="Recent")).to_contain_text("seed-reverse-lessons")
    page.keyboard.press("ArrowUp")
    expect(chosen(page)).to_contain_text("Sign out")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_commands_that_change_a_run_are_confirmed_and_restore_the_focus(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.new_run("by-palette")
    page.goto(f"/runs/{run}")
    page.get_by_role("link", name="Metrics").focus()

    opened(page)
    page.keyboard.type("kill")
    expect(chosen(page)).to_contain_text(f"Kill {run}")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Kill {run}?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Control+k")  # never above a dialog
    expect(page.get_by_role("combobox", name="Search pages")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("link", name="Metrics")).to_be_focused()
    assert server.get(f"/api/v1/runs/{run}")["status"] == "running"


def test_the_palette_changes_the_theme_copies_the_link_and_opens_the_help(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page.goto("/audit?kind=created")
    page.get_by_role("heading", name="Audit").wait_for()
    page.get_by_role("button", name="Search or command").click()
    expect(page.get_by_role("combobox", name="Search pages")).to_be_focused()
    page.keyboard.type("light th")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "light")

    opened(page)
    page.keyboard.type("copy link")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{server.url}/audit?kind=created"

    page.keyboard.press("Control+a")
    page.keyboard.type("copy as python")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Python script copied")
    program = page.evaluate("navigator.clipboard.readText()")
    answered = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ROLLDECK_TOKEN": ADMIN_TOKEN},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert {row["kind"] for row in json.loads(answered.stdout)["results"]} <= {"created"}

    page.keyboard.press("Control+a")
    page.keyboard.type("no such thing")
    expect(page.get_by_text("No matches for “no such thing”.")).to_be_visible()
    page.keyboard.press("Control+a")
    page.keyboard.type("keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Open the command palette")


def test_the_palette_fits_a_phone(at_home: Page) -> None:
    page = at_home
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name="Search or command").click()
    expect(page.get_by_role("combobox", name="Search pages")).to_be_focused()
    page.keyboard.type("audit")
    expect(chosen(page)).to_contain_text("Audit")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    chosen(page).click()
    expect(page.get_by_role("heading", name="Audit")).to_be_visible()
