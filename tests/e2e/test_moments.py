"""The figures of a page are of one moment, and are dimmed while they are unknown."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect

from tests.buffer_factories import REGISTRATION
from tests.e2e.conftest import complaints_of
from tests.e2e.pushed_groups import conversation, push, send
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

QUEUE = """() => [
    document.querySelector("[data-ledger=queued]")?.textContent,
    document.querySelector("section[aria-label='Depth by environment'] [data-note]")?.textContent,
    document.querySelector("[data-preview]")?.textContent.match(/([\\d,]+) of/)?.[1],
]"""
OVERVIEW = """() => [
    document.querySelector("[data-ledger=queued]")?.textContent,
    document.querySelector("[data-figure=queued]")?.dataset.value,
]"""
# Samples every frame, so that no rendered state is missed.
WATCH = """(read) => {
    window.samples = [];
    const note = () => {
        window.samples.push(read());
        requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
}"""


@contextmanager
def pushes(server: Server, run: str) -> Iterator[None]:
    """Push groups of two sequences, about ten per second, during the block."""
    is_over = threading.Event()

    def push_repeatedly() -> None:
        while not is_over.wait(0.1):
            send(server, run, conversation("two", "a", "b", scores=[1.0, 0.0]))

    thread = threading.Thread(target=push_repeatedly)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def figures_of(sample: list[str | None]) -> list[int]:
    """Return the numbers of the figures that a sample has."""
    found = [re.match(r"[\d,]+", text) for text in sample if text]
    return [int(match.group().replace(",", "")) for match in found if match]


@pytest.mark.parametrize(("tab", "read", "count"), [("/queue", QUEUE, 3), ("", OVERVIEW, 2)])
def test_queue_figures_of_a_page_never_disagree_while_groups_are_pushed(
    signed_in: Page, server: Server, tab: str, read: str, count: int
) -> None:
    page, run = signed_in, server.new_run("one-moment")
    server.post(f"/atropos/{run}/register", REGISTRATION | {"batch_size": 4096})
    push(server, run, conversation("two", "a", "b", scores=[1.0, 0.0]))
    page.goto(f"/runs/{run}{tab}")
    expect(page.locator("[data-ledger=queued]")).to_have_text("2")
    with pushes(server, run):
        page.evaluate(f"({WATCH})({read})")

        def samples() -> list[list[int]]:
            taken: list[list[str | None]] = page.evaluate("window.samples")
            whole = [figures_of(sample) for sample in taken]
            return whole if len({figures[0] for figures in whole}) > 5 else []

        taken = wait_until(samples, seconds=60, what="the figures have changed five times")
    assert {len(figures) for figures in taken} == {count}, taken[0]
    assert [figures for figures in taken if len(set(figures)) > 1] == []
    assert len(taken) > 50


def test_environments_count_the_queue_in_the_unit_of_the_queue_page(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.new_run("one-unit")
    push(server, run, *(conversation("two", "a", "b", scores=[1.0, 0.0]) for _ in range(3)))
    page.goto(f"/runs/{run}/environments")
    expect(page.locator("[data-queued]")).to_have_attribute("data-queued", "6")
    expect(page.get_by_role("columnheader", name="Queued sequences")).to_be_visible()
    page.goto(f"/runs/{run}/queue")
    expect(page.get_by_role("region", name="Ledger, in sequences")).to_contain_text("queued 6")
    depth = page.get_by_role("region", name="Depth by environment")
    expect(depth).to_contain_text("6 sequences queued")


class Wire:
    """The live connection of a page, of which a test can drop messages."""

    def __init__(self, page: Page) -> None:
        self.is_silent = False
        self.drops = re.compile("$^")
        page.route_web_socket(re.compile(r"/ws/live$"), self._connect)

    def _connect(self, socket: WebSocketRoute) -> None:
        def deliver(message: str | bytes) -> None:
            if not self.is_silent and not self.drops.search(str(message)):
                socket.send(message)

        socket.connect_to_server().on_message(deliver)


def color(place: Locator) -> Any:
    return place.evaluate("(element) => getComputedStyle(element).color")


@pytest.fixture
def tabs(signed_in: Page) -> Iterator[dict[str, Page]]:
    """Tabs for the home view and the list of runs, which wait at the same time."""
    runs = signed_in.context.new_page()
    complaints = complaints_of(runs)
    yield {"/": signed_in, "/runs": runs}
    assert complaints == []


def row_of(page: Page, run: str) -> Locator:
    return page.locator("[data-row]").filter(has=page.get_by_role("link", name=run)).first


def test_figures_are_dimmed_while_a_page_receives_nothing(
    tabs: dict[str, Page], server: Server
) -> None:
    run = server.new_run("no-frames")
    wires = [Wire(page) for page in tabs.values()]
    shown: list[tuple[str, Locator, Locator]] = []
    for place, page in tabs.items():
        page.goto(place)
        row = row_of(page, run)
        shown.append((place, row, row.locator("dd[data-figure=queue], td[data-num]:visible").first))
        expect(shown[-1][2], place).to_be_visible()
        expect(row, place).not_to_have_attribute("data-unproven", "true")
    bright = {place: color(figure) for place, _, figure in shown}

    for wire in wires:
        wire.is_silent = True
    for place, row, figure in shown:
        expect(row, place).to_have_attribute("data-unproven", "true", timeout=30_000)
        assert color(figure) != bright[place], place
        # No frame proves that the run still runs.
        state = row.locator("[data-state]:visible").first
        expect(state, place).to_have_attribute("data-state", "unknown")

    for wire in wires:
        wire.is_silent = False
    for place, row, figure in shown:
        expect(row, place).not_to_have_attribute("data-unproven", "true", timeout=30_000)
        assert color(figure) == bright[place], place


def test_figures_are_dimmed_while_their_request_fails(
    tabs: dict[str, Page], server: Server
) -> None:
    run, activity = server.new_run("no-answers"), re.compile(r"/api/v1/run-activity")
    for place, page in tabs.items():
        # The live list has the newest runs; without it, figures are read by request.
        Wire(page).drops = re.compile(r'"topic":\s*"runs"')
        page.goto(place)
        expect(row_of(page, run), place).to_be_visible()
        expect(row_of(page, run), place).not_to_have_attribute("data-unproven", "true")

    def refuse(route: Route) -> None:
        problem = {"code": "throttled", "title": "Too many requests", "detail": "wait"}
        route.fulfill(status=429, json=problem)

    for page in tabs.values():
        page.route(activity, refuse)
    for place, page in tabs.items():
        row = row_of(page, run)
        expect(row, place).to_have_attribute("data-unproven", "true", timeout=60_000)
    for page in tabs.values():
        page.unroute(activity)
    for place, page in tabs.items():
        row = row_of(page, run)
        expect(row, place).not_to_have_attribute("data-unproven", "true", timeout=60_000)


def test_the_time_in_a_state_chip_is_the_duration_of_the_state(
    signed_in: Page, server: Server
) -> None:
    page, run = signed_in, server.new_run("lasting")
    page.goto(f"/runs/{run}")
    chip = page.locator("[data-status] > [data-state]")
    age = chip.locator("[data-age]")

    def shown_seconds() -> int:
        match = re.search(r"(\d+)(?:\.\d)? s", age.inner_text())
        assert match, age.inner_text()
        return int(match.group(1))

    def lasts(state: str) -> float:
        expect(chip).to_have_attribute("data-state", state)
        since = datetime.fromisoformat(server.get(f"/api/v1/runs/{run}")["status_changed_at"])
        return (datetime.now(UTC) - since).total_seconds()

    expect(age).to_have_text(re.compile(r"· [4-9] s"))
    expect(age).to_have_text(re.compile(r"· ([6-9]|\d\d)(\.\d)? s"))
    assert abs(shown_seconds() - lasts("running")) < 3
    server.post(f"/api/v1/runs/{run}/pause", {"reason": "tests"})
    assert lasts("paused") < 5
    assert abs(shown_seconds() - lasts("paused")) < 3
    expect(age).to_have_text(re.compile(r"· [2-9] s"))
