"""Search for groups and episodes in all runs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


@pytest.fixture(scope="module")
def groups(server: Server) -> list[int]:
    found = []
    for run, question, scores in (
        ("searched-one", "How many zebras?", [0.25, 0.75]),
        ("searched-two", "Which zebras are grey?", [0.0, 0.5]),
    ):
        outside_run(server, run)
        found += push(server, run, conversation(question, "this", "that", scores=scores))
    return found


def test_words_are_found_in_all_runs_worst_first(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Samples").click()
    expect(page.get_by_role("heading", name="Samples")).to_be_visible()
    box = page.get_by_role("combobox", name="Filter samples")
    box.fill("zebras")
    rows = page.locator("[data-sample]")

    expect(page).to_have_url(re.compile("q=zebras"))
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("searched-two")
    score = page.get_by_role("button", name="Score")
    score.click()
    expect(rows.nth(0)).to_contain_text("How many zebras?")
    score.click()
    expect(rows.nth(0)).to_contain_text("Which zebras are grey?")
    page.reload()
    expect(rows.nth(0)).to_contain_text("Which zebras are grey?")
    expect(box).to_have_value("zebras")

    rows.nth(0).get_by_role("link", name="Which zebras are grey?").click()
    expect(page).to_have_url(re.compile(f"/runs/searched-two/groups/{groups[1]}"))
    # The list begins with the lowest scores, so the group opens at its worst sequence.
    expect(page.get_by_label("Message 2, assistant")).to_contain_text("this")


def test_episodes_of_all_fleets_are_found_from_the_palette(signed_in: Page, server: Server) -> None:
    page = signed_in
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Runs").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search pages").fill("samples")
    page.get_by_role("option", name=re.compile("^Samples")).first.click()
    expect(page).to_have_url(re.compile("/trajectories$"))
    page.get_by_label("Kind").get_by_text("Episodes").click()
    expect(page).to_have_url(re.compile("kind=episode"))
