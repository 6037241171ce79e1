"""A researcher compares runs and sends a colleague the address."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import pages
from tests.e2e.conftest import VIEWER, sign_in
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]
STEPS = 400
KINDS = ("last", "greatest")


def launched(server: Server, name: str, **config: Any) -> None:
    server.post(
        "/api/v1/runs",
        {
            "name": server.free_name(name),
            "preset": "cartpole",
            "config": config,
            "start": False,
            "tags": ["beside"],
        },
    )


def measure(server: Server, run: str, metric: str, *, scale: float) -> None:
    samples = [
        {"name": metric, "step": step, "value": scale / (1 + step / 50)} for step in range(STEPS)
    ]
    server.post(f"/api/v1/runs/{run}/metrics", {"samples": samples})


@pytest.fixture(scope="module")
def measured(server: Server) -> Server:
    """Three runs, two of them drafts with different settings; all have a loss, one an entropy."""
    launched(server, "beside-a", seed=1)
    launched(server, "beside-b", seed=2, buffer={"batch_size": 4})
    out = server.free_name("beside-out")
    server.post("/api/v1/runs", {"name": out, "kind": "outside", "tags": ["beside"]})
    for scale, run in enumerate(("beside-a", "beside-b", "beside-out"), start=1):
        measure(server, run, "loss", scale=scale)
    measure(server, "beside-a", "entropy", scale=5)
    return server


def overlay(page: Page, metric: str) -> Locator:
    return page.locator(f'[data-panel="{metric}"]')


def cell(page: Page, fact: str, run: str) -> Locator:
    return page.locator(f'tr[data-fact="{fact}"] [data-run="{run}"]')


def test_runs_selected_in_the_list_are_compared(page: Page, measured: Server) -> None:
    sign_in(page, VIEWER)
    page.goto("/runs?q=tag:beside")
    page.get_by_label("Select beside-a").check()
    expect(page.get_by_role("button", name="Compare")).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Select beside-b").check()
    page.get_by_role("link", name="Compare", exact=True).click()

    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    chart = overlay(page, "loss").get_by_role("img")
    expect(chart).to_have_attribute(
        "aria-label", re.compile("beside-a .*beside-b|beside-b .*beside-a")
    )
    # Charts are drawn once they are in view.
    overlay(page, "entropy").scroll_into_view_if_needed()
    expect(overlay(page, "entropy").locator("[data-absent]")).to_have_attribute(
        "data-absent", "beside-b"
    )
    expect(cell(page, "state", "beside-a")).to_contain_text("draft")
    # The last value, and the range of all values: 1 / (1 + 399 / 50) … 1.
    expect(cell(page, "loss", "beside-a")).to_contain_text("0.111")
    expect(cell(page, "loss", "beside-a")).to_contain_text("0.111 … 1")


def test_only_different_settings_are_shown_until_all_are_requested(
    signed_in: Page, measured: Server
) -> None:
    page = signed_in
    page.goto("/compare?runs=beside-a,beside-b,beside-out")
    configs = page.get_by_role("group", name="Results and settings of the runs")
    seed = configs.locator('tr[data-path="seed"]')
    expect(seed.get_by_role("cell")).to_have_text(["seed", "1", "differs: 2", "differs: –"])
    unknown = "beside-out: an outside run without a known configuration"
    expect(page.get_by_text(unknown)).to_be_visible()

    page.get_by_role("button", name="Remove beside-out").click()
    expect(page).to_have_url(re.compile(r"runs=beside-a%2Cbeside-b$"))
    expect(configs.locator("tr[data-path]")).to_have_count(3)
    page.get_by_role("radiogroup", name="Settings").get_by_text("All", exact=True).click()
    expect(configs.locator('tr[data-path="environment.spec"]')).to_be_visible()
    expect(page).to_have_url(re.compile("config=all"))


def test_the_selection_is_part_of_the_address(signed_in: Page, measured: Server) -> None:
    page = signed_in
    page.goto("/compare")
    expect(page.get_by_role("heading", name="No runs selected")).to_be_visible()
    add = page.get_by_role("combobox", name="Add a run")
    for run in ("beside-a", "beside-out"):
        add.click()
        add.fill(run)
        page.get_by_role("option", name=run).click()
        expect(page.locator(f'li[data-run="{run}"]')).to_be_visible()
    expect(overlay(page, "loss").locator("canvas")).to_be_visible()

    page.locator(".mantine-TagsInput-pill").filter(has_text="loss").locator("button").click()
    expect(overlay(page, "loss")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show beside-out").click()
    page.get_by_text("Since start").click()
    page.get_by_role("slider", name="Smoothing").press("End")

    for chosen in (
        "runs=beside-a%2Cbeside-out",
        r"charts=%5B%22entropy%22%5D",
        "hide=beside-out",
        "x=elapsed",
    ):
        expect(page).to_have_url(re.compile(chosen))
    expect(page).to_have_url(re.compile(r"smooth=0\.99"))
    page.reload()
    expect(overlay(page, "entropy").locator("canvas")).to_be_visible()
    expect(page.get_by_role("button", name="Show beside-out")).to_have_attribute(
        "aria-pressed", "false"
    )
    expect(overlay(page, "entropy").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("beside-a, smoothed")
    )


@pytest.fixture(scope="module")
def rewarded(server: Server) -> Server:
    """Two outside runs with rewards; the second one is shorter and better."""
    for run, steps, scale in (("paid-a", 40, 1.0), ("paid-b", 20, 3.0)):
        server.post("/api/v1/runs", {"name": server.free_name(run), "kind": "outside"})
        samples = [
            {"name": name, "step": step, "value": scale * (step if step != 7 else 100)}
            for name in ("abc", "reward_mean")
            for step in range(steps)
        ]
        server.post(f"/api/v1/runs/{run}/metrics", {"samples": samples})
    return server


def test_the_return_is_first_with_its_last_and_best_values(
    signed_in: Page, rewarded: Server
) -> None:
    page = signed_in
    page.goto("/compare?runs=paid-a,paid-b")

    expect(page.locator("[data-panel]").first).to_have_attribute("data-panel", "reward_mean")
    for run, values in {"paid-a": ("39", "100"), "paid-b": ("57", "300")}.items():
        for kind, value in zip(KINDS, values, strict=True):
            expect(cell(page, kind, run)).to_have_text(value)


def test_one_legend_names_hides_and_isolates_runs_without_a_mouse(
    signed_in: Page, rewarded: Server
) -> None:
    page = signed_in
    page.goto("/compare?runs=paid-a,paid-b")
    legend = page.get_by_role("list", name="Compared runs")
    first, second = (
        legend.get_by_role("button", name=f"Show {run}") for run in ("paid-a", "paid-b")
    )
    expect(first).to_have_attribute("title", re.compile("^Solid line with circles"))
    expect(second).to_have_attribute("title", re.compile("^Dashed line with squares"))
    chart = overlay(page, "reward_mean")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.get_by_role("group", name="Lines")).to_have_count(0)

    second.focus()
    page.keyboard.press("Space")
    expect(page).to_have_url(re.compile("hide=paid-b$"))
    expect(second).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Space")
    expect(second).to_have_attribute("aria-pressed", "true")
    first.focus()
    page.keyboard.press("Shift+Enter")
    expect(page).to_have_url(re.compile("hide=paid-b$"))
    page.keyboard.press("Shift+Enter")
    expect(second).to_have_attribute("aria-pressed", "true")


def test_on_a_phone_two_rows_of_controls_are_above_the_first_chart(
    signed_in: Page, rewarded: Server
) -> None:
    page = signed_in
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/compare?runs=paid-a,paid-b")
    expect(overlay(page, "reward_mean").locator("canvas")).to_be_visible()
    box = overlay(page, "reward_mean").bounding_box()
    assert box is not None
    assert box["y"] < 320
    expect(page.get_by_role("combobox", name="Panels")).to_have_count(0)
    page.get_by_role("button", name="Panels and axes").click()
    expect(page.get_by_role("combobox", name="Panels")).to_be_visible()


def test_a_cut_off_table_shades_its_edge(signed_in: Page, rewarded: Server) -> None:
    page = signed_in
    page.set_viewport_size({"width": 390, "height": 420})
    page.goto("/compare?runs=paid-a,paid-b")
    table = page.get_by_role("group", name="Results and settings of the runs")
    expect(table).to_be_visible()
    assert table.evaluate("one => one.scrollWidth > one.clientWidth")
    style = table.evaluate("one => getComputedStyle(one).backgroundAttachment")
    assert style == "local, local, scroll, scroll"


def test_chosen_metrics_are_remembered_and_a_link_takes_precedence(
    signed_in: Page, rewarded: Server
) -> None:
    page = signed_in
    page.goto("/compare?runs=paid-a,paid-b")
    expect(overlay(page, "reward_mean").locator("canvas")).to_be_visible()
    page.locator(".mantine-TagsInput-pill").filter(has_text="reward_mean").locator("button").click()

    page.goto("/compare?runs=paid-b,paid-a")
    expect(overlay(page, "abc").locator("canvas")).to_be_visible()
    expect(page).to_have_url(re.compile("charts=.*abc"))
    expect(overlay(page, "reward_mean")).to_have_count(0)
    page.goto("/compare?runs=paid-a,paid-b&m=reward_mean")
    expect(overlay(page, "reward_mean").locator("canvas")).to_be_visible()
    page.get_by_role("button", name="Reset to defaults").click()
    expect(page.locator("[data-panel]")).to_have_count(2)


def test_charts_share_one_zoom(signed_in: Page, measured: Server) -> None:
    page = signed_in
    page.goto("/compare?runs=beside-a,beside-b")
    area = overlay(page, "loss").locator(".u-over")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    page.mouse.up()

    expect(page).to_have_url(re.compile(r"from=\d+.*to=\d+"))
    for metric in ("loss", "entropy"):
        overlay(page, metric).scroll_into_view_if_needed()
        points = overlay(page, metric).locator("[data-points]")
        expect(points).to_have_attribute("data-points", re.compile("^1[0-9][0-9]$|^9[0-9]$"))
    page.get_by_role("button", name="Reset zoom").click()
    expect(overlay(page, "loss").locator("[data-points]")).to_have_attribute(
        "data-points", str(STEPS)
    )


def test_an_unknown_run_does_not_affect_the_others(signed_in: Page, measured: Server) -> None:
    page = signed_in
    page.goto("/runs/beside-a")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/compare\?runs=beside-a$"))
    page.goto("/compare?runs=beside-a,never-there")

    missing = page.locator('li[data-run="never-there"]')
    expect(missing).to_contain_text("run 'never-there' not found")
    overlay(page, "loss").scroll_into_view_if_needed()
    expect(overlay(page, "loss").locator("canvas")).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 800})
    overlay(page, "loss").scroll_into_view_if_needed()
    expect(overlay(page, "loss").locator("canvas")).to_be_visible()
    pages.wait_for_width(page, 360)


def test_samples_of_the_compared_runs_are_one_click_away(page: Page, server: Server) -> None:
    for run, answer in (("alike-a", "four"), ("alike-b", "five")):
        outside_run(server, run)
        push(server, run, conversation("What is 2 + 2?", "no idea", answer, scores=[0.0, 1.0]))
    sign_in(page, VIEWER)
    page.goto("/compare?runs=alike-a,alike-b")

    page.get_by_role("main").get_by_role("link", name="Samples", exact=True).click()
    for run in ("alike-a", "alike-b"):
        expect(page.get_by_text(run, exact=True).first).to_be_visible()
