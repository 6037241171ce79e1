"""The overview of a run on one screen, with eight curves that the platform measures."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Response, expect

from tests.e2e.conftest import USERNAME, sign_in
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

CURVES = {"reward", "queue", "staleness", "flow", "waits", "length", "throughput"}
MEASURED_WITHIN_MS = 90_000
# Events and curves of the API, before compression.
OVERVIEW_BYTES = 200_000
# Top of the first chart of a page of 1440 × 900 pixels.
FIRST_CHART = 260
# Metrics of each chart, without their prefix.
DRAWN = {
    "reward": {"reward/mean", "reward/p10", "reward/p50", "reward/p90"},
    "queue": {"queue/depth", "queue/threshold"},
    "staleness": {"staleness/p50", "staleness/p95"},
    "flow": {"accepted_per_second", "served_per_second"},
    "waits": {"trainer/waiting_share", "fleet/waiting_share"},
    "truncated": {"truncated_share"},
    "variance": {"zero_variance_share", "truncated_share"},
    "length": {"length/mean", "length/max"},
    "throughput": {"env_steps_per_second", "tokens_per_second"},
}
# Start and end of each request for lines, in ms since navigation started.
QUESTIONS = """
performance.getEntriesByType("resource")
    .filter(({ name }) => name.includes("/metrics/lines"))
    .map(({ startTime, responseEnd }) => [startTime, responseEnd])
"""
# Requests to the API, and their bytes before compression.
API_BYTES = """
performance.getEntriesByType("resource")
    .filter(({ name }) => name.includes("/api/"))
    .map(({ name, decodedBodySize }) => [name, decodedBodySize])
