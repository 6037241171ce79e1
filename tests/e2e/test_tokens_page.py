"""An administrator creates a token, which works until it is revoked."""

from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pages import wait_for_width
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_a_token_is_created_used_and_revoked(signed_in: Page, server: Server) -> None:
    page, run, name = signed_in, server.new_run("used"), f"trainer-{uuid4().hex[:6]}"
    page.goto("/tokens")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("trainer").check()
    dialog.get_by_role("textbox", name="Run").fill(run)
    dialog.get_by_role("button", name="Create token").click()
    token = page.locator("[data-token] code").inner_text()
    dialog.get_by_role("button", name="Done").click()

    bearer = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, headers=bearer, timeout=60) as machine:
        assert machine.get(f"/api/v1/runs/{run}").status_code == 200
        assert machine.post(f"/api/v1/runs/{run}/pause", json={}).status_code == 403

    expect(page.get_by_role("row", name=name)).to_contain_text("active")
    page.get_by_role("button", name=f"Revoke {name}").click()
    dialog.get_by_label("Reason").fill("it was in a screenshot")
    dialog.get_by_role("button", name="Revoke").click()
    row = page.get_by_role("row", name=name)
    expect(row).to_contain_text("revoked")
    assert (
        httpx.get(f"{server.url}/api/v1/runs/{run}", headers=bearer, timeout=60).status_code == 401
    )
    event, *_ = server.get("/api/v1/audit?kind=token_revoked")["results"]
    assert event["reason"] == "it was in a screenshot"


def test_the_tokens_page_shows_a_viewer_no_tokens(page: Page) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto("/tokens")

    expect(page.get_by_role("heading", name="Requires the operator role")).to_be_visible()
    wait_for_width(page, 360)
