"""A quantity that a page shows in several places has one value in each of its frames."""

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

LOADED_WITHIN_MS: Final = 90_000
RUN: Final = "/runs/seed-cartpole-live"
# Collects in every drawn frame the texts of all places of each quantity.
WATCH: Final = """() => {
    window.frames_ = [];
    const note = () => {
        const shown = {};
        for (const place of document.querySelectorAll("[data-quantity]"))
            (shown[place.dataset.quantity] ??= []).push(place.innerText);
        window.frames_.push(shown);
        requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
}"""
NUMBER: Final = re.compile(r"[\d,.]+(?: [kMG]\b)?|–")
# The quantities of each page that it shows in several places, and those that a live run changes.
PAGES: Final = {
    "": ({"reward", "queue", "throughput"}, "throughput"),
    "/queue": ({"queue"}, None),
}


def values(texts: list[str]) -> list[str]:
    """Return the first number of each text; a text without one states that there is none."""
    found = [NUMBER.search(text) for text in texts]
    return [match.group() if match else "–" for match in found]


@pytest.mark.parametrize("tab", PAGES)
def test_a_quantity_has_one_value_on_a_page(
    signed_in: Page, seeded_server: Server, tab: str
) -> None:
    page, (quantities, changing) = signed_in, PAGES[tab]
    # All charts are on screen, and therefore drawn.
    page.set_viewport_size({"width": 1440, "height": 2400})
    page.goto(f"{RUN}{tab}")
    page.locator("[data-live=live]").wait_for()
    for quantity in quantities:
        second = page.locator(f"[data-quantity={quantity}]").nth(1)
        expect(second).to_be_visible(timeout=LOADED_WITHIN_MS)
    page.evaluate(f"({WATCH})()")

    def frames() -> list[dict[str, list[str]]]:
        taken: list[dict[str, list[str]]] = page.evaluate("window.frames_")
        if changing is None:
            return taken if len(taken) > 40 else []
        return taken if len({values(frame[changing])[0] for frame in taken}) > 3 else []

    taken = wait_until(frames, seconds=90, what="the page has drawn frames with other values")
    assert len(taken) > 10
    assert {
        name for frame in taken for name, texts in frame.items() if len(texts) > 1
    } >= quantities
    assert different(taken) == []


def different(frames: list[dict[str, list[str]]]) -> list[Any]:
    """Return the quantities with several values in one frame, with the texts."""
    return [
        (name, texts)
        for frame in frames
        for name, texts in frame.items()
        if len(set(values(texts))) > 1
    ]


def test_a_chart_of_an_ended_run_shows_the_value_of_the_figures(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 2400})
    page.goto("/runs/seed-cartpole-sweep-0")
    newest = page.get_by_role("region", name="Return", exact=True).locator("[data-newest]")
    expect(newest).to_have_attribute("data-newest", re.compile(r"\d"))
    figure = page.locator("[data-figure=return]")
    assert figure.get_attribute("data-value") == newest.get_attribute("data-newest")
    assert figure.inner_text() == newest.inner_text()
    # The fleet has ended: its speed is 0 now, also in the title of its chart.
    speed = page.locator("[data-figure=speed]").get_attribute("data-value")
    throughput = page.get_by_role("region", name="Throughput", exact=True)
    assert throughput.locator("[data-newest]").get_attribute("data-newest") == speed == "0"
