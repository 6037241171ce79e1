"""A researcher reads the curves of a run: overview, zoom, comparison and export."""

import re
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
STEPS = 5000
LOSS: Final = quote('["train/loss"]')
LOG_OF_SIGNED: Final = quote('{"signed":"log"}')
SPIKE_AT = 3210


@pytest.fixture(scope="module")
def measured(server: Server) -> Server:
    """Two runs with a loss; the first run's loss has one spike and one NaN among thousands."""
    for run in ("curves-a", "curves-b"):
        server.post("/api/v1/runs", {"name": server.free_name(run), "kind": "outside"})
        for first in range(0, STEPS, 1000):
            samples: list[dict[str, Any]] = [
                {"name": "train/loss", "step": step, "value": 1 / (1 + step / 500)}
                for step in range(first, first + 1000)
            ]
            if run == "curves-a" and first <= SPIKE_AT < first + 1000:
                samples[SPIKE_AT - first]["value"] = 99.0
                samples[SPIKE_AT - first + 40]["value"] = "NaN"
            server.post(f"/api/v1/runs/{run}/metrics", {"samples": samples})
        names = [{"name": f"layer/{i}/norm", "step": 1, "value": 0.1} for i in range(90)]
        server.post(f"/api/v1/runs/{run}/metrics", {"samples": names})
    return server


def card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-panel="{name}"]')


def choose(page: Page, card_shown: Locator, item: str) -> None:
    card_shown.get_by_role("button", name="Options of train/loss").click()
    page.get_by_role("menuitem", name=re.compile(f"^{item}")).click()


def opened(page: Page, server: Server, query: str) -> Locator:
    page.goto(f"{server.url}/runs/curves-a/metrics{query}")
    chart = card(page, "train/loss")
    expect(chart.locator("canvas")).to_be_visible()
    return chart


def test_a_zoom_requests_finer_buckets_and_is_part_of_the_address(
    signed_in: Page, measured: Server
) -> None:
    loss = opened(signed_in, measured, "?q=loss")
    expect(loss.locator("[data-bucket]")).to_have_attribute("data-bucket", "16")
    expect(loss).to_contain_text("1 NaN")

    area = loss.locator(".u-over")
    box = area.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    signed_in.mouse.move(box["x"] + box["width"] * 0.6, middle)
    signed_in.mouse.down()
    signed_in.mouse.move(box["x"] + box["width"] * 0.68, middle, steps=5)
    signed_in.mouse.up()

    expect(loss.locator("[data-bucket]")).to_have_attribute("data-bucket", "1")
    expect(signed_in).to_have_url(re.compile(r"from=\d+.*to=\d+"))
    signed_in.reload()
    expect(card(signed_in, "train/loss").locator("[data-bucket]")).to_have_attribute(
        "data-bucket", "1"
    )
    signed_in.get_by_role("button", name="Reset zoom").click()
    expect(card(signed_in, "train/loss").locator("[data-bucket]")).to_have_attribute(
        "data-bucket", "16"
    )


def test_the_exported_file_contains_the_drawn_data_and_its_spike(
    signed_in: Page, measured: Server
) -> None:
    loss = opened(signed_in, measured, "?q=loss")
    expect(loss.locator("[data-bucket]")).to_have_attribute("data-bucket", "16")

    with signed_in.expect_download() as download:
        choose(signed_in, loss, "Save as CSV")
    rows = download.value.path().read_text().splitlines()

    assert rows[0] == "run,name,step,last,min,max,mean,count,gaps"
    points = int(loss.locator("[data-points]").get_attribute("data-points") or 0)
    assert len(rows) - 1 == points <= 600
    assert max(float(row.split(",")[5]) for row in rows[1:]) == 99.0
    assert sum(int(row.split(",")[7]) for row in rows[1:]) == STEPS


def test_names_are_found_and_only_charts_in_view_are_drawn(
    signed_in: Page, measured: Server
) -> None:
    urls: list[str] = []
    signed_in.on("request", lambda sent: urls.append(sent.url) if "/lines?" in sent.url else None)
    signed_in.goto(f"{measured.url}/runs/curves-a/metrics")
    # A chart of a single sample has a canvas too.
    expect(card(signed_in, "layer/0/norm").locator("canvas")).to_be_visible()
    expect(card(signed_in, "layer/1/norm").locator("canvas")).to_be_visible()
    assert len(urls) <= 2, "the charts of a screen are asked for together"
    expect(signed_in.get_by_role("status").filter(has_text="91 metrics")).to_be_visible()
    assert signed_in.locator("[data-panel]").count() == 60
    assert signed_in.locator("[data-panel] canvas").count() < 40

    signed_in.get_by_role("combobox", name="Find metrics").fill("layer/7/")
    expect(signed_in).to_have_url(re.compile("q=layer"))
    expect(card(signed_in, "layer/7/norm")).to_be_visible()
    expect(signed_in.locator("[data-panel]")).to_have_count(1)


