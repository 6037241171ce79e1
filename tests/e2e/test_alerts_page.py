"""A user finds an alert, acknowledges it, and sees that it is resolved."""

import json
import re

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.buffer_factories import REGISTRATION, group
from tests.e2e.conftest import USERNAME, VIEWER, in_the_shell, sign_in
from tests.e2e.pages import wait_for_width
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
MARKUP = re.compile("<img|<script|<b ")


def alert_of(server: Server, kind: str, run: str) -> int:
    (alert, *_) = server.get(f"/api/v1/alerts?state=all&kind={kind}&run={run}")["results"]
    return int(alert["id"])


def quarantine_a_batch(server: Server, run: str) -> int:
    """Expire the lease of a batch until it is quarantined; return the id of its alert."""
    answer = server.http.patch(f"/api/v1/runs/{run}", json={"lease_seconds": 1})
    assert answer.is_success, answer.text
    server.post(f"/atropos/{run}/register", REGISTRATION)
    server.post(f"/atropos/{run}/scored_data", group(sequences=REGISTRATION["batch_size"], mark=1))

    def is_quarantined() -> bool:
        batches = server.get(f"/api/v1/runs/{run}/batches")["results"]
        if not batches or batches[0]["state"] == "returned":
            # Atropos' GET /batch would acknowledge the previous batch.
            server.http.post(f"/api/v1/runs/{run}/batches/next", json={}).raise_for_status()
        return bool(batches) and batches[0]["state"] == "quarantined"

    wait_until(is_quarantined, seconds=120, what="the batch is quarantined")
    alerts = f"/api/v1/alerts?state=all&kind=batch_quarantined&run={run}"
    (alert,) = wait_until(lambda: server.get(alerts)["results"], seconds=60, what="its alert")
    return int(alert["id"])


def test_an_alert_is_acknowledged_with_a_reason_and_resolves(
    signed_in: Page, seeded_server: Server
) -> None:
    page, run = signed_in, seeded_server.new_run("spoilt")
    quarantined = quarantine_a_batch(seeded_server, run)
    page.goto("/alerts?severity=error")
    row = page.locator(f"[data-alert-id='{quarantined}']")
    row.locator("[data-open]").click()
    expect(page).to_have_url(re.compile(rf"severity=error&alert={quarantined}"))
    drawer = page.get_by_role("dialog", name="A batch is quarantined")
    drawer.get_by_label("Reason").fill("looking at its groups")
    drawer.get_by_role("button", name="Acknowledge", exact=True).click()

    expect(drawer.locator("[data-alert=acknowledged]")).to_be_visible()
    expect(drawer.get_by_text("Acknowledged by ada")).to_be_visible()
    delivery = (
        drawer.get_by_role("row").filter(has_text="acknowledged").filter(has_text="127.0.0.1")
    )
    expect(delivery.locator("[data-delivery=delivered]")).to_be_visible(timeout=40_000)
    page.reload()
    expect(drawer.get_by_text("“looking at its groups”")).to_be_visible()
    events = seeded_server.get(f"/api/v1/audit?kind=alert_acknowledged&run={run}")["results"]
    assert (events[0]["actor"], events[0]["reason"]) == ("user:ada", "looking at its groups")

    # A decision about the batch resolves the alert.
    batch = seeded_server.get(f"/api/v1/alerts/{quarantined}")["subject"]
    seeded_server.post(f"/api/v1/runs/{run}/batches/{batch}/discard", {"reason": "spoilt anyway"})
    expect(drawer.locator("[data-alert=resolved]")).to_be_visible(timeout=40_000)
    expect(drawer.get_by_text("Resolved by platform")).to_be_visible()
    drawer.get_by_role("button", name="Close").click()
    expect(row).to_have_count(0)


def test_markup_is_shown_as_text_and_a_viewer_has_no_actions(
    page: Page, seeded_server: Server
) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 800})
    hostile = alert_of(seeded_server, "items_corrupt", "seed-hostile-text")
    page.goto(f"/alerts?alert={hostile}")
    drawer = page.get_by_role("dialog", name="Stored bytes are corrupt")
    expect(drawer).to_contain_text(MARKUP)
    expect(drawer).to_contain_text("⟨U+202E⟩")
    expect(drawer.get_by_role("button", name="Acknowledge")).to_be_disabled()
    expect(drawer.get_by_role("button", name="Resolve")).to_be_disabled()
    assert page.title() != "owned"
    wait_for_width(page, 360)


