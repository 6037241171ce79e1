"""A user launches a run from the form, watches it learn, pauses it and resumes it."""

import os
import re
import signal
from uuid import uuid4

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import VIEWER, complaints_of, in_the_shell, sign_in_anew
from tests.e2e.pages import points, wait_for_width
from tests.server import Server, wait_until
from tests.waiting import within

pytestmark = [pytest.mark.browser, pytest.mark.system]


def figure(page: Page, name: str) -> float:
    text = page.locator(f"[data-figure={name}]").get_attribute("data-value")
    return float(text) if text else 0.0


def test_a_run_is_visible_after_signing_in_only(page: Page) -> None:
    page.goto("/runs?q=demo")

    expect(page).to_have_url(re.compile(r"/login\?next="))
    expect(page.get_by_label("User name")).to_be_visible()


def test_signing_in_leads_to_the_requested_page(page: Page) -> None:
    page.goto("/runs/new")
    page.get_by_label("User name").fill("ada")
    page.get_by_role("textbox", name="Password").fill("a-password-for-tests")
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Launch a run")).to_be_visible()
    assert page.url.endswith("/runs/new")


def test_a_run_is_launched_paused_and_resumed(at_home: Page, server: Server) -> None:
    page, name = at_home, f"from-the-form-{uuid4().hex[:6]}"
    page.get_by_role("link", name="Launch", exact=True).click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    trainer = server.start_trainer(name)
    try:
        see_it_move(page, "Return, mean of the last 20", seconds=240)  # measured every 10 s
        assert figure(page, "return") > 0
        pause(page)  # test_paint_budgets.py measures the time, on an idle machine
        see_the_fleet_stop(page)
        resume_and_see_it_go_on(page)
    finally:
        trainer.terminate()
        trainer.wait(10)
        server.post(f"/api/v1/runs/{name}/kill")


def see_it_move(page: Page, chart: str, *, seconds: float) -> None:
    wait_until(lambda: points(page, chart) >= 2, seconds=seconds, what=f"{chart} begins")
    seen = points(page, chart)
    wait_until(lambda: points(page, chart) > seen, seconds=seconds, what=f"{chart} moves")


def pause(page: Page) -> None:
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator("[data-status=paused]").wait_for()
    page.get_by_role("button", name="Resume").wait_for()


def see_the_fleet_stop(page: Page) -> None:
    expect(page.locator("[data-pending]")).to_have_count(0, timeout=60_000)

    # One more report counts the steps that were in flight at the pause. Reports come once a
    # second, and a running fleet has made steps in each.
    def stands_still() -> bool:
        before = figure(page, "env-steps")
        return not within(2.5, lambda: figure(page, "env-steps") != before)

    wait_until(stands_still, seconds=60, what="env steps stand still")


def resume_and_see_it_go_on(page: Page) -> None:
    stopped_at = figure(page, "env-steps")
    page.get_by_role("button", name="Resume").click()
    page.locator("[data-status=running]").wait_for()
    wait_until(
        lambda: figure(page, "env-steps") > stopped_at, seconds=60, what="env steps grow again"
    )


@pytest.mark.parametrize("place", ["/runs", "/runs/new", "/runs/{run}"])
def test_nothing_is_wider_than_a_phone(signed_in: Page, server: Server, place: str) -> None:
    page = signed_in
    run = server.new_run("on-a-phone", kind="fleet", preset="cartpole", start=False)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(place.format(run=run))
    page.get_by_role("heading", level=1).wait_for()

    wait_for_width(page, 360)


# Markup, a direction override and an escape sequence: the page shows all of it as text.
HOSTILE = "<b id=hostile>wrong seed</b> \u202egnp.exe\u202c \x1b[31mred"
AS_TEXT = "<b id=hostile>wrong seed</b> ⟨U+202E⟩gnp.exe⟨U+202C⟩ ⟨U+001B⟩[31mred"


def test_a_kill_is_confirmed_and_its_reason_is_stored_as_text(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    run = server.new_run("to-be-killed")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Kill").click()
    dialog = page.get_by_role("dialog", name=f"Kill {run}?")
    dialog.get_by_label("Reason").fill(HOSTILE)
    expect(dialog.get_by_role("button", name="Kill")).to_be_disabled()
    dialog.get_by_label(f"Type {run} to confirm").fill(run)
    dialog.get_by_role("button", name="Kill").click()

    page.locator("[data-status=stopped]").wait_for()
    killed = page.get_by_label("Events, newest first").get_by_role("listitem").first
    expect(killed).to_contain_text(AS_TEXT)
    expect(killed).to_contain_text("user:ada")
    expect(page.locator("#hostile")).to_have_count(0)


def test_an_ended_session_redirects_to_the_login_and_back(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    complaints = complaints_of(page)
    sign_in_anew(page, VIEWER)
    page.goto("/runs?q=state:running")
    page.locator("[data-live=live]").wait_for()
    key = next(each["value"] for each in page.context.cookies() if each["name"] == "sessionid")
    in_the_shell(
        server,
        "from django.contrib.sessions.models import Session;"
        f"Session.objects.filter(pk={key!r}).delete()",
    )

    expect(page).to_have_url(re.compile(r"/login\?next="), timeout=60_000)
    page.get_by_label("User name").fill(VIEWER)
    page.get_by_role("textbox", name="Password").fill("a-password-for-tests")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label(re.compile("^Filter runs"))).to_have_value("state:running")
    page.locator("[data-live=live]").wait_for()
    # Requests in flight at the end of the session were refused, and nothing else failed.
    assert [complaint for complaint in complaints if "status of 401" not in complaint] == []


def test_the_page_recovers_when_the_web_server_is_killed(signed_in: Page, server: Server) -> None:
    page = signed_in
    page.goto("/runs")
    page.evaluate("window.stays = true")
    page.locator("[data-live=live]").wait_for()
    for pid in server.children("config.web"):
        os.kill(pid, signal.SIGKILL)

    expect(page.locator("[data-live=live]")).to_have_count(0)
    page.locator("[data-live=live]").wait_for(timeout=90_000)
    wait_until(server.is_ready, seconds=90, what="the server is ready again")
    name = f"after-the-fall-{uuid4().hex[:6]}"
    server.post("/api/v1/runs", {"name": name, "kind": "outside"})
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert page.evaluate("window.stays") is True
