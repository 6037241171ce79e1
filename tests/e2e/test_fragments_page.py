"""A researcher reads the steps of env slots; corrupt fragments are marked as such."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import in_the_shell
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
RUN = "seed-cartpole-live"


def newest(server: Server, *, least: int = 1) -> list[dict[str, Any]]:
    place = f"/api/v1/trajectories?run={RUN}&kind=fragment&limit=100"
    rows: list[dict[str, Any]] = server.get(place)["results"]
    assert len(rows) >= least
    return rows


def ends(server: Server, row: dict[str, Any]) -> bool:
    """Return whether an episode ends inside a fragment."""
    detail = server.get(f"/api/v1/runs/{RUN}/fragments/{row['id']}")
    return any(episode["outcome"] for episode in detail["content"]["episodes"])


def test_a_fragment_is_found_and_its_steps_are_read(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto(f"/runs/{RUN}/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows.first).to_be_visible()
    page.get_by_role("combobox", name="Filter samples").fill("slot~w1-")
    expect(page).to_have_url(re.compile("q=slot"))
    expect(rows.first).to_contain_text("w1-")
    expect(rows.filter(has_text=re.compile("^w0-"))).to_have_count(0)
    rows.first.get_by_role("link").first.click()

    expect(page.get_by_role("article", name=re.compile("^Fragment"))).to_be_visible()
    expect(page.locator("[data-return]")).to_have_text("32")
    for curve in ("Return", "Reward", "Value"):
        expect(page.get_by_role("region", name=curve, exact=True).locator("canvas")).to_be_visible()
    expect(page.locator('[data-step="0"]')).to_have_text(re.compile(r"^Action[01]Reward1Value"))
    page.get_by_role("slider", name="Step", exact=True).press("End")
    expect(page).to_have_url(re.compile("step=31"))
    expect(page.locator('[data-step="31"]')).to_contain_text("Observation")
    page.get_by_role("link", name="worker 1", exact=True).click()
    expect(page.locator('[data-worker="1"]')).to_have_attribute("aria-current", "true")


def test_a_fragment_lists_its_episodes_and_neighbours_have_shortcuts(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    row = next(
        row for row in newest(seeded_server) if row["number"] > 0 and ends(seeded_server, row)
    )
    page.goto(f"/runs/{RUN}/fragments/{row['id']}")
    episodes = page.get_by_role("table", name="Episodes")
    expect(episodes.get_by_text("terminated").first).to_be_visible()
    episodes.get_by_role("button", name="Go to the steps").last.click()
    expect(page).to_have_url(re.compile(r"step=\d+"))

    page.keyboard.press("[")
    expect(page).not_to_have_url(re.compile(f"/fragments/{row['id']}"))
    expect(page.get_by_role("heading", name=re.compile(f"· {row['number'] - 1}$"))).to_be_visible()


def test_invalid_fragment_bytes_are_refused_with_a_reason(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    broken = newest(seeded_server)[-1]["id"]
    row = seeded_server.get(f"/api/v1/runs/{RUN}/fragments/{broken}")["fragment"]
    in_the_shell(
        seeded_server,
        "from buffer.models import Payload;"
        f"Payload.objects.filter(kind='fragments', item_id={broken})"
        f".update(content=b'\\xc1' * {row['size_bytes']})",
    )

    page.goto(f"/runs/{RUN}/fragments/{broken}")

    expect(page.get_by_role("article", name=f"Fragment {broken}")).to_be_visible()
    expect(page.get_by_text("not a valid fragment")).to_be_visible()
    expect(page.get_by_role("region", name="Return", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("tab", "row"),
    [("trajectories", "tr[data-sample]"), ("fleet", "tr[data-worker]")],
)
def test_rows_keep_their_height_with_long_worker_ids(
    signed_in: Page, seeded_server: Server, tab: str, row: str
) -> None:
    worker = newest(seeded_server)[0]["worker"]
    assert re.fullmatch(r"w\d+@1-[0-9a-f]{8}-[0-9a-f]{6}", worker)
    page = signed_in
    page.goto(f"/runs/{RUN}/{tab}")
    expect(page.locator(row).first).to_be_visible()

    heights = page.locator(row).evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    assert max(heights) <= 56, heights
