"""An operator finds the bottleneck of a run; a researcher traces a sample to its tokens."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
LIVE = "seed-cartpole-live"
FOLLOWED = "followed"
STEPS = 6


def stage(page: Page, name: str) -> Locator:
    return page.locator(f'ol [data-stage="{name}"]')


def test_the_pipeline_of_a_live_fleet_shows_stages_and_bottleneck(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto(f"/runs/{LIVE}/fleet?worker=1")

    for name in ("step", "exchange", "infer", "push", "queue", "batch", "train"):
        expect(stage(page, name)).to_be_visible()
    expect(stage(page, "step")).to_contain_text("env steps per second")
    pipeline = seeded_server.get(f"/api/v1/runs/{LIVE}/pipeline")
    diagnosis = page.get_by_role("region", name="Diagnosis")
    expect(diagnosis.get_by_role("heading", level=2)).not_to_be_empty()
    assert pipeline["workers"] > 0
    # The diagnosis and the marked stage agree, however often they change.
    marked = page.locator("ol [data-marked]")
    named = diagnosis.get_attribute("data-stage")
    if named != "none":
        expect(marked).to_have_attribute("data-stage", named or "")
        expect(marked).to_contain_text(re.compile("▲ (bottleneck|blocked here)"))

    chosen = page.locator('[data-worker="1"]')
    expect(chosen).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("button", name="Slots of worker 1")).to_have_attribute(
        "aria-expanded", "true"
    )


@pytest.fixture(scope="module")
def followed(server: Server) -> list[int]:
    """An external run with four groups and a loss for each step."""
    outside_run(server, FOLLOWED)
    groups = push(
        server,
        FOLLOWED,
        *(conversation("Which one?", "this", "that", scores=[0.0, 1.0]) for _ in range(4)),
    )
    for step in range(STEPS):
        samples: list[dict[str, Any]] = [
            {"name": "train/loss", "step": step, "value": 1 / (1 + step)}
        ]
        server.post(f"/api/v1/runs/{FOLLOWED}/metrics", {"samples": samples})
        time.sleep(0.05)
    return groups


def test_the_pipeline_of_an_outside_run_starts_at_the_server(
    signed_in: Page, followed: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{FOLLOWED}/fleet")

    expect(stage(page, "elsewhere")).to_contain_text("outside this server")
    expect(stage(page, "push")).to_be_visible()
    expect(stage(page, "infer")).to_have_count(0)
    expect(page.get_by_role("heading", name="No fleet")).to_be_visible()


def test_a_point_is_selected_with_the_keyboard_and_part_of_the_address(
    signed_in: Page, followed: list[int]
) -> None:
    page = signed_in
    page.goto(f"/runs/{FOLLOWED}/metrics?q=loss")
    slider = page.get_by_role("slider", name="Points of train/loss")
    slider.focus()
    expect(slider).to_have_value(str(STEPS - 1))
    slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^train step 4: "))
    slider.press("Enter")

    drawer = page.get_by_role("dialog", name="train/loss at train step 4")
    expect(drawer).to_be_visible()
    expect(page).to_have_url(re.compile(r"pick=.*at=4"))
    page.reload()
    expect(drawer).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page).not_to_have_url(re.compile("pick="))


def test_a_point_links_to_its_batch_groups_and_tokens(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/seed-reverse-lessons/metrics")
    card = page.locator("[data-panel]").first
    expect(card.locator("canvas")).to_be_visible()
    area = card.locator(".u-over")
    box = area.bounding_box()
    assert box is not None
    area.click(position={"x": box["width"] * 0.9, "y": box["height"] / 2})

    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_role("link", name=re.compile("^version 1\\."))).to_be_visible()
    batch = drawer.get_by_role("link", name=re.compile("^batch ")).first
    expect(batch).to_have_attribute("href", re.compile(r"/queue\?batch="))
    drawer.get_by_role("table", name="Groups with the lowest scores").get_by_role(
        "link"
    ).first.click()

    page.get_by_role("article", name=re.compile("^Group")).wait_for()
    expect(page.get_by_role("link", name=re.compile("^worker 0$"))).to_have_attribute(
        "href", re.compile(r"/fleet\?worker=0")
    )
    page.get_by_role("link", name=re.compile("^version ")).click()
    expect(page).to_have_url(re.compile(r"/weights\?version="))
    expect(page.get_by_role("region", name="Versions")).to_be_visible()