def test_the_bell_is_correct_after_lost_frames(page: Page, seeded_server: Server) -> None:
    lost: list[int] = []

    def unreliable(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["type"] == "delta" and frame["topic"] == "alerts":
                lost.append(frame["sequence"])
            else:
                socket.send(message)

        server.on_message(pass_on)

    page.route_web_socket(re.compile("/ws/live"), unreliable)
    sign_in(page, USERNAME)
    page.goto("/")
    bell = page.locator("[data-open-alerts]")
    expect(bell).to_be_visible()

    def is_right() -> bool:
        """Return whether the bell shows the current count; other alerts may come and go."""
        summary = seeded_server.get("/api/v1/alerts?limit=1")["summary"]
        return bell.get_attribute("data-open-alerts") == str(
            summary["errors"] + summary["warnings"]
        )

    alert = in_the_shell(
        seeded_server,
        "from django.utils import timezone;"
        "from runs.alerts.rules import AlertKind, Condition;"
        "from runs.alerts.services import alerts;"
        "seen = Condition(kind=AlertKind.ITEMS_CORRUPT, subject='lost', message='a lost frame');"
        "print(alerts.raise_alert(seen, now=timezone.now()))",
    )

    # No delta of the alerts arrives: the heartbeat repairs the page.
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention.get_by_text("a lost frame")).to_be_visible(timeout=40_000)
    wait_until(is_right, seconds=40, what="the bell is right with it")
    seeded_server.post(f"/api/v1/alerts/{int(alert.split()[-1])}/resolve", {"reason": "was a test"})
    expect(attention.get_by_text("a lost frame")).to_have_count(0, timeout=40_000)
    wait_until(is_right, seconds=40, what="the bell is right without it")
    assert lost, "no frame was lost, so nothing was tried"


def test_a_rule_made_from_a_chart_fires_is_snoozed_and_deleted(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.new_run("ruled")
    rule = f"KL of {run} runs away"
    server.post(f"/api/v1/runs/{run}/trainers")
    for step, value in enumerate([1.0, 1.0, 8.0, 9.0]):
        sample = {"name": "kl", "step": step, "value": value}
        server.post(f"/api/v1/runs/{run}/metrics", {"samples": [sample]})
    page.goto(f"/runs/{run}/metrics")
    page.get_by_role("button", name="Options of kl").click()
    page.get_by_role("menuitem", name="Alert when").click()
    dialog = page.get_by_role("dialog", name="New alert rule")
    expect(dialog.get_by_label("Metric")).to_have_value("kl")
    expect(dialog.get_by_role("textbox", name="Run", exact=True)).to_have_value(run)
    dialog.get_by_role("textbox", name="Threshold").fill("5")
    dialog.get_by_label("Name").fill(rule)
    dialog.get_by_label("Instructions").fill("Lower the learning rate.")
    dialog.get_by_role("button", name="Create rule").click()
    expect(dialog).to_have_count(0)

    # The alert appears with its message and links to the chart.
    page.goto(f"/alerts?run={run}&kind=rule")
    page.get_by_role("button", name=re.compile(f"^kl of {run} is above")).click(timeout=60_000)
    drawer = page.get_by_role("dialog", name=rule)
    expect(drawer.get_by_text("Lower the learning rate.")).to_be_visible()
    drawer.get_by_role("button", name="Snooze…").click()
    snooze = page.get_by_role("dialog", name=f"Snooze {rule}")
    snooze.get_by_label("Reason").fill("we know of it")
    snooze.get_by_role("button", name="Snooze").click()
    expect(drawer.locator("[data-alert=snoozed]")).to_be_visible()
    page.goto("/alerts?view=snoozed")
    expect(page.locator("[data-snooze]").filter(has_text=rule)).to_be_visible()

    page.goto("/alerts?view=rules")
    row = page.get_by_role("row").filter(has_text=rule)
    expect(row.locator("[data-rule-state=firing]")).to_be_visible()
    row.get_by_role("button", name=f"Delete {rule}").click()
    confirm = page.get_by_role("dialog", name=f"Delete {rule}?")
    confirm.get_by_label("Reason").fill("was a test")
    confirm.get_by_role("button", name="Delete rule").click()
    expect(row).to_have_count(0)
    (event, *_) = server.get("/api/v1/audit?kind=alert_rule_deleted")["results"]
    assert (event["actor"], event["reason"]) == ("user:ada", "was a test")
