"""Accessibility of every page: in both themes, on a phone, and without a mouse."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e import pages
from tests.e2e.conftest import USERNAME, sign_in
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

ADDRESSES = [address for address in pages.addresses() if address != "/login"]
# Runs whose tabs look different from those of the language run.
OTHERS = [
    "/runs/seed-cartpole-live",
    "/runs/seed-cartpole-live/fleet",
    "/runs/seed-cartpole-live/trajectories",
    "/runs/seed-atropos-mix",
    "/runs/seed-atropos-mix/fleet",
    "/compare?runs=seed-cartpole-live,seed-cartpole-paused,seed-reverse-lessons",
]


@pytest.fixture(scope="module")
def reader(chromium: Browser, seeded_server: Server) -> Iterator[pages.Reader]:
    context: BrowserContext = chromium.new_context(
        base_url=seeded_server.url,
        viewport={"width": 1440, "height": 900},
        color_scheme="dark",
        reduced_motion="reduce",
    )
    context.set_default_timeout(30_000)
    yield pages.Reader(sign_in(context.new_page(), USERNAME))
    context.close()


@pytest.mark.parametrize("address", [*ADDRESSES, *OTHERS])
def test_a_page_is_accessible(reader: pages.Reader, seeded_server: Server, address: str) -> None:
    page = reader.opens(pages.at(address, seeded_server))

    assert pages.barriers(page) == []
    with in_the_light(page):
        assert pages.barriers(page, rules=pages.COLOURS) == []
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    assert page.title() not in {"", "owned"}
    with on_a_phone(page):
        pages.wait_for_width(page, 360)
    # With reduced motion, the page has no animations.
    wait_until(lambda: is_still(page), seconds=30, what="nothing moves by itself")
    assert reader.complaints == []


def is_still(page: Page) -> bool:
    is_moving = "document.getAnimations().some((one) => one.playState === 'running')"
    return not page.evaluate(is_moving)


@contextmanager
def in_the_light(page: Page) -> Iterator[None]:
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "light")
    yield
    page.emulate_media(color_scheme="dark")


@contextmanager
def on_a_phone(page: Page) -> Iterator[None]:
    page.set_viewport_size({"width": 360, "height": 800})
    yield
    page.set_viewport_size({"width": 1440, "height": 900})


def test_the_login_is_accessible(page: Page) -> None:
    page.goto("/login")
    page.get_by_label("User name").wait_for()

    assert pages.barriers(page) == []


def test_a_run_is_found_and_opened_without_a_mouse(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs")
    page.get_by_label("List of runs").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("cartpole-live")
    expect(page.get_by_role("status").filter(has_text="1 run")).to_be_visible()
    tab_to(page, "seed-cartpole-live")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="seed-cartpole-live")).to_be_visible()

    tab_to(page, "Charts")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("value_loss")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def tab_to(page: Page, words: str, *, most: int = 60) -> None:
    """Press Tab until the focused element has this text, and check that its focus is visible."""
    for _ in range(most):
        page.keyboard.press("Tab")
        label, ring = page.evaluate(
            """() => {
                const one = document.activeElement, style = getComputedStyle(one);
                const isSeen = style.outlineStyle !== "none" || style.boxShadow !== "none";
                return [one.textContent, isSeen];
            }"""
        )
        if str(label).strip() == words:
            assert ring, f"no visible focus on {words!r}"
            return
    raise AssertionError(f"{words!r} was not reached with {most} tabs")
