"""Features of every page: held pages, broken addresses, commands ready to paste, traces."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pages import open_tab
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def see_a_report(server: Server) -> None:
    """Wait until the live fleet has reported further env steps."""

    def steps() -> list[int]:
        workers = server.get("/api/v1/runs/seed-cartpole-live/fleet")["workers"]
        return [worker["env_steps"] for worker in workers]

    before = steps()
    wait_until(lambda: steps() != before, seconds=30, what="the fleet reports")


def test_a_paused_page_is_not_updated(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live")
    page.locator("[data-live=live]").wait_for()
    steps = page.locator("[data-figure=env-steps]")
    expect(steps).to_have_attribute("data-value", re.compile(r"\d"))
    page.keyboard.press("l")
    expect(page.locator("[data-live=held]")).to_be_visible()
    held = steps.get_attribute("data-value")
    for _ in range(2):  # after the second report the page has had time to show the first
        see_a_report(seeded_server)
    assert steps.get_attribute("data-value") == held

    page.locator("[data-live=held]").click()
    expect(page.locator("[data-live=live]")).to_be_visible()
    expect(steps).not_to_have_attribute("data-value", held or "")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/runs/seed-cartpole-live?x=7&from=b&last=-1&at=%00", "Newest trajectories"),
        ("/runs/seed-cartpole-live/queue?state=eaten&from=9&to=1", "Ledger"),
        ("/runs/seed-cartpole-live/trajectories?spread=x&x=y", "Distribution"),
    ],
)
def test_a_broken_address_shows_a_page_with_links(
    signed_in: Page, seeded_server: Server, place: str, words: str
) -> None:
    signed_in.goto(place)
    expect(signed_in.get_by_text(words).first).to_be_visible()
    expect(signed_in.get_by_role("heading", level=1)).to_have_count(1)


def test_a_command_gets_a_token_in_place(signed_in: Page, server: Server) -> None:
    page, run = signed_in, server.new_run("wants-data")
    page.goto(f"/runs/{run}/environments")
    command = page.locator("[data-command] code")
    expect(command).to_contain_text("env:$ROLLDECK_TOKEN@")
    page.get_by_role("button", name="Create one for 30 days and insert it").click()

    expect(command).to_contain_text(re.compile(r"env:rd_[\w-]+@"))
    expect(page.get_by_role("button", name="Create one")).to_have_count(0)
    created = server.get("/api/v1/tokens")["results"][0]
    assert (created["name"], created["scopes"], created["run"]) == (f"env of {run}", ["env"], run)
    # The token does not permit a trainer: the trainer's command keeps its placeholder.
    open_tab(page, "Data", "Weights")
    expect(command).to_contain_text('token="$ROLLDECK_TOKEN"')
