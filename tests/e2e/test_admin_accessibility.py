"""Accessibility of the admin: in both themes, on a phone, and without a mouse."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e import pages
from tests.e2e.conftest import PASSWORD, USERNAME, sign_in
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# One page of each template: lists, rows, forms, confirmations and shortcuts.
PAGES = {
    "first page": "/admin/",
    "tables of an app": "/admin/buffer/",
    "list": "/admin/buffer/trajectorygroup/?state__exact=queued",
    "list of nothing": "/admin/runs/run/?q=nobody-called-it-so",
    "list of people": "/admin/runs/user/",
    "row": "/admin/buffer/trajectorygroup/{group}/change/",
    "run": "/admin/runs/run/{run}/change/",
    "history": "/admin/runs/run/{run}/history/",
    "new person": "/admin/runs/user/add/",
    "person": "/admin/runs/user/{person}/change/",
    "password of a person": "/admin/runs/user/{person}/password/",
    "deleting a person": "/admin/runs/user/{person}/delete/",
    "group of people": "/admin/auth/group/add/",
    "own password": "/admin/password_change/",
}
# Replaces this page's content by another page's: the fifty lists differ in nothing else.
SHOW = """async (address) => {
    const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
    document.getElementById("content").replaceChildren(...page.getElementById("content").children);
}"""


@pytest.fixture(scope="module")
def reader(chromium: Browser, seeded_server: Server) -> Iterator[pages.Reader]:
    context: BrowserContext = chromium.new_context(
        base_url=seeded_server.url, viewport={"width": 1440, "height": 900}
    )
    # unfold's stored choice of theme; Ctrl+E toggles it.
    context.add_init_script("localStorage.setItem('adminTheme', '\"dark\"')")
    context.set_default_timeout(30_000)
    yield pages.Reader(sign_in(context.new_page(), USERNAME))
    context.close()


@pytest.fixture(scope="module")
def ids(seeded_server: Server) -> dict[str, str]:
    return {
        "run": str(seeded_server.get(f"/api/v1/runs/{pages.RUN}")["id"]),
        "group": pages.newest(seeded_server, "groups", run=pages.RUN),
        "person": "1",
    }


def opens(reader: pages.Reader, place: str) -> Page:
    reader.complaints.clear()
    reader.page.goto(place)
    expect(reader.page.get_by_role("heading", level=1)).to_have_count(1)
    expect(reader.page.locator("html")).to_have_class(re.compile("dark"))
    return reader.page


def keeps_nobody_out(page: Page, *, within: str = "html") -> None:
    """Check a page or a part in dark theme, on a phone and in light theme, and restore it."""
    rest(page)
    assert pages.barriers(page, within=within) == []
    with on_a_phone(page):
        assert pages.barriers(page) == []
        pages.wait_for_width(page, 360)
    with in_the_light(page):
        assert pages.barriers(page, rules=pages.COLOURS, within=within) == []


def rest(page: Page) -> None:
    """Finish all color transitions."""
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")


@contextmanager
def in_the_light(page: Page) -> Iterator[None]:
    page.keyboard.press("Control+e")
    expect(page.locator("html")).to_have_class(re.compile("light"))
    rest(page)
    yield
    page.keyboard.press("Control+e")
    expect(page.locator("html")).to_have_class(re.compile("dark"))


@contextmanager
def on_a_phone(page: Page) -> Iterator[None]:
    page.set_viewport_size({"width": 360, "height": 800})
    yield
    page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_accessible(reader: pages.Reader, ids: dict[str, str], kind: str) -> None:
    page = opens(reader, PAGES[kind].format(**ids))

    keeps_nobody_out(page)
    expect(page.get_by_role("main")).to_have_count(1)
    assert reader.complaints == []


def open_menu(page: Page) -> None:
    page.get_by_role("button", name=USERNAME).press("Enter")
    expect(page.get_by_role("link", name="Change password")).to_be_visible()


def open_search(page: Page) -> None:
    box = page.locator("#search-input-command")

    def is_open() -> bool:
        page.keyboard.press("Control+k")
        with suppress(PlaywrightTimeout):
            box.wait_for(timeout=200)
        return box.is_visible()

    # Keys pressed before the page's script listens are lost.
    wait_until(is_open, seconds=30, what="the search is open")
    expect(box).to_be_focused()
    page.keyboard.type("batches")
    expect(page.get_by_role("link", name="Batches • Buffer")).to_be_visible()


def open_filters(page: Page) -> None:
    page.get_by_role("button", name="Filters").press("Enter")
    expect(page.get_by_role("button", name="Apply Filters")).to_be_visible()


def choose_a_row(page: Page) -> None:
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option("discard")


def open_discard_page(page: Page) -> None:
    choose_a_row(page)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Reason")).to_be_visible()


@pytest.mark.parametrize(
    ("do", "within"),
    [
        (open_menu, "#nav-sidebar-inner nav"),  # the menu covers the links below it
        (open_search, "html"),
        (open_filters, "html"),
        (choose_a_row, "html"),
        (open_discard_page, "html"),
    ],
)
def test_panels_that_a_page_opens_are_accessible(
    reader: pages.Reader, do: Callable[[Page], None], within: str
) -> None:
    page = opens(reader, "/admin/buffer/batch/")

    do(page)
    keeps_nobody_out(page, within=within)
    assert reader.complaints == []


def test_every_list_is_accessible(reader: pages.Reader) -> None:
    page = opens(reader, "/admin/")
    links = page.locator("#content th a").evaluate_all("(all) => all.map((one) => one.href)")
    barriers: dict[str, list[str]] = {}
    for link in links:
        page.evaluate(SHOW, link)
        rest(page)
        barriers[link] = pages.barriers(page, within="#content") + reader.complaints

    assert len(links) > 40, "the first page lists every table"
    assert {link: wrong for link, wrong in barriers.items() if wrong} == {}


def test_the_login_of_the_admin_is_accessible(page: Page) -> None:
    page.add_init_script("localStorage.setItem('adminTheme', '\"dark\"')")
    page.goto("/admin/login/")
    keeps_nobody_out(page)
    page.get_by_label("Username").fill(USERNAME)
    page.get_by_role("textbox", name="Password").fill(f"not {PASSWORD}")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter the correct username")).to_be_visible()

    keeps_nobody_out(page)


def test_a_table_is_found_and_searched_without_a_mouse(reader: pages.Reader) -> None:
    page = opens(reader, "/admin/")
    open_search(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/buffer/batch/")
    page.keyboard.press("/")
    expect(page.locator("#searchbar")).to_be_focused()
    page.keyboard.type("seed-atropos-mix")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/buffer/batch/?q=seed-atropos-mix")

    assert page.locator("#result_list tbody tr").count() > 0
