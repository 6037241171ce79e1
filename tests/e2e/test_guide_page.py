"""The guide shows the docs of the installed version, without the internet."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import USERNAME, sign_in
from tests.e2e.pages import wait_for_width
from tests.server import ROOT, Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

PAGES: Final = sorted(
    str(path.relative_to(ROOT / "docs").with_suffix(""))
    for path in (ROOT / "docs").rglob("*.md")
    if path != ROOT / "docs" / "README.md"
)
# Links, anchors and pictures of a page; `picture.decode` fails unless its file is complete.
READ: Final = """async () => {
    const article = document.querySelector("[data-guide]");
    const pictures = [...article.querySelectorAll("img")];
    const decoded = pictures.map((one) => {
        one.loading = "eager";
        return one.decode().then(() => "", () => one.alt);
    });
    return {
        links: [...article.querySelectorAll("a")].map((one) => one.getAttribute("href")),
        anchors: [...article.querySelectorAll("[id]")].map((one) => one.id),
        pictures: pictures.length,
        broken: (await Promise.all(decoded)).filter(Boolean),
    };
}"""


@pytest.fixture(scope="module")
def reader(chromium: Browser, server: Server) -> Iterator[Page]:
    """A page that reaches no other server."""
    context = chromium.new_context(
        base_url=server.url, viewport={"width": 1440, "height": 900}, color_scheme="dark"
    )
    context.set_default_timeout(30_000)
    context.route(lambda url: not url.startswith(server.url), lambda route: route.abort())
    yield sign_in(context.new_page(), USERNAME)
    context.close()


def test_all_links_and_pictures_of_the_guide_lead_to_shipped_pages(
    reader: Page, server: Server
) -> None:
    found: dict[str, Any] = {}
    reader.goto("/guide")
    for name in ["", *PAGES]:
        # Within the page, as its links do.
        reader.evaluate(
            """(to) => {
                history.pushState({}, "", to);
                dispatchEvent(new PopStateEvent("popstate"));
            }""",
            f"/guide/{name}".rstrip("/"),
        )
        reader.locator(f"[data-guide='{name}'] h1").wait_for()
        found[f"/guide/{name}".rstrip("/")] = reader.evaluate(READ)

    links = [(page, link) for page, facts in found.items() for link in facts["links"]]
    inner = [(page, link) for page, link in links if link and link.startswith("/guide")]
    broken = [
        f"{page}: {link}"
        for page, link in inner
        for target, _, anchor in [link.partition("#")]
        if target not in found or (anchor and anchor not in found[target]["anchors"])
    ]
    assert len(inner) > 300
    assert broken == []
    others = {link for _, link in links if not link or not re.match(r"/guide|https://", link)}
    assert "/docs" in others
    for link in sorted(others):
        assert link, "a link without a target"
        assert server.http.get(link).status_code == 200, link
    assert sum(facts["pictures"] for facts in found.values()) > 20
    assert {page: facts["broken"] for page, facts in found.items() if facts["broken"]} == {}


def test_the_guide_is_reached_from_every_page(at_home: Page) -> None:
    page = at_home
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Guide").click()
    expect(page).to_have_title(re.compile("Guide · Rolldeck$"))
    page.get_by_role("navigation", name="Guide").get_by_role("link", name="Watch a run").click()
    expect(page.get_by_role("heading", name="Watch a run", level=1)).to_be_visible()
    expect(
        page.get_by_role("navigation", name="Guide").get_by_role("link", name="Watch a run")
    ).to_have_attribute("aria-current", "page")

    page.goto("/settings")
    page.get_by_role("heading", name="Settings").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/tokens")
    page.get_by_role("button", name="Pages", exact=True).click()
    page.get_by_role("menuitem", name="Guide").click()
    expect(page.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    wait_for_width(page, 390)


def test_a_link_to_a_heading_scrolls_to_it(signed_in: Page) -> None:
    page = signed_in
    page.goto("/guide/glossary#states-of-a-run")
    expect(page.get_by_role("heading", name="States of a run")).to_be_in_viewport()

    page.goto("/guide/howto/trainers")
    page.get_by_role("heading", level=1).wait_for()
    page.goto("/guide/glossary")
    page.get_by_role("link", name="joins").click()
    page.wait_for_url("**/guide/howto/trainers#join-fragments")
    expect(page.locator("#join-fragments")).to_be_in_viewport()


def test_pictures_have_the_theme_of_the_dashboard(signed_in: Page) -> None:
    page = signed_in
    page.goto("/guide/quickstart")
    picture = page.locator("article img").first
    expect(picture).to_be_attached()
    assert "-dark" in picture.evaluate("(one) => one.decode().then(() => one.currentSrc)")
    page.keyboard.press("Shift+D")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "light")
    page.wait_for_function("!document.querySelector('article img').currentSrc.includes('-dark')")


def test_an_unknown_page_is_named(signed_in: Page) -> None:
    page = signed_in
    page.goto("/guide/howto/flying")
    expect(page.get_by_role("main")).to_contain_text("The guide has no page “howto/flying”.")
    page.get_by_role("link", name="All pages of the guide").click()
    expect(page.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
