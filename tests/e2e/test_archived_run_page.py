"""Archived runs in the browser: they open read-only, and can be unarchived there."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pages import open_tab
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def archived(server: Server, name: str) -> int:
    """Archive a new run and return its id."""
    run: dict[str, Any] = server.post(
        "/api/v1/runs", {"name": name, "kind": "outside", "start": False, "tags": ["shelf"]}
    )
    body = {"action": "archive", "ids": [run["id"]], "reason": "the paper is out"}
    assert server.post("/api/v1/run-actions", body)["results"][0]["problem"] == ""
    return int(run["id"])


def test_an_archived_run_opens_read_only_and_can_be_unarchived(
    signed_in: Page, server: Server
) -> None:
    page, run_id = signed_in, archived(server, "old-words")
    # The name is free again, and another run takes it.
    current = server.post("/api/v1/runs", {"name": "old-words", "kind": "outside", "start": False})
    page.goto("/runs?q=is:archived tag:shelf name:old-words")
    page.get_by_role("link", name="old-words").click()

    expect(page).to_have_url(re.compile(f"/runs/old-words--{run_id}$"))
    expect(page.get_by_role("heading", name="old-words", exact=True)).to_be_visible()
    banner = page.locator("[data-archived]")
    expect(banner).to_contain_text("This run is archived and read-only")
    expect(banner).to_contain_text(re.compile(r"by token:\d+ “the paper is out”"))
    expect(page.locator("[data-verb]")).to_have_count(0)
    page.get_by_role("button", name="More actions").click()
    expect(page.get_by_role("menuitem", name="Copy link")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Edit tags")).to_have_count(0)
    expect(page.get_by_role("menuitem", name="Clone")).to_have_count(0)
    page.keyboard.press("Escape")
    for tab in (["Samples"], ["Data", "Weights"], ["Charts"], ["Config"]):
        open_tab(page, *tab)
        expect(page).to_have_url(re.compile(f"/runs/old-words--{run_id}/"))
        expect(banner).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)

    banner.get_by_role("button", name="Unarchive").click()
    expect(page.get_by_text("a current run has its name")).to_be_visible()
    body = {"action": "archive", "ids": [current["id"]], "reason": ""}
    server.post("/api/v1/run-actions", body)
    banner.get_by_role("button", name="Unarchive").click()

    expect(page).to_have_url(re.compile("/runs/old-words$"))
    expect(banner).to_have_count(0)
    page.get_by_role("button", name="More actions").click()
    expect(page.get_by_role("menuitem", name="Edit tags")).to_be_visible()


def test_the_address_of_a_run_opens_it_after_it_was_archived(page: Page, server: Server) -> None:
    sign_in(page, VIEWER)
    archived(server, "old-maths")

    page.goto("/runs/old-maths")

    banner = page.locator("[data-archived]")
    expect(banner).to_contain_text("This run is archived and read-only")
    expect(banner.get_by_role("button")).to_have_count(0)
