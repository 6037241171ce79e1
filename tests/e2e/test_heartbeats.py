"""A state is shown only while heartbeats confirm it; afterwards the page gives the reason.

One fleet is real and loses a worker to SIGKILL; another is simulated and falls silent. Neither
page is reloaded.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.pages import open_tab
from tests.e2e.simulated_manager import SimulatedManager
from tests.server import Server, wait_until

# The colour of faint text, as computed for an element.
FAINT = """() => {
    const probe = document.createElement("i");
    probe.style.color = "var(--ink-faint)";
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
}"""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

GREY_WITHIN_SECONDS = 30.0
WATCH = """(selector) => {
    window.stays = true;
    window.shown = [];
    const note = () => {
        const chip = document.querySelector(selector);
        const last = window.shown.at(-1);
        if (!chip || (last && last.state === chip.dataset.state)) return;
        const tone = chip.dataset.tone;
        window.shown.push({ state: chip.dataset.state, tone, text: chip.textContent });
    };
    new MutationObserver(note).observe(document.body,
        { subtree: true, childList: true, attributes: true, characterData: true });
    note();
}"""


def shown(page: Page) -> list[dict[str, Any]]:
    """Return every state that the watched chip has had, with its color and text."""
    recorded: list[dict[str, Any]] = page.evaluate("window.shown")
    return recorded


def test_a_killed_worker_is_grey_with_a_reason_until_it_is_replaced(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.free_name("loses-a-worker")
    small = {"num_workers": 1, "envs_per_worker": 2, "inference_batch_size": 2}
    body = {"name": run, "preset": "cartpole", "config": {"fleet": small}, "start": True}
    server.post("/api/v1/runs", body)
    try:
        page.goto(f"/runs/{run}/fleet")
        row = page.locator("tr[data-worker='0']")
        expect(row.locator("[data-state=running]")).to_be_visible(timeout=180_000)
        page.evaluate(WATCH, "tr[data-worker='0'] [data-state]")
        (worker,) = server.get(f"/api/v1/runs/{run}/fleet")["workers"]
        killed_at = time.monotonic()
        os.kill(worker["pid"], signal.SIGKILL)

        def turned_grey() -> list[dict[str, Any]]:
            return [state for state in shown(page) if state["state"] in {"respawning", "unknown"}]

        first, *_ = wait_until(turned_grey, seconds=60, what="the chip turns grey")
        assert time.monotonic() - killed_at < GREY_WITHIN_SECONDS
        assert first["tone"] == "quiet"
        # The chip's text holds the reason for users who cannot hover.
        assert len(first["text"].partition(", ")[2]) > 10, first

        expect(row.locator("[data-state=running]")).to_be_visible(timeout=120_000)
        expect(row.get_by_role("cell").nth(3)).not_to_have_text(str(worker["pid"]))
        open_tab(page, "Fleet & logs", "Logs")
        expect(page.get_by_label("Events, newest first")).to_contain_text(
            re.compile(r"Worker 0 is lost, respawning in [\d.]+ s: \S+")
        )
        assert page.evaluate("window.stays") is True
    finally:
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is over"})


def test_a_fleet_without_heartbeats_is_unknown_until_another_manager_reports(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, "falls-silent"
    fleet = SimulatedManager(server, run)
    try:
        page.goto(f"/runs/{run}/fleet")
        chip = page.locator("tr[data-worker='0'] [data-state]")
        expect(chip).to_have_attribute("data-state", "running")
        page.evaluate("window.stays = true")
        fleet.close()

        expect(chip).to_have_attribute("data-state", "unknown", timeout=30_000)
        row = page.locator("tr[data-worker='0']")
        expect(row.locator("[data-late]")).to_have_text(
            re.compile(r"last heartbeat \d+ (s|min) ago")
        )
        expect(chip).to_contain_text("No recent heartbeat")
        chip.hover()
        expect(page.get_by_role("tooltip")).to_contain_text(
            re.compile(r"No recent heartbeat.*Last heartbeat 20\d\d-")
        )
        # The manager is missing from the cluster too, so the platform starts it again.
        open_tab(page, "Fleet & logs", "Logs")
        expect(page.get_by_label("Events, newest first")).to_contain_text(
            "its manager is gone from the cluster", timeout=60_000
        )
        assert page.evaluate("window.stays") is True
    finally:
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is over"})


@contextmanager
def stopped_jobs(server: Server) -> Iterator[None]:
    """Stop the clock and job processes of a server, so that no fleet is reconciled."""
    held = server.children("celery")
    assert held
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)


def test_every_status_chip_of_a_run_without_heartbeats_is_unknown(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, "not-heard-of"
    fleet = SimulatedManager(server, run)
    in_its_header = page.locator("[data-status] > [data-state]")
    of_the_fleet = page.locator("[data-fleet-state] [data-state]")
    diagnosis = page.get_by_role("region", name="Diagnosis")

    def is_unknown(chip: Locator, why: str) -> None:
        expect(chip).to_have_attribute("data-state", "unknown", timeout=30_000)
        expect(chip).to_contain_text(re.compile(rf"unknown, .*{why}"))

    try:
        page.goto(f"/runs/{run}/fleet")
        for chip in (in_its_header, of_the_fleet):
            expect(chip).to_have_attribute("data-state", "running")
        with stopped_jobs(server):
            fleet.close()
            is_unknown(of_the_fleet, "its manager does not report")
            is_unknown(in_its_header, "its manager does not report")
            # Requests and the last figures are unconfirmed.
            expect(page.locator("[data-pending]")).to_have_count(0)
            expect(page.locator("[data-unproven]")).to_have_count(1)
            number = page.locator("[data-unproven] td[data-num]").first
            faint = page.evaluate(FAINT)
            assert number.evaluate("(cell) => getComputedStyle(cell).color") == faint
            expect(diagnosis).to_contain_text(re.compile("No reports from the fleet for .*: its"))
            open_tab(page, "Overview")
            expect(diagnosis).to_contain_text("its state is unknown")
            page.goto("/runs")
            row = page.locator("tr[data-row]").filter(has=page.get_by_role("link", name=run))
            is_unknown(row.locator("[data-state]:visible"), "its manager does not report")
            expect(row).to_have_attribute("data-unproven", "true")

        # The platform works again and launches another manager, which has sent no heartbeat yet.
        page.goto(f"/runs/{run}/fleet")
        is_unknown(in_its_header, "another was launched and has not reported yet")
        is_unknown(of_the_fleet, "another was launched and has not reported yet")
    finally:
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is over"})
