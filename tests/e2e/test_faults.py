"""Recovery from faults between a page and the platform, with a notice until then."""

import os
import random
import re
import signal
from uuid import uuid4

import pytest
from playwright.sync_api import BrowserContext, Page, WebSocketRoute, expect

from tests.buffer_factories import REGISTRATION
from tests.e2e.conftest import USERNAME, sign_in
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

LOST_PART = 0.3
MARKUP = "<script>document.title='owned'</script><b id=hostile>x</b>"


def outside_run(server: Server) -> str:
    name = f"faults-{uuid4().hex[:6]}"
    server.post("/api/v1/runs", {"name": name, "kind": "outside", "start": True})
    # Environments are admitted after a trainer has asked for a batch.
    server.post(f"/atropos/{name}/register", REGISTRATION)
    server.get(f"/atropos/{name}/batch")
    return name


def events_shown(page: Page) -> list[str]:
    """Return the events on the page, newest first, without their times."""
    rows = page.get_by_label("Events, newest first").get_by_role("listitem")
    return [re.sub(r"^[\d:]+\s*", "", text).strip() for text in rows.all_inner_texts()]


def join(server: Server, run: str, name: str) -> None:
    body = {"max_token_length": 64, "desired_name": name, "weight": 1.0, "group_size": 2}
    answer = server.http.post(f"/atropos/{run}/register-env", json=body)
    assert answer.is_success, answer.text


def test_after_a_restart_of_the_server_an_open_page_equals_a_new_one(
    context: BrowserContext, server: Server
) -> None:
    run, page = outside_run(server), sign_in(context.new_page(), USERNAME)
    page.goto(f"/runs/{run}")
    page.locator("[data-live=live]").wait_for()
    page.evaluate("window.stays = true")
    for pid in server.children("config.web"):
        os.kill(pid, signal.SIGKILL)
    expect(page.locator("[data-live=live]")).to_have_count(0)
    wait_until(server.is_ready, seconds=90, what="the server is ready again")
    join(server, run, "after-the-fall")

    page.locator("[data-live=live]").wait_for(timeout=60_000)
    expect(page.get_by_label("Events, newest first")).to_contain_text("after-the-fall")
    fresh = context.new_page()
    fresh.goto(f"/runs/{run}")
    expect(fresh.get_by_label("Events, newest first")).to_contain_text("after-the-fall")
    assert events_shown(page) == events_shown(fresh)
    assert page.evaluate("window.stays") is True


def test_lost_and_reordered_messages_do_not_affect_the_page(
    context: BrowserContext, server: Server
) -> None:
    run, chance = outside_run(server), random.Random(7)
    page = context.new_page()
    lost: list[str] = []

    def unreliable(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        held: list[str | bytes] = []

        def pass_on(message: str | bytes) -> None:
            if chance.random() < LOST_PART:
                lost.append("lost")
            elif chance.random() < LOST_PART:
                held.append(message)
            else:
                socket.send(message)
                while held:
                    socket.send(held.pop())

        server.on_message(pass_on)

    page.route_web_socket(re.compile("/ws"), unreliable)
    sign_in(page, USERNAME)
    page.goto(f"/runs/{run}")
    page.get_by_role("heading", name=run).wait_for()
    names = [f"env-{number}" for number in range(12)]
    for name in names:
        join(server, run, name)

    events = page.get_by_label("Events, newest first")
    for name in names:
        expect(events).to_contain_text(f"environment {name}_0 registered", timeout=45_000)
    assert lost, "no message was lost, so nothing was tried"
    registered = [text for text in events_shown(page) if "environment env-" in text]
    assert len(registered) == len({*registered}) == len(names)


@pytest.mark.parametrize(
    "place",
    [
        "/runs/no-such-run",
        "/runs/no-such-run/metrics",
        "/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    ],
)
def test_a_broken_address_has_a_message_and_links(context: BrowserContext, place: str) -> None:
    page = sign_in(context.new_page(), USERNAME)  # its console may report missing resources
    page.goto(place)

    expect(page.get_by_role("link", name=re.compile("runs", re.IGNORECASE)).first).to_be_visible()
    expect(page.locator("body")).to_contain_text(
        re.compile("no such|not found|no run|no current", re.IGNORECASE)
    )
    assert page.title() != "owned"


def test_names_with_markup_are_shown_as_text_on_every_page(signed_in: Page, server: Server) -> None:
    page, run = signed_in, outside_run(server)
    join(server, run, MARKUP)
    page.goto(f"/runs/{run}/logs")

    expect(page.get_by_label("Events, newest first")).to_contain_text(MARKUP)
    expect(page.locator("#hostile")).to_have_count(0)
    assert page.title() != "owned"


def test_a_page_whose_code_does_not_load_is_requested_again(context: BrowserContext) -> None:
    page = sign_in(context.new_page(), USERNAME)
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    page.evaluate("window.stays = true")
    for unreachable in ("**/assets/*.js", "**/healthz/live"):
        page.route(unreachable, lambda route: route.abort())
    main = page.get_by_role("navigation", name="Main")
    main.get_by_role("link", name="Cluster").click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(main.get_by_role("link", name="Runs")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
    assert page.evaluate("window.stays") is True


def test_an_invalid_answer_fails_only_the_panels_that_show_it(
    context: BrowserContext, server: Server
) -> None:
    run, page = outside_run(server), sign_in(context.new_page(), USERNAME)
    page.route(f"**/api/v1/runs/{run}/queue", lambda route: route.fulfill(json={"ledger": None}))
    page.goto(f"/runs/{run}/queue")
    expect(page.get_by_role("region", name="Failed panel").first).to_be_visible()
    expect(page.get_by_role("region", name="Batches")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
