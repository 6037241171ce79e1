"""States of pages for the docs that no address has, on the server whose clock stands still."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Final

from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from tests.e2e import pages
from tests.e2e.frozen_server import AT
from tests.e2e.gallery import VARIANTS, Gallery
from tests.recorded_runs.names import LIVE, SWEEP

ENDED: Final = SWEEP[1]
SILENCE: Final = timedelta(seconds=15)
"""Longer than the time after which figures are dimmed."""
LANGUAGE_RUN: Final[dict[str, Any]] = {
    "fleet": {"num_workers": 1},
    "language": {
        "lessons": {"reverse-6-letters": {"spec": "task:reverse", "kwargs": {"letters": 6}}},
        "model": {"checkpoint": "reverse"},
        "inference": "local",
    },
    "buffer": {"batch_size": 64},
}
State = Callable[[Gallery], AbstractContextManager[Locator | Page]]


def opened(gallery: Gallery, place: str) -> Page:
    """Open a page of the administrator."""
    page = gallery.page
    gallery.show(page, VARIANTS[0])
    page.goto(place)
    pages.settle(page)
    page.wait_for_load_state("networkidle")
    return page


@contextmanager
def start_card(gallery: Gallery) -> Iterator[Locator]:
    """The start card of a CartPole run after its launch."""
    body = {"name": "my-first-run", "preset": "cartpole", "start": True}
    gallery.server.post("/api/v1/runs", body)
    yield opened(gallery, "/runs/my-first-run").get_by_role("region", name="Start training")


@contextmanager
def start_card_of_language(gallery: Gallery) -> Iterator[Locator]:
    """The start card of a language run that generates with an inference server."""
    body = {"name": "my-first-words", "config": LANGUAGE_RUN, "start": True}
    gallery.server.post("/api/v1/runs", body)
    yield opened(gallery, "/runs/my-first-words").get_by_role("region", name="Start training")


@contextmanager
def archived(gallery: Gallery) -> Iterator[Page]:
    """The top of the page of an archived run."""
    run = gallery.server.get(f"/api/v1/runs/{ENDED}")
    body = {"action": "archive", "ids": [run["id"]], "reason": "the sweep was repeated"}
    gallery.server.post("/api/v1/run-actions", body)
    page = opened(gallery, f"/runs/{ENDED}--{run['id']}")
    expect(page.locator("[data-archived]")).to_be_visible()
    yield page


@contextmanager
def unreachable(gallery: Gallery) -> Iterator[Page]:
    """A list whose server stopped answering: the figures are dimmed."""
    page, is_gone = gallery.new_page(), threading.Event()
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        if is_gone.is_set():
            socket.close()
        else:
            socket.connect_to_server()

    page.route_web_socket(re.compile(r"/ws/live$"), connect)
    page.goto("/runs")
    pages.settle(page)
    page.wait_for_load_state("networkidle")
    is_gone.set()
    page.route(re.compile("/api/"), lambda route: route.abort())
    for socket in sockets:
        socket.close()
    page.clock.set_fixed_time(AT + SILENCE)
    expect(page.locator("[data-unproven=true]").first).to_be_visible(timeout=60_000)
    yield page
    page.close()


@contextmanager
def palette(gallery: Gallery) -> Iterator[Page]:
    """The command palette with a few letters."""
    page = opened(gallery, f"/runs/{LIVE}")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search pages")).to_be_focused()
    page.keyboard.type("pole")
    results = page.get_by_role("listbox", name="Results")
    expect(results.get_by_role("option").first).to_be_visible()
    yield page
    page.keyboard.press("Escape")


@contextmanager
def lessons(gallery: Gallery) -> Iterator[Locator]:
    """The lessons in the editor of the launch form."""
    page = opened(gallery, "/runs/new?preset=curriculum")
    panel = page.get_by_role("region", name="Configuration")
    expect(panel.get_by_role("textbox")).to_contain_text("lessons:")
    panel.scroll_into_view_if_needed()
    yield panel


STATES: Final[dict[str, State]] = {
    "launch-lessons": lessons,
    "palette": palette,
    "unreachable": unreachable,
    "start-card": start_card,
    "start-card-language": start_card_of_language,
    "archived": archived,
}