"""
# Time of the first contentful paint.
FRAME_READ = """
performance.getEntriesByName("first-contentful-paint")[0].startTime
"""


def curve(page: Page, key: str) -> Locator:
    return page.locator(f"[data-panel={key}]")


def newest(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True).locator("[data-newest]")


def test_curves_start_live_and_unmeasured_metrics_are_named(
    signed_in: Page, server: Server
) -> None:
    outside_run(server, "measured")
    page = signed_in
    page.goto("/runs/measured")
    curve(page, "reward").scroll_into_view_if_needed()
    expect(curve(page, "reward")).to_contain_text("No groups received yet.")

    push(server, "measured", conversation("2+2?", "4", "5", scores=[1.0, 0.0]))
    expect(newest(page, "Reward")).to_have_attribute(
        "data-newest", "0.5", timeout=MEASURED_WITHIN_MS
    )
    expect(newest(page, "Queue depth")).to_have_attribute("data-newest", "2")
    curve(page, "staleness").scroll_into_view_if_needed()
    expect(curve(page, "staleness")).to_contain_text("No batches leased yet.")
    curve(page, "variance").scroll_into_view_if_needed()
    expect(newest(page, "Zero variance")).to_have_attribute("data-newest", "0")
    curve(page, "reward").scroll_into_view_if_needed()

    # New samples move the curves without a reload.
    push(server, "measured", conversation("3+3?", "6", "six", scores=[1.0, 1.0]))
    expect(newest(page, "Reward")).to_have_attribute("data-newest", "1", timeout=MEASURED_WITHIN_MS)
    chart = curve(page, "reward").locator("[data-points]")
    wait_until(
        lambda: int(chart.get_attribute("data-points") or 0) >= 2,
        seconds=60,
        what="the curve has both measurements",
    )
    names = server.get("/api/v1/runs/measured/metrics/keys?prefix=rolldeck/")["results"]
    assert "rolldeck/accepted_per_second" in [row["name"] for row in names]


@pytest.fixture(scope="module")
def reader(chromium: Browser, seeded_server: Server) -> Page:
    context = chromium.new_context(
        base_url=seeded_server.url, viewport={"width": 1440, "height": 1500}, color_scheme="dark"
    )
    context.set_default_timeout(30_000)
    return sign_in(context.new_page(), USERNAME)


@pytest.mark.parametrize(
    ("run", "key", "title"),
    [
        ("seed-cartpole-sweep-0", "truncated", "Episode length"),
        ("seed-reverse-lessons", "variance", "Answer length"),
        ("seed-atropos-mix", "variance", "Sequence length"),
    ],
)
def test_each_kind_of_run_has_all_its_curves(reader: Page, run: str, key: str, title: str) -> None:
    reader.goto(f"/runs/{run}")

    for one in CURVES | {key}:
        expect(curve(reader, one).locator("canvas")).to_be_visible()
    expect(newest(reader, title)).to_have_attribute("data-newest", re.compile(r"\d"))
    began_ms, ended_ms = zip(*reader.evaluate(QUESTIONS), strict=True)
    assert min(ended_ms) <= min([*began_ms[1:], float("inf")]), "one question for all curves"
    # The request was sent before the first paint.
    assert began_ms[0] < reader.evaluate(FRAME_READ)
    assert reader.locator("[data-panel]").count() == 8


def test_axis_range_and_point_are_part_of_the_address_and_only_visible_charts_drawn(
    reader: Page,
) -> None:
    reader.goto("/runs/seed-cartpole-sweep-0")
    axis = reader.get_by_role("radiogroup", name="Horizontal axis")
    axis.get_by_text("Train steps").click()
    expect(reader).to_have_url(re.compile("x=step"))
    area = curve(reader, "reward").locator(".u-over")
    expect(area).to_be_visible()
    box = area.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    reader.mouse.move(box["x"] + box["width"] * 0.3, middle)
    reader.mouse.down()
    reader.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=5)
    reader.mouse.up()
    expect(reader).to_have_url(re.compile(r"from=[\d.]+.*to=[\d.]+"))

    reader.reload()
    expect(reader.get_by_role("button", name="Reset zoom")).to_be_visible()
    reader.get_by_role("button", name="Reset zoom").click()
    expect(reader).not_to_have_url(re.compile("from="))

    area.click(position={"x": box["width"] * 0.6, "y": box["height"] / 2})
    expect(reader).to_have_url(re.compile("pick=rolldeck"))
    drawer = reader.get_by_role("dialog")
    expect(drawer).to_contain_text("Batches leased at this point")
    drawer.get_by_role("button", name="Close").click()
    expect(reader).not_to_have_url(re.compile("pick="))

    reader.set_viewport_size({"width": 1440, "height": 500})
    reader.goto("/runs/seed-cartpole-sweep-0")
    curve(reader, "reward").scroll_into_view_if_needed()
    expect(curve(reader, "reward").locator("canvas")).to_be_visible()
    assert reader.locator("[data-panel] canvas").count() < 8
    reader.set_viewport_size({"width": 1440, "height": 1500})


def test_the_overview_requests_no_single_episodes(signed_in: Page, seeded_server: Server) -> None:
    page = signed_in
    page.goto("/runs/seed-cartpole-live")
    expect(curve(page, "reward").locator("[data-points]")).to_be_visible()
    page.wait_for_load_state("networkidle")

    sizes = dict(page.evaluate(API_BYTES))
    assert [path for path in sizes if "/episodes" in path] == []
    assert sum(sizes.values()) < OVERVIEW_BYTES, sizes


@pytest.mark.parametrize("run", ["seed-cartpole-live", "seed-reverse-lessons", "seed-atropos-mix"])
def test_the_overview_draws_all_that_it_requests(
    signed_in: Page, seeded_server: Server, run: str
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 2500})
    answers: dict[str, Any] = {}
    page.on("response", lambda response: keep_answer(answers, response))
    page.goto(f"/runs/{run}")
    for key in CURVES:
        expect(curve(page, key).locator("[data-points]")).to_be_visible()
    page.wait_for_load_state("networkidle")

    drawn = page.locator("[data-panel]").evaluate_all(
        "(charts) => charts.map((chart) => [chart.dataset.panel, chart.clientWidth])"
    )
    names = {f"rolldeck/{name}" for key, _ in drawn for name in DRAWN[key]}
    narrowest = min(width for _, width in drawn)
    lines = [
        line for path in answers if "/metrics/lines" in path for line in answers[path]["lines"]
    ]
    assert len(lines) > 5
    assert {line["name"] for line in lines if line["x"]} <= names
    assert max(len(line["x"]) for line in lines) <= narrowest
    # One row more than shown decides whether the page links to all alerts.
    (alerts,) = (answers[path]["results"] for path in answers if "/api/v1/alerts?" in path)
    assert 0 <= len(alerts) - page.locator("[data-alert-id]").count() <= 1
    lists = {path for path, answer in answers.items() if isinstance(answer.get("results"), list)}
    # Annotations are marks in the charts.
    marks = f"/api/v1/runs/{run}/annotations"
    assert {path.partition("?")[0] for path in lists} <= {"/api/v1/alerts", marks}, lists


def keep_answer(answers: dict[str, Any], response: Response) -> None:
    """Store the JSON of an answer of the API under its path and query."""
    address = urlsplit(response.url)
    if address.path.startswith("/api/") and response.ok:
        answers[f"{address.path}?{address.query}"] = response.json()


def test_the_overview_shows_the_diagnosis_and_the_last_events(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.goto("/runs/seed-atropos-mix")
    diagnosis = page.get_by_role("region", name="Diagnosis")
    expect(diagnosis).to_contain_text(re.compile(r"\w+.*\."))
    alerts = page.get_by_role("region", name="Alerts of this run")
    expect(alerts.locator("[data-alert-id]").first).to_be_visible()
    newest_ones = page.get_by_role("region", name="Newest trajectories")
    expect(newest_ones.locator("[data-row]")).to_have_count(5)
    # A key has no place: panels above still grow while they load.
    newest_ones.locator("[data-open]").first.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/seed-atropos-mix/groups/\d+"))

    page.go_back()
    diagnosis.get_by_role("link", name="View evidence").click()
    expect(page).to_have_url(re.compile("/runs/seed-atropos-mix/fleet$"))
    # An ended run has no diagnosis.
    page.goto("/runs/seed-cartpole-sweep-0")
    expect(page.get_by_role("region", name="Newest trajectories")).to_be_visible()
    expect(page.get_by_role("region", name="Diagnosis")).to_have_count(0)


def test_the_overview_begins_with_figures_diagnosis_and_return(
    signed_in: Page, seeded_server: Server
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/runs/seed-cartpole-live")
    expect(curve(page, "reward").locator("canvas")).to_be_visible()
    parts = [
        page.locator("[data-figure=return]"),
        page.get_by_role("region", name="Diagnosis"),
        page.get_by_role("region", name="Return", exact=True),
        page.get_by_role("region", name="Ledger, in fragments"),
    ]
    boxes = [part.bounding_box() for part in parts]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == len(parts)
    assert tops == sorted(tops)
    # Alerts stand above the charts.
    alerts = page.get_by_role("region", name="Alerts of this run")
    box = alerts.bounding_box() if alerts.count() else None
    assert tops[2] - (box["height"] if box else 0) <= FIRST_CHART, tops
