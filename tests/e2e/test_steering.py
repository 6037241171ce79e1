"""A run is paused, resumed, drained and killed; batches and weights are inspected."""

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


def test_a_pause_can_be_undone_and_a_drain_ends(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("steered")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator("[data-status=paused]").wait_for()
    page.locator("[data-undo]").click()
    page.locator("[data-status=running]").wait_for()
    expect(page.locator("[data-undo]")).to_have_count(0)

    # Draining ends a run, so it needs a confirmation, and the reason is stored.
    page.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name=f"Drain {run}?")
    dialog.get_by_label("Reason").fill("good enough")
    dialog.get_by_role("button", name="Drain").click()
    # The queue is empty, so the drain completes at the next check.
    page.locator("[data-status=completed], [data-status=draining]").wait_for()
    page.get_by_role("link", name="Config").click()
    changes = page.get_by_label("Changes, newest first")
    expect(changes).to_contain_text("paused → running")
    expect(changes).to_contain_text("“pause undone”")
    expect(changes).to_contain_text("“good enough”")
    expect(changes).to_contain_text("user:ada")
    expect(changes).to_contain_text("request ")


def test_a_kill_needs_the_name_and_a_reason(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("to-kill")
    page.goto(f"/runs/{run}")
    page.locator("[data-verb=kill]").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Kill {run}?")
    kill = dialog.get_by_role("button", name="Kill")
    # Keys typed before the field has focus would be lost.
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("out of patience")
    expect(kill).to_be_disabled()
    dialog.get_by_label(f"Type {run} to confirm").fill(run[:-1])
    expect(kill).to_be_disabled()
    page.keyboard.type(run[-1])
    page.keyboard.press("Enter")

    page.locator("[data-status=stopped]").wait_for()
    (event,) = [
        row
        for row in server.get(f"/api/v1/runs/{run}/events?kinds=status")["results"]
        if row["details"]["verb"] == "kill"
    ]
    assert (event["actor"], event["reason"]) == ("user:ada", "out of patience")


def test_a_reset_starts_an_empty_run_of_the_same_name(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("to-reset")
    before = server.get(f"/api/v1/runs/{run}")["id"]
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Reset").click()
    dialog = page.get_by_role("dialog", name=f"Reset {run}?")
    dialog.get_by_label("Reason").fill("another tokenizer")
    dialog.get_by_label(f"Type {run} to confirm").fill(run)
    with page.expect_response("**/reset") as answer:
        dialog.get_by_role("button", name="Reset").click()

    assert answer.value.status == 200
    assert server.get(f"/api/v1/runs/{run}")["id"] != before


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
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_role("table", name="Items of the batch")).to_contain_text("gsm8k_0")
    drawer.get_by_role("button", name="Release").click()
    drawer.get_by_label("Reason").fill("its trainer is gone")
    drawer.get_by_role("button", name="Release").click()

    expect(drawer).to_contain_text("released")
    released = seeded_server.get("/api/v1/runs/seed-atropos-mix/events?kinds=batch_released")
    assert released["results"][0]["reason"] == "its trainer is gone"


def test_environments_are_weighted_and_muted(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-atropos-mix/environments")
    row = page.locator("[data-environment=gsm8k_0]")
    row.get_by_role("button", name="Change the weight of gsm8k_0").click()
    dialog = page.get_by_role("dialog", name="Weight of gsm8k_0")
    dialog.get_by_label("Weight").fill("4.5")
    dialog.get_by_label("Reason").fill("it learns most")
    dialog.get_by_role("button", name="Change").click()

    changed_to = row.get_by_role("button", name="Change the weight of gsm8k_0, now 4.5")
    expect(changed_to).to_be_visible()
    (changed,) = seeded_server.get(
        "/api/v1/runs/seed-atropos-mix/events?kinds=environment_changed"
    )["results"]
    assert changed["details"]["weight"]["after"] == 4.5

    muted = page.locator("[data-environment=gsm8k_1]")
    muted.get_by_role("button", name="Mute").click()
    dialog = page.get_by_role("dialog", name="Mute gsm8k_1")
    expect(dialog).to_contain_text("no trainer receives it")
    dialog.get_by_label("Reason").fill("it rewards nonsense")
    dialog.get_by_role("button", name="Mute").click()
    expect(muted).to_contain_text("muted")


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


def test_weights_and_their_staleness_are_updated_live(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live/weights")
    versions = page.get_by_role("table", name="Versions, newest first")
    expect(versions.get_by_role("row").nth(1)).to_contain_text("current")
    strip = page.get_by_role("list", name="Staleness of the last batches, oldest first")
    strip.get_by_role("link").last.click()

    expect(page.get_by_role("dialog")).to_contain_text("Batch ")
    assert "/runs/seed-cartpole-live/queue?batch=" in page.url


def test_a_reason_can_be_entered_before_a_pause(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("explained")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Give a reason").click()
    dialog = page.get_by_role("dialog", name=f"Pause {run}?")
    dialog.get_by_label("Reason").fill("the disk is swapped")
    dialog.get_by_role("button", name="Pause").click()

    page.locator("[data-status=paused]").wait_for()
    assert server.get(f"/api/v1/runs/{run}")["status_reason"] == "the disk is swapped"


def test_limits_are_changed_on_the_queue_page(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-hostile-text/queue")
    page.get_by_role("button", name="Change limits").click()
    dialog = page.get_by_role("dialog", name="Limits of seed-hostile-text")
    change = dialog.get_by_role("button", name="Change")
    expect(change).to_be_disabled()
    dialog.get_by_label("Tolerance").fill("7.5")
    dialog.get_by_label("Reason").fill("the trainer is far away")
    change.click()
    expect(dialog).to_have_count(0)

    expect(
        page.get_by_role("region", name=re.compile("Producers paused|Backpressure"))
    ).to_contain_text("7.5 ×")
    (event,) = seeded_server.get("/api/v1/runs/seed-hostile-text/events?kinds=settings_changed")[
        "results"
    ]
    assert event["reason"] == "the trainer is far away"


def test_settings_can_be_reverted(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("restored")
    before = server.get(f"/api/v1/runs/{run}")
    for changes in ({"max_staleness": 4}, {"max_staleness": 7, "max_age_seconds": 90}):
        server.http.patch(f"/api/v1/runs/{run}", json=changes).raise_for_status()
    page.goto(f"/runs/{run}/config")
    made = page.locator("[data-change=created]")
    made.get_by_role("button", name="Restore these settings").click()
    dialog = page.get_by_role("dialog", name="Restore these settings?")
    expect(dialog.get_by_label("Changes").get_by_role("listitem")).to_have_text(
        ["max_staleness 7 → none", "max_age_seconds 90 → none"]
    )
    dialog.get_by_label("Reason").fill("it was better before")
    dialog.get_by_role("button", name="Restore").click()

    newest = page.locator("[data-change=settings_changed]").first
    expect(newest).to_contain_text("it was better before")
    expect(newest).to_contain_text("user:ada")
    after = server.get(f"/api/v1/runs/{run}")
    for name in ("max_staleness", "max_age_seconds"):
        assert after[name] == before[name]
    # The current value has nothing to restore.
    expect(made.get_by_role("button", name="Restore")).to_have_count(0)
