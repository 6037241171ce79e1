"""The first page: what needs attention, above the list of runs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import in_the_shell
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_the_first_page_names_the_newest_error(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/")
    expect(page).to_have_url(re.compile("/runs$"))
    strip = page.get_by_role("region", name="Needs attention")
    expect(strip.locator("[data-attention] [data-alert=error]")).to_be_visible()
    strip.get_by_role("link", name=re.compile(r"^Alerts: \d+ open")).click()
    expect(page.get_by_role("heading", name="Alerts")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_a_failed_run_appears_at_once_in_the_bell_and_above_the_runs(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    page.goto("/")
    bell = page.locator("[data-open-alerts]")
    expect(bell).to_be_visible()
    run = server.new_run("no-spec", kind="fleet", preset="cartpole", start=False)
    in_the_shell(
        server,
        "from runs.models import Run;"
        f"Run.objects.filter(name={run!r}).update(status='failed', status_reason='no seat')",
    )

    strip = page.get_by_role("region", name="Needs attention")
    line = strip.get_by_role("link", name=f"{run} failed: no seat")
    expect(line).to_be_visible(timeout=40_000)
    expect(bell).to_have_accessible_name(re.compile(r"^Alerts: \d+ error"))
    line.click()
    expect(page.get_by_role("dialog", name="A run failed")).to_be_visible()
