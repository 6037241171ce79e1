"""A run is paused, resumed and drained; batches and weights are inspected."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_a_run_is_paused_resumed_and_drained(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("steered")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator("[data-status=paused]").wait_for()
    page.get_by_role("button", name="Resume", exact=True).click()
    page.locator("[data-status=running]").wait_for()

    # Draining ends a run, so it needs a confirmation, and the reason is stored.
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Drain").click()
    dialog = page.get_by_role("dialog", name=f"Drain {run}?")
    dialog.get_by_label("Reason").fill("good enough")
    dialog.get_by_role("button", name="Drain").click()
    # The queue is empty, so the drain completes at the next check.
    page.locator("[data-status=completed], [data-status=draining]").wait_for()
    page.get_by_role("link", name="Config").click()
    changes = page.get_by_label("Changes, newest first")
    expect(changes).to_contain_text("paused → running")
    expect(changes).to_contain_text("“good enough”")
    expect(changes).to_contain_text("user:ada")


def test_the_queue_shows_the_reason_of_a_pause_and_requeues_an_expired_batch(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/seed-atropos-mix/queue?state=returned")
    expect(page.get_by_role("region", name="Producers paused")).to_contain_text(
        "tolerance × batch = 3 × 32 = 96"
    )
    expect(page.locator("[data-preview=ready]")).to_contain_text("leased again")
    page.get_by_role("table", name="Batches, newest first").get_by_role("link").first.click()
    drawer = page.get_by_role("dialog", name=re.compile(r"^Batch \d"))
    expect(drawer.get_by_role("table", name="Items of the batch")).to_contain_text("gsm8k_0")
    drawer.get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog", name="Release batch")
    dialog.get_by_label("Reason").fill("its trainer is gone")
    dialog.get_by_role("button", name="Release").click()

    expect(drawer).to_contain_text("released")
    released = seeded_server.get("/api/v1/runs/seed-atropos-mix/events?kinds=batch_released")
    assert released["results"][0]["reason"] == "its trainer is gone"


def test_an_environment_shows_its_refused_pushes(signed_in: Page, seeded_server: Server) -> None:
    def environment() -> Any:
        rows = seeded_server.get("/api/v1/runs/seed-atropos-mix/environments")["results"]
        return next(row for row in rows if row["wandb_name"] == "gsm8k_0")

    before = environment()
    broken = {"env_id": before["env_id"], "masks": [[1]], "scores": [1.0]}
    answer = seeded_server.http.post("/atropos/seed-atropos-mix/scored_data", json=broken)
    assert answer.status_code == 422
    wait_until(
        lambda: environment()["refused"] != before["refused"],
        seconds=30,
        what="the refusal is counted",
    )

    signed_in.goto("/runs/seed-atropos-mix/environments")
    row = signed_in.locator("[data-environment=gsm8k_0]")
    expect(row).to_contain_text(re.compile(r"refused \d+: missing \d+"))
    expect(row).to_contain_text("body.tokens: Field required")


def test_the_newest_version_is_current(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live/weights")
    versions = page.get_by_role("table", name="Versions, newest first")
    expect(versions.get_by_role("row").nth(1)).to_contain_text("current")
