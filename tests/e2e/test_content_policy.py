"""Pages work under their Content-Security-Policy; the console would show violations."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import USERNAME, in_the_shell, sign_in
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

LINK = (
    "from datetime import UTC, datetime;"
    "from runs.access.models import User;"
    "from runs.access.services.login_links import make_login_link;"
    f"user = User.objects.get(username={USERNAME!r});"
    "print(make_login_link(user, then='/settings', now=datetime.now(UTC)))"
)


def test_the_description_of_the_api_is_shown(page: Page) -> None:
    answer = page.goto("/docs")

    assert answer is not None
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    expect(page.get_by_role("heading", name="Rolldeck")).to_be_visible()
    expect(page.locator("#operations-atropos-root_retrieve")).to_be_visible()


def test_a_one_time_link_signs_in_with_a_click(page: Page, server: Server) -> None:
    link = in_the_shell(server, LINK).splitlines()[-1]

    page.goto(link)
    expect(page).to_have_url(re.compile(r"/login/once[^#]*$"))  # without the token
    page.get_by_role("button", name="Sign in").click()

    page.get_by_role("heading", name="Settings", exact=True).wait_for()
    assert "#" not in page.url
    page.goto("/login/once")
    expect(page.get_by_text("This link is incomplete")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_disabled()


def test_inline_scripts_do_not_run(context: BrowserContext) -> None:
    page = sign_in(context.new_page(), USERNAME)
    page.goto("/admin/")
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'taken over'";
            document.addEventListener("securitypolicyviolation", (event) => {
                window.refused = event.effectiveDirective;
            });
            document.body.append(script);
        }"""
    )

    page.wait_for_function("window.refused === 'script-src-elem'")
    assert page.title() != "taken over"