def test_the_charts_of_a_run_lead_to_a_comparison(signed_in: Page, measured: Server) -> None:
    opened(signed_in, measured, f"?charts={LOSS}&smooth=0.5")
    signed_in.get_by_role("main").get_by_role("link", name="Compare", exact=True).click()

    expect(signed_in).to_have_url(re.compile("/compare.*smooth=0.5.*runs=curves-a"))
    chart = card(signed_in, "train/loss").get_by_role("img", name=re.compile("curves-a, smoothed"))
    expect(chart).to_be_visible()


def test_the_menu_of_a_chart_shows_a_table_and_changes_the_axis(
    signed_in: Page, measured: Server
) -> None:
    loss = opened(signed_in, measured, "?q=loss")
    choose(signed_in, loss, "Show as table")
    dialog = signed_in.get_by_role("dialog", name="train/loss as a table")
    points = int(loss.locator("[data-points]").get_attribute("data-points") or 0)
    more = dialog.get_by_role("button", name=f"Show 100 more of {points}")
    expect(more).to_be_visible()
    expect(dialog.get_by_role("columnheader")).to_have_text(
        ["run", "name", "step", "last", "min", "max", "mean", "count", "gaps"]
    )
    more.click()
    expect(dialog.get_by_role("row")).to_have_count(201)
    signed_in.keyboard.press("Escape")

    loss.get_by_role("button", name="Options of train/loss").click()
    signed_in.get_by_role("menuitemcheckbox", name="Log axis").click()
    expect(signed_in).to_have_url(re.compile("looks=.*train%2Floss.*log"))
    signed_in.reload()
    expect(card(signed_in, "train/loss").locator("canvas")).to_be_visible()
    card(signed_in, "train/loss").get_by_role("button", name="Options of train/loss").click()
    expect(signed_in.get_by_role("menuitemcheckbox", name="Log axis")).to_be_checked()


def test_a_log_axis_reports_values_that_it_cannot_show(signed_in: Page, measured: Server) -> None:
    values = [1.0, 0.0, -2.0, 4.0, 8.0]
    samples = [{"name": "signed", "step": i, "value": value} for i, value in enumerate(values)]
    measured.post("/api/v1/runs/curves-b/metrics", {"samples": samples})
    signed_in.goto(f"{measured.url}/runs/curves-b/metrics?q=signed&looks={LOG_OF_SIGNED}")

    expect(card(signed_in, "signed")).to_contain_text("2 values at or below 0 omitted")


def test_lines_are_toggled_and_read_without_a_mouse(signed_in: Page, measured: Server) -> None:
    signed_in.goto(f"/compare?runs=curves-a,curves-b&charts={LOSS}")
    loss = card(signed_in, "train/loss")
    entry = signed_in.get_by_role("button", name="Show curves-b")
    expect(entry).to_have_attribute("aria-pressed", "true")
    entry.focus()
    signed_in.keyboard.press("Space")
    expect(entry).to_have_attribute("aria-pressed", "false")

    points = loss.get_by_role("slider", name="Points of train/loss")
    points.focus()
    signed_in.keyboard.press("Home")
    expect(points).to_have_attribute(
        "aria-valuetext", re.compile(r"^train step 15: curves-a 0\.97")
    )
    signed_in.keyboard.press("ArrowRight")
    expect(points).to_have_attribute("aria-valuetext", re.compile("^train step 31: curves-a"))


def test_a_branch_and_an_expression_filter_charts_and_a_view_stores_them(
    signed_in: Page, measured: Server
) -> None:
    page = signed_in
    page.goto("/runs/curves-a/metrics")
    page.get_by_role("combobox", name="Find metrics").click()
    page.get_by_role("option", name="layer/ 90").click()
    expect(page).to_have_url(re.compile("q=layer"))
    expect(page.get_by_role("status").filter(has_text="90 metrics")).to_be_visible()

    panels = page.get_by_role("combobox", name="Panels")
    panels.fill("/^layer/.*norm$/")
    panels.press("Enter")
    panels.press("Escape")
    panel = page.locator("[data-panel^='/']")
    expect(panel.locator("[data-matched='90']")).to_have_text("first 20 of 90 matching metrics")
    expect(panel.locator("canvas")).to_be_visible()

    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Save as new view").click()
    dialog = page.get_by_role("dialog", name="Save view")
    dialog.get_by_label("Name").fill("norms")
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile(r"view=\d+"))
    view = measured.get("/api/v1/audit?kind=view_saved")["results"][0]["details"]["id"]
    # Its number alone gives the same view on another run, also in links of earlier versions.
    page.goto(f"/runs/curves-b/metrics?layout={view}")
    expect(panel).to_be_visible()
    expect(page).to_have_url(re.compile("q=layer"))
    expect(page.locator(f"[data-view='{view}']")).to_have_text("norms")


