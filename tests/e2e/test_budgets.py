"""Traffic budgets of the dashboard: the first load and a run page."""

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.e2e import pages
from tests.e2e.conftest import USERNAME, sign_in, sign_in_anew
from tests.e2e.traffic import Traffic
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

FIRST_SCRIPT_BYTES = 200_000
FONT_BYTES = 60_000
RUN_PAGE_REQUESTS = 15
RUN_SCRIPT_BYTES = 400_000
RUN_PAGES = [address for address in pages.addresses() if address.startswith("/runs/$name")]


def test_the_first_page_loads_little_script_and_none_from_elsewhere(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    traffic = Traffic(page)
    sign_in_anew(page, USERNAME)
    page.wait_for_load_state("networkidle")

    size = sum(traffic.scripts.values())
    print(f"\nscript of the first page: {size} bytes in gzip")  # noqa: T201 figures
    assert 50_000 < size <= FIRST_SCRIPT_BYTES, traffic.scripts
    assert {url.startswith(server.url) for url in traffic.scripts} == {True}
    large = {url for url, size in traffic.scripts.items() if size > 1_000}
    assert large, "no script was loaded"
    assert large <= traffic.packed, "a script came unpacked over the network"


def test_the_first_page_loads_one_small_typeface_once(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    traffic = Traffic(page)
    sign_in_anew(page, USERNAME)
    page.wait_for_load_state("networkidle")

    [font] = traffic.fonts.values()
    assert len(font.body()) <= FONT_BYTES
    assert font.url.startswith(server.url)
    assert "immutable" in font.headers["cache-control"]
    assert page.evaluate("document.fonts.check('600 14px Inter')")


@pytest.mark.parametrize("address", [*RUN_PAGES, "/runs/seed-cartpole-live"])
def test_a_run_page_needs_few_requests_and_little_script(
    chromium: Browser, context: BrowserContext, seeded_server: Server, address: str
) -> None:
    cookies = sign_in(context.new_page(), USERNAME).context.cookies()
    empty = chromium.new_context(base_url=seeded_server.url)  # without a cache
    empty.add_cookies(cookies)  # type: ignore[arg-type]
    page = empty.new_page()
    traffic = Traffic(page)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    page.goto(pages.at(address, seeded_server))
    pages.settle(page)
    expect(page.locator("[data-live=live]")).to_be_visible()
    page.wait_for_load_state("networkidle")
    # Libraries of text are loaded by the pages that show some, in further files.
    scripts = {
        url: size
        for url, size in traffic.scripts.items()
        if not any(name in url for name in ("/Markdown-", "/rehype-katex-", "/remark-math-"))
    }
    empty.close()

    size = sum(scripts.values())
    print(f"\n{address}: {len(requested)} requests, {size} bytes of script")  # noqa: T201 figures
    assert size <= RUN_SCRIPT_BYTES, scripts
    assert len([url for url in requested if "/ws/" in url]) == 1
    # On a slow machine a page is polled before all of it is read, and asks for newer metrics: a
    # repeated request counts once, with any query.
    # The code of Markdown is loaded by the pages that show some: the overview's notes, and groups.
    paths = {url.partition("?")[0] for url in requested}
    requested = sorted(path for path in paths if "/assets/Markdown-" not in path)
    assert len(requested) <= RUN_PAGE_REQUESTS, requested
