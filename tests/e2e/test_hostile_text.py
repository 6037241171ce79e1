"""Hostile text of users and machines stays text everywhere: markup, directions, escapes."""

import re
import time
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# Short enough for a view's name; has an escape sequence and a right-to-left override.
HOSTILE = "<img src=x id=hostile onerror=alert(1)>\u202egnp\x1b[31m"
AS_TEXT = re.compile(r"<img src=x id=hostile onerror=alert\(1\)>⟨U\+202E⟩gnp⟨U\+001B⟩\[31m")
ENDLESS = "(a+)+$"
HUGE = 10_000_000
OPENED_SECONDS = 15.0


class Written(NamedTuple):
    """Objects with hostile text, one for each page that shows them."""

    run: str
    group: int
    huge: int
    view: int
    preset: str


@pytest.fixture(scope="module")
def written(server: Server) -> Written:
    run = f"hostile-{uuid4().hex[:6]}"
    outside_run(server, run)
    group, huge = push(
        server,
        run,
        conversation(HOSTILE, HOSTILE, scores=[1.0]),
        conversation("Say it all.", "x" * HUGE, scores=[0.0]),
    )
    samples = [{"name": f"{'a' * 60}{n}/loss", "step": 1, "value": 0.5} for n in range(30)]
    server.post(f"/api/v1/runs/{run}/metrics", {"samples": samples})
    server.post(f"/api/v1/runs/{run}/annotations", {"text": HOSTILE, "step": 1})
    view = {"charts": [f"/{ENDLESS}/"], "looks": {HOSTILE: HOSTILE}}
    saved_view = {"name": HOSTILE, "share": "run", "run": run, "view": view, "reason": HOSTILE}
    stored = server.post("/api/v1/views", saved_view)
    server.post(
        f"/api/v1/runs/{run}/marks",
        {"groups": [group], "add_tags": ["<b id=hostile>torn</b>"], "note": HOSTILE},
    )
    put(
        server,
        f"/api/v1/runs/{run}/notes",
        {"text": f"# {HOSTILE}\n\n[go](javascript:alert(1))", "revision": 0},
    )
    preset = f"{run}-preset"
    config = {"seed": 3}
    saved = {"name": preset, "description": HOSTILE, "access": "shared", "config": config}
    server.post("/api/v1/presets", saved | {"reason": HOSTILE})
    rule = {"name": HOSTILE, "metric": "loss", "comparator": "above", "threshold": 1e9}
    ruled = server.post("/api/v1/alerts/rules", rule | {"run": run, "runbook": HOSTILE})
    server.post("/api/v1/alerts/snoozes", {"rule": ruled["id"], "reason": HOSTILE})
    return Written(run, group, huge, stored["id"], preset)


def put(server: Server, path: str, body: dict[str, Any]) -> None:
    answer = server.http.put(path, json=body)
    assert answer.is_success, answer.text


def nothing_acts(page: Page) -> None:
    assert page.locator("#hostile").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    assert "\u202e" not in page.locator("main").inner_text()


@pytest.mark.parametrize(
    "place",
    [
        "/runs/{run}",
        "/runs/{run}/logs",
        "/runs/{run}/trajectories",
        "/runs/{run}/groups/{group}",
        "/alerts?view=rules",
        "/alerts?view=snoozed",
    ],
)
def test_markup_in_texts_is_shown_as_text(signed_in: Page, written: Written, place: str) -> None:
    page = signed_in
    page.goto(place.format(**written._asdict()))

    expect(page.get_by_text(AS_TEXT).first).to_be_attached()
    nothing_acts(page)


def test_markup_in_the_description_of_a_preset_is_shown_as_text(
    signed_in: Page, written: Written
) -> None:
    page = signed_in
    page.goto(f"/runs/new?preset={written.preset}")

    card = page.locator(f"[data-preset='{written.preset}']")
    expect(card).to_contain_text(AS_TEXT)
    nothing_acts(page)


def test_a_shared_view_cannot_delay_a_page(signed_in: Page, written: Written) -> None:
    page = signed_in
    page.goto(f"/runs/{written.run}/metrics?view={written.view}")

    expect(page.get_by_text(re.compile("might not terminate"))).to_be_visible()
    expect(page.locator("[data-panel]").first).to_be_visible()
    nothing_acts(page)


def test_a_message_of_ten_megabytes_is_opened_in_parts(signed_in: Page, written: Written) -> None:
    page, began = signed_in, time.monotonic()
    taken: list[int] = []
    page.on(
        "response", lambda response: taken.append(int(response.headers.get("content-length", 0)))
    )
    page.goto(f"/runs/{written.run}/groups/{written.huge}")

    expect(page.get_by_label("Message 2, assistant")).to_contain_text(f"{HUGE:,} characters")
    assert time.monotonic() - began < OPENED_SECONDS
    assert len(page.locator("main").inner_text()) < 100_000
    assert sum(taken) < 3_000_000
