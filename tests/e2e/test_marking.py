"""Labels of groups: by keys in the list and the viewer, by mouse in both; filters, names."""

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


def test_groups_are_labelled_with_shortcuts_and_found_by_label(
    groups: list[int], signed_in: Page
) -> None:
    page = signed_in
    page.goto(f"{HERE}/trajectories")
    rows = page.locator("[data-sample]")
    expect(rows).to_have_count(3)

    page.keyboard.press("j")
    page.keyboard.press("3")
    expect(rows.nth(0)).to_contain_text("label 3")
    page.keyboard.press("j")
    page.keyboard.press("3")
    expect(rows.nth(1)).to_contain_text("label 3")
    page.keyboard.press("k")
    page.keyboard.press("0")
    expect(rows.nth(0)).not_to_contain_text("label 3")

    page.get_by_role("combobox", name="Filter samples").fill("label:3")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("label"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Fold a boat")


def test_a_group_gets_a_note_and_a_named_label_in_the_viewer(
    groups: list[int], signed_in: Page
) -> None:
    page = signed_in
    page.goto(f"{HERE}/groups/{groups[0]}")
    label = page.get_by_role("button", name=re.compile("^Label 5"))
    expect(label).to_be_visible()

    page.keyboard.press("5")
    expect(label).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Name labels").click()
    page.get_by_label("Name of label 5").fill("paper torn")
    page.get_by_role("button", name="Save names").click()
    expect(page.get_by_role("button", name="Label 5 paper torn")).to_be_visible()

    page.keyboard.press("m")
    page.get_by_label("Note").fill("<b>torn</b> at the \u202ewing")
    page.get_by_role("button", name="Save note").click()
    expect(page.get_by_text("<b>torn</b> at the ⟨U+202E⟩wing")).to_be_visible()

    page.goto(f"{HERE}/trajectories?q=label:5&focus=loss&hide=kl")
    expect(page.locator("[data-sample]")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="JSONL").click()
    assert "<b>torn</b>" in download.value.path().read_text()


def test_a_group_is_marked_by_mouse_in_the_list(groups: list[int], signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{HERE}/trajectories")

    page.get_by_role("button", name=f"Mark group {groups[2]}").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Label 9")).click()
    page.keyboard.press("Escape")

    expect(page.locator(f'[data-group="{groups[2]}"]')).to_contain_text("label 9")


def test_selected_groups_are_labelled_and_discarded(server: Server, signed_in: Page) -> None:
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
    page.keyboard.press("7")
    for place in range(3):
        expect(rows.nth(place)).to_contain_text("label 7")
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
