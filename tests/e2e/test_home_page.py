"""The home view: alerts that need attention, active runs, and first steps."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import USERNAME, in_the_shell, sign_in
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


ALERTS = """
from django.utils import timezone
from runs.alerts.models.alerts import Alert
from runs.models import Run
run = Run.objects.get(name={run!r})
times = dict.fromkeys(["first_seen_at", "last_seen_at"], timezone.now())
for number in range(3):
    Alert.objects.create(
        run=run, kind="items_corrupt", severity="warning", key=f"{{run.pk}} {{number}}",
        subject=str(number), message=f"part {{number}} of {{run.name}} is corrupt", **times)
Alert.objects.create(
    run=run, kind="items_corrupt", severity="error", key=f"{{run.pk}} corrupt",
    message=f"bytes of {{run.name}} are corrupt", **times)
"""


def test_alerts_are_grouped_by_run_with_the_most_severe_one(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.new_run("alerted")
    in_the_shell(server, ALERTS.format(run=run))
    page.goto("/")
    attention = page.get_by_role("region", name="Needs attention")
    corrupt = attention.get_by_text(f"bytes of {run} are corrupt")
    expect(corrupt).to_be_visible()
    others = attention.get_by_text(re.compile(rf"part \d of {run} is corrupt"))
    expect(others).to_have_count(0)

    attention.get_by_role("button", name=f"3 more alerts of {run}").click()
    expect(others).to_have_count(3)
    page.keyboard.press("Enter")
    expect(others).to_have_count(0)


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


def test_an_empty_server_shows_the_first_steps(page: Page, server: Server) -> None:
    """The test stubs empty lists, because other tests have filled this server."""
    nothing = {"results": [], "next": None, "total": 0}
    page.route(re.compile(r"/api/v1/runs\?"), lambda route: route.fulfill(json=nothing))
    sign_in(page, USERNAME)
    page.goto("/")

    expect(page.get_by_role("region", name="Load demo data")).to_contain_text("make seed")
    expect(page.get_by_role("link", name="Get a token")).to_be_visible()
    page.get_by_role("link", name="Launch CartPole").click()
    expect(page).to_have_url(re.compile(r"/runs/new\?preset=cartpole"))


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
