"""Features of every page: titles, shortcuts, addresses, and commands ready to paste."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OPERATOR, PASSWORD, in_the_shell, sign_in
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


@pytest.mark.parametrize(
    ("place", "title"),
    [
        ("/", "Home · Rolldeck"),
        ("/runs/new", "Launch · Rolldeck"),
        ("/settings", "Settings · Rolldeck"),
        ("/runs/seed-cartpole-live/queue", "Queue · seed-cartpole-live · Rolldeck"),
    ],
)
def test_every_page_has_its_title(
    signed_in: Page, seeded_server: Server, place: str, title: str
) -> None:
    """The number of open errors may precede the title; the seeded server has some."""
    signed_in.goto(place)
    expect(signed_in).to_have_title(re.compile(rf"^(\(\d+\) )?{re.escape(title)}$"))
    expect(signed_in.locator("link[rel=icon]")).to_have_attribute(
        "href", re.compile("/mark-alert.svg$")
    )


def test_shortcuts_open_the_tabs_of_the_last_run(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live")
    page.get_by_role("link", name="Overview").wait_for()
    for key, part in (("q", "queue"), ("f", "fleet"), ("t", "trajectories"), ("w", "weights")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(rf"/runs/seed-cartpole-live/{part}$"))
    page.goto("/audit")
    page.get_by_role("heading", name="Audit").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page).to_have_url(re.compile("/runs/seed-cartpole-live/fleet$"))


def test_a_paused_page_is_not_updated(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live")
    page.locator("[data-live=live]").wait_for()
    steps = page.locator("[data-figure=env-steps]")
    expect(steps).to_have_attribute("data-value", re.compile(r"\d"))
    page.locator("[data-live=live]").hover()
    painted = re.compile(r"The newest change was painted .*\d m?s (after|of) its commit")
    expect(page.locator("[data-painted]")).to_have_text(painted, timeout=60_000)
    page.mouse.move(0, 0)
    page.keyboard.press("l")
    expect(page.locator("[data-live=held]")).to_be_visible()
    held = steps.get_attribute("data-value")
    page.wait_for_timeout(2_500)  # the simulated fleet reports every second
    assert steps.get_attribute("data-value") == held

    page.locator("[data-live=held]").click()
    expect(page.locator("[data-live=live]")).to_be_visible()
    expect(steps).not_to_have_attribute("data-value", held or "")


def test_a_shortcut_toggles_the_row_density(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/settings")
    page.get_by_role("heading", name="Settings").wait_for()
    root = page.locator("html")
    before = root.get_attribute("data-density")
    page.keyboard.press("d")
    expect(root).not_to_have_attribute("data-density", before or "")
    page.keyboard.press("d")
    expect(root).to_have_attribute("data-density", before or "")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/runs/no-such-run", "No run named no-such-run"),
        ("/runs/seed-cartpole-live/no-such-tab", "Page not found"),
        ("/runs/seed-cartpole-live/groups/999999999", "Group unavailable"),
        ("/runs/seed-cartpole-live/groups/abc", "Group unavailable"),
        ("/runs/seed-cartpole-live/fragments/1.5", "Fragment unavailable"),
        ("/runs/seed-cartpole-live/curriculum", "This run has no lessons"),
        ("/runs/seed-cartpole-live/evaluations?lesson=x", "This run has no lessons"),
        ("/runs/seed-cartpole-live?x=7&from=b&last=-1&at=%00", "Newest trajectories"),
        ("/runs/seed-cartpole-live/queue?state=eaten&from=9&to=1", "Ledger"),
        ("/runs/seed-cartpole-live/episodes?span=x&x=y", "Return"),
        ("/alerts?alert=zero", "Alerts"),
        ("/compare?runs=,,&from=a", "No runs selected"),
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
    command = page.locator(".command code")
    expect(command).to_contain_text("env:$ROLLDECK_TOKEN@")
    page.get_by_role("button", name="Create one for 30 days and insert it").click()

    expect(command).to_contain_text(re.compile(r"env:rd_[\w-]+@"))
    expect(page.get_by_role("button", name="Create one")).to_have_count(0)
    created = server.get("/api/v1/tokens")["results"][0]
    assert (created["name"], created["scopes"], created["run"]) == (f"env of {run}", ["env"], run)
    # The token does not permit a trainer: the trainer's command keeps its placeholder.
    page.get_by_role("link", name="Weights").click()
    expect(command).to_contain_text('token="$ROLLDECK_TOKEN"')


def test_the_timeline_of_a_run_is_exported_as_a_trace(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live/pipeline")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export trace").click()

    assert saved.value.suggested_filename == "seed-cartpole-live.trace.json"
    trace = json.loads(saved.value.path().read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    assert {"X", "i", "M"} <= {event["ph"] for event in events}
    assert all(event["dur"] >= 0 and event["ts"] > 0 for event in events if event["ph"] == "X")
    names = [event["name"] for event in events]
    assert any(name.startswith("batch ") for name in names)
    assert any(name.startswith("activated 1.") for name in names)


def test_a_draft_survives_its_session(page: Page, server: Server) -> None:
    run = server.new_run("half-explained")
    sign_in(page, OPERATOR)
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the paper is out, so")
    key = next(each["value"] for each in page.context.cookies() if each["name"] == "sessionid")
    in_the_shell(
        server,
        "from django.contrib.sessions.models import Session;"
        f"Session.objects.filter(pk={key!r}).delete()",
    )
    expect(page).to_have_url(re.compile(r"/login\?next="), timeout=60_000)
    page.get_by_label("User name").fill(OPERATOR)
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    page.get_by_role("button", name="Drain").click()
    reason = page.get_by_role("dialog").get_by_label("Reason")
    expect(reason).to_have_value("the paper is out, so")
    # A cancelled dialog discards the draft.
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Drain").click()
    expect(reason).to_have_value("")
