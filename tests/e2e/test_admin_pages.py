"""An administrator finds stuck batches in the admin, follows their links and decides."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.buffer_factories import REGISTRATION, group
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

REASON = "poisoned by a broken verifier"


def left_batch(server: Server) -> tuple[str, str]:
    """Lease a batch and never acknowledge it; return the run's name and the batch's id."""
    run = f"admin-{uuid4().hex[:6]}"
    server.post("/api/v1/runs", {"name": run, "kind": "outside", "start": True})
    answer = server.http.patch(f"/api/v1/runs/{run}", json={"lease_seconds": 1})
    assert answer.is_success, answer.text
    server.post(f"/atropos/{run}/register", REGISTRATION)
    for mark in (1, 2):
        server.post(f"/atropos/{run}/scored_data", group(sequences=4, mark=mark))
    assert server.get(f"/atropos/{run}/batch")["batch"]

    def left() -> str:
        (batch,) = server.get(f"/api/v1/runs/{run}/batches")["results"]
        return str(batch["id"]) if batch["state"] == "returned" else ""

    return run, wait_until(left, seconds=60, what="the lease has lapsed")


def follow(page: Page, name: str | re.Pattern[str]) -> None:
    page.locator("a.text-link", has_text=name).first.click()
    page.wait_for_load_state()


def test_a_returned_batch_is_found_through_links_and_discarded_with_a_reason(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    run, batch = left_batch(server)
    page.goto("/admin/")
    page.get_by_role("link", name="Batches").first.click()
    page.wait_for_url("**/admin/buffer/batch/")
    run_id = server.get(f"/api/v1/runs/{run}")["id"]
    page.goto(f"/admin/buffer/batch/?state__exact=returned&run__id__exact={run_id}")
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(1)

    # From the run to its groups, from a group to its batch, and back to the start.
    follow(page, run)
    expect(page).to_have_url(re.compile(f"/admin/runs/run/{run_id}/change/"))
    follow(page, "trajectory groups")
    expect(page).to_have_url(re.compile(r"/admin/buffer/trajectorygroup/\?run__id__exact="))
    follow(page, re.compile(r"^batch \d+$"))
    expect(page).to_have_url(re.compile(f"/admin/buffer/batch/{batch}/change/"))

    page.goto(f"/admin/buffer/batch/?state__exact=returned&run__id__exact={run_id}")
    choose_discard(page)
    expect(page.get_by_text("are not served again")).to_be_visible()
    page.get_by_role("button", name="Discard").click()  # the browser itself asks for the reason
    expect(page.get_by_label("Reason")).to_be_focused()
    assert server.get(f"/api/v1/runs/{run}/ledger")["groups"]["dropped"] == {}
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("The items of 1 batches were dropped.")).to_be_visible()

    assert server.get(f"/api/v1/runs/{run}/ledger")["groups"]["dropped"] == {"discarded": 1}
    (event,) = server.get(f"/api/v1/runs/{run}/events?kinds=batch_discarded")["results"]
    assert (event["actor"], event["reason"]) == ("user:ada", REASON)
    page.goto("/admin/admin/logentry/")
    expect(page.locator("#result_list tbody tr").first).to_contain_text(REASON)


def choose_discard(page: Page) -> None:
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option("discard")
    page.get_by_role("button", name="Run").click()
    page.wait_for_load_state()