def test_an_annotation_of_a_point_is_shown_in_charts_and_links_to_logs(
    signed_in: Page, measured: Server
) -> None:
    page = signed_in
    for left in measured.get("/api/v1/runs/curves-a/annotations")["results"]:
        measured.delete(f"/api/v1/runs/curves-a/annotations/{left['id']}")  # by an earlier attempt
    opened(page, measured, "?q=loss&pick=train%2Floss&at=2500")
    drawer = page.get_by_role("dialog", name="train/loss at train step")
    drawer.get_by_role("textbox", name="Annotation").fill("halved the rate")
    drawer.get_by_role("button", name="Add annotation").click()
    marked = page.get_by_role("button", name="Annotations (1)")
    expect(marked).to_be_visible()
    expect(card(page, "train/loss").locator("[data-points]")).to_have_attribute(
        "data-marks", re.compile("^[1-9]")
    )
    drawer.get_by_role("link", name="Events and logs at this time").click()
    expect(page).to_have_url(re.compile(r"/logs\?at=\d+"))
    expect(page.get_by_text(re.compile("^(Marked|No event known)"))).to_be_visible()

    page.goto("/runs/curves-a/metrics?q=loss")
    marked.click()
    marks = page.get_by_role("dialog", name="Annotations")
    expect(marks.get_by_role("row").filter(has_text="halved the rate")).to_contain_text("2,500")
    marks.get_by_role("button", name="Remove “halved the rate”").click()
    page.get_by_role("dialog", name="Remove annotation?").get_by_role(
        "button", name="Remove annotation"
    ).click()
    expect(marks.get_by_text("No user annotations yet")).to_be_visible()


def test_values_beside_names_follow_the_trainer_and_new_metrics_appear(
    signed_in: Page, server: Server
) -> None:
    run = server.new_run("followed-metrics")

    def push(name: str, step: int, value: float) -> None:
        sample = {"name": name, "step": step, "value": value}
        server.post(f"/api/v1/runs/{run}/metrics", {"samples": [sample]})

    push("train/loss", 1, 0.75)
    signed_in.goto(f"/runs/{run}/metrics")
    loss = card(signed_in, "train/loss")
    expect(loss).to_contain_text("0.75")
    expect(loss.locator("[data-points]")).to_have_attribute("data-points", "1")

    push("train/loss", 2, 0.25)
    push("train/kl", 2, 0.125)

    expect(loss).to_contain_text("0.25", timeout=15_000)
    expect(loss.locator("[data-points]")).to_have_attribute("data-points", "2")
    expect(card(signed_in, "train/kl")).to_contain_text("0.125")


def test_another_metric_is_the_x_axis_of_a_chart_and_part_of_its_link(
    signed_in: Page, measured: Server
) -> None:
    for run, scale in (("curves-a", 10), ("curves-b", 20)):
        tokens = [
            {"name": "tokens", "step": step, "value": scale * step} for step in range(0, STEPS, 100)
        ]
        measured.post(f"/api/v1/runs/{run}/metrics", {"samples": tokens})
    page = signed_in
    page.goto(f"/compare?runs=curves-a,curves-b&charts={LOSS}")
    loss = card(page, "train/loss")
    loss.hover()
    loss.get_by_role("button", name="Enlarge").click()
    dialog = page.get_by_role("dialog", name="train/loss")
    dialog.get_by_role("combobox", name="X axis").click()
    page.get_by_role("option", name="tokens", exact=True).click()
    expect(page).to_have_url(re.compile("looks=.*x%3Atokens"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    page.reload()
    points = card(page, "train/loss").get_by_role("slider", name="Points of train/loss")
    points.focus()
    page.keyboard.press("End")
    expect(points).to_have_attribute(
        "aria-valuetext", re.compile(r"^tokens 97,900: .*curves-b 0\.09")
    )
