"""The documentation site works under the server's Content-Security-Policy, without other hosts."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import USERNAME, complaints_of, sign_in
from tests.server import ROOT, Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


@pytest.fixture(scope="module", autouse=True)
def site() -> None:
    """Build the site where the server looks for it, as `make docs` does."""
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=ROOT, check=True, timeout=120
    )


@pytest.fixture
def reader(chromium: Browser, server: Server) -> Iterator[Page]:
    """A page in a dark browser that reaches no other server."""
    context = chromium.new_context(
        base_url=server.url, viewport={"width": 1440, "height": 900}, color_scheme="dark"
    )
    context.route(lambda url: not url.startswith(server.url), lambda route: route.abort())
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    assert complaints == []
    context.close()


def test_pages_are_read_and_searched(reader: Page) -> None:
    reader.goto("/guide/start/first-run")
    expect(reader.get_by_role("heading", name="First run", level=1)).to_be_visible()
    picture = reader.locator("article img").first
    assert "-dark" in picture.evaluate("(one) => one.decode().then(() => one.currentSrc)")

    reader.get_by_role("link", name="Your reward").first.click()
    reader.wait_for_url("**/guide/start/reward.html")
    reader.get_by_role("button", name="Search").click()
    reader.get_by_placeholder("Search").fill("quarantine")
    expect(reader.get_by_text(re.compile(r"^\d+ results$"))).to_be_visible()


def test_an_unknown_page_is_answered_by_the_site(reader: Page, server: Server) -> None:
    assert server.http.get("/guide/howto/flying").status_code == 404
    answer = reader.request.get("/guide/howto/flying")

    assert "404" in answer.text()


def test_the_dashboard_leads_to_the_guide(reader: Page) -> None:
    page = sign_in(reader, USERNAME)
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Guide").click()
    expect(page.get_by_role("heading", name="Rolldeck", level=1)).to_be_visible()

    page.goto("/settings")
    page.get_by_role("heading", name="Settings").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/guide/")
