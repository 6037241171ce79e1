"""A user ends other sessions, and tests webhooks."""

import hashlib
import hmac
import json
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import OPERATOR, SIGNED_OUT, VIEWER, WEBHOOK_SECRET, sign_in, sign_in_anew
from tests.e2e.pages import wait_for_width
from tests.server import Server
from tests.webhook_receiver import Receiver

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


def is_test(body: bytes) -> bool:
    return bool(json.loads(body)["change"] == "test")


def test_a_person_signs_out_on_other_browsers(
    page: Page, chromium: Browser, server: Server
) -> None:
    sign_in_anew(page, SIGNED_OUT)
    elsewhere = chromium.new_context(base_url=server.url)
    other = sign_in_anew(elsewhere.new_page(), SIGNED_OUT)

    page.goto("/settings")
    page.get_by_role("button", name="Sign out everywhere else").click()
    dialog = page.get_by_role("dialog", name="Sign out everywhere else?")
    dialog.get_by_role("button", name="Sign out").click()
    expect(page.locator("[data-sessions='1']")).to_be_visible()

    other.goto("/runs")
    expect(other).to_have_url(f"{server.url}/login?next=%2Fruns")
    elsewhere.close()
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_the_page_shows_the_name_and_the_rights_of_the_person(page: Page, server: Server) -> None:
    sign_in(page, VIEWER)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/settings")
    you = page.get_by_role("region", name="Account")
    expect(you).to_contain_text("Can view everything")
    expect(you.get_by_role("button", name="Change password")).to_be_visible()
    wait_for_width(page, 360)


def test_a_webhook_test_shows_the_answer(page: Page, server: Server, webhook: Receiver) -> None:
    sign_in(page, OPERATOR)
    page.goto("/settings")
    row = page.get_by_role("table", name="Notification receivers").locator("[data-webhook]")
    expect(row).to_contain_text("errors and warnings, signed")
    expect(row).not_to_contain_text("a-secret-path")
    row.get_by_role("button", name="Test").click()
    dialog = page.get_by_role("dialog", name="Send a test to http")
    dialog.get_by_label("Reason").fill("a new receiver")
    dialog.get_by_role("button", name="Send test").click()

    expect(dialog).to_have_count(0)
    row.get_by_role("button", name="Test").click()
    dialog.get_by_role("button", name="Send test").click()
    expect(dialog).to_contain_text("within the last 10 seconds")
    dialog.get_by_role("button", name="Cancel").click()

    expect(row.locator("[data-delivery=delivered]")).to_be_visible(timeout=30_000)
    expect(row).to_contain_text(re.compile(r"HTTP 200 after \d+ ms"))
    headers, body = [request for request in webhook.requests if is_test(request[1])][-1]
    when, _, signed = headers["X-Rolldeck-Signature"].partition(",v1=")
    proof = hmac.new(WEBHOOK_SECRET.encode(), f"{when[2:]}.".encode() + body, hashlib.sha256)
    assert signed == proof.hexdigest()

    event, *_ = server.get("/api/v1/audit?kind=webhook_tested")["results"]
    assert (event["actor"], event["reason"]) == ("user:olga", "a new receiver")
