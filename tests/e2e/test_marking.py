"""Tags and notes of groups in the list and the viewer; filters and exports by them."""

import json
import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
HERE = "/runs/marked-by-people"


@pytest.fixture
def groups(server: Server) -> list[int]:
    outside_run(server, "marked-by-people")
    return push(
        server,
        "marked-by-people",
        conversation("Fold a crane", "no", "yes", scores=[0.0, 1.0]),
        conversation("Fold a boat", "no", "yes", scores=[0.2, 1.0]),
        conversation("Fold a hat", "no", "yes", scores=[0.9, 1.0]),
    )


def test_groups_are_tagged_in_the_list_and_found_by_tag(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{HERE}/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(3)

    page.get_by_role("checkbox", name=f"Select group {groups[1]}").check()
    page.get_by_role("combobox", name="Tags of all selected groups").fill("paper torn")
    page.keyboard.press("Enter")
    expect(rows.nth(1)).to_contain_text("paper torn")

    page.get_by_role("combobox", name="Filter samples").fill('tag:"paper torn"')
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("tag"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Fold a boat")


def test_a_group_gets_tags_and_a_note_in_the_viewer(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{HERE}/groups/{groups[0]}")
    tags = page.get_by_role("combobox", name="Tags")
    expect(tags).to_be_visible()

    page.keyboard.press("t")
    expect(tags).to_be_focused()
    page.keyboard.type("crane")
    page.keyboard.press("Enter")
    page.keyboard.type("second look")
    page.keyboard.press("Enter")
    page.keyboard.press("Backspace")
    page.keyboard.type("<i>torn</i>")
    page.keyboard.press("Enter")
    expect(page.get_by_text("<i>torn</i>")).to_be_visible()
    expect(page.get_by_text("second look")).to_have_count(0)

    page.get_by_role("textbox", name="Note").fill("<b>torn</b> at the \u202ewing")
    page.get_by_role("button", name="Save note").click()
    expect(page.get_by_role("button", name="Save note")).to_have_count(0)

    page.goto(f"{HERE}/trajectories?q=tag:crane&focus=loss&hide=kl")
    expect(page.locator("[data-sample]")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="JSONL").click()
    line = json.loads(download.value.path().read_text())
    assert (line["tags"], line["note"]) == (
        ["<i>torn</i>", "crane"],
        "<b>torn</b> at the \u202ewing",
    )


def test_selected_groups_are_tagged_and_discarded(server: Server, signed_in: Page) -> None:
    run = f"chosen-{uuid.uuid4().hex[:8]}"
    outside_run(server, run)
    questions = ("Fold a crane", "Fold a boat", "Fold a hat")
    ids = push(
        server, run, *(conversation(question, "no", "yes", scores=[0, 1]) for question in questions)
    )
    page = signed_in
    page.goto(f"/runs/{run}/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(3)

    page.get_by_role("checkbox", name="Select all shown groups").check()
    page.get_by_role("combobox", name="Tags of all selected groups").fill("wet")
    page.keyboard.press("Enter")
    for place in range(3):
        expect(rows.nth(place)).to_contain_text("wet")
    page.get_by_role("checkbox", name=f"Select group {ids[1]}").uncheck()
    page.get_by_role("button", name="Discard…").click()
    discard = page.get_by_role("dialog").get_by_role("button", name="Discard")
    expect(discard).to_be_disabled()
    page.get_by_role("textbox", name="Reason").fill("the paper was wet")
    discard.click()

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(f'[data-group="{ids[0]}"]')).to_contain_text("discarded")
    expect(page.locator(f'[data-group="{ids[1]}"]')).to_contain_text("queued")
    ledger = server.get(f"/api/v1/runs/{run}/ledger")["groups"]
    assert (ledger["queued"], ledger["dropped"]) == (1, {"discarded": 2})
