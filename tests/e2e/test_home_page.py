"""The home view: alerts that need attention, active runs, machines and changes."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import in_the_shell
from tests.e2e.simulated_manager import simulated_manager, window
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_home_lists_and_links_runs_that_need_attention(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/")
    attention = page.get_by_role("region", name="Needs attention")
    line = attention.locator("[data-attention=items_corrupt]").first
    expect(line).to_be_visible()
    # Errors come before warnings.
    words = attention.locator("[data-alert]").all_inner_texts()
    severe = [re.sub(r"\W", "", text) for text in words]
    assert severe == sorted(severe), severe

    line.get_by_role("link", name="View", exact=True).click()
    expect(page).to_have_url(re.compile(r"/runs/seed-hostile-text/queue$"))
    expect(page.get_by_role("heading", name="seed-hostile-text")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def test_active_runs_are_updated_live(signed_in: Page, seeded_server: Server) -> None:
    page, unlike = signed_in, uuid4().hex[:6]
    watched, begun_now = f"home-watched-{unlike}", f"begun-now-{unlike}"
    page.goto("/")
    # The home view lists only the newest runs, and other tests have created many.
    with simulated_manager(seeded_server, watched) as fleet:
        card = page.locator(f"[data-run={watched}]")
        expect(card.locator("[data-state=running]")).to_be_visible()
        fleet.episodes = [window(9.0, 11.0)]
        expect(card.locator("[data-figure=return]")).to_have_text(re.compile(r"^\d"))
        fleet.episodes = [window(20.0, 30.0)]
        expect(card.get_by_role("img", name=f"Return of {watched} over time")).to_be_visible()
    finished = page.get_by_role("region", name="Recently finished")
    expect(finished.get_by_role("link", name=watched)).to_be_visible()
    expect(card).to_have_count(0)

    # New runs appear without a reload, and paused runs are marked.
    seeded_server.post("/api/v1/runs", {"name": begun_now, "kind": "outside", "start": True})
    begun = page.locator(f"[data-run={begun_now}]")
    expect(begun.locator("[data-state=running]")).to_be_visible()
    seeded_server.post(f"/api/v1/runs/{begun_now}/pause", {"reason": "tests"})
    expect(begun.locator("[data-state=paused]")).to_be_visible()
    seeded_server.post(f"/api/v1/runs/{begun_now}/kill", {"reason": "tests"})
    expect(begun).to_have_count(0)

    # The keyboard moves through alerts and runs alike.
    page.locator("h1").click()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.hasAttribute('data-open')")


def test_a_failed_run_appears_at_once_in_the_bell_and_at_home(
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

    line = page.get_by_text(f"{run} failed: no seat")
    expect(line).to_be_visible(timeout=40_000)
    expect(bell).to_have_accessible_name(re.compile(r"^Alerts: \d+ error"))
    line.click()
    expect(page.get_by_role("dialog", name="A run failed")).to_be_visible()


def test_home_shows_machines_and_recent_changes(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    run = seeded_server.new_run("changed-lately")
    page.goto("/")
    changes = page.get_by_role("region", name="Recent changes")
    expect(changes).to_contain_text(run, timeout=30_000)
    cluster = page.get_by_role("region", name="Cluster")
    expect(cluster.locator("[data-cluster]")).to_have_text(re.compile(r"\w"))
    expect(cluster).to_contain_text("Disk free")
    cluster.get_by_role("link", name="View cluster").click()
    expect(page).to_have_url(re.compile("/cluster$"))
