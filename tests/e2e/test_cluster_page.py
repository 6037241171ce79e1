"""The cluster page: the health of each service of the deployment."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pages import barriers, wait_for_width
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def test_every_part_of_a_running_server_answers(signed_in: Page, server: Server) -> None:
    page = signed_in
    page.goto("/cluster")
    # Processes send their first heartbeat within seconds of their start.
    for role in ("web", "jobs", "scheduler"):
        process = page.locator(f"[data-process='{role}']").first
        expect(process.locator("[data-state=running]")).to_be_visible(timeout=60_000)
    for part in ("database", "broker", "storage"):
        row = page.locator(f"[data-part={part}]")
        expect(row.locator("[data-state=up]")).to_be_visible(timeout=60_000)
    database = page.locator("[data-part=database]")
    expect(database.get_by_role("img", name="connections")).to_be_visible()
    expect(page.locator("[data-part=broker]")).to_contain_text("unix://")
    expect(page.locator("[data-part=jobs]")).to_contain_text("python")
    page.get_by_role("button", name="Service", exact=True).click()
    expect(page.get_by_role("columnheader", name="Service")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(page.locator("[data-part]").first).to_have_attribute("data-part", "jobs")
    assert barriers(page) == []


def test_the_worker_check_ends_once_all_have_answered(server: Server) -> None:
    def took_ms() -> float:
        return float(server.get("/api/v1/cluster")["jobs"]["took_ms"] or 1e9)

    # kombu takes more than a second when it waits for further replies.
    wait_until(lambda: took_ms() < 800, seconds=60, what="a status without further waiting")


def test_the_ray_cluster_is_shown_by_its_nodes_or_reported_missing(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    page.goto("/cluster")
    machines = page.get_by_role("region", name="Machines")
    if server.get("/api/v1/cluster")["ray"]["state"] == "absent":
        expect(machines).to_contain_text("RAY_ADDRESS")
        return
    head = machines.locator("[data-machine]").filter(has_text="head")
    expect(head.get_by_role("img", name="CPUs reserved")).to_be_visible(timeout=90_000)
    expect(head).to_have_count(1)
    ray = page.locator("[data-part=ray]")
    expect(ray.locator("[data-state=up]")).to_be_visible(timeout=90_000)
    node = next(
        node["node"] for node in server.get("/api/v1/cluster")["ray"]["nodes"] if node["is_head"]
    )
    try:
        head.get_by_role("button", name="Cordon…").click()
        dialog = page.get_by_role("dialog", name="Cordon")
        assert barriers(page, within="[role=dialog]") == []
        dialog.get_by_label("Reason").fill("its fan <b id=loud>")
        dialog.get_by_role("button", name="Cordon", exact=True).click()
        cordon = head.locator("[data-machine-cordon]")
        expect(cordon).to_contain_text("its fan <b id=loud>")
        expect(cordon).to_contain_text("remaining")

        head.get_by_role("button", name="Uncordon…").click()
        dialog = page.get_by_role("dialog", name="Uncordon")
        dialog.get_by_role("button", name="Uncordon").click()
        expect(cordon).to_have_count(0)
    finally:
        server.delete(f"/api/v1/cluster/nodes/{node}/cordon")


def test_the_cluster_page_shows_a_viewer_no_addresses_also_on_a_phone(
    page: Page, server: Server
) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/cluster")
    broker = page.locator("[data-part=broker]")
    expect(broker.locator("[data-state=up]")).to_be_visible(timeout=60_000)
    expect(broker).not_to_contain_text("unix://")
    wait_for_width(page, 360)


def test_a_notice_is_shown_on_every_page_until_it_is_removed(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    page.goto("/cluster")
    try:
        page.get_by_role("button", name="Notice…").click()
        dialog = page.get_by_role("dialog", name="Notice to all users")
        dialog.get_by_label("Notice").fill("The disk is changed at noon <b id=hostile>.")
        dialog.get_by_label("Reason").fill("it is full")
        dialog.get_by_role("button", name="Set notice").click()
        expect(page.locator("[data-notice]")).to_contain_text("noon <b id=hostile>")
        page.goto("/settings")
        expect(page.locator("[data-notice]")).to_be_visible()

        page.goto("/cluster")
        page.get_by_role("button", name="Notice…").click()
        expect(dialog).to_contain_text("Set by user:ada: it is full.")
        dialog.get_by_label("Notice").fill("")
        dialog.get_by_role("button", name="Remove notice").click()

        expect(page.locator("[data-notice]")).to_have_count(0)
        expect(dialog).to_have_count(0)
    finally:
        server.delete("/api/v1/server/notice")
